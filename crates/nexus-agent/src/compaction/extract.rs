//! A summary without a model: what was said and done, line by line, shortened.

use std::fmt::Write as _;

use nexus_base::text::shorten;
use nexus_protocol::framing::{self, Kind};

use crate::history::{PastMessage, PastTurn};

/// Longest line of one speaker.
const MAX_LINE_LEN: usize = 240;
/// Most lines of an extract; the middle of a longer one is left out and said to be.
const MAX_LINES: usize = 120;
/// How much of an earlier summary is carried on.
const CARRIED: usize = 4_000;

/// Puts a summary together from the words themselves.
pub(super) fn extract<'a>(earlier: Option<&str>, turns: impl Iterator<Item = &'a PastTurn>) -> String {
    let lines: Vec<String> = turns.flat_map(lines_of).collect();
    let mut text = String::new();
    if let Some(earlier) = earlier {
        text.push_str(&head_and_tail(earlier, CARRIED, super::IN_THE_LEDGER));
        text.push('\n');
    }
    let left_out = lines.len().saturating_sub(MAX_LINES);
    let head = if left_out > 0 { MAX_LINES / 4 } else { lines.len() };
    for line in &lines[..head] {
        text.push_str(line);
        text.push('\n');
    }
    if left_out > 0 {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "[{left_out} lines left out]");
        for line in &lines[head + left_out..] {
            text.push_str(line);
            text.push('\n');
        }
    }
    text.trim_end().to_owned()
}

fn lines_of(turn: &PastTurn) -> Vec<String> {
    let mut lines = Vec::new();
    for message in &turn.messages {
        match message {
            PastMessage::User { frame, text } => {
                let facts = framing::split(frame).0;
                let who = match facts.kind() {
                    Some(Kind::Message) | None => "they said",
                    Some(Kind::Task) => "the task was",
                    Some(Kind::WorkerResult) => "a worker reported",
                    Some(Kind::AgentMessage) => "an agent said",
                    Some(Kind::System) => "the runtime said",
                };
                let day = facts.get(framing::key::TIME).and_then(|time| time.get(..10)).unwrap_or_default();
                // A task is what everything else is for: it stays whole.
                let words = if facts.kind() == Some(Kind::Task) {
                    text.trim().to_owned()
                } else {
                    shorten(&one_line(text), MAX_LINE_LEN)
                };
                lines.push(format!("- {day} {who}: {words}").replace("-  ", "- "));
            }
            PastMessage::Assistant { text, calls } => {
                if !text.trim().is_empty() {
                    lines.push(format!("- you said: {}", shorten(&one_line(text), MAX_LINE_LEN)));
                }
                for call in calls {
                    let outcome = match &call.result {
                        Some((_, false)) => "",
                        Some((_, true)) => ", which failed",
                        None => ", outcome unknown",
                    };
                    let arguments = shorten(&call.arguments.to_string(), MAX_LINE_LEN / 2);
                    lines.push(format!("- you called {} {arguments}{outcome}", call.tool));
                }
            }
        }
    }
    lines
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Returns the beginning and the end of a text and says how much is missing; at most about `most` bytes.
pub(super) fn head_and_tail(text: &str, most: usize, whereabouts: &str) -> String {
    if text.len() <= most {
        return text.to_owned();
    }
    let head = text.floor_char_boundary(most * 3 / 4);
    let tail = text.ceil_char_boundary(text.len() - most / 4);
    format!(
        "{}\n[… {} bytes left out of {}; {whereabouts} …]\n{}",
        &text[..head],
        tail - head,
        text.len(),
        &text[tail..]
    )
}
