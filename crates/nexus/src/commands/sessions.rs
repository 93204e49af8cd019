//! `nexus sessions`: conversations and workers, straight from the database; what stands for their
//! earlier turns, and how that is taken back.

use clap::{Args, Subcommand};
use nexus_base::id::SessionLabel;
use nexus_protocol::control::{CompactionView, CompactionsOf, Listing, Named};
use nexus_protocol::methods::Method;
use nexus_protocol::status::SessionView;
use serde::Deserialize;
use serde_json::json;

use crate::context::Context;
use crate::control;
use crate::failure::Outcome;
use crate::output::{self, Format, shorten};

/// Arguments of `nexus sessions`.
#[derive(Debug, Args)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "Examples:\n  nexus sessions\n  nexus sessions -n 100 --json\n  nexus sessions compactions dm:entity-owner"
)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Option<Command>,
    /// Number of sessions, most recently used first
    #[arg(short = 'n', long, default_value_t = 20, value_name = "COUNT")]
    limit: usize,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// List compactions, by which earlier turns are sent as a summary, newest first
    #[command(after_help = "Example:\n  nexus sessions compactions --json")]
    Compactions {
        /// Only compactions of this session
        session: Option<String>,
        /// Number of entries
        #[arg(short = 'n', long, default_value_t = 20, value_name = "COUNT")]
        limit: usize,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Summarise a session's earlier turns now, to make room
    #[command(
        after_help = "A running turn ends first; the latest turns stay whole. `nexus sessions undo` reverts it.\n\nExample:\n  nexus sessions compact dm:entity-owner"
    )]
    Compact {
        /// Session label, as listed by `nexus sessions`
        session: String,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Start a session afresh: nothing said before is sent to the model
    #[command(
        after_help = "What was said stays in the history, and `nexus sessions undo` brings it back.\n\nExample:\n  nexus sessions reset dm:entity-owner"
    )]
    Reset {
        /// Session label, as listed by `nexus sessions`
        session: String,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Undo a compaction: its turns are sent whole again
    #[command(after_help = "Example:\n  nexus sessions undo 01KA2Q…")]
    Undo {
        /// Compaction id, as listed by `nexus sessions compactions`
        compaction: String,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

/// Runs `nexus sessions`.
pub(crate) fn run(context: &Context, arguments: &Arguments) -> Outcome {
    match &arguments.command {
        None => list(context, arguments.limit, Format::from_flag(arguments.json)),
        Some(Command::Compactions { session, limit, json }) => {
            let session = session.as_deref().map(SessionLabel::new);
            compactions(context, session, *limit, Format::from_flag(*json))
        }
        Some(Command::Compact { session, json }) => {
            make_shorter(context, session, false, Format::from_flag(*json))
        }
        Some(Command::Reset { session, json }) => {
            make_shorter(context, session, true, Format::from_flag(*json))
        }
        Some(Command::Undo { compaction, json }) => undo(context, compaction, Format::from_flag(*json)),
    }
}

#[derive(Debug, Deserialize)]
struct Listed {
    sessions: Vec<SessionView>,
}

#[derive(Debug, Deserialize)]
struct Compactions {
    compactions: Vec<CompactionView>,
}

fn list(context: &Context, limit: usize, format: Format) -> Outcome {
    let listing = Listing { limit: Some(limit) };
    let Listed { sessions } = control::look(context, Method::SessionsList, &listing)?;
    if format == Format::Json {
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

fn compactions(context: &Context, session: Option<SessionLabel>, limit: usize, format: Format) -> Outcome {
    let of = CompactionsOf { session, limit: Some(limit) };
    let Compactions { compactions: listed } = control::look(context, Method::SessionsCompactions, &of)?;
    if format == Format::Json {
        return output::json(&json!({ "compactions": listed }));
    }
    if listed.is_empty() {
        return output::line("no compactions; every turn is sent whole");
    }
    let row = |one: &CompactionView| {
        let state = if one.undone_at.is_some() { "taken back" } else { "in force" };
        vec![
            one.id.to_string(),
            one.session.to_string(),
            state.to_owned(),
            one.cause.clone(),
            one.turns.to_string(),
            one.shortened_results.to_string(),
            format!("{} → {}", one.tokens_before, one.tokens_after),
            shorten(&one.author, 40),
            shorten(one.summary.as_deref().unwrap_or_default(), 60),
        ]
    };
    output::table(
        &["ID", "SESSION", "STATE", "CAUSE", "TURNS", "RESULTS", "TOKENS", "BY", "SUMMARY"],
        listed.iter().map(row).collect(),
    )
}

/// Asks the daemon: it has the model, and nobody else may write while it runs.
fn make_shorter(context: &Context, session: &str, anew: bool, format: Format) -> Outcome {
    let client = context.client()?;
    let label = SessionLabel::new(session);
    let answer = super::client_runtime()?.block_on(client.shorten(Some(&label), anew))?;
    if format == Format::Json {
        return output::json(&answer);
    }
    let Some(compaction) = &answer.compaction else {
        return output::line(answer.reason.as_deref().unwrap_or("nothing to do"));
    };
    let back = format!("nexus sessions undo {} reverts it", compaction.id);
    if anew {
        return output::line(&format!("{} starts afresh; {back}", answer.session));
    }
    let turns = compaction.turns;
    output::line(&format!(
        "{turns} earlier {} of {} {} sent as a summary, {} long {} shortened; about {} → {} tokens\n{back}",
        if turns == 1 { "turn" } else { "turns" },
        answer.session,
        if turns == 1 { "is" } else { "are" },
        compaction.shortened_results,
        if compaction.shortened_results == 1 { "result is" } else { "results are" },
        compaction.tokens_before,
        compaction.tokens_after,
    ))
}

fn undo(context: &Context, id: &str, format: Format) -> Outcome {
    let view: CompactionView = control::call(context, Method::SessionsUndo, &Named { id: id.to_owned() })
        .map_err(|failure| failure.hint_if_missing("nexus sessions compactions lists them"))?;
    match format {
        Format::Json => output::json(&view),
        Format::Text => {
            output::line(&format!("undone: {} turns of {} are sent whole again", view.turns, view.session))
        }
    }
}
