//! Whole files of ours: a line in them says so, with a hash of the rest, so that an edit by somebody
//! else is noticed and never overwritten by accident.

use nexus_base::id::to_hex;
use sha2::{Digest, Sha256};

const WORDS: &str = "nexus:generated sha256:";

/// How a file writes a comment, and where our line stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Marker {
    /// `<!-- … -->`, behind the front matter.
    Markdown,
    /// `# …`, first.
    Hash,
    /// `// …`, first.
    Slashes,
}

/// Puts our line into a text.
pub(crate) fn render(text: &str, marker: Marker) -> String {
    let line = line(marker, &digest(text));
    let at = match marker {
        Marker::Markdown => after_front_matter(text),
        Marker::Hash | Marker::Slashes => 0,
    };
    format!("{}{line}\n{}", &text[..at], &text[at..])
}

/// Returns whether a file is one of ours and nobody has changed it; none when it is not ours at all.
pub(crate) fn is_untouched(text: &str) -> Option<bool> {
    let start = text.find(WORDS)?;
    let line_start = text[..start].rfind('\n').map_or(0, |newline| newline + 1);
    let line_end = text[start..].find('\n').map_or(text.len(), |newline| start + newline + 1);
    let hash = text[start + WORDS.len()..line_end].split_whitespace().next()?;
    let rest = format!("{}{}", &text[..line_start], &text[line_end..]);
    Some(digest(&rest) == hash)
}

fn line(marker: Marker, hash: &str) -> String {
    match marker {
        Marker::Markdown => format!("<!-- {WORDS}{hash} -->"),
        Marker::Hash => format!("# {WORDS}{hash}"),
        Marker::Slashes => format!("// {WORDS}{hash}"),
    }
}

fn digest(text: &str) -> String {
    to_hex(&Sha256::digest(text.as_bytes()))
}

fn after_front_matter(text: &str) -> usize {
    text.strip_prefix("---\n").and_then(|rest| rest.find("\n---\n")).map_or(0, |end| 4 + end + 5)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_changed_file_is_known_from_an_untouched_one_and_from_a_stranger() {
        for (text, marker) in [
            ("---\nname: x\n---\nBody\n", Marker::Markdown),
            ("a = 1\n", Marker::Hash),
            ("export const x = 1\n", Marker::Slashes),
        ] {
            let ours = render(text, marker);
            assert_eq!(is_untouched(&ours), Some(true), "{ours}");
            assert_eq!(is_untouched(&format!("{ours}more")), Some(false));
            assert_eq!(is_untouched(text), None);
        }
        assert!(
            render("---\nname: x\n---\nBody\n", Marker::Markdown)
                .starts_with("---\nname: x\n---\n<!-- nexus")
        );
    }
}
