//! JSON and JSON with comments: our entries go in behind everything else and come out again; order,
//! indentation and comments of the rest stay as they are.

use jsonc_parser::ast::{Array, Object, Value as Node};
use jsonc_parser::common::Ranged;
use jsonc_parser::{CollectOptions, ParseOptions, parse_to_ast};
use serde_json::Value;

use super::json_place::{Listing, at_the_end, indent_at, of_item};
use super::{Draft, Unreadable, newline_of, position};

/// How a hook command of ours begins, in every harness.
pub(crate) const HOOK_COMMAND: &str = "nexus hook ";

/// Something a file has to hold.
#[derive(Debug, Clone)]
pub(crate) enum JsonEdit {
    /// An element with a hook command of ours, in the array at this path.
    Hook { path: Vec<String>, value: Value },
    /// A member, in the object at this path.
    Member { path: Vec<String>, key: String, value: Value },
    /// A text, in the array at this path.
    Text { path: Vec<String>, text: String },
}

impl JsonEdit {
    pub(crate) fn hook(event: &str, value: Value) -> Self {
        Self::Hook { path: vec!["hooks".to_owned(), event.to_owned()], value }
    }

    pub(crate) fn member(path: &[&str], key: &str, value: Value) -> Self {
        Self::Member { path: owned(path), key: key.to_owned(), value }
    }

    pub(crate) fn text(path: &[&str], text: &str) -> Self {
        Self::Text { path: owned(path), text: text.to_owned() }
    }

    fn path(&self) -> &[String] {
        match self {
            Self::Hook { path, .. } | Self::Member { path, .. } | Self::Text { path, .. } => path,
        }
    }
}

fn owned(path: &[&str]) -> Vec<String> {
    path.iter().map(|&key| key.to_owned()).collect()
}

/// Returns whether a hook entry is ours: all its commands are. A group with a stranger's command in
/// it belongs to whoever made it.
pub(crate) fn is_ours(entry: &Value) -> bool {
    let ours = |entry: &Value| {
        entry.get("command").and_then(Value::as_str).is_some_and(|command| command.starts_with(HOOK_COMMAND))
    };
    match entry.get("hooks").and_then(Value::as_array) {
        Some(inner) => !inner.is_empty() && inner.iter().all(ours),
        None => ours(entry),
    }
}

/// Returns whether a member is one we would write: it starts what ours starts, and says nothing that ours
/// does not say. Another of the same name is the person's, also one of ours that they added to.
fn is_our_member(found: &Value, wanted: &Value) -> bool {
    match (found.as_object(), wanted.as_object()) {
        (Some(found), Some(wanted)) => {
            ["command", "args"].iter().all(|key| found.get(*key) == wanted.get(*key))
                && found.keys().all(|key| wanted.contains_key(key))
        }
        (Some(_) | None, _) => found == wanted,
    }
}

/// Puts everything in. A text that already holds all of it stays as it is.
pub(crate) fn bind(text: &str, edits: &[JsonEdit]) -> Result<Draft, Unreadable> {
    let mut draft = Draft::new(text);
    if draft.text.trim_start_matches('\u{feff}').trim().is_empty() {
        let at = draft.text.len();
        let newline = newline_of(text);
        draft.insert(at, &format!("{{{newline}}}{newline}"));
    }
    for edit in edits {
        put(&mut draft, edit)?;
    }
    Ok(draft)
}

/// Returns how many hook entries of ours a text holds; none when it does not parse.
pub(crate) fn count_ours(text: &str) -> usize {
    let Ok((_, root)) = parse(text) else { return 0 };
    let Some(hooks) = root.get_object("hooks") else { return 0 };
    let arrays = hooks.properties.iter().filter_map(|event| event.value.as_array());
    arrays.flat_map(|array| &array.elements).filter(|element| is_ours(&to_value(element))).count()
}

/// Returns how many hook entries are wanted.
pub(crate) fn count_wanted(edits: &[JsonEdit]) -> usize {
    edits.iter().filter(|edit| matches!(edit, JsonEdit::Hook { .. })).count()
}

/// Takes everything out that is ours, hooks of events that are no longer wanted included, and what
/// it leaves empty.
pub(crate) fn strip(text: &str, edits: &[JsonEdit]) -> Result<String, Unreadable> {
    let mut text = text.to_owned();
    let mut all: Vec<JsonEdit> = Vec::new();
    if let Some(hooks) = parse(&text)?.1.get_object("hooks") {
        let events = hooks.properties.iter().map(|event| event.name.as_str().to_owned());
        all.extend(events.map(|event| JsonEdit::hook(&event, Value::Null)));
    }
    all.extend(edits.iter().cloned());
    for edit in all.iter().rev() {
        let mut any = false;
        while let Some(range) = first_of_ours(&text, edit)? {
            any = true;
            for (start, end) in range {
                text.replace_range(start..end, "");
            }
        }
        if any {
            drop_empty(&mut text, edit.path())?;
        }
    }
    Ok(text)
}

fn put(draft: &mut Draft, edit: &JsonEdit) -> Result<(), Unreadable> {
    let (skip, root) = parse(&draft.text)?;
    let mut here = Here { listing: object_listing(&root, skip), depth: 0 };
    let mut object = root;
    let mut missing: &[String] = edit.path();
    let mut array: Option<Vec<Value>> = None;
    while let Some((key, rest)) = missing.split_first() {
        let Some(member) = object.get(key) else { break };
        match (&member.value, rest.is_empty(), edit) {
            (Node::Object(inner), _, _) if !rest.is_empty() || matches!(edit, JsonEdit::Member { .. }) => {
                here = Here { listing: object_listing(inner, skip), depth: here.depth + 1 };
                object = inner.clone();
            }
            (Node::Array(inner), true, JsonEdit::Hook { .. } | JsonEdit::Text { .. }) => {
                here = Here { listing: array_listing(inner, skip), depth: here.depth + 1 };
                array = Some(inner.elements.iter().map(to_value).collect());
            }
            (other, _, _) => {
                let (line, column) = position(&draft.text, other.range().start + skip);
                let reason = format!("{key:?} does not have the form the harness documents");
                return Err(Unreadable { line, column, reason, entry: None });
            }
        }
        missing = rest;
    }
    let item = match edit {
        JsonEdit::Hook { value, .. } => {
            if array.iter().flatten().any(|element| element == value) {
                return Ok(());
            }
            nested(missing, array.is_some(), Leaf::Element(value.clone()))
        }
        JsonEdit::Text { text, .. } => {
            let value = Value::String(text.clone());
            if array.iter().flatten().any(|element| *element == value) {
                return Ok(());
            }
            nested(missing, array.is_some(), Leaf::Element(value))
        }
        JsonEdit::Member { key, value, .. } => {
            if missing.is_empty()
                && let Some(found) = object.get(key)
            {
                if to_value(&found.value) == *value {
                    return Ok(());
                }
                let (line, column) = position(&draft.text, found.range.start + skip);
                let entry = edit.path().iter().chain([key]).map(String::as_str).collect::<Vec<_>>().join(".");
                let reason = "it already exists with another value".to_owned();
                return Err(Unreadable { line, column, reason, entry: Some(entry) });
            }
            nested(missing, false, Leaf::Member(key.clone(), value.clone()))
        }
    };
    insert(draft, &here, &item);
    Ok(())
}

/// What goes in at the end of a path.
enum Leaf {
    Element(Value),
    Member(String, Value),
}

/// Wraps a leaf into the containers that are missing; returns the key, if it needs one, and the value.
fn nested(missing: &[String], in_array: bool, leaf: Leaf) -> (Option<String>, Value) {
    let (mut key, mut value) = match leaf {
        Leaf::Element(value) if in_array => return (None, value),
        Leaf::Element(value) => (None, Value::Array(vec![value])),
        Leaf::Member(key, value) => (Some(key), value),
    };
    for name in missing.iter().rev() {
        if let Some(key) = key.take() {
            value = Value::Object([(key, value)].into_iter().collect());
        }
        key = Some(name.clone());
    }
    (key, value)
}

/// The innermost container that is there.
struct Here {
    listing: Listing,
    depth: usize,
}

fn insert(draft: &mut Draft, here: &Here, (key, value): &(Option<String>, Value)) {
    let newline = newline_of(&draft.text);
    let unit = indent_unit(&draft.text);
    let (indent, outer) = match here.listing.items.last() {
        Some(&(start, _)) if on_own_line(&draft.text, start) => {
            let indent = indent_at(&draft.text, start).to_owned();
            let outer = indent.strip_suffix(unit.as_str()).unwrap_or_default().to_owned();
            (indent, outer)
        }
        Some(_) | None => (unit.repeat(here.depth + 1), unit.repeat(here.depth)),
    };
    let mut body = key.as_ref().map(|key| format!("{}: ", Value::String(key.clone()))).unwrap_or_default();
    body.push_str(&pretty(value, &indent, &unit, newline));
    for (number, place) in at_the_end(&draft.text, &here.listing, &indent, &outer, newline).iter().enumerate()
    {
        let item = if number == 0 { body.as_str() } else { "" };
        draft.insert(place.at, &format!("{}{item}{}", place.before, place.after));
    }
}

fn first_of_ours(text: &str, edit: &JsonEdit) -> Result<Option<Vec<(usize, usize)>>, Unreadable> {
    let (skip, root) = parse(text)?;
    let Some(found) = walk(&root, edit.path()) else { return Ok(None) };
    let (listing, index) = match (edit, &found) {
        // A mark of the whole file, such as its version, is everybody's who has entries there.
        (JsonEdit::Member { path, .. }, Found::Object(_)) if path.is_empty() => return Ok(None),
        (JsonEdit::Member { key, value, .. }, Found::Object(object)) => {
            let index = object.properties.iter().position(|member| {
                member.name.as_str() == key && is_our_member(&to_value(&member.value), value)
            });
            (object_listing(object, skip), index)
        }
        (JsonEdit::Hook { .. }, Found::Array(array)) => (
            array_listing(array, skip),
            array.elements.iter().position(|element| is_ours(&to_value(element))),
        ),
        (JsonEdit::Text { text, .. }, Found::Array(array)) => {
            let wanted = Value::String(text.clone());
            (
                array_listing(array, skip),
                array.elements.iter().position(|element| to_value(element) == wanted),
            )
        }
        (JsonEdit::Member { .. }, Found::Array(_))
        | (JsonEdit::Hook { .. } | JsonEdit::Text { .. }, Found::Object(_)) => {
            return Ok(None);
        }
    };
    Ok(index.map(|index| of_item(text, &listing, index)))
}

/// Takes out the containers of a path that are empty, innermost first.
fn drop_empty(text: &mut String, path: &[String]) -> Result<(), Unreadable> {
    for depth in (0..path.len()).rev() {
        let ranges = {
            let (skip, root) = parse(text)?;
            let Some(Found::Object(parent)) = walk(&root, &path[..depth]) else { continue };
            let index = parent.properties.iter().position(|member| {
                member.name.as_str() == path[depth] && {
                    let inside =
                        &text[member.value.range().start + skip + 1..member.value.range().end + skip - 1];
                    matches!(member.value, Node::Array(_) | Node::Object(_)) && inside.trim().is_empty()
                }
            });
            index.map(|index| of_item(text, &object_listing(&parent, skip), index))
        };
        for (start, end) in ranges.into_iter().flatten() {
            text.replace_range(start..end, "");
        }
    }
    Ok(())
}

enum Found<'a> {
    Object(Object<'a>),
    Array(Array<'a>),
}

fn walk<'a>(root: &Object<'a>, path: &[String]) -> Option<Found<'a>> {
    let mut here = Found::Object(root.clone());
    for key in path {
        let Found::Object(object) = &here else { return None };
        here = match &object.get(key)?.value {
            Node::Object(inner) => Found::Object(inner.clone()),
            Node::Array(inner) => Found::Array(inner.clone()),
            Node::StringLit(_) | Node::NumberLit(_) | Node::BooleanLit(_) | Node::NullKeyword(_) => {
                return None;
            }
        };
    }
    Some(here)
}

/// Parses a text into its root object; the number is how many bytes stand before what was parsed.
fn parse(text: &str) -> Result<(usize, Object<'_>), Unreadable> {
    let skip = text.len() - text.trim_start_matches('\u{feff}').len();
    let body = &text[skip..];
    let options = ParseOptions {
        allow_loose_object_property_names: false,
        allow_missing_commas: false,
        allow_single_quoted_strings: false,
        ..ParseOptions::default()
    };
    let parsed = parse_to_ast(body, &CollectOptions::default(), &options).map_err(|error| {
        let (line, column) = position(text, error.range().start + skip);
        Unreadable { line, column, reason: error.kind().to_string(), entry: None }
    })?;
    match parsed.value {
        Some(Node::Object(object)) => Ok((skip, object)),
        Some(other) => {
            let (line, column) = position(text, other.range().start + skip);
            Err(Unreadable { line, column, reason: "expected an object here".to_owned(), entry: None })
        }
        None => Err(Unreadable { line: 1, column: 1, reason: "the file is empty".to_owned(), entry: None }),
    }
}

fn object_listing(object: &Object<'_>, skip: usize) -> Listing {
    Listing {
        start: object.range.start + skip,
        end: object.range.end + skip,
        items: object
            .properties
            .iter()
            .map(|member| (member.range.start + skip, member.range.end + skip))
            .collect(),
    }
}

fn array_listing(array: &Array<'_>, skip: usize) -> Listing {
    let items =
        array.elements.iter().map(|element| (element.range().start + skip, element.range().end + skip));
    Listing { start: array.range.start + skip, end: array.range.end + skip, items: items.collect() }
}

fn to_value(node: &Node<'_>) -> Value {
    match node {
        Node::StringLit(text) => Value::String(text.value.to_string()),
        Node::NumberLit(number) => serde_json::from_str(number.value).unwrap_or(Value::Null),
        Node::BooleanLit(boolean) => Value::Bool(boolean.value),
        Node::NullKeyword(_) => Value::Null,
        Node::Array(array) => Value::Array(array.elements.iter().map(to_value).collect()),
        Node::Object(object) => Value::Object(
            object
                .properties
                .iter()
                .map(|member| (member.name.as_str().to_owned(), to_value(&member.value)))
                .collect(),
        ),
    }
}

/// Returns by how much a text indents, as far as it shows.
fn indent_unit(text: &str) -> String {
    let indented = text.lines().find(|line| line.starts_with([' ', '\t']) && !line.trim().is_empty());
    let unit = indented.map(|line| &line[..line.len() - line.trim_start_matches([' ', '\t']).len()]);
    unit.filter(|unit| unit.len() <= 8).unwrap_or("  ").to_owned()
}

fn on_own_line(text: &str, at: usize) -> bool {
    text[..at].rsplit('\n').next().is_some_and(|before| before.trim().is_empty()) && text[..at].contains('\n')
}

fn pretty(value: &Value, indent: &str, unit: &str, newline: &str) -> String {
    let formatter = serde_json::ser::PrettyFormatter::with_indent(unit.as_bytes());
    let mut bytes = Vec::new();
    let mut serializer = serde_json::Serializer::with_formatter(&mut bytes, formatter);
    if serde::Serialize::serialize(value, &mut serializer).is_err() {
        return value.to_string();
    }
    String::from_utf8_lossy(&bytes).replace('\n', &format!("{newline}{indent}"))
}

#[cfg(test)]
mod tests;
