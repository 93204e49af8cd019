//! Reading fixtures: which files hold some, and what one says. A folder may hold schemas and
//! examples beside them; a file counts when what is in it has a `test_id`.

use std::fs;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::{Map, Value};

/// Largest fixture file, in bytes.
const MAX_SIZE: u64 = 16 * 1024 * 1024;
/// How deep folders are searched.
const MAX_DEPTH: usize = 8;
/// Most fixtures of one run.
const MAX_COUNT: usize = 10_000;
/// What a description has at least.
const MIN_DESCRIPTION_LEN: usize = 10;

/// Our own fixtures.
const OWN: &[(&str, &str)] = &[
    ("artifact.json", include_str!("../../fixtures/artifact.json")),
    ("damage.json", include_str!("../../fixtures/damage.json")),
    ("history.json", include_str!("../../fixtures/history.json")),
    ("lifecycle.json", include_str!("../../fixtures/lifecycle.json")),
    ("plan.json", include_str!("../../fixtures/plan.json")),
    ("task.json", include_str!("../../fixtures/task.json")),
    ("gates.json", include_str!("../../fixtures/gates.json")),
    ("moments.json", include_str!("../../fixtures/moments.json")),
    ("resume.json", include_str!("../../fixtures/resume.json")),
    ("tags.json", include_str!("../../fixtures/tags.json")),
];

/// Assertions or contents by path.
pub(super) type Entries = Map<String, Value>;

/// Why fixtures could not be read.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The path cannot be read.
    #[error("reading {}", path.display())]
    Unreadable {
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// A file with a `test_id` is no fixture.
    #[error("{} is not a fixture: {what}", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        what: String,
    },
    /// There are too many, or they are too large.
    #[error("{} is too large to read", path.display())]
    TooMuch {
        /// Where the limit was reached.
        path: PathBuf,
    },
}

/// One test.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fixture {
    /// Its name.
    pub test_id: String,
    /// What it is about.
    pub description: String,
    /// Where it was read from.
    #[serde(skip)]
    pub file: PathBuf,
    #[serde(default)]
    pub(super) covers: Value,
    #[serde(default, rename = "uncovered_params")]
    _uncovered: Vec<String>,
    #[serde(default)]
    pub(super) precondition: Precondition,
    pub(super) action: Option<Action>,
    pub(super) event: Option<EventText>,
    pub(super) steps: Option<Vec<Step>>,
    #[serde(default)]
    pub(super) postcondition: Postcondition,
}

impl Fixture {
    /// Returns what is wrong with the form of a fixture whose fields have the right types.
    fn fault(&self) -> Option<&'static str> {
        let mut characters = self.test_id.bytes();
        let is_name = characters.next().is_some_and(|first| first.is_ascii_lowercase())
            && characters.all(|one| matches!(one, b'a'..=b'z' | b'0'..=b'9' | b'_' | b'-'));
        let one_of = |ways: &[bool]| ways.iter().filter(|given| **given).count() == 1;
        let does_one = |step: &Step| one_of(&[step.action.is_some(), step.event.is_some()]);
        match () {
            () if !is_name => {
                Some("is not a test_id: use a lowercase letter, then lowercase letters, digits, _ and -")
            }
            () if self.description.chars().count() < MIN_DESCRIPTION_LEN => {
                Some("needs a description of at least ten characters")
            }
            () if !one_of(&[self.action.is_some(), self.event.is_some(), self.steps.is_some()]) => {
                Some("needs one of action, event and steps")
            }
            () if self.steps.as_ref().is_some_and(Vec::is_empty) => Some("has no step"),
            () if !self.steps.iter().flatten().all(does_one) => {
                Some("has a step that needs one of action and event")
            }
            () => None,
        }
    }

    /// Returns whether the one that is asked must be told of events.
    pub(super) fn tells_of_events(&self) -> bool {
        self.event.is_some() || self.steps.iter().flatten().any(|step| step.event.is_some())
    }
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Precondition {
    #[serde(default)]
    pub(super) state_files: Entries,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Action {
    pub(super) tool: String,
    #[serde(default)]
    pub(super) params: Entries,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct EventText {
    #[serde(rename = "type")]
    pub(super) kind: String,
    #[serde(default)]
    pub(super) params: Entries,
    #[serde(default, rename = "description")]
    _description: String,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Step {
    #[serde(default)]
    pub(super) description: String,
    pub(super) action: Option<Action>,
    pub(super) event: Option<EventText>,
    #[serde(default)]
    pub(super) assert_return: Entries,
    #[serde(default)]
    pub(super) assert_state: Entries,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Postcondition {
    #[serde(default)]
    pub(super) state_files: Entries,
    #[serde(default)]
    pub(super) return_value: Entries,
    pub(super) error: Option<bool>,
    pub(super) error_contains: Option<String>,
}

/// Reads all fixtures at or below the paths, in the order of their names.
pub fn load(paths: &[PathBuf]) -> Result<Vec<Fixture>, LoadError> {
    let mut found = Vec::new();
    for path in paths {
        collect(path, 0, &mut found)?;
    }
    Ok(found)
}

/// Returns the fixtures built in: what upstream's leave out.
pub fn own() -> Result<Vec<Fixture>, LoadError> {
    let mut found = Vec::new();
    for (name, text) in OWN {
        take(Path::new(name), text.as_bytes(), &mut found)?;
    }
    Ok(found)
}

fn collect(path: &Path, depth: usize, found: &mut Vec<Fixture>) -> Result<(), LoadError> {
    let unreadable = |source| LoadError::Unreadable { path: path.to_owned(), source };
    if found.len() > MAX_COUNT || depth > MAX_DEPTH {
        return Err(LoadError::TooMuch { path: path.to_owned() });
    }
    let about = fs::metadata(path).map_err(unreadable)?;
    if about.is_dir() {
        let names =
            fs::read_dir(path).and_then(Iterator::collect::<Result<Vec<_>, _>>).map_err(unreadable)?;
        let mut inside: Vec<PathBuf> = names.into_iter().map(|entry| entry.path()).collect();
        inside.sort();
        let interesting = |path: &PathBuf| path.is_dir() || path.extension().is_some_and(|end| end == "json");
        for path in inside.into_iter().filter(interesting) {
            collect(&path, depth + 1, found)?;
        }
        return Ok(());
    }
    if about.len() > MAX_SIZE {
        return Err(LoadError::TooMuch { path: path.to_owned() });
    }
    take(path, &fs::read(path).map_err(unreadable)?, found)
}

fn take(path: &Path, text: &[u8], found: &mut Vec<Fixture>) -> Result<(), LoadError> {
    let malformed =
        |error: serde_json::Error| LoadError::Malformed { path: path.to_owned(), what: error.to_string() };
    let value: Value = serde_json::from_slice(text).map_err(malformed)?;
    let list = match value {
        Value::Array(list) => list,
        one => vec![one],
    };
    for one in list.into_iter().filter(|one| one.get("test_id").is_some()) {
        let mut fixture: Fixture = serde_json::from_value(one).map_err(malformed)?;
        if let Some(what) = fixture.fault() {
            let what = format!("{} {what}", fixture.test_id);
            return Err(LoadError::Malformed { path: path.to_owned(), what });
        }
        path.clone_into(&mut fixture.file);
        found.push(fixture);
    }
    Ok(())
}
