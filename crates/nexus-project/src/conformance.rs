//! The runner for conformance fixtures: files in upstream's format, each a project before, a call
//! or event, and what must hold after. Every fixture gets a fresh project. Who answers the calls is
//! behind [`Subject`], so that other servers can be asked the same questions.

mod expect;
mod fixture;
mod path;
mod run;
mod server;
mod shape;
mod subject;

#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};

pub use fixture::{Fixture, LoadError, load, own};
pub use server::{Server, ToolNames};
pub use subject::{Event, Library, NoAnswer, Subject};

/// How one fixture went.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Verdict {
    /// The fixture's name.
    pub test_id: String,
    /// The file it stands in.
    #[serde(serialize_with = "as_text")]
    pub file: PathBuf,
    /// Everything held, or it was not run.
    pub passed: bool,
    /// Why it was not run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub skipped: Option<&'static str>,
    /// What did not.
    pub problems: Vec<String>,
}

/// A path as text even where its name is none.
fn as_text<S: serde::Serializer>(path: &Path, into: S) -> Result<S::Ok, S::Error> {
    into.collect_str(&path.display())
}

/// Runs one fixture in a project of its own below `scratch`.
pub fn run(fixture: &Fixture, subject: &mut dyn Subject, scratch: &Path) -> Verdict {
    let tells = fixture.tells_of_events() && !subject.takes_events();
    let skipped = tells.then_some("it uses events, which a server does not receive");
    if skipped.is_some() {
        let (test_id, file) = (fixture.test_id.clone(), fixture.file.clone());
        return Verdict { test_id, file, passed: true, skipped, problems: Vec::new() };
    }
    let problems = match run::run(fixture, subject, scratch) {
        Ok(problems) => problems,
        Err(problem) => vec![problem],
    };
    Verdict {
        test_id: fixture.test_id.clone(),
        file: fixture.file.clone(),
        passed: problems.is_empty(),
        skipped,
        problems,
    }
}

/// Says past the capture of output that a test did not run.
#[cfg(test)]
pub(crate) fn say_skipped(what: &str) {
    use std::io::Write as _;
    let _ = writeln!(std::io::stderr(), "SKIPPED {what}");
}
