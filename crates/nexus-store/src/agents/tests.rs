//! What a turn asks of the ledger costs the same in an old conversation as in a new one.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use nexus_base::clock::Timestamp;
use nexus_base::id::{BootId, QueueItemId, RequestId, SessionLabel, TurnId};
use rusqlite::Connection;

use super::columns::{ItemFacts, PermissionSnapshot};
use super::model::{Admitted, ItemKind, ItemMode, NewItem};
use super::{claim, dispatch, finish, outbox, queue, rows, view};

/// Ended exchanges in the conversation.
const OLD: u32 = 3_000;
/// Steps of SQLite's machine that any single question may take, in units of the counter below.
const STEP: i32 = 10;
const MAX_COUNT: u32 = 300;

fn old_conversation() -> Connection {
    let connection = Connection::open_in_memory().unwrap();
    for migration in crate::DatabaseName::Agents.migrations() {
        connection.execute_batch(migration.sql).unwrap();
    }
    connection
        .execute_batch(&format!(
            "INSERT INTO sessions (label, persona, role, origin, created_at, updated_at)
                 VALUES ('dm:owner', '', 'manager', 'nexus', 1, 1);
             CREATE TEMP TABLE n AS WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {OLD})
                 SELECT i FROM n;
             INSERT INTO turns (id, parent_turn_id, depth, status, session_label, request_id, role, attempt, started_at)
                 SELECT 't' || i, CASE i WHEN 1 THEN NULL ELSE 't' || (i - 1) END, i - 1, 'completed', 'dm:owner', 'r' || i,
                 'manager', 1, i FROM n;
             INSERT INTO messages (id, turn_id, sequence, role, content, created_at)
                 SELECT 'm' || i, 't' || i, 0, 'user', 'hello', i FROM n;
             INSERT INTO queue_items (id, session_label, request_id, root_request_id, kind, mode, frame_json, content,
                 permissions_json, status, outcome, turn_id, enqueued_at, projected_at)
                 SELECT 'e' || i, 'dm:owner', 'r' || i, 'r' || i, 'message', 'followup', '[]', 'hello', '{{}}', 'done',
                 'completed', 't' || i, i, i FROM n;
             INSERT INTO outbox (id, turn_id, session_label, request_id, root_request_id, message_id, state, text, status,
                 created_at) SELECT 't' || i || ':0', 't' || i, 'dm:owner', 'r' || i, 'r' || i, 'o' || i, 'final', 'hi',
                 'delivered', i FROM n;
             UPDATE sessions SET head_turn_id = 't{OLD}';"
        ))
        .unwrap();
    connection
}

fn check<T>(
    connection: &mut Connection,
    what: &str,
    ask: impl FnOnce(&Connection) -> rusqlite::Result<T>,
) -> T {
    let steps = Arc::new(AtomicU32::new(0));
    let counted = Arc::clone(&steps);
    connection
        .progress_handler(
            STEP,
            Some(move || {
                counted.fetch_add(1, Ordering::Relaxed);
                false
            }),
        )
        .unwrap();
    let answer = ask(connection).unwrap();
    connection.progress_handler(0, None::<fn() -> bool>).unwrap();
    let steps = steps.load(Ordering::Relaxed);
    assert!(steps <= MAX_COUNT, "{what} took {steps} times {STEP} steps: does it look at every row?");
    answer
}

fn item(number: u32) -> NewItem {
    NewItem {
        id: QueueItemId::new(format!("new{number}")),
        session: SessionLabel::new("dm:owner"),
        request_id: RequestId::new(format!("new{number}")),
        parent_request_id: None,
        root_request_id: RequestId::new(format!("new{number}")),
        source_event_id: None,
        kind: ItemKind::Message,
        mode: ItemMode::Followup,
        facts: ItemFacts::new::<String>([]),
        content: "hello".into(),
        permissions: PermissionSnapshot::new(serde_json::json!({})),
    }
}

#[test]
fn no_question_of_a_turn_looks_at_every_row() {
    let mut connection = old_conversation();
    let owner = SessionLabel::new("dm:owner");
    let (boot, now) = (BootId::new("boot"), Timestamp::now());
    let render: claim::RenderFrame = Box::new(|_| String::new());
    let nothing = check(&mut connection, "an empty claim", |c| claim::claim(c, &owner, &boot, &render));
    assert!(nothing.is_none());
    let admitted = check(&mut connection, "admission", |c| queue::admit_if_room(c, &item(1), 20, now));
    assert!(matches!(admitted, Some(Admitted::Queued)));
    let claimed = check(&mut connection, "a claim", |c| claim::claim(c, &owner, &boot, &render));
    assert!(matches!(claimed, Some(claim::Claim::Fresh(_))));
    let resumed = check(&mut connection, "a resumed claim", |c| claim::claim(c, &owner, &boot, &render));
    assert!(matches!(resumed, Some(claim::Claim::Resumed(_))));
    check(&mut connection, "what waits", |c| finish::has_waiting(c, &owner));
    check(&mut connection, "workers out", |c| dispatch::outstanding(c, &owner));
    let root = RequestId::new("new1");
    check(&mut connection, "an open tree", |c| queue::is_open(c, &root));
    check(&mut connection, "an answered tree", |c| outbox::answered(c, &root));
    let lines = check(&mut connection, "the last lines", |c| view::chat_history(c, &owner, 5));
    assert_eq!(lines.len(), 5);
    let head = TurnId::new(format!("t{OLD}"));
    let path = check(&mut connection, "the last turns", |c| rows::load_path(c, &head, OLD - 10));
    assert_eq!(path.len(), 10);
    assert!(path.iter().all(|turn| turn.messages.len() == 1));
}
