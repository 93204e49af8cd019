//! Where a conversation takes place when it is not on the control plane: the platform, and whether others read along.
//! Reply tags are the model's way to quote there; they never leave.

use nexus_base::id::SessionLabel;

/// The platform of our own clients, which has no rules of its own.
const CONTROL_PLANE: &str = "control-plane";
/// Longest id a tag names.
const MAX_ID_LEN: usize = 200;

/// A conversation on a platform.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Channel {
    pub platform: String,
    /// Others read along, and nobody waits for an answer to everything.
    pub is_group: bool,
}

/// What a reply quotes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Quoted {
    /// The message that led to it.
    Current,
    /// The platform's message of this id.
    Message(String),
}

impl Channel {
    /// Finds the channel of a session: `group:PLATFORM:…` and `dm:PLATFORM:…` name it, else the newest message came
    /// from there.
    pub fn of(session: &SessionLabel, platform: Option<&str>) -> Option<Self> {
        let mut parts = session.as_str().splitn(3, ':');
        let (family, second, third) = (parts.next(), parts.next(), parts.next());
        let (platform, is_group) = match (family, second, third) {
            (Some("group"), Some(platform), _) => (Some(platform), true),
            (Some("dm"), Some(platform), Some(_)) => (Some(platform), false),
            (_, _, _) => (platform, false),
        };
        let platform = platform.filter(|platform| !platform.is_empty() && *platform != CONTROL_PLANE)?;
        Some(Self { platform: platform.to_owned(), is_group })
    }

    /// Takes the reply tags out of a text and returns what is left, and what the first of them quotes.
    pub fn strip_tags(text: &str) -> (String, Option<Quoted>) {
        let mut left = String::with_capacity(text.len());
        let mut quoted = None;
        let mut rest = text;
        while let Some(start) = rest.find("[[") {
            let (before, tag) = rest.split_at(start);
            left.push_str(before);
            match tag.find("]]").and_then(|end| Some((read_tag(&tag[2..end])?, end + 2))) {
                Some((found, end)) => {
                    quoted = quoted.or(Some(found));
                    rest = &tag[end..];
                    // The blank after a tag goes with it.
                    if left.is_empty() || left.ends_with(char::is_whitespace) {
                        rest = rest.trim_start_matches(' ');
                    }
                }
                None => {
                    left.push_str("[[");
                    rest = &tag[2..];
                }
            }
        }
        left.push_str(rest);
        match quoted {
            Some(_) => (left.trim().to_owned(), quoted),
            None => (text.to_owned(), None),
        }
    }
}

fn read_tag(tag: &str) -> Option<Quoted> {
    let tag = tag.trim();
    if tag == "reply_to_current" {
        return Some(Quoted::Current);
    }
    let id = tag.strip_prefix("reply_to:")?.trim();
    let is_id = !id.is_empty() && id.len() <= MAX_ID_LEN && !id.contains(['[', ']', '\n']);
    is_id.then(|| Quoted::Message(id.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_channel_is_named_by_its_session_or_its_message() {
        let of = |label: &str, platform| {
            let channel = Channel::of(&SessionLabel::new(label), platform)?;
            Some((channel.platform, channel.is_group))
        };
        assert_eq!(of("group:discord:7", Some("control-plane")), Some(("discord".into(), true)));
        assert_eq!(of("dm:telegram:42", None), Some(("telegram".into(), false)));
        assert_eq!(of("dm:entity-owner", Some("slack")), Some(("slack".into(), false)));
        for label in ["dm:entity-owner", "chat:garden", "group::x", "worker:1"] {
            assert_eq!(of(label, Some("control-plane")), None, "{label}");
        }
    }

    #[test]
    fn tags_are_taken_out_and_read() {
        let strip = |text: &str| Channel::strip_tags(text);
        assert_eq!(strip("[[reply_to_current]] Hi."), ("Hi.".into(), Some(Quoted::Current)));
        let named = Some(Quoted::Message("m-7".into()));
        assert_eq!(strip("Yes [[ reply_to: m-7 ]] and [[reply_to_current]]no"), ("Yes and no".into(), named));
        for text in ["[[wiki]] stays", "[[reply_to:]] stays", "[[reply_to_current", "plain"] {
            assert_eq!(strip(text), (text.to_owned(), None));
        }
    }
}
