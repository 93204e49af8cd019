//! The way in: stages one to four of every request, from the durable insert to the queue.

mod authorize;
mod automate;
mod decide;
mod identify;
mod send_options;
mod system;

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::sessions::Broker;
use nexus_base::clock::Timestamp;
use nexus_base::failpoint;
use nexus_base::id::{EntityId, QueueItemId, RequestId, SessionLabel, new_ulid};
use nexus_identity::Access;
use nexus_protocol::chat::{ChatAccepted, ChatSend};
use nexus_protocol::framing::key;
use nexus_protocol::trace::Stage;
use nexus_store::agents::{ItemKind, NewItem, NewSession, SessionRole};
use nexus_store::events::{AcceptedEvent, Event, NewEvent, Received};
use nexus_store::runtime::{NewRequest, RequestUpdate, StageTiming};
use nexus_store::{Store, StoreError};
use serde_json::json;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use self::decide::{Asking, Decided, Run, microseconds};
pub use self::send_options::check_label;
use self::send_options::{SendOptions, duplicate, hash};
use crate::RuntimeError;
use crate::admission::{AdmissionOrder, Ticket};
use crate::agent_factory::AgentFactory;
use crate::hooks::Automations;
use crate::observer::Recorder;
use crate::projects::Bound;
use crate::questions::Questions;

/// Source of everything that comes over the control plane.
const CONTROL_PLANE: &str = "control-plane";
/// What stands before the names of facts that automations add, so that none can pass for one of ours.
const ADDED: &str = "hook.";
/// First and longest pause before a message that could not be queued is tried again.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const MAX_PAUSE: Duration = Duration::from_secs(30);
/// Longer than any question stands.
const MAX_HOLD: Duration = Duration::from_secs(48 * 3600);

/// Stages one to four.
#[derive(Debug)]
pub struct Pipeline {
    store: Store,
    broker: Broker,
    recorder: Arc<Recorder>,
    agent_factory: Arc<AgentFactory>,
    pub access: Access,
    questions: Arc<Questions>,
    automations: Arc<Automations>,
    owner: EntityId,
    tasks: TaskTracker,
    stopping: CancellationToken,
    admission: Arc<AdmissionOrder>,
}

impl Pipeline {
    pub fn new(
        store: Store,
        broker: Broker,
        recorder: Arc<Recorder>,
        agent_factory: Arc<AgentFactory>,
        questions: Arc<Questions>,
        automations: Arc<Automations>,
        owner: EntityId,
    ) -> Self {
        let access = Access::new(store.identity().clone());
        Self {
            store,
            broker,
            recorder,
            agent_factory,
            access,
            questions,
            automations,
            owner,
            tasks: TaskTracker::new(),
            stopping: CancellationToken::new(),
            admission: Arc::default(),
        }
    }

    /// Returns the owner's own conversation.
    pub fn owner_session(&self) -> SessionLabel {
        SessionLabel::new(format!("dm:{}", self.owner))
    }

    /// Stage one: durable, then acknowledged; the rest goes on without the caller.
    pub async fn accept(
        self: &Arc<Self>,
        send: ChatSend,
        kind: ItemKind,
        caller: &str,
    ) -> Result<ChatAccepted, RuntimeError> {
        let send_options = self.read_send_options(&send, kind, caller)?;
        if send.project.is_some() {
            self.check_project(&send_options).await?;
        }
        self.receive(send, send_options).await
    }

    async fn receive(
        self: &Arc<Self>,
        send: ChatSend,
        send_options: SendOptions,
    ) -> Result<ChatAccepted, RuntimeError> {
        let (started, watch) = (Timestamp::now(), Instant::now());
        // A key that somebody pastes into a conversation would lie in three databases for ever.
        let send = ChatSend { message: self.recorder.redactor.redact(&send.message), ..send };
        let body_hash = hash(&send);
        let source_id = send.idempotency_key.clone().unwrap_or_else(new_ulid);
        let mut event = NewEvent::message(CONTROL_PLANE, &source_id, self.owner.as_str(), &send.message);
        event.container_kind = Some("dm".to_owned());
        event.container_id = Some(send_options.session.to_string());
        event.metadata = Some(send_options.to_json());
        let event_id = event.id();
        let request_id = RequestId::generate();
        let mut ticket = self.admission.enter(&request_id);
        match self.store.events().receive(event.clone(), request_id.clone(), body_hash).await? {
            Received::New => {}
            Received::Duplicate { request_id: first, same_body, .. } => {
                return duplicate(first, event_id, send_options.session, same_body);
            }
        }
        // Before the acknowledgement: who waits for it and then sends more comes behind.
        ticket.enqueue(&send_options.session);
        self.recorder.counters.accepted();
        let event = Event { id: event_id.clone(), received_at: started, body: event };
        self.begin_trace(&event, &request_id, &send_options.session, started, watch);
        let (pipeline, id, session) = (Arc::clone(self), request_id.clone(), send_options.session.clone());
        self.tasks.spawn(async move {
            pipeline.drive_to_queue(&event, &id, &send_options, ticket, None).await;
        });
        failpoint::hit("s1.acknowledged");
        Ok(ChatAccepted { request_id, event_id, session, duplicate: false })
    }

    /// Refuses a project for a conversation that was made with another one, or with none: its tools are fixed.
    async fn check_project(&self, send_options: &SendOptions) -> Result<(), RuntimeError> {
        let Some(session) = self.store.agents().session(&send_options.session).await? else { return Ok(()) };
        let has = Bound::of(&session.settings_json).project;
        if has == send_options.project {
            return Ok(());
        }
        let has =
            has.map_or_else(|| "no project".to_owned(), |root| format!("the project {}", root.display()));
        Err(RuntimeError::Invalid {
            message: format!("the session {} has {has}, and that cannot be changed", send_options.session),
            hint: Some("leave `session` out, or name a new one".to_owned()),
        })
    }

    /// Goes on with an event that an earlier life of the daemon acknowledged.
    pub async fn readmit(self: &Arc<Self>, accepted: &AcceptedEvent) -> Result<(), StoreError> {
        let send_options = SendOptions::of(accepted, || self.owner_session());
        // One that is in its queue is carried on from there; one that has ended only has to be told
        // again, because a loss of power may have taken the other files' knowledge of it.
        if self.broker.tell_again(&accepted.request_id).await?.is_some() {
            return Ok(());
        }
        let (event, request) = (&accepted.event, &accepted.request_id);
        self.begin_trace(event, request, &send_options.session, accepted.accepted_at, Instant::now());
        match self.decide(event, request, &send_options, Asking::Perhaps).await? {
            Decided::Ended => Ok(()),
            Decided::Run(run) if remaining(event, &run).is_zero() => self.admit(event, request, &run).await,
            // Nobody waits for these before the daemon is ready.
            later @ (Decided::Run(_) | Decided::Held { .. }) => {
                let mut ticket = self.admission.enter(request);
                ticket.enqueue(&send_options.session);
                let (pipeline, event, request) = (Arc::clone(self), event.clone(), request.clone());
                self.tasks.spawn(async move {
                    pipeline.drive_to_queue(&event, &request, &send_options, ticket, Some(later)).await;
                });
                Ok(())
            }
        }
    }

    /// Waits until a request is no longer between its acknowledgement and its queue.
    pub async fn settled(&self, request: &RequestId) {
        self.admission.settled(request).await;
    }

    /// Lets everything between acknowledgement and queue arrive.
    pub async fn drain(&self) {
        self.stopping.cancel();
        self.tasks.close();
        self.tasks.wait().await;
    }

    /// Brings an acknowledged message to its queue, however often that takes: only a stop ends it
    /// early, and then the open promise in the inbox makes the next start go on.
    async fn drive_to_queue(
        &self,
        event: &Event,
        request: &RequestId,
        send_options: &SendOptions,
        mut ticket: Ticket,
        mut decided: Option<Decided>,
    ) {
        let mut pause = FIRST_PAUSE;
        let mut asked = if decided.is_some() { Asking::Perhaps } else { Asking::NotYet };
        loop {
            let decided = match decided.take() {
                Some(decided) => Ok(decided),
                None => self.decide(event, request, send_options, asked).await,
            };
            asked = Asking::Perhaps;
            let stepped = match decided {
                Ok(decided) => self.step(event, request, send_options, &mut ticket, decided).await,
                Err(error) => Err(error),
            };
            let error = match stepped {
                Ok(Step::Over) => return,
                Ok(Step::Again) => continue,
                Err(error) => error,
            };
            tracing::error!(%request, %error, hint = ?error.hint(), "an accepted message could not be queued");
            let update = RequestUpdate {
                error_stage: Some(Stage::RunAutomations.name().to_owned()),
                error_message: Some(error.to_string()),
                ..RequestUpdate::default()
            };
            self.store.runtime().request_stage_later(request.clone(), update);
            tokio::select! {
                () = tokio::time::sleep(pause) => pause = (pause * 2).min(MAX_PAUSE),
                () = self.stopping.cancelled() => return,
            }
        }
    }

    /// Takes a message as far as it goes without an answer of the owner's, or waits for that answer.
    async fn step(
        &self,
        event: &Event,
        request: &RequestId,
        send_options: &SendOptions,
        ticket: &mut Ticket,
        decided: Decided,
    ) -> Result<Step, StoreError> {
        match decided {
            Decided::Ended => Ok(Step::Over),
            Decided::Held { question } => {
                // Those behind it in its session need not wait for the owner, too.
                ticket.yield_place();
                tokio::select! {
                    outcome = self.questions.outcome(&question, MAX_HOLD) => drop(outcome?),
                    () = self.stopping.cancelled() => return Ok(Step::Over),
                }
                ticket.enqueue(&send_options.session);
                Ok(Step::Again)
            }
            Decided::Run(run) => {
                tokio::select! {
                    () = tokio::time::sleep(remaining(event, &run)) => {}
                    () = self.stopping.cancelled() => return Ok(Step::Over),
                }
                ticket.wait().await;
                self.admit(event, request, &run).await?;
                Ok(Step::Over)
            }
        }
    }

    /// Puts the request into its session's queue (S3); being there already is fine.
    async fn admit(&self, event: &Event, request: &RequestId, run: &Run) -> Result<(), StoreError> {
        let (session, item) = self.place(event, request, run);
        self.broker.admit(session, item).await.map(drop)
    }

    /// Returns the session a request goes to and its place in that session's queue.
    fn place(&self, event: &Event, request: &RequestId, run: &Run) -> (NewSession, NewItem) {
        let send_options = &run.send_options;
        let routed = run.persona.as_deref().filter(|persona| self.agent_factory.has_persona(persona));
        let mut settings = routed.map_or_else(|| json!({}), |persona| json!({ "persona": persona }));
        if let Some(project) = &send_options.project {
            settings["project"] = json!(project);
        }
        let session = NewSession {
            label: send_options.session.clone(),
            persona: routed.map_or_else(|| self.agent_factory.persona_name(), str::to_owned),
            role: SessionRole::Manager,
            origin: "nexus",
            settings_json: settings.to_string(),
        };
        let sender = if system::part_of(send_options).is_some() { "system" } else { "owner" };
        let mut facts = vec![
            (key::PLATFORM.to_owned(), event.body.platform.clone()),
            (key::SENDER.to_owned(), sender.to_owned()),
        ];
        facts.extend(send_options.model.clone().map(|model| (key::MODEL.to_owned(), model)));
        if sender == "owner" && send_options.kind == ItemKind::System && send_options.caller != "owner" {
            // A program put it there; whose words it passes on nobody knows.
            facts.push((key::UNTRUSTED.to_owned(), format!("a note of {}", send_options.caller)));
        }
        facts.extend(run.enrichment.iter().map(|(name, text)| (format!("{ADDED}{name}"), text.clone())));
        let item = NewItem {
            id: QueueItemId::new(event.id.as_str()),
            session: send_options.session.clone(),
            request_id: request.clone(),
            parent_request_id: None,
            root_request_id: request.clone(),
            source_event_id: Some(event.id.clone()),
            kind: send_options.kind,
            mode: send_options.mode,
            frame_json: json!(facts).to_string(),
            content: event.body.content.clone(),
            permissions_json: run.permissions.to_string(),
        };
        (session, item)
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
}

/// How far a message came.
enum Step {
    /// It is in its queue, has ended, or the daemon stops.
    Over,
    /// Something it waited for has happened.
    Again,
}

/// Returns how long a message still has to wait because a policy delays it. Counted from its arrival,
/// so that a restart does not begin anew.
fn remaining(event: &Event, run: &Run) -> Duration {
    let waited = Timestamp::now().since(event.received_at);
    run.delay.map_or(Duration::ZERO, |delay| delay.saturating_sub(waited))
}
