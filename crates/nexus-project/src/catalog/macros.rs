//! The requests inside a skill's text, `{{name key=value …}}`: finding them and checking that each
//! is known and complete. What comes in their place is the harness's.

use std::ops::Range;

use super::{CatalogError, Invocation};

/// A request as it stands in a text.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Request {
    pub(crate) name: String,
    /// Keys and values in order; values without their quotes.
    pub(crate) pairs: Vec<(String, String)>,
    /// Where it stands, the text until its closing line included.
    pub(crate) place: Range<usize>,
}

impl Request {
    pub(crate) fn value(&self, key: &str) -> Option<&str> {
        self.pairs.iter().find(|(name, _)| name == key).map(|(_, value)| value.as_str())
    }
}

/// Finds all requests of a text.
///
/// # Errors
/// One does not end, or is none.
pub(crate) fn requests(text: &str) -> Result<Vec<Request>, CatalogError> {
    let mut found = Vec::new();
    let mut rest = text;
    while let Some(start) = rest.find("{{") {
        let begin = text.len() - rest.len() + start;
        let after = rest.get(start + 2..).unwrap_or_default();
        let end = end_of(after).ok_or_else(|| CatalogError::Macro("a macro is not closed".to_owned()))?;
        let inside = after.get(..end).unwrap_or_default();
        rest = after.get(end + 2..).unwrap_or_default();
        let (name, arguments) = inside.trim().split_once(char::is_whitespace).unwrap_or((inside.trim(), ""));
        let (mut pairs, heredoc) = pairs(arguments)?;
        if let Some((key, mark)) = heredoc {
            // What stands until the closing line is text, whatever it looks like.
            let closing = format!("\n<<{mark}");
            let end = rest
                .find(&closing)
                .ok_or_else(|| CatalogError::Macro(format!("the text until <<{mark} is not closed")))?;
            pairs.push((key, rest.get(..end).unwrap_or_default().trim_start_matches('\n').to_owned()));
            rest = rest.get(end + closing.len()..).unwrap_or_default();
        }
        found.push(Request { name: name.to_owned(), pairs, place: begin..text.len() - rest.len() });
    }
    Ok(found)
}

/// Checks a text's requests against what a harness knows.
pub(crate) fn check(text: &str, known: &[Invocation]) -> Result<(), CatalogError> {
    for request in requests(text)? {
        let name = &request.name;
        let invocation = known
            .iter()
            .find(|known| known.id == *name)
            .ok_or_else(|| CatalogError::Macro(format!("{name} is unknown")))?;
        for (key, required) in &invocation.params {
            if *required && request.value(key).is_none() {
                return Err(CatalogError::Macro(format!("{name} needs {key}")));
            }
        }
        if let Some((key, _)) = request.pairs.iter().find(|(key, _)| !invocation.params.contains_key(key)) {
            return Err(CatalogError::Macro(format!("{name} takes no {key}")));
        }
    }
    Ok(())
}

/// Returns where a request ends: at the first closing pair that closes no value.
fn end_of(text: &str) -> Option<usize> {
    let mut depth = 0_usize;
    let mut quoted = false;
    for (at, character) in text.char_indices() {
        match character {
            '"' => quoted = !quoted,
            _ if quoted => {}
            '[' | '{' => depth += 1,
            '}' if depth == 0 => return text.get(at..)?.starts_with("}}").then_some(at),
            ']' | '}' => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    None
}

type Heredoc = Option<(String, String)>;

fn pairs(arguments: &str) -> Result<(Vec<(String, String)>, Heredoc), CatalogError> {
    let mut pairs = Vec::new();
    let mut rest = arguments.trim_start();
    while !rest.is_empty() {
        let (key, value) = rest
            .split_once('=')
            .ok_or_else(|| CatalogError::Macro(format!("{rest:?} is not a key and value")))?;
        if let Some(mark) = value.strip_prefix(">>") {
            return Ok((pairs, Some((key.trim().to_owned(), mark.trim().to_owned()))));
        }
        let (value, after) = value.split_at_checked(length(value)?).unwrap_or((value, ""));
        let quoted = value.strip_prefix('"').and_then(|value| value.strip_suffix('"'));
        pairs.push((key.trim().to_owned(), quoted.unwrap_or(value).to_owned()));
        rest = after.trim_start();
    }
    Ok((pairs, None))
}

/// Returns how long the value at the beginning is: quoted, in brackets, or up to a space.
fn length(value: &str) -> Result<usize, CatalogError> {
    let mut depth = 0_usize;
    let mut quoted = false;
    for (at, character) in value.char_indices() {
        match character {
            '"' => quoted = !quoted,
            _ if quoted => {}
            '[' | '{' => depth += 1,
            ']' | '}' => depth = depth.saturating_sub(1),
            character if character.is_whitespace() && depth == 0 => return Ok(at),
            _ => {}
        }
    }
    if quoted || depth > 0 {
        return Err(CatalogError::Macro(format!("{value:?} is not closed")));
    }
    Ok(value.len())
}
