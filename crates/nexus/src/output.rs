//! What commands print: data on stdout, failures on stderr, tables, JSON, and colour only where a
//! terminal wants it. The one place of this binary that touches the standard streams for text.

use std::io::{self, IsTerminal, Write};

use comfy_table::{ContentArrangement, Table, presets};
use nexus_base::text::visible::is_deceptive;
use serde::Serialize;

use crate::failure::{Exit, Failure, Outcome};

/// How a command should say what it found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    /// For people.
    Text,
    /// For scripts.
    Json,
}

impl Format {
    /// Picks the format from a `--json` flag.
    pub(crate) fn from_flag(json: bool) -> Self {
        if json { Self::Json } else { Self::Text }
    }
}

/// Writes text to stdout; a reader that has gone away ends the command quietly.
pub(crate) fn text(text: &str) -> Outcome {
    let mut stdout = io::stdout().lock();
    stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()).map_err(|error| stream_failure(&error))
}

/// Writes one line to stdout.
pub(crate) fn line(content: &str) -> Outcome {
    text(&format!("{content}\n"))
}

/// Writes one value to stdout as readable JSON.
pub(crate) fn json<T: Serialize>(value: &T) -> Outcome {
    let rendered = serde_json::to_string_pretty(value)?;
    line(&without_keys(&rendered))
}

/// Writes one value to stdout as readable JSON, with the secret in it that was asked for.
pub(crate) fn json_with_secret<T: Serialize>(value: &T) -> Outcome {
    line(&serde_json::to_string_pretty(value)?)
}

/// Writes one value to stdout as one line of JSON.
pub(crate) fn json_line<T: Serialize>(value: &T) -> Outcome {
    let rendered = serde_json::to_string(value)?;
    line(&without_keys(&rendered))
}

/// Writes a remark to stderr, where it is in nobody's way.
pub(crate) fn remark(content: &str) {
    // With stderr gone there is nobody left to tell.
    let _ = writeln!(io::stderr().lock(), "{}", without_keys(content));
}

/// Writes the beginning of a line to stderr, for a question that is answered on the same line.
pub(crate) fn remark_part(content: &str) {
    let mut stderr = io::stderr().lock();
    let _ = stderr.write_all(content.as_bytes()).and_then(|()| stderr.flush());
}

/// Prints a failure as `error: …` and `hint: …`.
pub(crate) fn failure(failure: &Failure) {
    if failure.message().is_empty() {
        return;
    }
    remark(&format!("error: {}", failure.message()));
    if let Some(hint) = failure.advice() {
        remark(&format!("hint: {hint}"));
    }
}

/// Writes rows under headings, columns aligned, nothing drawn around them.
pub(crate) fn table(headings: &[&str], rows: Vec<Vec<String>>) -> Outcome {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_header(headings.to_vec());
    if let Some(width) = terminal_width() {
        table.set_content_arrangement(ContentArrangement::Dynamic).set_width(width);
    } else {
        // In a pipe every row stays one line, however long.
        table.set_content_arrangement(ContentArrangement::Disabled);
    }
    for row in rows {
        table.add_row(row.into_iter().map(|cell| single_line(&cell)));
    }
    let mut rendered = String::new();
    for row in table.lines() {
        // Only the margin goes: what a row leaves empty, or a cell that goes on below itself, stays in its column.
        rendered.push_str(row.strip_prefix(' ').unwrap_or(&row).trim_end());
        rendered.push('\n');
    }
    text(&without_keys(&rendered))
}

/// Hides whatever has the shape of a key. What the daemon says has passed its own redactor already;
/// this one stands behind what commands read or complain about by themselves.
fn without_keys(content: &str) -> String {
    nexus_base::redact::Redactor::new().redact(content)
}

/// Returns how many columns of a terminal a text takes.
pub(crate) fn columns(content: &str) -> usize {
    unicode_width::UnicodeWidthStr::width(content)
}

/// Cuts text to at most `limit` columns on one line, with a mark where it was cut.
pub(crate) fn shorten(content: &str, limit: usize) -> String {
    let flat = single_line(content);
    if columns(&flat) <= limit {
        return flat;
    }
    let kept = within(flat.chars(), limit.saturating_sub(1));
    format!("{}…", kept.trim_end())
}

/// Cuts the beginning of a text where it takes more than `limit` columns: of a path, its end says most.
pub(crate) fn shorten_left(content: &str, limit: usize) -> String {
    let flat = single_line(content);
    if columns(&flat) <= limit {
        return flat;
    }
    let kept = within(flat.chars().rev(), limit.saturating_sub(1));
    format!("…{}", kept.chars().rev().collect::<String>())
}

/// Returns as many of the letters as fit.
fn within(characters: impl Iterator<Item = char>, limit: usize) -> String {
    let mut taken = 0;
    characters
        .take_while(|character| {
            taken += unicode_width::UnicodeWidthChar::width(*character).unwrap_or(0);
            taken <= limit
        })
        .collect()
}

/// Returns text without control characters, line breaks as spaces: what a model or a file says may
/// not move the cursor of the person who reads it, nor the words before their eyes.
pub(crate) fn single_line(content: &str) -> String {
    let shown = harmless(content);
    shown.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Returns text that may span lines but carries no control character a terminal would obey; what would turn the order
/// of words, or hide among them, stands as its number.
pub(crate) fn harmless(content: &str) -> String {
    let mut shown = String::with_capacity(content.len());
    for character in content.chars() {
        match character {
            '\n' | '\t' => shown.push(character),
            _ if is_deceptive(character) => shown.extend(character.escape_unicode()),
            // A break or a blank of another kind keeps words apart.
            _ if character.is_control() => shown.extend(character.is_whitespace().then_some(' ')),
            _ => shown.push(character),
        }
    }
    shown
}

/// Returns whether stdout is a terminal that should get colour.
pub(crate) fn stdout_takes_colour() -> bool {
    let refused = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty())
        || std::env::var_os("TERM").is_some_and(|value| value == "dumb");
    !refused && io::stdout().is_terminal()
}

/// Returns whether stdout is a terminal.
pub(crate) fn stdout_is_terminal() -> bool {
    io::stdout().is_terminal()
}

/// Returns whether stdin is a terminal.
pub(crate) fn stdin_is_terminal() -> bool {
    io::stdin().is_terminal()
}

/// Returns how many rows the terminal on stdout has.
pub(crate) fn terminal_height() -> Option<u16> {
    rustix::termios::tcgetwinsize(io::stdout()).ok().map(|size| size.ws_row).filter(|rows| *rows > 0)
}

/// Returns how many columns the terminal on stdout has; `None` when it is none or too narrow to use.
pub(crate) fn terminal_width() -> Option<u16> {
    let stdout = io::stdout();
    if !stdout.is_terminal() {
        return None;
    }
    rustix::termios::tcgetwinsize(stdout).ok().map(|size| size.ws_col).filter(|columns| *columns >= 20)
}

fn stream_failure(error: &io::Error) -> Failure {
    if error.kind() == io::ErrorKind::BrokenPipe {
        return Failure::unread();
    }
    Failure::new(format!("writing to standard output: {error}")).exit(Exit::Failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_from_outside_cannot_move_the_cursor() {
        assert_eq!(single_line("a\u{1b}[2Jb\n  c\t"), "a[2Jb c");
        assert_eq!(harmless("one\n\u{7}two\u{9b}"), "one\ntwo");
        assert_eq!(single_line("a\u{202e}b\u{200b} é\u{5d0}"), "a\\u{202e}b\\u{200b} é\u{5d0}");
    }

    #[test]
    fn shortening_says_that_it_cut() {
        assert_eq!(shorten("short", 10), "short");
        assert_eq!(shorten("a rather long line", 9), "a rather…");
        assert_eq!((shorten("計画を立てる", 6), columns("計画を")), ("計画…".to_owned(), 6));
        assert_eq!(
            (shorten_left("a/b/c.json", 7), shorten_left("c", 7)),
            ("…c.json".to_owned(), "c".to_owned())
        );
    }
}
