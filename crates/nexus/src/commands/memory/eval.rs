//! `nexus memory eval`: what recall is worth, on conversations somebody else chose. Documents are
//! stored as turns of a fresh store and asked for through the same recall as everywhere.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use clap::Args;
use nexus_base::clock::Timestamp;
use nexus_base::file::{self, Durability};
use nexus_memory::{Budget, Memory, RecallRequest, Scope};
use nexus_store::events::{Direction, NewEvent, conversation_key};
use nexus_store::{OpenMode, Store};
use serde::Deserialize;
use serde_json::json;

use crate::failure::{Exit, Failure, Outcome};
use crate::output;

use super::super::reports::store_failure;

/// Name under which the documents are stored.
const PLATFORM: &str = "eval";
/// Largest file of documents or queries, in bytes.
const LARGEST_FILE: u64 = 512 * 1024 * 1024;

/// Arguments of `nexus memory eval`.
#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// Documents, one JSON object a line: id, ns, session_id, speaker, ts, text
    #[arg(long, value_name = "FILE")]
    docs: PathBuf,
    /// Queries, one JSON object a line: id, ns, query, ts?
    #[arg(long, value_name = "FILE")]
    queries: PathBuf,
    /// Where the results go, one JSON object a line: id, ranked
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
    /// New folder for the store
    #[arg(long, value_name = "DIR")]
    store: PathBuf,
    /// Documents per query
    #[arg(short = 'k', long = "limit", default_value_t = 50, value_name = "N")]
    limit: usize,
}

#[derive(Debug, Deserialize)]
struct Document {
    id: String,
    ns: String,
    session_id: String,
    speaker: String,
    ts: String,
    text: String,
}

#[derive(Debug, Deserialize)]
struct Question {
    id: String,
    ns: String,
    query: String,
    ts: Option<String>,
}

pub(super) fn run(arguments: &Arguments) -> Outcome {
    let documents: Vec<Document> = lines(&arguments.docs)?;
    let questions: Vec<Question> = lines(&arguments.queries)?;
    if arguments.store.exists() {
        return Err(Failure::new(format!("{} is there already", arguments.store.display()))
            .hint("name a folder that does not exist")
            .exit(Exit::Usage));
    }
    Store::create(&arguments.store).map_err(|error| store_failure(&error))?;
    let store = Store::open(&arguments.store, OpenMode::ReadWrite).map_err(|error| store_failure(&error))?;
    let runtime = super::super::client_runtime()?;
    let results = runtime.block_on(async {
        let results = answer(&store, documents, questions, arguments.limit).await;
        store.close().await;
        results
    })?;
    file::replace(&arguments.out, results.as_bytes(), 0o644, Durability::Crash)
        .map_err(|error| Failure::caused(&error))
}

async fn answer(
    store: &Store,
    documents: Vec<Document>,
    questions: Vec<Question>,
    limit: usize,
) -> Result<String, Failure> {
    let caused = |error: &dyn std::error::Error| Failure::caused(error);
    let mut newest = Timestamp(0);
    let (stored, asked) = (documents.len(), questions.len());
    for document in documents {
        let mut event = NewEvent::message(PLATFORM, &document.id, &document.speaker, &document.text);
        event.direction = Direction::Observed;
        event.container_id = Some(document.ns);
        event.thread_id = Some(document.session_id);
        event.timestamp = moment(&document.ts)?;
        newest = newest.max(event.timestamp);
        store.events().insert_outbound(event).await.map_err(|error| caused(&error))?;
    }
    let memory = Memory::new(store);
    memory.catch_up(u64::MAX).await.map_err(|error| caused(&error))?;
    let mut results = String::new();
    for question in questions {
        let mut request = RecallRequest::new(question.query).limit(limit).scope(Scope::TURNS);
        request.conversation = Some(conversation_key(PLATFORM, &question.ns));
        request.budget = Budget::High;
        request.now = question.ts.as_deref().map_or(Ok(newest), moment)?;
        let found = memory.recall(request).await.map_err(|error| caused(&error))?;
        let prefix = format!("{PLATFORM}:");
        let ranked: Vec<&str> =
            found.items.iter().filter_map(|item| item.item.as_str().strip_prefix(&prefix)).collect();
        // Writing to a String cannot fail.
        let _ = writeln!(results, "{}", json!({ "id": question.id, "ranked": ranked }));
    }
    output::remark(&format!("{stored} documents, {asked} queries"));
    Ok(results)
}

fn lines<T: for<'a> Deserialize<'a>>(path: &Path) -> Result<Vec<T>, Failure> {
    let text = file::read_text(path, LARGEST_FILE).map_err(|error| Failure::caused(&error))?;
    let filled = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    filled
        .map(|(number, line)| {
            serde_json::from_str(line)
                .map_err(|error| Failure::new(format!("{} line {}: {error}", path.display(), number + 1)))
        })
        .collect()
}

fn moment(text: &str) -> Result<Timestamp, Failure> {
    Timestamp::parse(text).ok_or_else(|| Failure::new(format!("{text} is no time")).exit(Exit::Usage))
}
