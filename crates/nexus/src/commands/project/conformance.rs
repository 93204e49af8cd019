//! `nexus project conformance`: fixtures run against this implementation, one line for each.

use std::path::PathBuf;

use clap::Args;
use nexus_project::conformance::{Library, Verdict, load, own, run as run_fixture};
use serde_json::json;

use crate::failure::{Exit, Failure, Outcome, chain};
use crate::output::{self, Format};

/// Arguments of `nexus project conformance`.
#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// Fixture files, or folders that hold some; those built in when left out
    paths: Vec<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(super) fn run(arguments: &Arguments) -> Outcome {
    let fixtures = if arguments.paths.is_empty() { own() } else { load(&arguments.paths) };
    let fixtures = fixtures.map_err(|error| Failure::new(chain(&error)).exit(Exit::Failed))?;
    if fixtures.is_empty() {
        return Err(Failure::new("no fixtures there")
            .hint("a fixture is a JSON file whose objects have a test_id")
            .exit(Exit::Missing));
    }
    let scratch = std::env::temp_dir();
    let verdicts: Vec<Verdict> =
        fixtures.iter().map(|fixture| run_fixture(fixture, &mut Library, &scratch)).collect();
    let failed = verdicts.iter().filter(|verdict| !verdict.passed).count();
    if Format::from_flag(arguments.json) == Format::Json {
        let (total, passed) = (verdicts.len(), verdicts.len() - failed);
        output::json(&json!({ "total": total, "passed": passed, "failed": failed, "fixtures": verdicts }))?;
    } else {
        let rows = verdicts
            .iter()
            .map(|verdict| {
                let word = if verdict.passed { "pass" } else { "FAIL" };
                let file = verdict.file.display().to_string();
                vec![word.to_owned(), verdict.test_id.clone(), file, verdict.problems.join("; ")]
            })
            .collect();
        output::table(&["RESULT", "TEST", "FILE", "PROBLEM"], rows)?;
        output::line(&format!("{} of {} passed", verdicts.len() - failed, verdicts.len()))?;
    }
    if failed > 0 {
        return Err(Failure::new(format!("{failed} of {} fixtures failed", verdicts.len())));
    }
    Ok(())
}
