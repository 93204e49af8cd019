//! The way in: stages one to four of every request, from the durable insert to the queue.

use std::sync::Arc;
use std::time::{Duration, Instant};

use nexus_base::clock::Timestamp;
use nexus_base::failpoint;
use nexus_base::id::{EntityId, EventId, QueueItemId, RequestId, SessionLabel, new_ulid, to_hex};
use nexus_identity::{Access, Decision, Principal, Source};
use nexus_protocol::chat::{
    ChatAccepted, ChatSend, LONGEST_IDEMPOTENCY_KEY, LONGEST_MESSAGE, QueueMode as WireQueueMode,
};
use nexus_protocol::framing::key;
use nexus_protocol::trace::Stage;
use nexus_session::Broker;
use nexus_store::agents::{ItemKind, ItemMode, NewItem, NewSession, SessionRole};
use nexus_store::events::{AcceptedEvent, Event, InboxOutcome, NewEvent, Received};
use nexus_store::runtime::{NewRequest, RequestStatus, RequestUpdate, StageTiming};
use nexus_store::{Store, StoreError};
use nexus_workspace::config::QueueMode;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::RuntimeError;
use crate::between::{Between, Passing};
use crate::engine::Workshop;
use crate::observer::Recorder;

/// Source of everything that comes over the control plane.
const CONTROL_PLANE: &str = "control-plane";
/// First and longest pause before a message that could not be queued is tried again.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// Longest session label a person may name.
const LONGEST_LABEL: usize = 200;

/// Stages one to four.
#[derive(Debug)]
pub(crate) struct Pipeline {
    store: Store,
    broker: Broker,
    recorder: Arc<Recorder>,
    workshop: Arc<Workshop>,
    pub(crate) access: Access,
    owner: EntityId,
    tasks: TaskTracker,
    stopping: CancellationToken,
    between: Arc<Between>,
}

/// What a person asked for besides the words, kept with the event so that a restart can go on.
struct Wish {
    session: SessionLabel,
    mode: ItemMode,
    kind: ItemKind,
}

impl Pipeline {
    pub(crate) fn new(
        store: Store,
        broker: Broker,
        recorder: Arc<Recorder>,
        workshop: Arc<Workshop>,
        owner: EntityId,
    ) -> Self {
        let access = Access::new(store.identity().clone());
        Self {
            store,
            broker,
            recorder,
            workshop,
            access,
            owner,
            tasks: TaskTracker::new(),
            stopping: CancellationToken::new(),
            between: Arc::default(),
        }
    }

    /// Returns the owner's own conversation.
    pub(crate) fn owner_session(&self) -> SessionLabel {
        SessionLabel::new(format!("dm:{}", self.owner))
    }

    /// Stage one: durable, then acknowledged; the rest goes on without the caller.
    pub(crate) async fn accept(self: &Arc<Self>, send: ChatSend) -> Result<ChatAccepted, RuntimeError> {
        self.accept_as(send, ItemKind::Message).await
    }

    /// Like [`Pipeline::accept`], for words that are not the person's own.
    pub(crate) async fn accept_as(
        self: &Arc<Self>,
        send: ChatSend,
        kind: ItemKind,
    ) -> Result<ChatAccepted, RuntimeError> {
        let (started, watch) = (Timestamp::now(), Instant::now());
        // A key that somebody pastes into a conversation would lie in three databases for ever.
        let send = ChatSend { message: self.recorder.redactor.redact(&send.message), ..send };
        let wish = Wish { kind, ..self.read_wish(&send)? };
        let body_hash = hash(&send);
        let source_id = send.idempotency_key.clone().unwrap_or_else(new_ulid);
        let mut event = NewEvent::message(CONTROL_PLANE, &source_id, self.owner.as_str(), &send.message);
        event.container_kind = Some("dm".to_owned());
        event.container_id = Some(wish.session.to_string());
        event.metadata = Some(
            json!({"session": wish.session.as_str(), "mode": wish.mode.as_str(), "kind": wish.kind.as_str()}),
        );
        let event_id = event.id();
        let request_id = RequestId::generate();
        let mut passing = self.between.enter(&request_id);
        match self.store.events().receive(event.clone(), request_id.clone(), body_hash).await? {
            Received::New => {}
            Received::Duplicate { request_id: first, same_body, .. } => {
                return duplicate(first, event_id, wish.session, same_body);
            }
        }
        // Before the acknowledgement: who waits for it and then sends more comes behind.
        passing.line_up(&wish.session);
        self.recorder.counters.accepted();
        let event = Event { id: event_id.clone(), received_at: started, body: event };
        self.begin_trace(&event, &request_id, &wish.session, started, watch);
        let (pipeline, id, session) = (Arc::clone(self), request_id.clone(), wish.session.clone());
        self.tasks.spawn(async move {
            pipeline.carry_on(&event, &id, &wish, passing).await;
        });
        failpoint::hit("s1.acknowledged");
        Ok(ChatAccepted { request_id, event_id, session, duplicate: false })
    }

    /// Goes on with an event that an earlier life of the daemon acknowledged.
    pub(crate) async fn readmit(&self, accepted: &AcceptedEvent) -> Result<(), StoreError> {
        let text = |name: &str| {
            let metadata = accepted.event.body.metadata.as_ref()?;
            metadata.get(name)?.as_str().map(str::to_owned)
        };
        let wish = Wish {
            session: text("session").map_or_else(|| self.owner_session(), SessionLabel::new),
            mode: match text("mode").as_deref() {
                Some("interrupt") => ItemMode::Interrupt,
                Some("collect") => ItemMode::Collect,
                Some(_) | None => ItemMode::Followup,
            },
            kind: match text("kind").as_deref() {
                Some("system") => ItemKind::System,
                Some(_) | None => ItemKind::Message,
            },
        };
        // One that is in its queue is carried on from there; one that has ended only has to be told
        // again, because a loss of power may have taken the other files' knowledge of it.
        if self.broker.tell_again(&accepted.request_id).await?.is_some() {
            return Ok(());
        }
        self.begin_trace(
            &accepted.event,
            &accepted.request_id,
            &wish.session,
            accepted.accepted_at,
            Instant::now(),
        );
        match self.decide(&accepted.event, &accepted.request_id, &wish).await? {
            Some(permissions) => self.admit(&accepted.event, &accepted.request_id, &wish, &permissions).await,
            None => Ok(()),
        }
    }

    /// Waits until a request is no longer between its acknowledgement and its queue.
    pub(crate) async fn settled(&self, request: &RequestId) {
        self.between.settled(request).await;
    }

    /// Lets everything between acknowledgement and queue arrive.
    pub(crate) async fn drain(&self) {
        self.stopping.cancel();
        self.tasks.close();
        self.tasks.wait().await;
    }

    /// Brings an acknowledged message to its queue, however often that takes: only a stop ends it
    /// early, and then the open promise in the inbox makes the next start go on.
    async fn carry_on(&self, event: &Event, request: &RequestId, wish: &Wish, mut passing: Passing) {
        let mut pause = FIRST_PAUSE;
        loop {
            let attempt = async {
                let Some(permissions) = self.decide(event, request, wish).await? else { return Ok(()) };
                passing.my_turn().await;
                self.admit(event, request, wish, &permissions).await
            };
            let Err(error) = attempt.await else { return };
            tracing::error!(%request, %error, hint = ?error.hint(), "an accepted message could not be queued");
            let update = RequestUpdate {
                error_stage: Some(Stage::RunAutomations.name().to_owned()),
                error_message: Some(error.to_string()),
                ..RequestUpdate::default()
            };
            self.store.runtime().request_stage_later(request.clone(), update);
            tokio::select! {
                () = tokio::time::sleep(pause) => pause = (pause * 2).min(LONGEST_PAUSE),
                () = self.stopping.cancelled() => return,
            }
        }
    }

    /// Stages two to four; returns what the request may do, or nothing when it ends here (S2).
    async fn decide(
        &self,
        event: &Event,
        request: &RequestId,
        wish: &Wish,
    ) -> Result<Option<Value>, StoreError> {
        let clock = StageClock::start();
        let principal = self.access.principal(Source::Owner { entity: self.owner.clone() }).await?;
        let update = RequestUpdate {
            principal_id: principal.entity_id().cloned(),
            principal_type: Some(principal.kind().to_owned()),
            principal_is_user: Some(matches!(principal, Principal::Owner { .. })),
            ..RequestUpdate::default()
        };
        self.recorder.stage(
            request,
            request,
            Stage::ResolveIdentity,
            clock.stop(Stage::ResolveIdentity),
            update,
        );

        let clock = StageClock::start();
        let verdict = self.access.decide(&principal, &event.id, &wish.session);
        let update = RequestUpdate {
            access_decision: Some(verdict.decision.as_str().to_owned()),
            access_policy: verdict.policy.clone(),
            permissions: Some(verdict.permissions.to_json()),
            session_key: Some(wish.session.clone()),
            ..RequestUpdate::default()
        };
        self.recorder.stage(request, request, Stage::ResolveAccess, clock.stop(Stage::ResolveAccess), update);
        if verdict.decision != Decision::Allow {
            self.store.events().close_inbox(event.id.clone(), InboxOutcome::Denied).await?;
            self.store.runtime().request_finished_later(
                request.clone(),
                RequestStatus::Denied,
                RequestUpdate::default(),
            );
            failpoint::hit("s2.closed");
            return Ok(None);
        }

        // Automations that run here come with their handlers; the stage is passed, and timed, all the same.
        let clock = StageClock::start();
        let update = RequestUpdate { hooks_matched: Some(json!([])), ..RequestUpdate::default() };
        self.recorder.stage(
            request,
            request,
            Stage::RunAutomations,
            clock.stop(Stage::RunAutomations),
            update,
        );

        Ok(Some(verdict.permissions.to_json()))
    }

    /// Puts the request into its session's queue (S3); being there already is fine.
    async fn admit(
        &self,
        event: &Event,
        request: &RequestId,
        wish: &Wish,
        permissions: &Value,
    ) -> Result<(), StoreError> {
        let session = NewSession {
            label: wish.session.clone(),
            persona: self.workshop.persona_name(),
            role: SessionRole::Manager,
            origin: "nexus",
            settings_json: "{}".to_owned(),
        };
        let item = NewItem {
            id: QueueItemId::new(event.id.as_str()),
            session: wish.session.clone(),
            request_id: request.clone(),
            parent_request_id: None,
            root_request_id: request.clone(),
            source_event_id: Some(event.id.clone()),
            kind: wish.kind,
            mode: wish.mode,
            frame_json: json!([[key::PLATFORM, event.body.platform], [key::SENDER, "owner"]]).to_string(),
            content: event.body.content.clone(),
            permissions_json: permissions.to_string(),
        };
        self.broker.admit(session, item).await.map(drop)
    }

    fn begin_trace(
        &self,
        event: &Event,
        request: &RequestId,
        session: &SessionLabel,
        started: Timestamp,
        watch: Instant,
    ) {
        self.store.runtime().request_started_later(NewRequest {
            id: request.clone(),
            parent_request_id: None,
            root_request_id: request.clone(),
            event_id: event.id.clone(),
            event_type: event.body.kind.clone(),
            event_source: event.body.source.clone(),
            stage: Stage::ReceiveEvent.name().to_owned(),
            session_key: Some(session.clone()),
            started_at: started,
        });
        let timing = StageTiming {
            stage: Stage::ReceiveEvent.name().to_owned(),
            started_at: started,
            duration_us: microseconds(watch),
        };
        self.recorder.stage(request, request, Stage::ReceiveEvent, timing, RequestUpdate::default());
    }

    fn read_wish(&self, send: &ChatSend) -> Result<Wish, RuntimeError> {
        if send.message.trim().is_empty() {
            return Err(invalid("the message is empty", None));
        }
        if send.message.len() > LONGEST_MESSAGE {
            return Err(invalid(
                &format!("the message has {} bytes; the most is {LONGEST_MESSAGE}", send.message.len()),
                Some("put long material into a file under home/ and say where it is"),
            ));
        }
        if send.project.is_some() {
            return Err(invalid("`project` is not supported by this version", Some("leave it out")));
        }
        if let Some(key) = &send.idempotency_key
            && (key.is_empty() || key.len() > LONGEST_IDEMPOTENCY_KEY || key.chars().any(char::is_control))
        {
            return Err(invalid(
                &format!("idempotencyKey must have 1 to {LONGEST_IDEMPOTENCY_KEY} printable characters"),
                None,
            ));
        }
        let session = match &send.session {
            Some(label) => check_label(label)?,
            None => self.owner_session(),
        };
        let mode = match send.queue_mode {
            Some(WireQueueMode::Interrupt | WireQueueMode::Steer) => ItemMode::Interrupt,
            Some(WireQueueMode::Followup | WireQueueMode::Queue) => ItemMode::Followup,
            Some(WireQueueMode::Collect) => ItemMode::Collect,
            None => configured_mode(self.workshop.settings().queue.mode),
        };
        Ok(Wish { session, mode, kind: ItemKind::Message })
    }
}

/// A stage's start, for its timing.
struct StageClock {
    started: Timestamp,
    watch: Instant,
}

impl StageClock {
    fn start() -> Self {
        Self { started: Timestamp::now(), watch: Instant::now() }
    }

    fn stop(&self, stage: Stage) -> StageTiming {
        StageTiming {
            stage: stage.name().to_owned(),
            started_at: self.started,
            duration_us: microseconds(self.watch),
        }
    }
}

fn microseconds(watch: Instant) -> u64 {
    u64::try_from(watch.elapsed().as_micros()).unwrap_or(u64::MAX)
}

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
        "this idempotencyKey was used before with another body",
        Some("use a new key for a new message"),
    ))
}

const fn configured_mode(mode: QueueMode) -> ItemMode {
    match mode {
        QueueMode::Interrupt | QueueMode::Steer => ItemMode::Interrupt,
        QueueMode::Followup | QueueMode::Queue => ItemMode::Followup,
        QueueMode::Collect => ItemMode::Collect,
    }
}

/// Checks a session label a person named: a family, a colon, a name.
pub(crate) fn check_label(label: &SessionLabel) -> Result<SessionLabel, RuntimeError> {
    let text = label.as_str();
    let well_formed = text.len() <= LONGEST_LABEL
        && text.split_once(':').is_some_and(|(family, name)| {
            !family.is_empty() && !name.is_empty() && family.bytes().all(|byte| byte.is_ascii_lowercase())
        })
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b':' | b'-' | b'_' | b'.'));
    if !well_formed {
        return Err(invalid(
            &format!("{text:?} is not a session label"),
            Some(
                "labels look like chat:garden: a family in small letters, a colon, then letters, digits, - _ . :",
            ),
        ));
    }
    if matches!(label.as_str().split(':').next(), Some("worker" | "system" | "meeseeks")) {
        return Err(RuntimeError::Forbidden {
            reason: format!("{text} is run by the daemon; talk to your assistant instead"),
        });
    }
    Ok(label.clone())
}

fn invalid(message: &str, hint: Option<&str>) -> RuntimeError {
    RuntimeError::Invalid { message: message.to_owned(), hint: hint.map(str::to_owned) }
}

fn hash(send: &ChatSend) -> String {
    // Everything that would make it another request; the key itself is what it is compared under.
    let body = json!([send.message, send.session, send.project, send.queue_mode]);
    to_hex(&Sha256::digest(body.to_string().as_bytes()))
}
