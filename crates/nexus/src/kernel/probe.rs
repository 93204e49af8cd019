//! `nexus kernel status` and `nexus kernel ping`: is it there, and how is it.

use clap::Args;
use nexus_kernel::{Authority, RunDir};
use serde_json::{Value, json};

use super::reach;
use crate::failure::Outcome;
use crate::output;

/// Arguments of `nexus kernel status`.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  nexus kernel status --json")]
pub(crate) struct StatusArguments {
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Arguments of `nexus kernel ping`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  nexus kernel ping\n  nexus kernel ping --root")]
pub(crate) struct PingArguments {
    /// Ask only Root, which answers without a Kernel
    #[arg(long)]
    root: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Runs `nexus kernel status`.
pub(super) fn status(run_dir: &RunDir, arguments: &StatusArguments) -> Outcome {
    let mut reached = reach::running(run_dir)?;
    let mut answer =
        reached.client.call("status", &json!({}), Authority::USER).map_err(|error| reach::failure(&error))?;
    answer["run_dir"] = json!(run_dir.path().to_string_lossy());
    if arguments.json {
        return output::json(&answer);
    }
    output::line(&format!("run folder   {}", run_dir.path().display()))?;
    for (label, key) in [
        ("process      ", "pid"),
        ("version      ", "version"),
        ("up seconds   ", "uptime_seconds"),
        ("workspaces   ", "workspaces"),
        ("lost log lines", "log_failures"),
    ] {
        let value = match &answer[key] {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        // A log that lost nothing needs no line.
        if key != "log_failures" || value != "0" {
            output::line(&format!("{label}{value}"))?;
        }
    }
    Ok(())
}

/// Runs `nexus kernel ping`.
pub(super) fn ping(run_dir: &RunDir, arguments: &PingArguments) -> Outcome {
    // Reaching Root includes its handshake, which is all it can answer for itself.
    let mut reached = reach::running(run_dir)?;
    if !arguments.root {
        reached.client.ping(Authority::USER).map_err(|error| reach::failure(&error))?;
    }
    if arguments.json { output::json_line(&json!({ "status": "pong" })) } else { output::line("pong") }
}
