//! What a harness keeps in its own folder below `.nexus/state/`: the instances it started, the memory files
//! it saw being read, what was edited, and what each conversation follows. When to record is for the lifecycle.

mod access;
pub(crate) mod edits;
pub(crate) mod session;
mod tracker;

use std::fmt;

use crate::ProjectError;

pub use access::record_read;
pub(crate) use access::{forget, reads};
pub use edits::{ToolLog, Went};
pub use session::{ActiveSkill, Session, current};
pub use tracker::{Completion, completed, is_tracked, resumed, session_ended, spawned};
pub(crate) use tracker::{begin, entries};

/// The name of a harness, which is also its folder.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct HarnessId(String);

impl HarnessId {
    /// Our own.
    pub const OURS: &'static str = "nexus";
    /// Folders below `state/` that are no harness's.
    const TAKEN: [&'static str; 1] = ["artifacts"];

    /// Takes a name of small letters, digits and dashes that begins with a letter.
    ///
    /// # Errors
    /// The name is another one.
    pub fn new(name: &str) -> Result<Self, ProjectError> {
        if is_name(name) && name.len() <= 64 && !Self::TAKEN.contains(&name) {
            return Ok(Self(name.to_owned()));
        }
        Err(ProjectError::Parameter(format!("{name:?} is not a harness name")))
    }

    /// Returns our own.
    pub fn ours() -> Self {
        Self(Self::OURS.to_owned())
    }

    /// Returns the name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for HarnessId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

/// Returns whether a text has the form the contract gives ids of harnesses and roles.
pub(crate) fn is_name(text: &str) -> bool {
    text.starts_with(|character: char| character.is_ascii_lowercase())
        && text
            .chars()
            .all(|character| character.is_ascii_lowercase() || character.is_ascii_digit() || character == '-')
}
