//! The way in: whoever has a message hands it over here. What happens to it stands in [`crate::stages`].

use std::sync::Arc;

use nexus_base::failpoint;
use nexus_base::id::{EntityId, RequestId, SessionLabel};
use nexus_base::task::Tasks;
use nexus_identity::Access;
use nexus_protocol::chat::{ChatAccepted, ChatSend};
use nexus_store::agents::ItemKind;
use nexus_store::events::AcceptedEvent;
use nexus_store::{Store, StoreError};
use tokio_util::sync::CancellationToken;

use crate::RuntimeError;
use crate::admission::AdmissionOrder;
use crate::agent_factory::AgentFactory;
use crate::hooks::Automations;
use crate::observer::Recorder;
use crate::questions::Questions;
use crate::send_options::SendOptions;
pub use crate::send_options::{SentBy, check_label};
use crate::sessions::Broker;
use crate::stages::{self, Asking, Decided, Message, Received, StageClock};

/// Takes messages in.
#[derive(Debug)]
pub struct Pipeline {
    pub(crate) store: Store,
    pub(crate) broker: Broker,
    pub(crate) recorder: Arc<Recorder>,
    pub(crate) agent_factory: Arc<AgentFactory>,
    pub access: Access,
    pub(crate) questions: Arc<Questions>,
    pub(crate) automations: Arc<Automations>,
    pub(crate) owner: EntityId,
    pub(crate) tasks: Tasks,
    pub(crate) stopping: CancellationToken,
    pub(crate) admission: Arc<AdmissionOrder>,
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
            tasks: Tasks::default(),
            stopping: CancellationToken::new(),
            admission: Arc::default(),
        }
    }

    /// Returns the owner's own conversation.
    pub fn owner_session(&self) -> SessionLabel {
        SessionLabel::new(format!("dm:{}", self.owner))
    }

    /// Takes a person's message in: on disk when this returns.
    pub async fn accept(
        self: &Arc<Self>,
        send: ChatSend,
        kind: ItemKind,
        caller: SentBy,
    ) -> Result<ChatAccepted, RuntimeError> {
        let options = self.read_send_options(&send, kind, caller)?;
        if send.project.is_some() {
            self.check_project(&options).await?;
        }
        self.receive(send, options).await
    }

    /// Takes in a text in the runtime's own name, such as BOOT.md; the same key brings the same text in once.
    pub(crate) async fn accept_system(
        self: &Arc<Self>,
        part: &str,
        key: &str,
        text: &str,
    ) -> Result<ChatAccepted, RuntimeError> {
        let options = SendOptions::system(part, self.owner_session());
        let send = ChatSend {
            message: text.to_owned(),
            session: Some(options.session.clone()),
            idempotency_key: Some(key.to_owned()),
            project: None,
            queue_mode: None,
            model: None,
        };
        self.receive(send, options).await
    }

    async fn receive(
        self: &Arc<Self>,
        send: ChatSend,
        options: SendOptions,
    ) -> Result<ChatAccepted, RuntimeError> {
        tracing::trace!("it is taken in");
        let (message, ticket) = match stages::accept(self, send, options).await? {
            Received::New(message, ticket) => (*message, ticket),
            Received::Before(accepted) => return Ok(accepted),
        };
        let accepted = ChatAccepted {
            request_id: message.request.clone(),
            event_id: message.event.id.clone(),
            session: message.options.session.clone(),
            duplicate: false,
        };
        let pipeline = Arc::clone(self);
        let span = message.span();
        self.tasks.spawn_in(span, async move { pipeline.drive_to_queue(&message, ticket, None).await });
        failpoint::hit("s1.acknowledged");
        Ok(accepted)
    }

    /// Refuses a project for a conversation that was made with another one, or with none: its tools are fixed.
    async fn check_project(&self, options: &SendOptions) -> Result<(), RuntimeError> {
        let Some(session) = self.store.agents().session(&options.session).await? else { return Ok(()) };
        let settings = session.settings.map_err(|damage| RuntimeError::Invalid {
            message: format!("the ledger is damaged: {damage}"),
            hint: Some("start another session, or restore a backup".to_owned()),
        })?;
        let has = settings.project;
        if has == options.project {
            return Ok(());
        }
        let has =
            has.map_or_else(|| "no project".to_owned(), |root| format!("the project {}", root.display()));
        Err(RuntimeError::Invalid {
            message: format!("the session {} has {has}, and that cannot be changed", options.session),
            hint: Some("leave `session` out, or name a new one".to_owned()),
        })
    }

    /// Goes on with an event that an earlier life of the daemon acknowledged.
    pub async fn readmit(self: &Arc<Self>, accepted: &AcceptedEvent) -> Result<(), StoreError> {
        // One that is in its queue is carried on from there; one that has ended only has to be told
        // again, because a loss of power may have taken the other files' knowledge of it.
        if self.broker.tell_again(&accepted.request_id).await?.is_some() {
            return Ok(());
        }
        let message = Message {
            event: accepted.event.clone(),
            request: accepted.request_id.clone(),
            options: SendOptions::of(accepted, || self.owner_session()),
        };
        stages::begin_trace(self, &message, accepted.accepted_at, &StageClock::start());
        match stages::admit(self, &message, Asking::Perhaps).await? {
            Decided::Ended => Ok(()),
            Decided::Run(run) if run.remaining_delay(&message).is_zero() => {
                self.enqueue(&message, &run).await
            }
            // Nobody waits for these before the daemon is ready.
            later @ (Decided::Run(_) | Decided::Held { .. }) => {
                let mut ticket = self.admission.enter(&message.request);
                ticket.enqueue(&message.options.session);
                let (pipeline, span) = (Arc::clone(self), message.span());
                self.tasks.spawn_in(span, async move {
                    pipeline.drive_to_queue(&message, ticket, Some(later)).await;
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
}
