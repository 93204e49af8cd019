//! From document, environment and flags to settings, with the origin of every value.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;

use nexus_base::file::{FileError, read_text};
use nexus_base::redact::{PLACEHOLDER, Redactor};
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::check::{Standing, check, check_value};
use super::document::{Document, MAX_DOCUMENT_SIZE};
use super::error::{ConfigError, Problem};
use super::field::{FIELDS, Field, find};
use super::settings::Settings;
use crate::environment::CONFIG_VARIABLES;
use crate::{Layout, trust::Trust};

/// Values that beat the file.
#[derive(Debug, Clone, Default)]
pub struct Overrides<'a> {
    /// From the command line, as dotted key and value; these win.
    pub flags: Vec<(&'a str, Value)>,
    /// The environment; only names of [`CONFIG_VARIABLES`] are looked at.
    pub environment: &'a [(String, String)],
}

/// Where a value came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// Nobody set it.
    Default,
    /// The document.
    File,
    /// An environment variable.
    Environment,
    /// The command line.
    Flag,
}

/// One value for `config list`, safe to show.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ListedValue {
    /// Dotted path.
    pub key: String,
    /// The value; the token is a placeholder.
    pub value: Value,
    /// Where it came from.
    pub source: Source,
}

/// A configuration that can be run with.
#[derive(Debug, Clone)]
pub struct Loaded {
    /// The settings.
    pub settings: Settings,
    /// What is degraded or ignored, with the remedy.
    pub warnings: Vec<Problem>,
    /// Every value with its origin, in the order of keys.
    pub values: Vec<ListedValue>,
    /// The document as it stands in the file, secrets included: never show it.
    pub document: Document,
}

impl Loaded {
    /// Returns the value or section at a dotted path, safe to show. Unknown keys are found too.
    pub fn get(&self, key: &str) -> Option<Value> {
        let mut shown = Document::default();
        for listed in &self.values {
            shown.set(&listed.key, listed.value.clone()).ok()?;
        }
        match shown.get(key) {
            Some(value) => Some(value.clone()),
            None => self.document.get(key).map(redacted),
        }
    }

    /// Returns where the value at a dotted path came from.
    pub fn source(&self, key: &str) -> Option<Source> {
        self.values.iter().find(|listed| listed.key == key).map(|listed| listed.source)
    }
}

/// Reads the workspace's document and resolves it.
///
/// # Errors
/// The document is missing, malformed, or wrong where no default can stand in.
pub fn load(layout: &Layout, trust: Trust, overrides: &Overrides<'_>) -> Result<Loaded, ConfigError> {
    let path = layout.config();
    let document = read(layout)?;
    let mut loaded = resolve(document, trust, overrides)?;
    let mode = std::fs::metadata(path)
        .map_err(|error| FileError::new("looking at", path, error))?
        .permissions()
        .mode();
    if mode & 0o077 != 0 {
        loaded.warnings.push(Problem::new(
            "runtime.auth.token",
            "is readable by other users of this machine",
            format!("run `chmod 600 {}`", path.display()),
        ));
    }
    Ok(loaded)
}

/// Resolves a document with what beats it.
///
/// # Errors
/// A value is wrong where no default can stand in.
pub fn resolve(document: Document, trust: Trust, overrides: &Overrides<'_>) -> Result<Loaded, ConfigError> {
    let standing = if trust.is_trusted() { Standing::Trusted } else { Standing::Untrusted };
    let mut checked = check(&document, standing);
    let file_values = std::mem::take(&mut checked.values);
    let mut origin: BTreeMap<String, (Value, Source)> =
        file_values.into_iter().map(|(key, value)| (key, (value, Source::File))).collect();

    for (name, key) in CONFIG_VARIABLES {
        let set = overrides.environment.iter().find(|(variable, text)| variable == name && !text.is_empty());
        if let Some((_, text)) = set {
            let given = format!("{key} from {name}");
            overlay(&mut origin, key, json!(text), Source::Environment, &given, &mut checked.warnings);
        }
    }
    for (key, value) in &overrides.flags {
        overlay(&mut origin, key, value.clone(), Source::Flag, key, &mut checked.errors);
    }
    for field in FIELDS.iter().filter(|field| !field.key.contains('*')) {
        if let Some(value) = field.unset.value() {
            origin.entry(field.key.to_owned()).or_insert((value, Source::Default));
        }
    }
    if !origin.contains_key("runtime.auth.token") && !names(&checked.errors, "runtime.auth.token") {
        checked.errors.push(Problem::new(
            "runtime.auth.token",
            "is missing",
            "run `nexus config rotate-token` to create one",
        ));
    }
    if !checked.errors.is_empty() {
        return Err(ConfigError::Invalid { problems: checked.errors });
    }
    let settings = build(&origin)?;
    let values = origin
        .into_iter()
        .map(|(key, (value, source))| {
            let is_secret = find(&key).is_some_and(Field::is_secret);
            let value = if is_secret { json!(PLACEHOLDER) } else { redacted(&value) };
            ListedValue { key, value, source }
        })
        .collect();
    Ok(Loaded { settings, warnings: checked.warnings, values, document })
}

pub(super) fn read(layout: &Layout) -> Result<Document, ConfigError> {
    let path = layout.config();
    match read_text(path, MAX_DOCUMENT_SIZE) {
        Ok(text) => Document::parse(&text, path),
        Err(error) if error.source.kind() == std::io::ErrorKind::NotFound => {
            Err(ConfigError::Missing { path: path.to_owned() })
        }
        Err(error) => Err(error.into()),
    }
}

fn overlay(
    origin: &mut BTreeMap<String, (Value, Source)>,
    key: &str,
    value: Value,
    source: Source,
    given: &str,
    problems: &mut Vec<Problem>,
) {
    let Some(field) = find(key) else {
        problems.push(Problem::new(given, "is not a known key", "see `nexus config list`"));
        return;
    };
    match check_value(field, key, &value) {
        Ok(()) => {
            origin.insert(key.to_owned(), (value, source));
        }
        Err(problem) => problems.push(Problem { key: given.to_owned(), ..problem }),
    }
}

fn build(origin: &BTreeMap<String, (Value, Source)>) -> Result<Settings, ConfigError> {
    let mut whole = Document::default();
    for section in FIELDS.iter().map(Field::section) {
        if whole.get(section).is_none() {
            whole.set(section, Value::Object(Map::new()))?;
        }
    }
    for (key, (value, _)) in origin {
        whole.set(key, value.clone())?;
    }
    // Every value was checked against the table, and a test holds the table against these types.
    serde_json::from_value(Value::Object(whole.as_map().clone())).map_err(|error| ConfigError::Invalid {
        problems: vec![Problem::new("configuration", error.to_string(), "report this as a defect")],
    })
}

fn names(problems: &[Problem], key: &str) -> bool {
    problems.iter().any(|problem| problem.key == key)
}

fn redacted(value: &Value) -> Value {
    match value {
        Value::String(text) => json!(Redactor::new().redact(text)),
        Value::Array(items) => Value::Array(items.iter().map(redacted).collect()),
        Value::Object(map) => {
            Value::Object(map.iter().map(|(name, inner)| (name.clone(), redacted(inner))).collect())
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
    }
}
