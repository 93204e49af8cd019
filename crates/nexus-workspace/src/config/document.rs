//! The document itself: JSON in, dotted paths, JSON out with unknown keys and their order kept.

use std::fmt;
use std::path::Path;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

use super::error::ConfigError;

/// Largest document that is read, in bytes.
pub const MAX_DOCUMENT_SIZE: u64 = 256 * 1024;
/// Longest dotted path, in bytes.
const MAX_KEY_LEN: usize = 256;
/// Most parts of a dotted path.
const MAX_PARTS: usize = 8;

/// A JSON value in which no object names a key twice: readers differ about which of the two counts.
struct Unique(Value);

impl<'de> Deserialize<'de> for Unique {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(UniqueVisitor).map(Self)
    }
}

struct UniqueVisitor;

impl<'de> Visitor<'de> for UniqueVisitor {
    type Value = Value;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a JSON value")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(Unique(item)) = items.next_element()? {
            list.push(item);
        }
        Ok(Value::Array(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut map = Map::new();
        while let Some((key, Unique(value))) = entries.next_entry::<String, _>()? {
            if map.insert(key.clone(), value).is_some() {
                return Err(serde::de::Error::custom(format_args!("the key {key:?} is there twice")));
            }
        }
        Ok(Value::Object(map))
    }
}

/// A configuration as it stands in the file, not yet checked.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Document(Map<String, Value>);

impl Document {
    /// Parses a document; `path` is only for the message.
    ///
    /// # Errors
    /// The text is not a JSON object.
    pub fn parse(text: &str, path: &Path) -> Result<Self, ConfigError> {
        let malformed = |detail: String| ConfigError::Malformed { path: path.to_owned(), detail };
        // The parser's message gives place and expectation but never quotes the text.
        let Unique(value) = serde_json::from_str(text).map_err(|error| malformed(error.to_string()))?;
        match value {
            Value::Object(map) => Ok(Self(map)),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
                Err(malformed("the outermost value is not an object".into()))
            }
        }
    }

    /// Returns the value at a dotted path.
    pub fn get(&self, key: &str) -> Option<&Value> {
        let mut parts = key.split('.');
        let first = self.0.get(parts.next()?)?;
        parts.try_fold(first, |value, part| value.as_object()?.get(part))
    }

    /// Puts a value at a dotted path, making objects on the way.
    ///
    /// # Errors
    /// The path is unusable or leads through something that is no object.
    pub fn set(&mut self, key: &str, value: Value) -> Result<(), ConfigError> {
        let parts = split(key)?;
        let (last, folders) = parts.split_last().ok_or_else(|| bad_key(key, "it is empty"))?;
        let mut place = &mut self.0;
        for part in folders {
            let next = place.entry((*part).to_owned()).or_insert_with(|| Value::Object(Map::new()));
            if next.is_null() {
                *next = Value::Object(Map::new());
            }
            place = next
                .as_object_mut()
                .ok_or_else(|| bad_key(key, "it goes through a value that is not an object"))?;
        }
        place.insert((*last).to_owned(), value);
        Ok(())
    }

    /// Takes the value at a dotted path away; returns it. Objects left empty stay.
    ///
    /// # Errors
    /// The path is unusable.
    pub fn remove(&mut self, key: &str) -> Result<Option<Value>, ConfigError> {
        let parts = split(key)?;
        let (last, folders) = parts.split_last().ok_or_else(|| bad_key(key, "it is empty"))?;
        let mut place = &mut self.0;
        for part in folders {
            match place.get_mut(*part).and_then(Value::as_object_mut) {
                Some(next) => place = next,
                None => return Ok(None),
            }
        }
        // Shifting keeps the order of the keys that stay.
        Ok(place.shift_remove(*last))
    }

    /// Returns the outermost object.
    pub fn as_map(&self) -> &Map<String, Value> {
        &self.0
    }

    /// Renders the document as it is written to disk.
    pub fn render(&self) -> String {
        format!("{:#}\n", Value::Object(self.0.clone()))
    }
}

fn split(key: &str) -> Result<Vec<&str>, ConfigError> {
    if key.len() > MAX_KEY_LEN {
        return Err(bad_key(key, "it is too long"));
    }
    let parts: Vec<&str> = key.split('.').collect();
    if parts.len() > MAX_PARTS {
        return Err(bad_key(key, "it has too many parts"));
    }
    if parts.iter().any(|part| part.is_empty()) {
        return Err(bad_key(key, "a part of it is empty"));
    }
    if key.chars().any(|character| character.is_control() || character.is_whitespace()) {
        return Err(bad_key(key, "it contains white space or control characters"));
    }
    Ok(parts)
}

pub(super) fn bad_key(key: &str, detail: &'static str) -> ConfigError {
    ConfigError::BadKey { key: key.chars().take(80).collect(), detail }
}
