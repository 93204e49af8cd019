//! Stage eight: the other files learn how a request ended, now or after a restart (S8).

use std::sync::Arc;

use nexus_base::clock::Timestamp;
use nexus_base::failpoint;
use nexus_base::text::shorten;
use nexus_protocol::bus::BusBody;
use nexus_protocol::trace::Stage;
use nexus_store::StoreError;
use nexus_store::agents::{CallRecord, Item, ItemKind, ItemOutcome, OutboxRecord, TurnRecord};
use nexus_store::events::{Direction, InboxOutcome, NewEvent};
use nexus_store::runtime::{RequestStatus, RequestUpdate, StageTiming};
use serde_json::{Value, json};

use super::EndedTurn;
use crate::observer::{OWN_SOURCE, Recorder, begun};
use crate::sessions::{Ended, Shared, retry};

/// Ends looked at in one go when catching up.
const CATCH_UP_BATCH: usize = 256;
/// How much of arguments and results a trace row keeps; the ledger has the rest.
const KEPT_TEXT: usize = 2_000;

/// Tells the other files about the ends of a turn's items, beside everything else: the mark in
/// `agents.db` says who still must hear of it.
pub(super) fn finalize_later(shared: &Arc<Shared>, ended: EndedTurn) {
    let EndedTurn { items, lines, .. } = ended;
    let shared = Arc::clone(shared);
    Arc::clone(&shared).tasks.spawn("finalize", async move {
        for item in &items {
            let own: Vec<_> =
                lines.iter().filter(|line| line.request_id == item.new.request_id).cloned().collect();
            retry::until_ok(&shared, "project", || project(&shared, item, &own)).await;
        }
    });
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
    tracing::trace!("stage eight: finalize");
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

impl Recorder {
    /// Writes what the other files keep of an end; repeatable.
    pub(crate) async fn write_end(&self, ended: &Ended<'_>) -> Result<(), StoreError> {
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
        self.automations.ended(ended).await?;
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
            "quotes": line.reply_to,
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
