//! `nexus project gc`: how a project's memory stands, and removing files of it as a commit.

use clap::Args;
use nexus_project::harness::HarnessId;
use nexus_project::memory_policy::{self, Limits, Standing};
use nexus_project::{Project, ProjectError};
use serde_json::json;

use super::failure;
use crate::failure::Outcome;
use crate::output::{self, Format};

/// Arguments of `nexus project gc`.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Memory files to remove; without any, show how they are used
    #[arg(value_name = "FILE")]
    files: Vec<String>,
    /// Remove files that nobody has read for this many days
    #[arg(
        long,
        value_name = "DAYS",
        requires = "unused_cycles",
        requires = "most_reads",
        conflicts_with = "files"
    )]
    unused_days: Option<u64>,
    /// … and for this many finished cycles
    #[arg(long, value_name = "CYCLES", requires = "unused_days")]
    unused_cycles: Option<u64>,
    /// … and that were read at most this often
    #[arg(long, value_name = "READS", requires = "unused_days")]
    most_reads: Option<u64>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Runs `nexus project gc`.
pub(crate) fn run(project: &Project, arguments: &Arguments) -> Outcome {
    let format = Format::from_flag(arguments.json);
    let told = |error: ProjectError| failure(&error);
    let standings = memory_policy::standings(project).map_err(told)?;
    let limits = match (arguments.unused_days, arguments.unused_cycles, arguments.most_reads) {
        (Some(days), Some(cycles), Some(reads)) => Some(Limits { days, cycles, reads }),
        _ => None,
    };
    let wanted =
        limits.map_or_else(|| arguments.files.clone(), |limits| memory_policy::unused(&standings, limits));
    if wanted.is_empty() && limits.is_none() {
        return show(&standings, format);
    }
    if wanted.is_empty() {
        return match format {
            Format::Json => output::json(&json!({ "files": [], "commit": null })),
            Format::Text => output::line("nothing meets all three limits"),
        };
    }
    let removed = memory_policy::remove(project, &HarnessId::ours(), &wanted).map_err(told)?;
    if format == Format::Json {
        return output::json(&removed);
    }
    for file in &removed.files {
        output::line(&format!("removed {}", file.display()))?;
    }
    output::line(&format!("to restore them: {}", removed.recovery))
}

fn show(standings: &[Standing], format: Format) -> Outcome {
    if format == Format::Json {
        return output::json(&json!({ "memory": standings }));
    }
    if standings.is_empty() {
        return output::line("there are no memory files");
    }
    let number = |number: Option<u64>| number.map(|number| number.to_string()).unwrap_or_default();
    let row = |one: &Standing| {
        vec![
            one.name.clone(),
            one.reads.to_string(),
            number(one.days),
            number(one.cycles),
            one.bytes.to_string(),
        ]
    };
    output::table(&["FILE", "READS", "DAYS AGO", "CYCLES AGO", "BYTES"], standings.iter().map(row).collect())
}
