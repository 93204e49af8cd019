//! Short forms of long texts, for people to look at.

/// Returns `text` trimmed and, when it has more than `most` characters, cut there and marked with an ellipsis.
pub fn shorten(text: &str, most: usize) -> String {
    let text = text.trim();
    match text.char_indices().nth(most) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn characters_are_counted_and_never_split() {
        assert_eq!(shorten(" abc ", 3), "abc");
        assert_eq!(shorten("äöüß", 3), "äöü…");
        assert_eq!(shorten("", 0), "");
    }
}
