//! One session's task: claim, run, finish, until nothing waits. Also what is owed from before.

use std::sync::Arc;
use std::time::Duration;

use nexus_base::failpoint;
use nexus_base::id::SessionLabel;
use nexus_protocol::bus::{BusBody, TurnState};
use nexus_store::StoreError;
use nexus_store::agents::{Claim, Item, OutboxRecord, OutboxState, SessionRole};

use crate::broker::Shared;
use crate::engine::Ended;
use crate::run;

/// Rows looked at in one go when catching up.
const CATCH_UP_BATCH: usize = 256;
/// Pause after the ledger refused a claim, before it is tried again.
const CLAIM_RETRY: Duration = Duration::from_secs(1);

/// Takes a session's work until there is none.
pub(crate) async fn run_session(shared: Arc<Shared>, label: SessionLabel) {
    loop {
        if shared.stopping.is_cancelled() {
            shared.live.remove(&label);
            return;
        }
        // A worker takes its slot before it claims, so that a claimed turn is always a running one.
        let _slot = if label.as_str().starts_with("worker:") {
            tokio::select! {
                slot = Arc::clone(&shared.worker_slots).acquire_owned() => slot.ok(),
                () = shared.stopping.cancelled() => continue,
            }
        } else {
            None
        };
        let engine = Arc::clone(&shared.parts.engine);
        let claim =
            shared.parts.agents.claim(&label, &shared.parts.boot, move |item| engine.frame(item)).await;
        match claim {
            Ok(Some(Claim::Fresh(claimed) | Claim::Resumed(claimed))) => {
                run::take_turn(&shared, claimed).await
            }
            Ok(Some(Claim::GivenUp(claimed))) => run::give_up(&shared, claimed).await,
            Ok(None) if shared.live.may_end(&label) => return,
            Ok(None) => {}
            Err(error) => {
                tracing::error!(session = %label, %error, "the ledger refused a claim");
                tokio::select! {
                    () = tokio::time::sleep(CLAIM_RETRY) => {}
                    () = shared.stopping.cancelled() => {}
                }
            }
        }
    }
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
            shared.changed(&line.root_request_id);
        }
        count += lines.len();
        if lines.len() < CATCH_UP_BATCH {
            return Ok(count);
        }
    }
}

/// Tells the other files about ends they have not heard of; returns how many.
pub(crate) async fn project_unprojected(shared: &Shared) -> Result<usize, StoreError> {
    let items = shared.parts.agents.unprojected_items(CATCH_UP_BATCH * 16).await?;
    for item in &items {
        let lines = shared.parts.agents.lines_of_request(&item.new.request_id).await?;
        project(shared, item, &lines).await?;
    }
    Ok(items.len())
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

/// Says whether a session is a worker's.
pub(crate) fn is_worker(role: SessionRole) -> bool {
    match role {
        SessionRole::Worker => true,
        SessionRole::Manager => false,
    }
}
