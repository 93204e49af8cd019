//! What the runtime writes down about sessions' work: bus events, the trace in `runtime.db`, and
//! the last step of each request (S8). None of it decides whether anything runs.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::sessions::{Ended, Observer, Passage};
use async_trait::async_trait;
use nexus_base::clock::Timestamp;
use nexus_base::id::{EventId, OutboxId, RequestId};
use nexus_base::redact::Redactor;
use nexus_base::text::shorten;
use nexus_protocol::bus::BusBody;
use nexus_protocol::trace::Stage;
use nexus_store::agents::{CallRecord, Item, ItemKind, ItemOutcome, OutboxRecord, SessionRecord, TurnRecord};
use nexus_store::events::{Direction, InboxOutcome, NewEvent};
use nexus_store::runtime::{NewRequest, RequestStatus, RequestUpdate, StageTiming};
use nexus_store::{Store, StoreError};
use serde_json::{Value, json};

use crate::Bus;
use crate::hooks::Slot;
use crate::streams::Streams;

/// Source of everything the assistant says.
const OWN_SOURCE: &str = "nexus";
/// How much of arguments and results a trace row keeps; the ledger has the rest.
const KEPT_TEXT: usize = 2_000;

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
    pub automations: Slot,
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

    fn outbound(&self, ended: &Ended<'_>, line: &OutboxRecord) -> NewEvent {
        let mut event = NewEvent::message(OWN_SOURCE, line.id.as_str(), OWN_SOURCE, &line.text);
        event.direction = Direction::Outbound;
        // The same room as the words it answers, so that both are one conversation to memory.
        (event.container_kind, event.container_id) = (Some("dm".to_owned()), Some(line.session.to_string()));
        event.timestamp = line.created_at;
        event.reply_to = ended.item.new.source_event_id.as_ref().map(ToString::to_string);
        event.metadata = Some(json!({
            "request_id": line.request_id.as_str(),
            "turn_id": line.turn_id.as_ref().map(ToString::to_string),
            "in_reply_to": ended.item.new.source_event_id.as_ref().map(ToString::to_string),
            "session": line.session.as_str(),
            "state": line.state.as_str(),
        }));
        event
    }

    fn calls(&self, turn: &TurnRecord) -> Value {
        let calls = turn.messages.iter().flat_map(|message| &message.calls);
        Value::Array(calls.map(|call| self.call(call)).collect())
    }

    fn call(&self, call: &CallRecord) -> Value {
        json!({
            "id": call.id.as_str(),
            "tool": call.tool,
            "arguments": self.redactor.redact_cut(&shorten(&call.arguments_json, KEPT_TEXT)),
            "status": call.status.as_str(),
            "result": self.redactor.redact_cut(&shorten(call.result.as_deref().unwrap_or_default(), KEPT_TEXT)),
            "spawned_session": call.spawned.as_ref().map(ToString::to_string),
        })
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
        let started = Timestamp::now();
        let said: Vec<NewEvent> = ended.lines.iter().map(|line| self.outbound(ended, line)).collect();
        let event = ended.item.new.source_event_id.clone();
        let closed = event.map(|event| (event, inbox_outcome(ended.item.outcome)));
        if !said.is_empty() || closed.is_some() {
            self.store.events().answered(said, closed).await?;
        }
        let now = Timestamp::now();
        let update = RequestUpdate {
            stage: Some(Stage::Finalize.name().to_owned()),
            timing: Some(StageTiming {
                stage: Stage::Finalize.name().to_owned(),
                started_at: started,
                duration_us: u64::try_from(now.since(started).as_micros()).unwrap_or(u64::MAX),
            }),
            turn_id: ended.item.turn_id.clone(),
            agent_model: ended.turn.and_then(|turn| turn.model.clone()),
            tokens_prompt: ended.turn.map(|turn| turn.input_tokens),
            tokens_completion: ended.turn.map(|turn| turn.output_tokens),
            tokens_total: ended.turn.map(|turn| turn.input_tokens + turn.output_tokens),
            tool_calls: ended.turn.map(|turn| self.calls(turn)),
            delivery_channel: (!ended.lines.is_empty()).then(|| "control-plane".to_owned()),
            delivery_message_ids: Some(json!(
                ended.lines.iter().map(|line| line.message_id.as_str()).collect::<Vec<_>>()
            )),
            delivery_success: Some(true),
            error_stage: ended.item.error.as_ref().map(|_| Stage::RunAgent.name().to_owned()),
            error_message: ended.item.error.clone(),
            snapshot: Some(self.snapshot(ended)),
            ..RequestUpdate::default()
        };
        let status = request_status(ended.item);
        // The row may be missing after a power loss, which may take unsynced trace rows with it.
        self.store.runtime().request_ended(begun(ended.item), status, update).await?;
        if let Some(automations) = self.automations.get() {
            automations.ended(ended).await?;
        }
        if ended.item.new.kind == ItemKind::Message {
            let took = now.since(ended.item.enqueued_at).as_millis();
            self.counters.ended(u64::try_from(took).unwrap_or(u64::MAX));
        }
        self.bus.publish(
            Some(ended.item.new.root_request_id.clone()),
            BusBody::RequestEnded {
                request_id: ended.item.new.request_id.clone(),
                status: status.as_str().to_owned(),
            },
        );
        Ok(())
    }
}

impl Recorder {
    fn snapshot(&self, ended: &Ended<'_>) -> Value {
        json!({
            "event": ended.item.new.source_event_id.as_ref().map(ToString::to_string),
            "kind": ended.item.new.kind.as_str(),
            "input": self.redactor.redact_cut(&shorten(&ended.item.new.content, KEPT_TEXT)),
            "output": self.redactor.redact_cut(&shorten(
                &ended.lines.iter().map(|line| line.text.as_str()).collect::<Vec<_>>().join("\n\n"),
                KEPT_TEXT,
            )),
            "attempts": ended.item.attempt,
            "outcome": ended.item.outcome.map(ItemOutcome::as_str),
            "stop_reason": ended.turn.and_then(|turn| turn.stop_reason.clone()),
        })
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

const fn request_status(item: &Item) -> RequestStatus {
    match item.outcome {
        Some(ItemOutcome::Completed) if item.turn_id.is_none() => RequestStatus::HandledByAutomation,
        Some(ItemOutcome::Completed | ItemOutcome::Merged) => RequestStatus::Completed,
        Some(ItemOutcome::Aborted | ItemOutcome::Cancelled) => RequestStatus::Interrupted,
        Some(ItemOutcome::Failed | ItemOutcome::Rejected) | None => RequestStatus::Failed,
    }
}

const fn inbox_outcome(outcome: Option<ItemOutcome>) -> InboxOutcome {
    match outcome {
        Some(
            ItemOutcome::Completed | ItemOutcome::Merged | ItemOutcome::Aborted | ItemOutcome::Cancelled,
        ) => InboxOutcome::Done,
        Some(ItemOutcome::Failed | ItemOutcome::Rejected) | None => InboxOutcome::Failed,
    }
}
