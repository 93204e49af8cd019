//! What the runtime writes down about sessions' work: bus events, the trace in `runtime.db`, and
//! the last step of each request (S8). None of it decides whether anything runs.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::sessions::{Ended, Observer, Passage};
use async_trait::async_trait;
use nexus_base::id::{EventId, OutboxId, RequestId};
use nexus_base::redact::Redactor;
use nexus_protocol::bus::BusBody;
use nexus_protocol::trace::Stage;
use nexus_store::agents::{Item, ItemKind, SessionRecord};
use nexus_store::runtime::{NewRequest, RequestUpdate, StageTiming};
use nexus_store::{Store, StoreError};

use crate::Bus;
use crate::hooks::Automations;
use crate::streams::Streams;

/// Source of everything the assistant says.
pub(crate) const OWN_SOURCE: &str = "nexus";

/// Figures of this life of the daemon.
#[derive(Debug, Default)]
pub struct Counters {
    accepted: AtomicU64,
    ended: AtomicU64,
    milliseconds: AtomicU64,
}

impl Counters {
    pub fn accepted(&self) {
        self.accepted.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn ended(&self, milliseconds: u64) {
        self.ended.fetch_add(1, Ordering::Relaxed);
        self.milliseconds.fetch_add(milliseconds, Ordering::Relaxed);
    }

    /// Returns requests open, requests ended, and the mean time of the ended ones.
    pub fn read(&self) -> (u64, u64, u64) {
        let ended = self.ended.load(Ordering::Relaxed);
        let open = self.accepted.load(Ordering::Relaxed).saturating_sub(ended);
        (open, ended, self.milliseconds.load(Ordering::Relaxed).checked_div(ended).unwrap_or(0))
    }
}

/// Writes the trace.
#[derive(Debug)]
pub struct Recorder {
    pub store: Store,
    pub bus: Bus,
    pub counters: Arc<Counters>,
    pub redactor: Arc<Redactor>,
    pub streams: Streams,
    pub automations: Arc<Automations>,
}

impl Recorder {
    /// Notes that a request passed a stage.
    pub(crate) fn stage(
        &self,
        request: &RequestId,
        root: &RequestId,
        stage: Stage,
        timing: StageTiming,
        mut update: RequestUpdate,
    ) {
        update.stage = Some(stage.name().to_owned());
        update.timing = Some(timing);
        self.store.runtime().request_stage_later(request.clone(), update);
        self.bus.publish(
            Some(root.clone()),
            BusBody::Stage { request_id: request.clone(), stage: stage.name().to_owned() },
        );
    }
}

#[async_trait]
impl Observer for Recorder {
    fn publish(&self, root: &RequestId, body: BusBody) {
        for body in self.streams.pass(body) {
            self.bus.publish(Some(root.clone()), body);
        }
    }

    fn taken(&self, item: &Item, session: &SessionRecord) {
        // A person's message has its row since stage one; workers and results begin here.
        self.store.runtime().request_started_later(begun(item));
        self.store.runtime().request_stage_later(
            item.new.request_id.clone(),
            RequestUpdate {
                stage: Some(Stage::AssembleContext.name().to_owned()),
                session_key: Some(session.label.clone()),
                session_persona: Some(session.persona.clone()),
                turn_id: item.turn_id.clone(),
                ..RequestUpdate::default()
            },
        );
    }

    fn passed(&self, passage: &Passage<'_>) {
        let timing = StageTiming {
            stage: passage.stage.name().to_owned(),
            started_at: passage.started,
            duration_us: u64::try_from(passage.took.as_micros()).unwrap_or(u64::MAX),
        };
        self.stage(passage.request, passage.root, passage.stage, timing, RequestUpdate::default());
    }

    async fn project(&self, ended: &Ended<'_>) -> Result<(), StoreError> {
        self.write_end(ended).await
    }
}

/// Returns the event under which a line stands in `events.db`.
pub(crate) fn spoken(line: &OutboxId) -> EventId {
    EventId::new(format!("{OWN_SOURCE}:{line}"))
}

pub(crate) fn begun(item: &Item) -> NewRequest {
    NewRequest {
        id: item.new.request_id.clone(),
        parent_request_id: item.new.parent_request_id.clone(),
        root_request_id: item.new.root_request_id.clone(),
        event_id: event_of(item),
        event_type: item.new.kind.as_str().to_owned(),
        event_source: source_of(item.new.kind).to_owned(),
        stage: Stage::ReceiveEvent.name().to_owned(),
        session_key: Some(item.new.session.clone()),
        started_at: item.enqueued_at,
    }
}

fn event_of(item: &Item) -> EventId {
    item.new.source_event_id.clone().unwrap_or_else(|| EventId::new(item.new.id.as_str()))
}

const fn source_of(kind: ItemKind) -> &'static str {
    match kind {
        ItemKind::Message => "control-plane",
        ItemKind::Task | ItemKind::WorkerResult | ItemKind::AgentMessage => "agent",
        ItemKind::System => "system",
    }
}
