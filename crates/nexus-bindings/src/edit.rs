//! Changes to files that belong to somebody else. Every change only inserts, so that taking out what
//! was inserted gives back the very bytes that were there.

mod json;
mod json_place;
mod owned;
mod prose;
mod tables;

use serde::{Deserialize, Serialize};

pub(crate) use json::{JsonEdit, bind as bind_json, count_ours, count_wanted, strip as strip_json};
pub(crate) use owned::{Marker, is_untouched, render as render_owned};
pub(crate) use prose::{bind as bind_prose, strip as strip_prose};
pub(crate) use tables::{bind as bind_tables, strip as strip_tables};

/// One insertion: so many bytes at this place of the text as it was at that moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Insertion {
    pub(crate) at: usize,
    pub(crate) length: usize,
}

/// A text and everything inserted into it, in order.
#[derive(Debug, Clone, Default)]
pub(crate) struct Draft {
    pub(crate) text: String,
    pub(crate) insertions: Vec<Insertion>,
}

impl Draft {
    pub(crate) fn new(text: &str) -> Self {
        Self { text: text.to_owned(), insertions: Vec::new() }
    }

    pub(crate) fn insert(&mut self, at: usize, more: &str) {
        if !more.is_empty() {
            self.text.insert_str(at, more);
            self.insertions.push(Insertion { at, length: more.len() });
        }
    }
}

/// Takes insertions back, newest first. None when they do not fit the text.
pub(crate) fn take_back(text: &str, insertions: &[Insertion]) -> Option<String> {
    let mut text = text.to_owned();
    for insertion in insertions.iter().rev() {
        let end = insertion.at.checked_add(insertion.length)?;
        text.get(insertion.at..end)?;
        text.replace_range(insertion.at..end, "");
    }
    Some(text)
}

/// Returns the line ending a text uses.
pub(crate) fn newline_of(text: &str) -> &'static str {
    if text.contains("\r\n") { "\r\n" } else { "\n" }
}

/// Why a file was left alone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Unreadable {
    pub(crate) line: usize,
    pub(crate) column: usize,
    pub(crate) reason: String,
    /// The entry that is somebody else's although it has the name of ours.
    pub(crate) entry: Option<String>,
}

/// Finds the line and column of a byte, both from one.
pub(crate) fn position(text: &str, at: usize) -> (usize, usize) {
    let before = &text[..text.floor_char_boundary(at)];
    let line = before.matches('\n').count() + 1;
    let column = before.rsplit('\n').next().map_or(0, |last| last.chars().count()) + 1;
    (line, column)
}
