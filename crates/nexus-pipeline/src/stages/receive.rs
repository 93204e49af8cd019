//! Stage one: a message on disk, once, before its sender is told (S1).

use nexus_base::clock::Timestamp;
use nexus_base::id::{EventId, RequestId, SessionLabel, new_ulid, to_hex};
use nexus_protocol::chat::{ChatAccepted, ChatSend};
use nexus_protocol::trace::Stage;
use nexus_store::events::{Event, NewEvent, Received as Stored};
use nexus_store::runtime::{NewRequest, RequestUpdate, StageTiming};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::{Message, StageClock};
use crate::RuntimeError;
use crate::admission::Ticket;
use crate::pipeline::Pipeline;
use crate::send_options::{SendOptions, SentBy, invalid};

/// Source of everything that comes over the control plane.
const CONTROL_PLANE: &str = "control-plane";

/// What became of a message that was sent.
pub(crate) enum Received {
    /// It is on disk, and has its place behind those that came before it.
    New(Box<Message>, Ticket),
    /// It came before, with the same key and the same body.
    Before(ChatAccepted),
}

pub(super) async fn receive(
    pipeline: &Pipeline,
    send: ChatSend,
    options: SendOptions,
) -> Result<Received, RuntimeError> {
    tracing::trace!("stage one: receive");
    let (received_at, clock) = (Timestamp::now(), StageClock::start());
    // A key that somebody pastes into a conversation would lie in three databases for ever.
    let send = ChatSend { message: pipeline.recorder.redactor.redact(&send.message), ..send };
    let body_hash = hash(&send);
    let source_id = match &send.idempotency_key {
        // Everybody has keys of their own: nobody's message passes for the repetition of somebody else's.
        Some(key) => match &options.caller {
            SentBy::Client(name) => format!("{name}:{key}"),
            SentBy::Owner | SentBy::System(_) => key.clone(),
        },
        None => new_ulid(),
    };
    let mut event = NewEvent::message(CONTROL_PLANE, &source_id, pipeline.owner.as_str(), &send.message);
    event.container_kind = Some("dm".to_owned());
    event.container_id = Some(options.session.to_string());
    event.metadata = Some(options.to_json());
    let event_id = event.id();
    let request = RequestId::generate();
    let mut ticket = pipeline.admission.enter(&request);
    match pipeline.store.events().receive(event.clone(), request.clone(), body_hash).await? {
        Stored::New => {}
        Stored::Duplicate { request_id: first, same_body, .. } => {
            return duplicate(first, event_id, options.session, same_body).map(Received::Before);
        }
    }
    // Before the acknowledgement: who waits for it and then sends more comes behind.
    ticket.enqueue(&options.session);
    pipeline.recorder.counters.accepted();
    let message = Message { event: Event { id: event_id, received_at, body: event }, request, options };
    begin_trace(pipeline, &message, received_at, &clock);
    Ok(Received::New(Box::new(message), ticket))
}

/// Answers a message that came before.
fn duplicate(
    request_id: RequestId,
    event_id: EventId,
    session: SessionLabel,
    same_body: bool,
) -> Result<ChatAccepted, RuntimeError> {
    if same_body {
        return Ok(ChatAccepted { request_id, event_id, session, duplicate: true });
    }
    Err(invalid(
        "this idempotencyKey was already used with another body",
        Some("use a new key for a new message"),
    ))
}

/// Begins what `nexus trace` shows of a message.
pub(crate) fn begin_trace(pipeline: &Pipeline, message: &Message, started: Timestamp, clock: &StageClock) {
    let Message { event, request, options } = message;
    pipeline.store.runtime().request_started_later(NewRequest {
        id: request.clone(),
        parent_request_id: None,
        root_request_id: request.clone(),
        event_id: event.id.clone(),
        event_type: event.body.kind.clone(),
        event_source: event.body.source.clone(),
        stage: Stage::ReceiveEvent.name().to_owned(),
        session_key: Some(options.session.clone()),
        started_at: started,
    });
    let timing = StageTiming { started_at: started, ..clock.stop(Stage::ReceiveEvent) };
    pipeline.recorder.stage(request, request, Stage::ReceiveEvent, timing, RequestUpdate::default());
}

/// Returns the hash by which the same body is known again.
fn hash(send: &ChatSend) -> String {
    // Everything that would make it another request; the key itself is what it is compared under.
    let mut body =
        vec![json!(send.message), json!(send.session), json!(send.project), json!(send.queue_mode)];
    body.extend(send.model.as_ref().map(|model| json!(model)));
    let body = Value::Array(body);
    to_hex(&Sha256::digest(body.to_string().as_bytes()))
}
