//! The requests inside a skill's text, `{{name key=value …}}`: finding them and checking that each
//! is known and complete. What comes in their place is the harness's.

use super::{CatalogError, Invocation};

/// A request as it stands in a text.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Request {
    pub(super) name: String,
    pub(super) keys: Vec<String>,
}

/// Finds all requests of a text.
///
/// # Errors
/// One does not end, or is none.
pub(super) fn requests(text: &str) -> Result<Vec<Request>, CatalogError> {
    let mut found = Vec::new();
    let mut rest = text;
    while let Some(start) = rest.find("{{") {
        let after = rest.get(start + 2..).unwrap_or_default();
        let end = end_of(after).ok_or_else(|| CatalogError::Macro("a request does not end".to_owned()))?;
        let inside = after.get(..end).unwrap_or_default();
        rest = after.get(end + 2..).unwrap_or_default();
        let (name, arguments) = inside.trim().split_once(char::is_whitespace).unwrap_or((inside.trim(), ""));
        let (mut keys, heredoc) = keys(arguments)?;
        if let Some((key, mark)) = heredoc {
            keys.push(key);
            // What stands until the closing line is text, whatever it looks like.
            let closing = format!("\n<<{mark}");
            let end = rest
                .find(&closing)
                .ok_or_else(|| CatalogError::Macro(format!("the text until <<{mark} does not end")))?;
            rest = rest.get(end + closing.len()..).unwrap_or_default();
        }
        found.push(Request { name: name.to_owned(), keys });
    }
    Ok(found)
}

/// Checks a text's requests against what a harness knows.
pub(super) fn check(text: &str, known: &[Invocation]) -> Result<(), CatalogError> {
    for request in requests(text)? {
        let name = &request.name;
        let invocation = known
            .iter()
            .find(|known| known.id == *name)
            .ok_or_else(|| CatalogError::Macro(format!("{name} is not known")))?;
        for (key, required) in &invocation.params {
            if *required && !request.keys.contains(key) {
                return Err(CatalogError::Macro(format!("{name} needs {key}")));
            }
        }
        if let Some(key) = request.keys.iter().find(|key| !invocation.params.contains_key(*key)) {
            return Err(CatalogError::Macro(format!("{name} takes no {key}")));
        }
    }
    Ok(())
}

/// Returns where a request ends: at the first closing pair that closes no value.
fn end_of(text: &str) -> Option<usize> {
    let mut depth = 0_usize;
    let mut quoted = false;
    for (at, letter) in text.char_indices() {
        match letter {
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

fn keys(arguments: &str) -> Result<(Vec<String>, Heredoc), CatalogError> {
    let mut keys = Vec::new();
    let mut rest = arguments.trim_start();
    while !rest.is_empty() {
        let (key, value) = rest
            .split_once('=')
            .ok_or_else(|| CatalogError::Macro(format!("{rest:?} is no key and value")))?;
        if let Some(mark) = value.strip_prefix(">>") {
            return Ok((keys, Some((key.trim().to_owned(), mark.trim().to_owned()))));
        }
        keys.push(key.trim().to_owned());
        rest = value.get(length(value)?..).unwrap_or_default().trim_start();
    }
    Ok((keys, None))
}

/// Returns how long the value at the beginning is: quoted, in brackets, or up to a space.
fn length(value: &str) -> Result<usize, CatalogError> {
    let mut depth = 0_usize;
    let mut quoted = false;
    for (at, letter) in value.char_indices() {
        match letter {
            '"' => quoted = !quoted,
            _ if quoted => {}
            '[' | '{' => depth += 1,
            ']' | '}' => depth = depth.saturating_sub(1),
            letter if letter.is_whitespace() && depth == 0 => return Ok(at),
            _ => {}
        }
    }
    if quoted || depth > 0 {
        return Err(CatalogError::Macro(format!("{value:?} does not end")));
    }
    Ok(value.len())
}
