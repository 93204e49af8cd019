//! Commands typed inside a conversation. Anything else that starts with a slash is a message.

/// A command of the conversation itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Slash {
    /// Say what can be typed.
    Help,
    /// Show what happened to the last message.
    Trace,
    /// Sum up the earlier turns.
    Compact,
    /// Begin anew.
    Reset,
    /// Say which model was chosen here.
    Model,
    /// Leave.
    Quit,
}

/// Stands after `/model` for the model of the configuration.
pub(crate) const CONFIGURED: &str = "default";

const NAMES: &[(&str, Slash, &str)] = &[
    ("/help", Slash::Help, "this list"),
    ("/trace", Slash::Trace, "what happened to the last message, stage by stage"),
    ("/compact", Slash::Compact, "summarise what was said so far, to make room"),
    ("/reset", Slash::Reset, "start afresh; what was said stays in the history"),
    (
        "/model",
        Slash::Model,
        "show the model chosen here; with a name, choose it; with `default`, use the configured one",
    ),
    ("/quit", Slash::Quit, "exit (so does Ctrl-D)"),
];

/// What a typed line is.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Typed {
    /// Something to say.
    Message,
    /// A command.
    Command(Slash),
    /// A model for the messages that follow.
    Model(String),
    /// It looks like a command and is none.
    Unknown,
}

/// Tells commands from messages. `/etc/hosts` is no command, nor is a slash word with text after it, but for one word
/// after `/model`.
pub(crate) fn read(line: &str) -> Typed {
    let line = line.trim();
    let Some(word) = line.strip_prefix('/') else { return Typed::Message };
    match word {
        "exit" => return Typed::Command(Slash::Quit),
        "new" => return Typed::Command(Slash::Reset),
        _ => {}
    }
    if let Some(name) = word.strip_prefix("model ").map(str::trim)
        && !name.contains(char::is_whitespace)
    {
        return Typed::Model(name.to_owned());
    }
    if let Some((_, command, _)) = NAMES.iter().find(|(name, _, _)| *name == line) {
        return Typed::Command(*command);
    }
    let looks_like_one = !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_lowercase());
    if looks_like_one { Typed::Unknown } else { Typed::Message }
}

/// Returns the names that begin with what was typed.
pub(crate) fn completions(typed: &str) -> Vec<String> {
    if !typed.starts_with('/') {
        return Vec::new();
    }
    NAMES
        .iter()
        .filter(|(name, _, _)| name.starts_with(typed))
        .map(|(name, _, _)| (*name).to_owned())
        .collect()
}

/// Returns the lines `/help` shows.
pub(crate) fn help() -> Vec<String> {
    let mut lines: Vec<String> =
        NAMES.iter().map(|(name, _, meaning)| format!("{name:<9} {meaning}")).collect();
    lines.push(
        "Alt-Enter, or \\ at the end of a line, starts a new line; pasted text stays one message".into(),
    );
    lines.push("Ctrl-C stops what the assistant is doing; pressing it twice at an empty prompt exits".into());
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_and_sentences_are_messages() {
        assert_eq!(read("/quit "), Typed::Command(Slash::Quit));
        assert_eq!(read("/etc/hosts is what?"), Typed::Message);
        assert_eq!(read("/"), Typed::Message);
        assert_eq!(read("/nope"), Typed::Unknown);
        assert_eq!(read("/compact"), Typed::Command(Slash::Compact));
        assert_eq!((read("/reset"), read("/new")), (read("/new"), Typed::Command(Slash::Reset)));
        assert_eq!(read("/compact the soil first?"), Typed::Message);
        assert_eq!(read("/model"), Typed::Command(Slash::Model));
        assert_eq!(read("/model  openai/gpt-x "), Typed::Model("openai/gpt-x".to_owned()));
        assert_eq!(read("/model is what?"), Typed::Message);
        assert_eq!(completions("/t"), vec!["/trace"]);
        assert_eq!(completions("t"), Vec::<String>::new());
    }
}
