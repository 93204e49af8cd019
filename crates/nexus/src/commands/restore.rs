//! `nexus restore`: a workspace made from a backup.

use std::path::PathBuf;

use clap::Args;
use nexus_maintenance::backup::{RestoreRequest, restore};

use super::backup::failure;
use crate::context::{Context, trust_folder};
use crate::failure::Outcome;
use crate::output::{self, Format};

/// Arguments of `nexus restore`.
#[derive(Debug, Args)]
#[command(after_help = "\
The workspace named by --workspace must not exist yet. It gets a new token. Replies that had not been delivered when
the backup was made are kept in the history and not sent again; messages that were not yet being answered wait for your
consent (`nexus approvals`), and work in progress is ended with a note instead of being run again.

Example:
  nexus restore nexus-backup-20260102 --workspace ~/nexus --trust")]
pub(crate) struct Arguments {
    /// Folder of the backup
    backup: PathBuf,
    /// Trust the backup: it is yours, so its automations, servers and addresses may be used
    #[arg(long)]
    trust: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Runs `nexus restore`.
pub(crate) fn run(context: &Context, arguments: &Arguments) -> Outcome {
    let layout = context.layout()?;
    let trust_folder = trust_folder()?;
    let request = RestoreRequest {
        backup: &arguments.backup,
        layout: &layout,
        trust_folder: &trust_folder,
        trust: arguments.trust,
    };
    let report = restore(&request).map_err(|error| failure(&error))?;
    if Format::from_flag(arguments.json) == Format::Json {
        return output::json(&report);
    }
    output::line(&format!("{} files restored to {}", report.files, report.workspace.display()))?;
    if report.held_replies > 0 {
        output::line(&format!(
            "{} replies had not been delivered; they are in the history and will not be sent again",
            report.held_replies
        ))?;
    }
    if report.held_messages > 0 {
        output::line(&format!(
            "{} messages had not been answered; they are waiting for your consent: run `nexus approvals list` once the daemon is running",
            report.held_messages
        ))?;
    }
    if report.ended_work > 0 {
        output::line(&format!(
            "{} tasks were in progress; they will not be run again, and their conversations say so",
            report.ended_work
        ))?;
    }
    if !report.trust.is_trusted() {
        output::remark(
            "hint: if the backup is yours, `nexus trust` activates its automations, servers and addresses",
        );
    }
    Ok(())
}
