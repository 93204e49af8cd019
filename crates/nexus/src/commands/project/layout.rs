//! Text that has to fit into the columns of a terminal, whatever script it is written in.

use crate::failure::Outcome;
use crate::output;

/// Returns how much of a text a line has room for: what the terminal leaves beside the rest of it, at most `most`.
pub(super) fn room(most: usize, beside: usize) -> usize {
    output::terminal_width().map_or(most, |width| usize::from(width).saturating_sub(beside).clamp(12, most))
}

/// Writes text behind its beginning, broken where the terminal ends; in a pipe it stays one line.
pub(super) fn paragraph(first: &str, others: &str, content: &str) -> Outcome {
    let width = output::terminal_width().map_or(usize::MAX, usize::from);
    wrap(first, others, content, width).iter().try_for_each(|line| output::line(line))
}

/// Breaks text at words; a word that no line can hold, as in scripts without spaces, is broken itself.
fn wrap(first: &str, others: &str, content: &str, width: usize) -> Vec<String> {
    let mut lines = Vec::new();
    let mut line = first.to_owned();
    let mut begun = false;
    for word in output::single_line(content).split(' ') {
        let gap = usize::from(begun);
        if begun && output::columns(&line) + gap + output::columns(word) > width {
            lines.push(std::mem::replace(&mut line, others.to_owned()));
            begun = false;
        }
        if begun {
            line.push(' ');
        }
        for character in word.chars() {
            let mut characters = [0; 4];
            if begun
                && output::columns(&line) + output::columns(character.encode_utf8(&mut characters)) > width
            {
                lines.push(std::mem::replace(&mut line, others.to_owned()));
            }
            line.push(character);
            begun = true;
        }
    }
    lines.push(line);
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_end_where_the_terminal_does() {
        assert_eq!(wrap("- ", "  ", "one two three", 9), ["- one two", "  three"]);
        assert_eq!(wrap("- ", "  ", "", 9), ["- "]);
        assert_eq!(wrap("- ", "  ", "計画を立てる", 9), ["- 計画を", "  立てる"]);
        assert_eq!(wrap("- ", "  ", "a bcdefghijkl m", 9), ["- a", "  bcdefgh", "  ijkl m"]);
    }
}
