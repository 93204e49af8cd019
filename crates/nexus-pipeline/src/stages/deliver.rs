//! Stage seven: what a turn says reaches those it is for, and what its end leads to begins.

use std::sync::Arc;
use std::time::Instant;

use nexus_base::clock::Timestamp;
use nexus_protocol::bus::BusBody;
use nexus_protocol::trace::Stage;

use super::EndedTurn;
use crate::sessions::{Shared, outbox, progress, retry};

pub(super) async fn deliver(shared: &Arc<Shared>, ended: &mut EndedTurn) {
    tracing::trace!("stage seven: deliver");
    let (started, watch) = (Timestamp::now(), Instant::now());
    for line in &ended.lines {
        retry::until_ok(shared, "deliver", || outbox::deliver(shared, line)).await;
    }
    progress::passed(shared, &ended.items, Stage::DeliverResponse, started, watch.elapsed());
    shared.apply_aftermath(std::mem::take(&mut ended.aftermath), "the agent that started it had ended").await;
    shared.waiters.changed(&ended.root);
    if let Ok(Some((root, true))) = shared.parts.agents.quiescence(&ended.root).await {
        shared.parts.observer.publish(&root, BusBody::Quiescent { request_id: root.clone() });
    }
}
