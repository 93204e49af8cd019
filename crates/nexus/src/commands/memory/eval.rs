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
use serde::{Deserialize, Deserializer};
use serde_json::{Value, json};

use crate::failure::{Exit, Failure, Outcome};
use crate::output;

/// Name under which the documents are stored.
const PLATFORM: &str = "eval";
/// Speaker of what nobody is said to have said.
const NOBODY: &str = "somebody";
/// Largest file of documents or queries, in bytes.
const MAX_FILE_SIZE: u64 = 512 * 1024 * 1024;

/// Arguments of `nexus memory eval`.
#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// Documents, one JSON object per line: id, ns, session_id, speaker, ts, text
    #[arg(long, value_name = "FILE")]
    docs: PathBuf,
    /// Queries, one JSON object per line: id, ns, query, ts?
    #[arg(long, value_name = "FILE")]
    queries: PathBuf,
    /// Results to write, one JSON object per line: id, ranked
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
    /// New folder for the store
    #[arg(long, value_name = "DIR")]
    store: PathBuf,
    /// Documents per query
    #[arg(short = 'k', long = "limit", default_value_t = 50, value_name = "N")]
    limit: usize,
}

/// One thing somebody said. Only what was said has to be there.
#[derive(Debug, Deserialize)]
struct Document {
    #[serde(deserialize_with = "name")]
    id: String,
    #[serde(default, deserialize_with = "name")]
    ns: String,
    #[serde(default, deserialize_with = "name")]
    session_id: String,
    #[serde(default, deserialize_with = "name")]
    speaker: String,
    #[serde(default, deserialize_with = "name")]
    ts: String,
    text: String,
}

#[derive(Debug, Deserialize)]
struct Question {
    #[serde(deserialize_with = "name")]
    id: String,
    #[serde(default, deserialize_with = "name")]
    ns: String,
    query: String,
    #[serde(default, deserialize_with = "name")]
    ts: String,
}

/// Reads a name or a number as the text it is in somebody's data; nothing for null.
fn name<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    match Value::deserialize(deserializer)? {
        Value::String(text) => Ok(text),
        Value::Number(number) => Ok(number.to_string()),
        Value::Null => Ok(String::new()),
        other => Err(serde::de::Error::custom(format!("{other} is neither text nor a number"))),
    }
}

pub(super) fn run(arguments: &Arguments) -> Outcome {
    let documents: Vec<Document> = lines(&arguments.docs)?;
    let questions: Vec<Question> = lines(&arguments.queries)?;
    // Whoever measures may have made the folder already.
    let is_used = std::fs::read_dir(&arguments.store).map_or_else(
        |error| error.kind() != std::io::ErrorKind::NotFound,
        |mut inside| inside.next().is_some(),
    );
    if is_used {
        return Err(Failure::new(format!("{} already exists", arguments.store.display()))
            .hint("name a folder that does not exist or is empty")
            .exit(Exit::Usage));
    }
    Store::create(&arguments.store)?;
    let store = Store::open(&arguments.store, OpenMode::ReadWrite)?;
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
    let mut odd_times = 0;
    let asked = questions.len();
    // By their place in the file: ids are somebody else's and may come twice.
    let mut ids = Vec::with_capacity(documents.len());
    for document in documents {
        let speaker = if document.speaker.is_empty() { NOBODY } else { &document.speaker };
        let mut event = NewEvent::message(PLATFORM, &ids.len().to_string(), speaker, &document.text);
        event.direction = Direction::Observed;
        event.container_id = Some(document.ns);
        event.thread_id = Some(document.session_id).filter(|session| !session.is_empty());
        // What was said at an unknown time was said after what stands before it.
        event.timestamp = moment(&document.ts).unwrap_or_else(|| {
            odd_times += 1;
            newest
        });
        newest = newest.max(event.timestamp);
        store.events().insert_outbound(event).await.map_err(|error| caused(&error))?;
        ids.push(document.id);
    }
    let memory = Memory::new(store);
    memory.catch_up(u64::MAX).await.map_err(|error| caused(&error))?;
    let mut results = String::new();
    for question in questions {
        let mut request = RecallRequest::new(question.query).limit(limit).scope(Scope::TURNS);
        request.conversation = Some(conversation_key(PLATFORM, &question.ns));
        request.budget = Budget::High;
        request.now = moment(&question.ts).unwrap_or(newest);
        let found = memory.recall(request).await.map_err(|error| caused(&error))?;
        let prefix = format!("{PLATFORM}:");
        let mut ranked: Vec<&str> = Vec::with_capacity(found.items.len());
        for item in &found.items {
            let place =
                item.item.as_str().strip_prefix(&prefix).and_then(|place| place.parse::<usize>().ok());
            if let Some(id) =
                place.and_then(|place| ids.get(place)).filter(|id| !ranked.contains(&id.as_str()))
            {
                ranked.push(id);
            }
        }
        // Writing to a String cannot fail.
        let _ = writeln!(results, "{}", json!({ "id": question.id, "ranked": ranked }));
    }
    output::remark(&format!("{} documents, {asked} queries", ids.len()));
    if odd_times > 0 {
        output::remark(&format!(
            "{odd_times} documents have no readable time; they count as said in the order given"
        ));
    }
    Ok(results)
}

fn lines<T: for<'a> Deserialize<'a>>(path: &Path) -> Result<Vec<T>, Failure> {
    let text = file::read_text(path, MAX_FILE_SIZE).map_err(|error| Failure::caused(&error))?;
    let filled =
        text.trim_start_matches('\u{feff}').lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    filled
        .map(|(number, line)| {
            serde_json::from_str(line).map_err(|error| {
                Failure::new(format!("{} line {}: {error}", path.display(), number + 1)).exit(Exit::Usage)
            })
        })
        .collect()
}

/// Reads a time as people write it into such files: with or without a zone, a day alone, or a count of
/// seconds or milliseconds.
fn moment(text: &str) -> Option<Timestamp> {
    let text = text.trim();
    if let Ok(count) = text.parse::<i64>() {
        // Seconds until the year 5138; beyond that it is milliseconds.
        return Some(Timestamp(if count.abs() < 100_000_000_000 {
            count.saturating_mul(1_000)
        } else {
            count
        }));
    }
    Timestamp::parse(text)
        .or_else(|| Timestamp::parse(&text.replacen(' ', "T", 1)))
        .or_else(|| Timestamp::parse(&format!("{}T00:00:00", text.replace('/', "-"))))
}
