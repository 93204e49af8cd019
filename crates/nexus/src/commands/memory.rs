//! `nexus memory`: asks the memory, or adds to it while no daemon holds the workspace.

mod eval;

use clap::{Args, Subcommand};
use nexus_base::lock::{HeldLock, LockError};
use nexus_memory::{Memory, Provenance, RecallRequest, Scope};
use nexus_store::{OpenMode, Store};
use serde_json::json;

use crate::context::Context;
use crate::failure::{Exit, Failure, Outcome};
use crate::output::{self, Format};

use super::reports::store_failure;

/// Longest fact taken from a command line, in bytes.
const LONGEST_FACT: usize = 8 * 1024;
/// Most facts one question may bring.
const MOST_FACTS: usize = 1000;

/// Arguments of `nexus memory`.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  nexus memory recall \"coffee\"\n  nexus memory add \"Ada drinks her coffee black\""
)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Find what is known about something
    #[command(after_help = "Example:\n  nexus memory recall \"favourite colour\" -k 3 --json")]
    Recall {
        /// What to look for
        #[arg(required = true)]
        query: Vec<String>,
        /// How many facts
        #[arg(short = 'k', long = "limit", default_value_t = 10, value_name = "N")]
        limit: usize,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Remember a fact
    #[command(after_help = "\
Example:
  nexus memory add \"The spare key is with Grace\"

While a daemon runs it alone writes: tell it in the conversation, as in
  nexus chat -m \"Remember that the spare key is with Grace\"")]
    Add {
        /// The fact, as one sentence
        #[arg(required = true)]
        text: Vec<String>,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Measure recall on conversations of your own
    #[command(after_help = "\
Example:
  nexus memory eval --docs docs.jsonl --queries queries.jsonl --out results.jsonl --store /tmp/eval")]
    Eval(eval::Arguments),
}

/// Runs `nexus memory`.
pub(crate) fn run(context: &Context, arguments: &Arguments) -> Outcome {
    match &arguments.command {
        Command::Recall { query, limit, json } => {
            recall(context, &query.join(" "), (*limit).min(MOST_FACTS), Format::from_flag(*json))
        }
        Command::Add { text, json } => add(context, &text.join(" "), Format::from_flag(*json)),
        Command::Eval(arguments) => eval::run(arguments),
    }
}

fn recall(context: &Context, query: &str, limit: usize, format: Format) -> Outcome {
    let layout = context.existing()?;
    let store = Store::open(&layout.data(), OpenMode::ReadOnly).map_err(|error| store_failure(&error))?;
    let memory = Memory::read_only(&store);
    let found = super::client_runtime()?
        .block_on(memory.recall(RecallRequest::new(query).limit(limit).scope(Scope::FACTS)))
        .map_err(|error| Failure::caused(&error))?
        .items;
    if format == Format::Json {
        let facts: Vec<_> = found
            .iter()
            .map(|fact| json!({ "id": fact.item.as_str(), "text": fact.text, "asOf": fact.as_of, "score": fact.score }))
            .collect();
        return output::json(&json!({ "facts": facts }));
    }
    if found.is_empty() {
        return output::line("nothing is known about that");
    }
    let rows = found
        .iter()
        .map(|fact| vec![fact.as_of.to_local_rfc3339(), format!("{:.2}", fact.score), fact.text.clone()])
        .collect();
    output::table(&["AS OF", "SCORE", "FACT"], rows)
}

fn add(context: &Context, text: &str, format: Format) -> Outcome {
    if text.trim().is_empty() || text.len() > LONGEST_FACT {
        return Err(Failure::new(format!("a fact has between 1 and {LONGEST_FACT} bytes")).exit(Exit::Usage));
    }
    let layout = context.existing()?;
    let lock = HeldLock::acquire(&layout.lock()).map_err(|error| match error {
        LockError::Held { holder, .. } => {
            let who = holder.map_or_else(|| "a daemon".to_owned(), |pid| format!("process {pid}"));
            Failure::new(format!("{who} holds the workspace and alone may write"))
                .hint("tell it: nexus chat -m \"Remember that …\"")
        }
        LockError::File(error) => Failure::caused(&error),
    })?;
    let store = Store::open(&layout.data(), OpenMode::ReadWrite).map_err(|error| store_failure(&error))?;
    let memory = Memory::new(&store);
    let runtime = super::client_runtime()?;
    let kept = runtime.block_on(async {
        let kept = memory.remember(text, None, Provenance::Owner).await;
        store.close().await;
        kept
    });
    lock.release();
    let id = kept.map_err(|error| Failure::caused(&error))?;
    match format {
        Format::Json => output::json(&json!({ "id": id, "text": text })),
        Format::Text => output::line(&format!("remembered as {id}")),
    }
}
