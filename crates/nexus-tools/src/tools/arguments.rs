//! Arguments as a model gives them: checked one by one, with a text that says what is wrong.

use serde_json::{Map, Value};

/// The arguments of one call.
#[derive(Debug)]
pub(super) struct Arguments(Map<String, Value>);

impl Arguments {
    /// Takes the arguments, which must be an object.
    pub(super) fn new(arguments: &Value) -> Result<Self, String> {
        match arguments {
            Value::Object(map) => Ok(Self(map.clone())),
            _ => Err("the arguments must be a JSON object".to_owned()),
        }
    }

    /// Returns a text that must be there.
    pub(super) fn text(&self, name: &str) -> Result<&str, String> {
        self.optional_text(name)?.ok_or_else(|| format!("argument {name:?} is missing; it must be a string"))
    }

    /// Returns a text that may be left out.
    pub(super) fn optional_text(&self, name: &str) -> Result<Option<&str>, String> {
        match self.0.get(name) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(other) => Err(format!("argument {name:?} must be a string, not {}", kind(other))),
        }
    }

    /// Returns a whole number that may be left out; numbers below zero are refused.
    pub(super) fn optional_number(&self, name: &str) -> Result<Option<u64>, String> {
        match self.0.get(name) {
            None | Some(Value::Null) => Ok(None),
            Some(value) => value.as_u64().map(Some).ok_or_else(|| {
                format!("argument {name:?} must be a whole number of at least 0, not {}", kind(value))
            }),
        }
    }

    /// Returns a switch; left out means off.
    pub(super) fn switch(&self, name: &str) -> Result<bool, String> {
        match self.0.get(name) {
            None | Some(Value::Null) => Ok(false),
            Some(Value::Bool(on)) => Ok(*on),
            Some(other) => Err(format!("argument {name:?} must be true or false, not {}", kind(other))),
        }
    }
}

fn kind(value: &Value) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::Bool(_) => "true or false".to_owned(),
        Value::Number(number) => number.to_string(),
        Value::String(_) => "a string".to_owned(),
        Value::Array(_) => "a list".to_owned(),
        Value::Object(_) => "an object".to_owned(),
    }
}

/// Cuts `text` to at most `limit` bytes on a character's border; says whether it was longer.
pub(super) fn cut(text: &str, limit: usize) -> (&str, bool) {
    let kept = &text[..text.floor_char_boundary(limit)];
    (kept, kept.len() < text.len())
}
