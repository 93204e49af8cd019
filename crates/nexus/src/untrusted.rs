//! Text of somebody else's laid out for a person who is asked about it: every line numbered, long ones broken with a
//! mark, nothing left out. What each line shows is `nexus_base::text::visible`'s.

use nexus_base::text::visible;
use unicode_width::UnicodeWidthChar;

/// Columns of a line when the output is no terminal.
const DEFAULT_COLUMNS: usize = 100;
/// Fewest columns of text on a line, however narrow the terminal.
const MIN_TEXT: usize = 10;

/// Returns the rows that show a text as a whole, its first one counting lines and characters.
pub(crate) fn rows(text: &str, columns: Option<usize>) -> Vec<String> {
    let lines = visible::lines(text);
    let last = lines.last().map_or(1, |line| line.number + line.count - 1);
    let digits = last.to_string().len().max(2);
    let room = columns.unwrap_or(DEFAULT_COLUMNS).saturating_sub(digits + 3).max(MIN_TEXT);
    let mut rows = vec![format!("{}:", size(text))];
    for line in &lines {
        for (index, part) in broken(&line.text, room).iter().enumerate() {
            rows.push(match index {
                0 => format!("{:>digits$}│ {part}", line.number),
                _ => format!("{:>digits$}┊ {part}", ""),
            });
        }
    }
    rows
}

/// Returns how much a text is.
pub(crate) fn size(text: &str) -> String {
    let count = |count: usize, what: &str| match count {
        1 => format!("1 {what}"),
        several => format!("{several} {what}s"),
    };
    format!("{}, {}", count(text.split('\n').count(), "line"), count(text.chars().count(), "character"))
}

/// Returns the beginning of a text on one line and, where that is not all, how much is missing and where it is shown.
pub(crate) fn beginning(text: &str, columns: usize, whole: &str) -> String {
    let flat = visible::line(text);
    let parts = broken(&flat, columns.max(MIN_TEXT));
    match parts.split_first() {
        Some((first, rest)) if !rest.is_empty() => {
            let left: usize = rest.iter().map(|part| part.chars().count()).sum();
            format!("{first}… {left} more characters ({} in all): {whole}", size(text))
        }
        _ => flat,
    }
}

/// Cuts a line into pieces of at most `room` columns; a line always has one.
fn broken(line: &str, room: usize) -> Vec<String> {
    let mut parts = vec![String::new()];
    let mut taken = 0;
    for character in line.chars() {
        let width = character.width().unwrap_or(1).max(1);
        if taken + width > room {
            parts.push(String::new());
            taken = 0;
        }
        taken += width;
        if let Some(part) = parts.last_mut() {
            part.push(character);
        }
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_shown_to_its_end_and_cannot_forge_a_line() {
        let forged = format!("run in /x:\nls{}12│ harmless", "a".repeat(40));
        assert_eq!(
            rows(&forged, Some(24)),
            [
                "2 lines, 65 characters:",
                " 1│ run in /x:",
                " 2│ lsaaaaaaaaaaaaaaaaa",
                "  ┊ aaaaaaaaaaaaaaaaaaa",
                "  ┊ aaaa12│ harmless",
            ]
        );
        assert_eq!(rows("", None), ["1 line, 0 characters:", " 1│ "]);
    }

    #[test]
    fn a_short_form_says_that_it_is_one() {
        assert_eq!(beginning("ls\u{202e}", 40, "there"), "ls\\u{202E}");
        assert_eq!(
            beginning(&format!("echo{}\nrm x", " ".repeat(99)), 12, "there"),
            "echo⟨␠×99⟩\\u… 7 more characters (2 lines, 108 characters in all): there"
        );
    }
}
