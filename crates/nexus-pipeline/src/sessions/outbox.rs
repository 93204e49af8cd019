//! Lines on their way out: said now, or after a restart what an earlier life still owed (S7).

use nexus_base::failpoint;
use nexus_protocol::bus::{BusBody, TurnState};
use nexus_store::StoreError;
use nexus_store::agents::{OutboxRecord, OutboxState};

use crate::sessions::broker::Shared;

/// Lines looked at in one go when catching up.
const CATCH_UP_BATCH: usize = 256;

/// Delivers one line: readable in history, then shown to whoever watches (S7).
pub(crate) async fn deliver(shared: &Shared, line: &OutboxRecord) -> Result<(), StoreError> {
    tracing::trace!("a line is said");
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
                reply_to: line.reply_to.clone(),
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
