//! Claiming work: a session takes what waits and a pending turn begins, in one transaction (S4).

use nexus_base::clock::Timestamp;
use nexus_base::conversation::Role;
use nexus_base::failpoint;
use nexus_base::id::{BootId, RequestId, SessionLabel, TurnId};
use rusqlite::{Connection, OptionalExtension, params};

use super::Agents;
use super::model::{Item, ItemKind, ItemMode, MessageRole, SessionRecord, TaskStatus, TurnRecord};
use super::{ledger, queue, rows, session};
use crate::error::StoreError;
use crate::writer::Sync;

/// Claims after which a turn is given up instead of tried again.
const LAST_ATTEMPT: u32 = 2;

/// Work taken by a session.
#[derive(Debug, Clone)]
pub struct ClaimedTurn {
    /// The session as it was before the turn.
    pub session: SessionRecord,
    /// The pending turn, with what an earlier attempt already wrote.
    pub turn: TurnRecord,
    /// The items it answers, oldest first.
    pub items: Vec<Item>,
    /// Trees that became part of this turn's when it took items of several.
    pub merged: Vec<RequestId>,
}

/// What a session found to do.
#[derive(Debug, Clone)]
pub enum Claim {
    /// New work.
    Fresh(ClaimedTurn),
    /// A turn that was left unfinished, by another life of the daemon or by a bug in this one.
    Resumed(ClaimedTurn),
    /// A turn that was left unfinished and that a waiting message interrupts; end it with what it has.
    Overtaken(ClaimedTurn),
    /// A turn that was left unfinished by a worker that is to be ended.
    Cancelled(ClaimedTurn),
    /// A turn that was left unfinished too often; end it visibly.
    GivenUp(ClaimedTurn),
}

impl Claim {
    /// Returns the turn, however it was come by.
    pub fn into_turn(self) -> ClaimedTurn {
        match self {
            Self::Fresh(turn)
            | Self::Resumed(turn)
            | Self::Overtaken(turn)
            | Self::Cancelled(turn)
            | Self::GivenUp(turn) => turn,
        }
    }
}

/// Renders the context block of one item at the moment it is taken.
pub(crate) type RenderFrame = Box<dyn Fn(&Item) -> String + Send>;

impl Agents {
    /// Takes what the session should do next, if anything.
    ///
    /// # Errors
    /// The database cannot be written.
    pub async fn claim(
        &self,
        label: &SessionLabel,
        boot: &BootId,
        render: impl Fn(&Item) -> String + Send + 'static,
    ) -> Result<Option<Claim>, StoreError> {
        tracing::trace!("S4: the item is claimed");
        let (label, boot) = (label.clone(), boot.clone());
        let render: RenderFrame = Box::new(render);
        let claim = self
            .database
            .write(Sync::Normal, move |connection| {
                let claim = claim(connection, &label, &boot, &render)?;
                if claim.is_some() {
                    failpoint::hit("s4.before_commit");
                }
                Ok(claim)
            })
            .await?;
        if claim.is_some() {
            failpoint::hit("s4.committed");
        }
        Ok(claim)
    }
}

pub(super) fn claim(
    connection: &Connection,
    label: &SessionLabel,
    boot: &BootId,
    render: &RenderFrame,
) -> rusqlite::Result<Option<Claim>> {
    let Some(session) = session::find(connection, label)? else { return Ok(None) };
    if let Some(turn_id) = unfinished_turn(connection, label)? {
        return resume(connection, session, &turn_id, boot).map(Some);
    }
    let items = next_batch(connection, label)?;
    let Some(last) = items.last() else { return Ok(None) };
    let now = Timestamp::now();
    let turn_id = TurnId::generate();
    // One turn has one tree: whoever waits for anything of the batch waits for the whole.
    let root = last.new.root_request_id.clone();
    let mut merged: Vec<RequestId> = Vec::new();
    for item in &items {
        let other = &item.new.root_request_id;
        if *other != root && !merged.contains(other) {
            queue::merge_trees(connection, other, &root)?;
            merged.push(other.clone());
        }
        connection
            .prepare_cached(
                "UPDATE queue_items SET status = 'processing', attempt = attempt + 1, boot_id = ?2, turn_id = ?3 \
                 WHERE id = ?1",
            )?
            .execute(params![item.new.id.as_str(), boot.as_str(), turn_id.as_str()])?;
    }
    let depth: u32 = match &session.head_turn_id {
        Some(head) => connection
            .prepare_cached("SELECT depth + 1 FROM turns WHERE id = ?1")?
            .query_row([head.as_str()], |row| row.get(0))?,
        None => 0,
    };
    connection
        .prepare_cached(
            "INSERT INTO turns (id, parent_turn_id, depth, status, session_label, request_id, role, attempt, started_at) \
             VALUES (?1, ?2, ?3, 'pending', ?4, ?5, ?6, 1, ?7)",
        )?
        .execute(params![
            turn_id.as_str(),
            session.head_turn_id.as_ref().map(TurnId::as_str),
            depth,
            label.as_str(),
            last.new.request_id.as_str(),
            session.role.as_str(),
            now.0,
        ])?;
    for (sequence, item) in (0..).zip(&items) {
        ledger::insert_message(
            connection,
            &turn_id,
            item.new.id.as_str(),
            sequence,
            MessageRole::User,
            Some(&render(item)),
            &item.new.content,
            None,
            now,
        )?;
    }
    mark_running(connection, &session, now)?;
    let claimed = load(connection, session, &turn_id, merged)?;
    Ok(Some(Claim::Fresh(claimed)))
}

/// Finds a turn that was taken and not ended. Only a session's own task claims, between its turns,
/// so whatever is still taken then was left behind.
fn unfinished_turn(connection: &Connection, label: &SessionLabel) -> rusqlite::Result<Option<TurnId>> {
    connection
        .prepare_cached(
            "SELECT turn_id FROM queue_items \
             WHERE session_label = ?1 AND status <> 'done' AND status = 'processing' ORDER BY rowid LIMIT 1",
        )?
        .query_row([label.as_str()], |row| Ok(TurnId::new(row.get::<_, String>(0)?)))
        .optional()
}

fn resume(
    connection: &Connection,
    session: SessionRecord,
    turn_id: &TurnId,
    boot: &BootId,
) -> rusqlite::Result<Claim> {
    connection
        .prepare_cached(
            "UPDATE queue_items SET attempt = attempt + 1, boot_id = ?2 WHERE turn_id = ?1 AND status = 'processing'",
        )?
        .execute(params![turn_id.as_str(), boot.as_str()])?;
    connection
        .prepare_cached("UPDATE turns SET attempt = attempt + 1 WHERE id = ?1")?
        .execute([turn_id.as_str()])?;
    let claimed = load(connection, session, turn_id, Vec::new())?;
    if claimed.session.cancel_reason.is_some() {
        return Ok(Claim::Cancelled(claimed));
    }
    if claimed.turn.attempt > LAST_ATTEMPT {
        return Ok(Claim::GivenUp(claimed));
    }
    let overtaken: bool = connection
        .prepare_cached(
            "SELECT EXISTS (SELECT 1 FROM queue_items \
             WHERE session_label = ?1 AND status <> 'done' AND status = 'pending' AND mode = 'interrupt')",
        )?
        .query_row([claimed.session.label.as_str()], |row| row.get(0))?;
    Ok(if overtaken { Claim::Overtaken(claimed) } else { Claim::Resumed(claimed) })
}

/// Chooses what becomes the next turn: everything when somebody interrupts, results together,
/// collected messages together, otherwise the oldest alone.
fn next_batch(connection: &Connection, label: &SessionLabel) -> rusqlite::Result<Vec<Item>> {
    let mut waiting: Vec<Item> = connection
        .prepare_cached(concat!(
            "SELECT ",
            rows::item_columns!(),
            " FROM queue_items WHERE session_label = ?1 AND status <> 'done' AND status = 'pending' ORDER BY rowid"
        ))?
        .query_map([label.as_str()], rows::item)?
        .collect::<rusqlite::Result<_>>()?;
    if waiting.iter().any(|item| item.new.mode == ItemMode::Interrupt) {
        return Ok(waiting);
    }
    let Some(first) = waiting.first() else { return Ok(waiting) };
    if first.new.kind == ItemKind::WorkerResult {
        let root = first.new.root_request_id.clone();
        waiting.retain(|item| item.new.kind == ItemKind::WorkerResult && item.new.root_request_id == root);
    } else if first.new.mode == ItemMode::Collect {
        waiting.retain(|item| item.new.mode == ItemMode::Collect);
    } else {
        waiting.truncate(1);
    }
    Ok(waiting)
}

fn mark_running(connection: &Connection, session: &SessionRecord, now: Timestamp) -> rusqlite::Result<()> {
    if session.role == Role::Worker {
        connection
            .prepare_cached("UPDATE sessions SET task_status = ?2, updated_at = ?3 WHERE label = ?1")?
            .execute(params![session.label.as_str(), TaskStatus::Running, now.0])?;
    }
    Ok(())
}

fn load(
    connection: &Connection,
    session: SessionRecord,
    turn_id: &TurnId,
    merged: Vec<RequestId>,
) -> rusqlite::Result<ClaimedTurn> {
    let turn = rows::load_turn(connection, turn_id)?.ok_or(rusqlite::Error::QueryReturnedNoRows)?;
    let items = connection
        .prepare_cached(concat!(
            "SELECT ",
            rows::item_columns!(),
            " FROM queue_items WHERE turn_id = ?1 AND status = 'processing' ORDER BY rowid"
        ))?
        .query_map([turn_id.as_str()], rows::item)?
        .collect::<rusqlite::Result<_>>()?;
    Ok(ClaimedTurn { session, turn, items, merged })
}
