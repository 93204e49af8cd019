//! Going on after a crash, before the daemon says that it is ready.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use crate::sessions::Broker;
use nexus_base::id::{EventId, RequestId};
use nexus_process::{FileRecord, GroupRecord, LiveGroup, end_left_over};
use nexus_protocol::trace::Stage;
use nexus_store::events::InboxOutcome;
use nexus_store::runtime::{NewRequest, Request, RequestStatus, RequestUpdate};
use nexus_store::{Store, StoreError};

use crate::observer::spoken;
use crate::pipeline::Pipeline;

/// Newest ends and lines that are looked for in the other files. More than a loss of power takes: the
/// system writes back within seconds.
const LOOK_BACK: u32 = 500;
/// Accepted events looked at in one go.
const BATCH: u32 = 500;

/// What was found and taken up again.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Recovered {
    pub processes: usize,
    pub accepted: usize,
    pub sessions: usize,
    pub traces: usize,
}

impl std::fmt::Display for Recovered {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if *self == Self::default() {
            return formatter.write_str("nothing to recover");
        }
        write!(
            formatter,
            "ended {} orphaned processes, resumed {} messages and {} sessions, closed {} traces",
            self.processes, self.accepted, self.sessions, self.traces
        )
    }
}

/// Ends what tool calls of an earlier life left running; returns how many processes. Comes first: a
/// resumed turn must not meet its own past still at work.
pub async fn end_processes(groups: Vec<LiveGroup>, record: Arc<FileRecord>) -> usize {
    let ended = tokio::task::spawn_blocking(move || {
        let mut ended = 0;
        for group in &groups {
            ended += end_left_over(group);
            record.ended(&group.mark);
        }
        ended
    });
    ended.await.unwrap_or(0)
}

/// Puts acknowledged messages into their queues again; those that are there already stay as they are.
pub async fn readmit(store: &Store, pipeline: &Arc<Pipeline>) -> Result<usize, StoreError> {
    let mut count = 0;
    let mut seen = HashSet::new();
    loop {
        let accepted = store.events().accepted(BATCH).await?;
        let fresh: Vec<_> =
            accepted.into_iter().filter(|event| seen.insert(event.request_id.clone())).collect();
        for event in &fresh {
            pipeline.readmit(event).await?;
        }
        count += fresh.len();
        if fresh.len() < BATCH as usize {
            return Ok(count);
        }
    }
}

/// Brings traces without an end into line with the files that decide: a loss of power may have taken
/// the end of a trace, or the whole request it was about.
pub async fn close_traces(store: &Store, broker: &Broker) -> Result<usize, StoreError> {
    let mut count = tell_forgotten(store, broker).await?;
    begin_turned_away(store).await?;
    for request in store.runtime().unfinished_requests().await? {
        match broker.tell_again(&request.id).await? {
            Some(true) => count += 1,
            // It is carried on and closes its trace itself.
            Some(false) => {}
            None => count += usize::from(close_unqueued(store, request).await?),
        }
    }
    Ok(count)
}

/// Tells the other files again about the newest ends that they have forgotten altogether.
async fn tell_forgotten(store: &Store, broker: &Broker) -> Result<usize, StoreError> {
    let ended = store.agents().newest_ended(LOOK_BACK).await?;
    let mut forgotten: HashSet<RequestId> =
        store.runtime().unknown_requests(ended).await?.into_iter().collect();
    let lines: HashMap<EventId, RequestId> = store
        .agents()
        .newest_lines(LOOK_BACK)
        .await?
        .into_iter()
        .map(|(line, request)| (spoken(&line), request))
        .collect();
    let unspoken = store.events().unknown(lines.keys().cloned().collect()).await?;
    forgotten.extend(unspoken.iter().filter_map(|event| lines.get(event).cloned()));
    let mut count = 0;
    for request in &forgotten {
        count += usize::from(broker.tell_again(request).await? == Some(true));
    }
    Ok(count)
}

/// Begins the trace of a message again that was turned away and of which nothing else tells; it is closed
/// with the others.
async fn begin_turned_away(store: &Store) -> Result<(), StoreError> {
    let away = store.events().turned_away(LOOK_BACK).await?;
    let requests = away.iter().map(|event| event.request_id.clone()).collect();
    let forgotten: HashSet<RequestId> =
        store.runtime().unknown_requests(requests).await?.into_iter().collect();
    for accepted in away.into_iter().filter(|accepted| forgotten.contains(&accepted.request_id)) {
        let begun = NewRequest {
            id: accepted.request_id.clone(),
            parent_request_id: None,
            root_request_id: accepted.request_id,
            event_id: accepted.event.id,
            event_type: accepted.event.body.kind,
            event_source: accepted.event.body.source,
            stage: Stage::ResolveAccess.name().to_owned(),
            session_key: None,
            started_at: accepted.accepted_at,
        };
        store.runtime().request_started(begun).await?;
    }
    Ok(())
}

/// Closes the trace of a request that never reached its queue, unless it still will.
async fn close_unqueued(store: &Store, request: Request) -> Result<bool, StoreError> {
    let promise = store.events().inbox_state(request.event_id.clone()).await?.map(|inbox| inbox.outcome);
    let status = match promise {
        Some(InboxOutcome::Accepted) => return Ok(false),
        Some(InboxOutcome::Denied) => RequestStatus::Denied,
        Some(InboxOutcome::Handled) => RequestStatus::HandledByAutomation,
        Some(InboxOutcome::Skipped) => RequestStatus::Skipped,
        Some(InboxOutcome::Done) => RequestStatus::Completed,
        Some(InboxOutcome::Failed) | None => RequestStatus::Failed,
    };
    let lost = promise.is_none();
    let update = RequestUpdate {
        error_stage: lost.then(|| request.stage.clone()),
        error_message: lost.then(|| "the daemon stopped before this was accepted".to_owned()),
        ..RequestUpdate::default()
    };
    store.runtime().request_finished(request.id, status, update).await
}
