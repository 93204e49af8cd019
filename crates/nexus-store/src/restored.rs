//! What a restored copy must not do by itself: the original may have said it, run it, or still be at it.

use std::path::Path;

use nexus_base::clock::Timestamp;
use nexus_base::text::ask_about_message;
use rusqlite::{Connection, params};
use serde_json::{Value, json};

use crate::error::StoreError;
use crate::migrate;
use crate::open::{self, Source};
use crate::schema::DatabaseName;
use crate::store::Store;

/// Boot id of work that a restored copy found unfinished; no boot has it.
pub(crate) const RESTORED: &str = "restored";
/// How long a question about a held message stands: a copy may lie for a while before it is started.
const STANDS: std::time::Duration = std::time::Duration::from_secs(30 * 24 * 3600);

/// What was held back.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct HeldBack {
    /// Replies that waited to be said; they can be read in the history.
    pub replies: usize,
    /// Messages nobody had begun to answer; each has a question to the owner under its request's id.
    pub messages: usize,
    /// Pieces of work that had begun; the first start ends them visibly.
    pub unfinished: usize,
}

struct Open {
    event: String,
    request: String,
    session: Option<String>,
    caller: String,
    content: String,
}

/// What waits for the owner's consent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct OpenQuestions {
    pub all: usize,
    /// Messages that a restored copy holds back.
    pub held_messages: usize,
}

impl Store {
    /// Counts what waits for the owner's consent, without opening the other databases.
    ///
    /// # Errors
    /// The database cannot be read.
    pub fn open_questions(data_dir: &Path, now: Timestamp) -> Result<OpenQuestions, StoreError> {
        let name = DatabaseName::Identity;
        let source = Source::new(name.file_in(data_dir), name.as_str(), name.migrations());
        let (connection, _) = open::open_outside_reader(&source)?;
        let counted = connection.query_row(
            "SELECT COUNT(*), COUNT(*) FILTER (WHERE resources LIKE '[\"restored:%') FROM permission_requests
             WHERE status = 'pending' AND expires_at > ?1",
            [now.as_millis()],
            |row| Ok(OpenQuestions { all: row.get(0)?, held_messages: row.get(1)? }),
        );
        source.edge(counted)
    }

    /// Holds back whatever the databases of a restored copy would go on with.
    ///
    /// # Errors
    /// A database cannot be written. The caller holds the workspace lock.
    pub fn hold_back(data_dir: &Path) -> Result<HeldBack, StoreError> {
        for name in DatabaseName::ALL {
            let expected = Schema::shipped(name)?;
            at(data_dir, name, |connection| expected.drop_others(connection))?;
        }
        at(data_dir, DatabaseName::Identity, |identity| identity.execute("DELETE FROM auth_tokens", []))?;
        let accepted = at(data_dir, DatabaseName::Events, accepted)?;
        let (held, open) = at(data_dir, DatabaseName::Agents, |agents| agents_part(agents, accepted))?;
        at(data_dir, DatabaseName::Identity, |identity| ask(identity, &open))?;
        Ok(HeldBack { messages: open.len(), ..held })
    }
}

/// Code that a database runs by itself: triggers and views.
struct Schema(Vec<(String, String, Option<String>)>);

impl Schema {
    /// Returns what the migrations make.
    fn shipped(name: DatabaseName) -> Result<Self, StoreError> {
        let path = Path::new(":memory:");
        let edge = |error: rusqlite::Error| StoreError::from(error).at(path);
        let connection = open::in_memory().map_err(edge)?;
        migrate::migrate(&connection, path, name.as_str(), name.migrations())?;
        Self::of(&connection).map_err(edge)
    }

    fn of(connection: &Connection) -> rusqlite::Result<Self> {
        let mut statement = connection.prepare(
            "SELECT type, name, sql FROM sqlite_schema WHERE type IN ('trigger', 'view') ORDER BY name",
        )?;
        let found = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
        Ok(Self(found.collect::<rusqlite::Result<_>>()?))
    }

    /// Removes what a copy has besides: whoever made it may have wanted to be called when it is written.
    fn drop_others(&self, connection: &Connection) -> rusqlite::Result<()> {
        for found in Self::of(connection)?.0 {
            if !self.0.contains(&found) {
                let (kind, name, _) = found;
                connection.execute_batch(&format!("DROP {kind} \"{}\"", name.replace('"', "\"\"")))?;
            }
        }
        Ok(())
    }
}

/// Works on one database and leaves its file whole without a log beside it.
fn at<T>(
    data_dir: &Path,
    name: DatabaseName,
    work: impl FnOnce(&Connection) -> rusqlite::Result<T>,
) -> Result<T, StoreError> {
    let source = Source::new(name.file_in(data_dir), name.as_str(), name.migrations());
    let connection = open::open_writer(&source)?;
    let result = source.edge(work(&connection))?;
    source.edge(open::checkpoint(&connection, open::Checkpoint::Truncate))?;
    source.edge(connection.close().map_err(|(_, error)| error))?;
    Ok(result)
}

fn accepted(events: &Connection) -> rusqlite::Result<Vec<Open>> {
    let mut statement = events.prepare(
        "SELECT events.id, inbox.request_id, events.container_id, events.content, events.metadata FROM inbox
         JOIN events ON events.id = inbox.event_id WHERE inbox.outcome = 'accepted' ORDER BY events.row",
    )?;
    let rows = statement.query_map([], |row| {
        let metadata: Option<String> = row.get(4)?;
        let metadata: Value = metadata.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default();
        Ok(Open {
            event: row.get(0)?,
            request: row.get(1)?,
            session: row.get(2)?,
            caller: metadata["caller"].as_str().unwrap_or("owner").to_owned(),
            content: row.get(3)?,
        })
    })?;
    rows.collect()
}

fn agents_part(agents: &Connection, accepted: Vec<Open>) -> rusqlite::Result<(HeldBack, Vec<Open>)> {
    let replies = agents.execute(
        "UPDATE outbox SET status = 'delivered', delivered_at = NULL WHERE status <> 'delivered'",
        [],
    )?;
    let mut open = Vec::new();
    for message in accepted {
        // One that only waited for its turn goes back to where it came from, and is asked about there.
        agents.execute(
            "DELETE FROM queue_items WHERE id = ?1 AND status = 'pending' AND turn_id IS NULL",
            [&message.event],
        )?;
        let mut statement = agents.prepare_cached("SELECT 1 FROM queue_items WHERE request_id = ?1")?;
        if !statement.exists([&message.request])? {
            open.push(message);
        }
    }
    let unfinished =
        agents.execute("UPDATE queue_items SET boot_id = ?1 WHERE status <> 'done'", [RESTORED])?;
    Ok((HeldBack { replies, messages: 0, unfinished }, open))
}

fn ask(identity: &Connection, open: &[Open]) -> rusqlite::Result<()> {
    let now = Timestamp::now();
    let mut statement = identity.prepare(
        "INSERT INTO permission_requests (id, requester_id, requester_platform, kind, session_key,
            nexus_request_id, summary, resources, reason, created_at, expires_at)
         VALUES (?1, ?2, 'control-plane', 'access', ?3, ?1, ?4, ?5, ?6, ?7, ?8)
         ON CONFLICT (id) DO UPDATE SET expires_at = excluded.expires_at WHERE status = 'pending'",
    )?;
    for message in open {
        statement.execute(params![
            message.request,
            message.caller,
            message.session,
            ask_about_message(&message.content),
            json!([format!("restored:{}", message.request)]).to_string(),
            "it was open when the backup was made; the original may have answered it",
            now.as_millis(),
            now.plus(STANDS).as_millis(),
        ])?;
    }
    Ok(())
}
