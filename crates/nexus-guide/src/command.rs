//! Turns the person's words into exact commands, paths and notes. Guesses as little as possible:
//! what does not look like a command line is asked about, not run.

use nexus_protocol::framing::key;

use crate::intent::Request;
use crate::scene::Scene;
use crate::task::{FileDraft, inline_code};
use crate::text::{clip, fold, slug};
use crate::words::WORDS;

/// Longest command that is passed on.
const MAX_COMMAND_LEN: usize = 4_000;
/// Longest note, in bytes.
pub(crate) const MAX_NOTE_LEN: usize = 16_000;

/// What the words after "run" amount to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum CommandRequest {
    /// A command line.
    Command(String),
    /// Perhaps a command line; better ask.
    Doubtful(String),
    /// Nothing was named.
    Nothing,
}

/// Finds the command in a request to run something; `message` is the whole message.
pub(crate) fn wanted_command(request: &Request, message: &str) -> CommandRequest {
    if let Some(code) =
        fenced_code(message).or_else(|| inline_code(&request.sentence)).or_else(|| inline_code(message))
    {
        return CommandRequest::Command(clip(&code, MAX_COMMAND_LEN).to_owned());
    }
    let raw = unquoted(without_place(request.about.trim()).trim()).trim();
    if raw.is_empty() {
        return CommandRequest::Nothing;
    }
    let raw = clip(raw, MAX_COMMAND_LEN).to_owned();
    let first = raw.split_whitespace().next().unwrap_or_default();
    let mut rest = raw.split_whitespace().skip(1).map(fold);
    let is_program = WORDS.programs.contains(&fold(first).as_str()) && first == fold(first);
    let is_path = first.contains('/') || first.ends_with(".sh") || first.ends_with(".py");
    let has_flags = rest.any(|word| word.starts_with('-')) || raw.contains(['|', '>', '$', '=']);
    if is_program || is_path || has_flags {
        CommandRequest::Command(raw)
    } else {
        // People capitalise the first word of what they dictate.
        let lower = fold(first);
        if WORDS.programs.contains(&fold(first).as_str()) {
            CommandRequest::Command(format!("{lower}{}", &raw[first.len()..]))
        } else {
            CommandRequest::Doubtful(raw)
        }
    }
}

fn fenced_code(message: &str) -> Option<String> {
    let start = message.find("```")?;
    let inside = &message[start + 3..];
    let code = &inside[..inside.find("```")?];
    // The first line is the language, when it stands alone.
    let code = match code.split_once('\n') {
        Some((language, rest)) if language.trim().chars().all(char::is_alphanumeric) => rest,
        _ => code,
    };
    let code = code.trim();
    (!code.is_empty()).then(|| code.to_owned())
}

fn unquoted(text: &str) -> &str {
    let inner = |open: char, close: char| text.strip_prefix(open).and_then(|rest| rest.strip_suffix(close));
    inner('"', '"').or_else(|| inner('“', '”')).or_else(|| inner('\'', '\'')).unwrap_or(text)
}

/// Workers run in the home folder already, so "in home" says nothing new.
fn without_place(command: &str) -> &str {
    let lower = command.to_ascii_lowercase();
    for place in &WORDS.after_a_command {
        if lower.ends_with(place) {
            return &command[..command.len() - place.len()];
        }
    }
    command
}

/// Finds the path in a request about a file or folder.
pub(crate) fn wanted_path(request: &Request) -> Option<String> {
    let quoted = inline_code(&request.sentence).map(|code| format!("`{code}`"));
    workspace_path(quoted.as_deref().unwrap_or(&request.about))
}

/// Makes a path below the workspace out of what the person called a file or folder.
fn workspace_path(words: &str) -> Option<String> {
    let quoted = inline_code(words);
    let mut path = quoted.as_deref().unwrap_or_else(|| unquoted(words.trim())).trim();
    let prefixes: &[&str] = if quoted.is_some() {
        &[]
    } else {
        &["the file ", "the folder ", "file ", "folder ", "directory ", "the ", "my ", "called ", "named "]
    };
    for prefix in prefixes {
        path = path.strip_prefix(prefix).unwrap_or(path);
    }
    let path = path.trim_end_matches(" folder").trim_end_matches(" directory").trim();
    let is_one_path = !path.is_empty()
        && path.len() <= 300
        && !path.chars().any(char::is_control)
        && (path.contains(['/', '.']) || path.split_whitespace().count() == 1);
    if !is_one_path {
        return None;
    }
    let path = path.trim_start_matches("./").trim_end_matches('/');
    let is_rooted =
        ["home", "state", "skills"].iter().any(|top| path == *top || path.starts_with(&format!("{top}/")))
            || path.starts_with(['/', '~'])
            || path == "AGENTS.md";
    if path.is_empty() {
        return Some("home".to_owned());
    }
    Some(if is_rooted { path.to_owned() } else { format!("home/{path}") })
}

/// Makes the file of a note; its name carries the moment so that no note replaces another.
pub(crate) fn note_file(scene: &Scene, words: &str) -> FileDraft {
    let words = words.trim();
    let moment: String = scene
        .fact(key::TIME)
        .unwrap_or_default()
        .chars()
        .take(19)
        .filter_map(|character| match character {
            '0'..='9' => Some(character),
            'T' | ' ' => Some('-'),
            _ => None,
        })
        .collect();
    let title: Vec<&str> = words.split_whitespace().take(5).collect();
    let name = slug(clip(&title.join(" "), 48));
    let name = if moment.is_empty() { name } else { format!("{moment}-{name}") };
    FileDraft { path: format!("home/notes/{name}.md"), content: format!("{words}\n") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::intent::understand;

    fn command_of(message: &str) -> CommandRequest {
        let found = understand(message, None);
        wanted_command(&found.requests[0], message)
    }

    #[test]
    fn commands_are_found_as_written() {
        assert_eq!(command_of("run `ls -la`"), CommandRequest::Command("ls -la".into()));
        assert_eq!(command_of("please run ls -la in home"), CommandRequest::Command("ls -la".into()));
        assert_eq!(
            command_of("execute the command \"git status\" please"),
            CommandRequest::Command("git status".into())
        );
        assert_eq!(
            command_of("run:\n```sh\necho hi\nls\n```"),
            CommandRequest::Command("echo hi\nls".into())
        );
        assert_eq!(command_of("Run ./build.sh --fast"), CommandRequest::Command("./build.sh --fast".into()));
        assert_eq!(command_of("run a marathon"), CommandRequest::Doubtful("a marathon".into()));
        assert_eq!(command_of("run"), CommandRequest::Nothing);
    }

    #[test]
    fn paths_stay_below_the_workspace() {
        assert_eq!(workspace_path("notes/todo.md").as_deref(), Some("home/notes/todo.md"));
        assert_eq!(workspace_path("the notes folder").as_deref(), Some("home/notes"));
        assert_eq!(workspace_path("home/").as_deref(), Some("home"));
        assert_eq!(workspace_path("`a b.txt`").as_deref(), Some("home/a b.txt"));
        assert_eq!(workspace_path("me what you mean by that"), None);
    }
}
