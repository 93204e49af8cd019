//! `nexus sessions`: conversations and workers, straight from the database.

use clap::Args;
use serde_json::json;

use crate::context::Context;
use crate::failure::Outcome;
use crate::output::{self, Format, shorten};

/// Arguments of `nexus sessions`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  nexus sessions\n  nexus sessions -n 100 --json")]
pub(crate) struct Arguments {
    /// How many, most recently used first
    #[arg(short = 'n', long, default_value_t = 20, value_name = "COUNT")]
    limit: usize,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Runs `nexus sessions`.
pub(crate) fn run(context: &Context, arguments: &Arguments) -> Outcome {
    let sessions = super::reports::open(context)?.sessions(arguments.limit)?;
    if Format::from_flag(arguments.json) == Format::Json {
        return output::json(&json!({ "sessions": sessions }));
    }
    if sessions.is_empty() {
        return output::line("no sessions yet");
    }
    let rows = sessions
        .iter()
        .map(|one| {
            let state = match (&one.task_status, one.running) {
                (Some(status), _) => status.clone(),
                (None, true) => "running".to_owned(),
                (None, false) => one.status.clone(),
            };
            vec![
                one.session.to_string(),
                state,
                one.turns.to_string(),
                one.queued.to_string(),
                one.updated_at.to_local_rfc3339(),
                shorten(one.task.as_deref().unwrap_or(&one.persona), 60),
            ]
        })
        .collect();
    output::table(&["SESSION", "STATE", "TURNS", "QUEUED", "LAST USED", "ABOUT"], rows)
}
