//! `nexus backup`: a copy of the whole workspace, at one moment and without secrets.

use std::path::PathBuf;

use clap::Args;
use nexus_base::clock::Timestamp;
use nexus_maintenance::backup::{BackupError, HomeFolder, backup};

use crate::context::Context;
use crate::failure::{Failure, Outcome};
use crate::output::{self, Format};

/// Arguments of `nexus backup`.
#[derive(Debug, Args)]
#[command(after_help = "\
Works while the daemon is running. Everything in the workspace's folder is included, your own files beside the known
ones too; logs, locks and the data of `nexus undo` are not. Links are stored as links.

The owner's token is left out, and credentials are pointers: keep a copy of the key
file that sealed secrets need (`nexus doctor` shows where it is) somewhere else.

Examples:
  nexus backup
  nexus backup /mnt/stick/nexus-monday")]
pub(crate) struct Arguments {
    /// Folder to create [default: nexus-backup-TIME in the working folder]
    path: Option<PathBuf>,
    /// Leave out the folder home/
    #[arg(long)]
    without_home: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Runs `nexus backup`.
pub(crate) fn run(context: &Context, arguments: &Arguments) -> Outcome {
    let layout = context.existing()?;
    let path = match &arguments.path {
        Some(path) => path.clone(),
        None => {
            let stamp: String =
                Timestamp::now().to_string().chars().filter(char::is_ascii_alphanumeric).collect();
            PathBuf::from(format!("nexus-backup-{stamp}"))
        }
    };
    let home = if arguments.without_home { HomeFolder::LeftOut } else { HomeFolder::Included };
    let report = backup(&layout, &path, home).map_err(|error| failure(&error))?;
    if Format::from_flag(arguments.json) == Format::Json {
        return output::json(&report);
    }
    for line in &report.skipped {
        output::remark(&format!("warning: {line}"));
    }
    output::line(&format!(
        "{} files, {} kB in {}",
        report.files,
        report.bytes.div_ceil(1000),
        report.path.display()
    ))
}

/// Turns an error into what the person reads.
pub(super) fn failure(error: &BackupError) -> Failure {
    Failure::caused(error).maybe_hint(error.hint())
}
