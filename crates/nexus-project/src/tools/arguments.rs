//! The parameters of a call: present, of the right type, of bearable size. Parameters nobody
//! declared are ignored.

use serde_json::{Map, Number, Value};

use super::MAX_PARAMETER_BYTES;
use crate::ProjectError;

/// Longest text of one parameter, in bytes, where nothing else is said.
const MAX_TEXT_LEN: usize = 1024 * 1024;
/// Most entries of a list or map.
const MAX_ENTRIES: usize = 10_000;

/// The parameters of a call.
#[derive(Debug)]
pub(super) struct Arguments<'call>(&'call Map<String, Value>);

impl<'call> Arguments<'call> {
    pub(super) fn new(parameters: &'call Map<String, Value>) -> Result<Self, ProjectError> {
        let bytes: usize = parameters.iter().map(|(name, value)| name.len() + weight(value)).sum();
        if bytes > MAX_PARAMETER_BYTES {
            return Err(ProjectError::Parameter(format!(
                "parameters are larger than the allowed {MAX_PARAMETER_BYTES} bytes"
            )));
        }
        Ok(Self(parameters))
    }

    fn given(&self, name: &str) -> Option<&'call Value> {
        self.0.get(name).filter(|value| !value.is_null())
    }

    /// A text that may be absent.
    pub(super) fn text(&self, name: &str) -> Result<Option<&'call str>, ProjectError> {
        self.text_up_to(name, MAX_TEXT_LEN)
    }

    pub(super) fn text_up_to(&self, name: &str, limit: usize) -> Result<Option<&'call str>, ProjectError> {
        match self.given(name) {
            None => Ok(None),
            Some(Value::String(text)) if text.len() > limit => {
                Err(ProjectError::Parameter(format!("{name} is longer than the allowed {limit} bytes")))
            }
            Some(Value::String(text)) => Ok(Some(text)),
            Some(_) => Err(wrong(name, "a string")),
        }
    }

    /// A text that must be there.
    pub(super) fn required(&self, name: &str) -> Result<&'call str, ProjectError> {
        self.text(name)?.ok_or_else(|| missing(name))
    }

    /// A text that must be there and say something.
    pub(super) fn filled(&self, name: &str) -> Result<&'call str, ProjectError> {
        let text = self.required(name)?;
        if text.is_empty() {
            return Err(ProjectError::Parameter(format!("{name} must not be empty")));
        }
        Ok(text)
    }

    pub(super) fn number(&self, name: &str) -> Result<Option<&'call Number>, ProjectError> {
        match self.given(name) {
            None => Ok(None),
            Some(Value::Number(number)) => Ok(Some(number)),
            Some(_) => Err(wrong(name, "a number")),
        }
    }

    pub(super) fn required_number(&self, name: &str) -> Result<&'call Number, ProjectError> {
        self.number(name)?.ok_or_else(|| missing(name))
    }

    pub(super) fn texts(&self, name: &str) -> Result<Option<Vec<&'call str>>, ProjectError> {
        let Some(list) = self.list(name)? else { return Ok(None) };
        let texts: Option<Vec<&str>> = list.iter().map(Value::as_str).collect();
        texts.map(Some).ok_or_else(|| wrong(name, "a list of strings"))
    }

    pub(super) fn required_texts(&self, name: &str) -> Result<Vec<&'call str>, ProjectError> {
        self.texts(name)?.ok_or_else(|| missing(name))
    }

    pub(super) fn numbers(&self, name: &str) -> Result<Option<&'call [Value]>, ProjectError> {
        let Some(list) = self.list(name)? else { return Ok(None) };
        if list.iter().all(Value::is_number) { Ok(Some(list)) } else { Err(wrong(name, "a list of numbers")) }
    }

    /// A map from names to texts.
    pub(super) fn map(&self, name: &str) -> Result<Option<&'call Value>, ProjectError> {
        match self.given(name) {
            None => Ok(None),
            Some(value @ Value::Object(map))
                if map.values().all(Value::is_string) && map.len() <= MAX_ENTRIES =>
            {
                Ok(Some(value))
            }
            Some(_) => Err(wrong(name, "an object of strings")),
        }
    }

    fn list(&self, name: &str) -> Result<Option<&'call [Value]>, ProjectError> {
        match self.given(name) {
            None => Ok(None),
            Some(Value::Array(list)) if list.len() > MAX_ENTRIES => Err(ProjectError::Parameter(format!(
                "{name} has more than the allowed {MAX_ENTRIES} entries"
            ))),
            Some(Value::Array(list)) => Ok(Some(list)),
            Some(_) => Err(wrong(name, "a list")),
        }
    }
}

/// Returns whether a stored id is the one asked for, however either is spelled.
pub(super) fn is_id(stored: Option<&Value>, wanted: &Number) -> bool {
    stored.and_then(Value::as_f64).zip(wanted.as_f64()).is_some_and(|(stored, wanted)| {
        // Ids are small whole numbers, which compare exactly.
        (stored - wanted).abs() < f64::EPSILON
    })
}

fn missing(name: &str) -> ProjectError {
    ProjectError::Parameter(format!("{name} is required"))
}

fn wrong(name: &str, expected: &str) -> ProjectError {
    ProjectError::Parameter(format!("{name} must be {expected}"))
}

fn weight(value: &Value) -> usize {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => 8,
        Value::String(text) => text.len(),
        Value::Array(list) => list.iter().map(|value| 2 + weight(value)).sum(),
        Value::Object(map) => map.iter().map(|(name, value)| name.len() + weight(value)).sum(),
    }
}
