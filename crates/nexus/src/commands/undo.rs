//! `nexus undo`: files as they were before a run changed them. Works with and without a daemon.

use clap::Args;
use nexus_base::lock::{HeldLock, LockError};
use nexus_tools::changes::{Force, Restored, UndoError, list_runs, undo};
use nexus_workspace::Layout;

use crate::context::{Context, standing};
use crate::failure::{Exit, Failure, Outcome};
use crate::output::{self, Format, single_line};

/// Arguments of `nexus undo`.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  nexus undo                   the newest run that changed files\n  nexus undo --list\n  \
                  nexus undo 01KA2Q… --force\n\nCovered: every file written or edited by a tool, and what commands \
                  change in a task\nfolder of at most 2000 files and 16 MB (not in .git, target, node_modules and the \
                  like).\nNot covered: links, folders, files over 8 MB, and what a command did elsewhere.\nUndoing prints an id with which it can itself be undone."
)]
pub(crate) struct Arguments {
    /// Id of the run's request, or that of one of its workers [default: the latest run]
    request: Option<String>,
    /// List the runs that changed files instead
    #[arg(long, conflicts_with_all = ["request", "force"])]
    list: bool,
    /// Overwrite files that have changed since
    #[arg(long)]
    force: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Runs `nexus undo`.
pub(crate) fn run(context: &Context, arguments: &Arguments) -> Outcome {
    let layout = context.existing()?;
    let format = Format::from_flag(arguments.json);
    if arguments.list {
        return list(&layout, format);
    }
    if !standing(&layout).is_trusted() {
        // Its records say which files to write; whoever made it could have named any.
        return Err(Failure::new("this workspace is not trusted, so its records are not used")
            .hint("review it, then run `nexus trust`"));
    }
    // Two of them at once would each take the other's work for somebody's.
    let _lock = HeldLock::acquire(&layout.state().join("undo.lock")).map_err(|error| match error {
        LockError::Held { .. } => {
            Failure::new("another `nexus undo` is running").hint("try again in a moment")
        }
        LockError::File(error) => Failure::caused(&error),
    })?;
    let force = if arguments.force { Force::Yes } else { Force::No };
    match undo(&layout, arguments.request.as_deref(), force) {
        Ok(restored) => tell(&restored, format),
        Err(error) => refuse(&error, format),
    }
}

fn list(layout: &Layout, format: Format) -> Outcome {
    let runs = list_runs(layout).map_err(|error| Failure::caused(&error))?;
    if format == Format::Json {
        return output::json(&serde_json::json!({ "runs": runs }));
    }
    if runs.is_empty() {
        return output::line("no run has changed any files yet");
    }
    let rows = runs.iter().map(|run| {
        let covered = if run.uncovered.is_empty() { "" } else { ", in part" };
        vec![
            run.request.clone(),
            run.at.to_local_rfc3339(),
            run.files.to_string(),
            run.tools.join(", "),
            format!("{}{covered}", if run.undone { "undone" } else { "known" }),
        ]
    });
    output::table(&["REQUEST", "WHEN", "FILES", "TOOLS", "STATE"], rows.collect())
}

fn tell(restored: &Restored, format: Format) -> Outcome {
    if format == Format::Json {
        return output::json(restored);
    }
    let mut lines = Vec::new();
    for (what, paths) in [
        ("restored", &restored.restored),
        ("removed", &restored.removed),
        ("as before", &restored.unchanged),
        ("not kept", &restored.not_kept),
    ] {
        lines.extend(
            paths.iter().map(|path| format!("{what:<10} {}", single_line(&path.display().to_string()))),
        );
    }
    lines.extend(restored.uncovered.iter().map(|reason| format!("not covered: {reason}")));
    if !restored.undo.is_empty() {
        lines.push(format!("`nexus undo {}` reverts this", restored.undo));
    }
    output::line(&lines.join("\n"))
}

fn refuse(error: &UndoError, format: Format) -> Outcome {
    let failure = Failure::caused(error);
    Err(match error {
        UndoError::Changed(conflicts) => {
            match format {
                Format::Json => output::json(&serde_json::json!({ "conflicts": conflicts }))?,
                Format::Text => {
                    for conflict in conflicts {
                        output::line(&output::harmless(&format!(
                            "{}\n{}",
                            conflict.path.display(),
                            conflict.diff
                        )))?;
                    }
                }
            }
            failure.hint("--force overwrites them; their current content can be restored afterwards")
        }
        UndoError::NothingKnown | UndoError::UnknownRun(_) => {
            failure.hint("nexus undo --list shows the recorded runs").exit(Exit::Missing)
        }
        UndoError::AlreadyUndone(_) => failure.hint("nexus undo --list shows the id of that undo"),
        UndoError::Jail(_) | UndoError::Damaged { .. } => failure,
    })
}
