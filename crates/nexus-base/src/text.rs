//! Texts for people to look at: short forms of long ones, and visible forms of those that may deceive.

pub mod visible;

/// Returns `text` trimmed and, when it has more than `most` characters, cut there and marked with an ellipsis.
pub fn shorten(text: &str, most: usize) -> String {
    let text = text.trim();
    match text.char_indices().nth(most) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// Longest message that a question about it shows whole, in characters.
const MAX_ASKED_MESSAGE: usize = 8_000;

/// Returns what the owner is asked about a message: its words, under a first line that says if they are not all.
pub fn ask_about_message(content: &str) -> String {
    match content.char_indices().nth(MAX_ASKED_MESSAGE) {
        None => format!("answer the message:\n{content}"),
        Some((end, _)) => {
            let all = content.chars().count();
            format!(
                "answer the message, of which the first {MAX_ASKED_MESSAGE} of {all} characters are shown:\n{}",
                &content[..end]
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_about_a_message_shows_it_whole_or_says_so() {
        assert_eq!(ask_about_message("a\nb"), "answer the message:\na\nb");
        let long = ask_about_message(&"x".repeat(MAX_ASKED_MESSAGE + 1));
        assert!(
            long.starts_with("answer the message, of which the first 8000 of 8001 characters are shown:\nxx")
        );
    }

    #[test]
    fn characters_are_counted_and_never_split() {
        assert_eq!(shorten(" abc ", 3), "abc");
        assert_eq!(shorten("äöüß", 3), "äöü…");
        assert_eq!(shorten("", 0), "");
    }
}
