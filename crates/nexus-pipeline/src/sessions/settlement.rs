//! What is owed once something ended: lines to be said (S7), other files to be told (S8), now or after
//! a restart, and again after a moment when a file refuses.

use std::sync::Arc;
use std::time::Duration;

use nexus_base::failpoint;
use nexus_protocol::bus::{BusBody, TurnState};
use nexus_store::StoreError;
use nexus_store::agents::{Item, OutboxRecord, OutboxState};

use crate::sessions::broker::Shared;
use crate::sessions::engine::Ended;

/// Rows looked at in one go when catching up.
const CATCH_UP_BATCH: usize = 256;
/// First and longest pause before something that a file refused is tried again.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const MAX_PAUSE: Duration = Duration::from_secs(30);

/// Tries something until it works or the daemon stops; the next start does what is left then.
pub(crate) async fn retry_until_ok<T, F>(shared: &Shared, what: &str, attempt: impl Fn() -> F) -> Option<T>
where
    F: Future<Output = Result<T, StoreError>>,
{
    let mut pause = FIRST_PAUSE;
    loop {
        match attempt().await {
            Ok(done) => return Some(done),
            Err(error) => {
                tracing::error!(%error, hint = ?error.hint(), what, "a step has to be repeated");
            }
        }
        if !shared.pause(pause).await {
            return None;
        }
        pause = (pause * 2).min(MAX_PAUSE);
    }
}

/// Sees to an item that ended without a turn, beside everything else.
pub(crate) fn settle_later(shared: &Arc<Shared>, item: Item, line: Option<OutboxRecord>) {
    let shared = Arc::clone(shared);
    Arc::clone(&shared).tasks.spawn(async move {
        if let Some(line) = &line {
            retry_until_ok(&shared, "deliver", || deliver(&shared, line)).await;
        }
        // Those who waited for it before its tree became part of another one, and those who do now.
        shared.waiters.changed(&item.new.request_id);
        shared.waiters.changed(&item.new.root_request_id);
        retry_until_ok(&shared, "project", || project(&shared, &item, line.as_slice())).await;
    });
}

/// Tells the other files about the ends of a turn's items, beside everything else: the mark in
/// `agents.db` says who still must hear of it.
pub(crate) fn project_later(shared: &Arc<Shared>, items: Vec<Item>, lines: Vec<OutboxRecord>) {
    let shared = Arc::clone(shared);
    Arc::clone(&shared).tasks.spawn(async move {
        for item in &items {
            let own: Vec<_> =
                lines.iter().filter(|line| line.request_id == item.new.request_id).cloned().collect();
            retry_until_ok(&shared, "project", || project(&shared, item, &own)).await;
        }
    });
}

/// Delivers one line: readable in history, then shown to whoever watches (S7).
pub(crate) async fn deliver(shared: &Shared, line: &OutboxRecord) -> Result<(), StoreError> {
    shared.parts.agents.outbox_sending(&line.id).await?;
    if let Some(turn_id) = &line.turn_id {
        shared.parts.observer.publish(
            &line.root_request_id,
            BusBody::Reply {
                request_id: line.request_id.clone(),
                session: line.session.clone(),
                turn_id: turn_id.clone(),
                outbox_id: line.id.clone(),
                message_id: line.message_id.clone(),
                state: match line.state {
                    OutboxState::Final => TurnState::Final,
                    OutboxState::Aborted => TurnState::Aborted,
                    OutboxState::Error => TurnState::Error,
                },
                text: line.text.clone(),
            },
        );
    }
    failpoint::hit("s7.published");
    shared.parts.agents.outbox_delivered(&line.id).await
}

/// Delivers what is owed; returns how many lines.
pub(crate) async fn deliver_undelivered(shared: &Shared) -> Result<usize, StoreError> {
    let mut count = 0;
    loop {
        let lines = shared.parts.agents.undelivered(CATCH_UP_BATCH).await?;
        for line in &lines {
            deliver(shared, line).await?;
            shared.waiters.changed(&line.root_request_id);
        }
        count += lines.len();
        if lines.len() < CATCH_UP_BATCH {
            return Ok(count);
        }
    }
}

/// Tells the other files about ends they have not heard of; returns how many.
pub(crate) async fn project_unprojected(shared: &Shared) -> Result<usize, StoreError> {
    let mut count = 0;
    loop {
        let items = shared.parts.agents.unprojected_items(CATCH_UP_BATCH).await?;
        for item in &items {
            let lines = shared.parts.agents.lines_of_request(&item.new.request_id).await?;
            project(shared, item, &lines).await?;
        }
        count += items.len();
        if items.len() < CATCH_UP_BATCH {
            return Ok(count);
        }
        // The marks are not awaited one by one; the next look must see them.
        shared.parts.agents.flush().await?;
    }
}

/// Tells the other files about one end, then marks it as told (S8).
pub(crate) async fn project(shared: &Shared, item: &Item, lines: &[OutboxRecord]) -> Result<(), StoreError> {
    let turn = match &item.turn_id {
        Some(turn) => shared.parts.agents.turn(turn).await?,
        None => None,
    };
    failpoint::hit("s8.before_project");
    shared.parts.observer.project(&Ended { item, turn: turn.as_ref(), lines }).await?;
    failpoint::hit("s8.projected");
    shared.parts.agents.item_projected(item.new.id.clone());
    Ok(())
}
