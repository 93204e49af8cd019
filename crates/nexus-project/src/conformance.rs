//! The runner for conformance fixtures: files in upstream's format, each a project before, a call
//! or event, and what must hold after. Every fixture gets a fresh project. Who answers the calls is
//! behind [`Subject`], so that other servers can be asked the same questions.

mod expect;
mod fixture;
mod path;
mod run;
mod subject;

#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};

pub use fixture::{Fixture, LoadError, load, own};
pub use subject::{Event, Library, Subject};

/// How one fixture went.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Verdict {
    /// The fixture's name.
    pub test_id: String,
    /// The file it stands in.
    pub file: PathBuf,
    /// Everything held.
    pub passed: bool,
    /// What did not.
    pub problems: Vec<String>,
}

/// Runs one fixture in a project of its own below `scratch`.
pub fn run(fixture: &Fixture, subject: &mut dyn Subject, scratch: &Path) -> Verdict {
    let problems = match run::run(fixture, subject, scratch) {
        Ok(problems) => problems,
        Err(problem) => vec![problem],
    };
    Verdict {
        test_id: fixture.test_id.clone(),
        file: fixture.file.clone(),
        passed: problems.is_empty(),
        problems,
    }
}
