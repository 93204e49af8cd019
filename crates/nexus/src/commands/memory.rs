//! `nexus memory`: asks the memory, adds to it, looks at it and makes it forget; through the daemon
//! while one runs, else in the files.

mod eval;

use clap::{Args, Subcommand, ValueEnum};
use nexus_base::clock::Timestamp;
use nexus_base::text::shorten;
use nexus_protocol::control::Nothing;
use nexus_protocol::memory::{
    MemoryAdd, MemoryAdded, MemoryBudget, MemoryChangesOf, MemoryEntities, MemoryForget, MemoryForgotten,
    MemoryFound, MemoryItem, MemoryRecall, MemoryScope, MemoryStats,
};
use nexus_protocol::methods::Method;

use crate::context::Context;
use crate::control;
use crate::failure::{Exit, Failure, Outcome};
use crate::output::{self, Format};
use crate::terminal::history_file;

/// Longest fact taken from a command line, in bytes.
const MAX_FACT_LEN: usize = 8 * 1024;
/// Most items one question may bring.
const MAX_ITEMS: usize = 200;
/// Letters of an item in a table; `--json` has all of them.
const SHOWN: usize = 200;

/// Arguments of `nexus memory`.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  nexus memory recall \"coffee\"\n  nexus memory add \"Ada drinks her coffee black\"\n  nexus memory forget 01J… --source"
)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Find facts and past messages about something
    #[command(after_help = "\
Examples:
  nexus memory recall \"favourite colour\" -k 3 --json
  nexus memory recall \"what did I say about the boiler last week\" --explain")]
    Recall {
        /// What to look for
        #[arg(required = true)]
        query: Vec<String>,
        /// Number of items
        #[arg(short = 'k', long = "limit", default_value_t = 10, value_name = "N")]
        limit: usize,
        /// What to search
        #[arg(long, value_enum, default_value_t = ScopeName::All)]
        scope: ScopeName,
        /// How thoroughly to search
        #[arg(long, value_enum, default_value_t = BudgetName::Mid)]
        budget: BudgetName,
        /// Only facts about this entity (an id from `nexus memory entities`)
        #[arg(long, value_name = "ENTITY")]
        about: Option<String>,
        /// Only what was true on this day or later
        #[arg(long, value_name = "DATE")]
        after: Option<String>,
        /// Only what was true before this day
        #[arg(long, value_name = "DATE")]
        before: Option<String>,
        /// Show how each score comes about
        #[arg(long)]
        explain: bool,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Remember a fact
    #[command(after_help = "Example:\n  nexus memory add \"The spare key is with Grace\"")]
    Add {
        /// The fact, as one sentence
        #[arg(required = true)]
        text: Vec<String>,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// List the latest facts and who said them; `forget` removes one
    #[command(after_help = "Example:\n  nexus memory changes --untrusted")]
    Changes {
        /// Number of entries
        #[arg(short = 'k', long = "limit", default_value_t = 20, value_name = "N")]
        limit: usize,
        /// Only facts from unverified sources: web pages, other people, tool servers
        #[arg(long)]
        untrusted: bool,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// List known people and things
    #[command(after_help = "Example:\n  nexus memory entities --json")]
    Entities {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Forget a fact; with --source, also everything it came from
    #[command(after_help = "\
Examples:
  nexus memory forget 01JB2K…           the fact, its vector and its place in the index
  nexus memory forget 01JB2K… --source  also the message, replies, tool results and anything that quotes them

With --source, an event id works as well as a fact id. Earlier backups keep their copies.")]
    Forget {
        /// The fact, or with --source an event
        id: String,
        /// Also overwrite the source
        #[arg(long)]
        source: bool,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Show how much is stored and the space it takes
    #[command(after_help = "Example:\n  nexus memory stats --json")]
    Stats {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Measure recall on your own conversations
    #[command(after_help = "\
Example:
  nexus memory eval --docs docs.jsonl --queries queries.jsonl --out results.jsonl --store /tmp/eval")]
    Eval(eval::Arguments),
}

/// What to search.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum ScopeName {
    /// Facts and messages
    All,
    /// Facts only
    Facts,
    /// Messages only
    Turns,
}

/// How thoroughly to search.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum BudgetName {
    /// By meaning only
    Low,
    /// By meaning and words
    Mid,
    /// With more candidates and with causal links
    High,
}

/// Runs `nexus memory`.
pub(crate) fn run(context: &Context, arguments: &Arguments) -> Outcome {
    match &arguments.command {
        Command::Recall { query, limit, scope, budget, about, after, before, explain, json } => {
            let asked = MemoryRecall {
                query: query.join(" "),
                limit: Some((*limit).clamp(1, MAX_ITEMS)),
                budget: Some(match budget {
                    BudgetName::Low => MemoryBudget::Low,
                    BudgetName::Mid => MemoryBudget::Mid,
                    BudgetName::High => MemoryBudget::High,
                }),
                scope: Some(match scope {
                    ScopeName::All => MemoryScope::All,
                    ScopeName::Facts => MemoryScope::Facts,
                    ScopeName::Turns => MemoryScope::Turns,
                }),
                about: about.clone(),
                after: moment(after.as_deref())?,
                before: moment(before.as_deref())?,
            };
            show(&control::call(context, Method::MemoryRecall, &asked)?, *explain, Format::from_flag(*json))
        }
        Command::Add { text, json } => add(context, &text.join(" "), Format::from_flag(*json)),
        Command::Changes { limit, untrusted, json } => {
            let asked = MemoryChangesOf { limit: Some((*limit).clamp(1, MAX_ITEMS)), untrusted: *untrusted };
            changes(&control::call(context, Method::MemoryChanges, &asked)?, Format::from_flag(*json))
        }
        Command::Entities { json } => entities(context, Format::from_flag(*json)),
        Command::Forget { id, source, json } => {
            let asked = MemoryForget { id: id.clone(), source: *source };
            forgotten(&control::call(context, Method::MemoryForget, &asked)?, Format::from_flag(*json))
        }
        Command::Stats { json } => stats(context, Format::from_flag(*json)),
        Command::Eval(arguments) => eval::run(arguments),
    }
}

fn moment(text: Option<&str>) -> Result<Option<Timestamp>, Failure> {
    let Some(text) = text else { return Ok(None) };
    let moment = Timestamp::parse(text).or_else(|| Timestamp::parse(&format!("{text}T00:00:00")));
    let failure =
        || Failure::new(format!("{text} is not a date")).hint("write it as 2026-03-18").exit(Exit::Usage);
    moment.map(Some).ok_or_else(failure)
}

fn show(found: &MemoryFound, explain: bool, format: Format) -> Outcome {
    if format == Format::Json {
        return output::json(found);
    }
    if found.items.is_empty() {
        return output::line("nothing is known about that");
    }
    let words = |item: &MemoryItem| match &item.speaker {
        Some(speaker) => format!("{speaker}: {}", shorten(&item.text, SHOWN)),
        None => shorten(&item.text, SHOWN),
    };
    let reasons = |item: &MemoryItem| {
        let parts = item.why.iter().filter_map(|(name, value)| {
            value.as_f64().filter(|value| *value > 0.005).map(|value| format!("{name} {value:.2}"))
        });
        parts.collect::<Vec<_>>().join(", ")
    };
    let rows = found.items.iter().map(|item| {
        let mut row = vec![day(item.as_of), format!("{:.2}", item.score), item.kind.clone(), words(item)];
        if explain {
            row.push(reasons(item));
        }
        row
    });
    let rows = rows.collect();
    if explain {
        return output::table(&["AS OF", "SCORE", "KIND", "WHAT", "WHY"], rows);
    }
    output::table(&["AS OF", "SCORE", "KIND", "WHAT"], rows)
}

fn changes(found: &MemoryFound, format: Format) -> Outcome {
    if format == Format::Json {
        return output::json(found);
    }
    if found.items.is_empty() {
        return output::line("nothing has been learned yet");
    }
    let row = |item: &MemoryItem| {
        vec![item.id.clone(), day(item.as_of), item.provenance.clone(), item.text.clone()]
    };
    output::table(&["FACT", "AS OF", "WORDS OF", "WHAT"], found.items.iter().map(row).collect())
}

fn add(context: &Context, text: &str, format: Format) -> Outcome {
    if text.trim().is_empty() || text.len() > MAX_FACT_LEN {
        return Err(Failure::new(format!("a fact must have 1 to {MAX_FACT_LEN} bytes")).exit(Exit::Usage));
    }
    let asked = MemoryAdd { text: text.to_owned(), by_agent: false };
    let added: MemoryAdded = control::call(context, Method::MemoryAdd, &asked)?;
    match format {
        Format::Json => output::json(&added),
        Format::Text => output::line(&format!("remembered as {}", added.id)),
    }
}

fn entities(context: &Context, format: Format) -> Outcome {
    let found: MemoryEntities = control::call(context, Method::MemoryEntities, &Nothing {})?;
    if format == Format::Json {
        return output::json(&found);
    }
    let rows = found.entities.into_iter().map(|entity| {
        let kind = if entity.is_owner { "owner".to_owned() } else { entity.kind };
        vec![entity.id, entity.name, kind, entity.facts.to_string(), entity.mentions.to_string()]
    });
    output::table(&["ENTITY", "NAME", "KIND", "FACTS", "MENTIONS"], rows.collect())
}

fn forgotten(forgotten: &MemoryForgotten, format: Format) -> Outcome {
    if format == Format::Json {
        return output::json(forgotten);
    }
    let facts = forgotten.facts.len();
    output::line(&format!("forgot {facts} {}", if facts == 1 { "fact" } else { "facts" }))?;
    match &forgotten.source_event {
        Some(event) if forgotten.source_remains => output::line(&format!(
            "the original message is still in event {event}; nexus memory forget {event} --source removes it"
        )),
        Some(event) => {
            output::line(&format!("overwrote event {event} and {} rows", forgotten.rows))?;
            for file in &forgotten.files {
                output::line(&format!("wiped {file}"))?;
            }
            // What was typed is the person's and not the workspace's; the daemon neither knows nor reads it.
            if let Some(history) = history_file().filter(|path| path.exists()) {
                output::line(&format!("if you typed it at the prompt, it is also in {}", history.display()))?;
            }
            output::line("earlier backups still contain it")
        }
        None => Ok(()),
    }
}

fn stats(context: &Context, format: Format) -> Outcome {
    let stats: MemoryStats = control::call(context, Method::MemoryStats, &Nothing {})?;
    if format == Format::Json {
        return output::json(&stats);
    }
    output::line(&format!("facts        {}", stats.facts))?;
    output::line(&format!("entities     {}", stats.entities))?;
    output::line(&format!("turns        {}", stats.turns))?;
    output::line(&format!("vectors      {} ({} rows to go)", stats.vectors, stats.not_indexed))?;
    output::line(&format!("embedder     {}", stats.model))?;
    let each = stats.bytes_per_fact.map_or_else(String::new, |bytes| format!(", {bytes} per fact"));
    output::line(&format!("bytes        {}{each}", stats.bytes))
}

fn day(moment: Timestamp) -> String {
    let text = moment.to_local_rfc3339();
    text.get(..16).unwrap_or(&text).replace('T', " ")
}
