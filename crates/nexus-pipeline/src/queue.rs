//! From the acknowledgement to the queue: what brings a message there however often that takes, and what is
//! written for it (S3). Who comes before whom is [`crate::admission`]'s.

use std::time::Duration;

use nexus_base::clock::Timestamp;
use nexus_base::conversation::Role;
use nexus_base::id::QueueItemId;
use nexus_protocol::framing::key;
use nexus_protocol::trace::Stage;
use nexus_store::StoreError;
use nexus_store::agents::{ItemFacts, ItemKind, NewItem, NewSession, SessionSettings};
use nexus_store::runtime::RequestUpdate;

use crate::admission::Ticket;
use crate::pipeline::{Pipeline, SentBy};
use crate::stages::{self, Asking, Decided, Message, Run};

/// What stands before the names of facts that automations add, so that none can pass for one of ours.
const ADDED: &str = "hook.";
/// First and longest pause before a message that could not be queued is tried again.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const MAX_PAUSE: Duration = Duration::from_secs(30);
/// Longer than any question stands.
const MAX_HOLD: Duration = Duration::from_secs(48 * 3600);

/// How far a message came.
enum Step {
    /// It is in its queue, has ended, or the daemon stops.
    Over,
    /// Something it waited for has happened.
    Again,
}

impl Pipeline {
    /// Brings an acknowledged message to its queue, however often that takes: only a stop ends it
    /// early, and then the open promise in the inbox makes the next start go on.
    pub(crate) async fn drive_to_queue(
        &self,
        message: &Message,
        mut ticket: Ticket,
        mut decided: Option<Decided>,
    ) {
        let mut pause = FIRST_PAUSE;
        let mut asking = if decided.is_some() { Asking::Perhaps } else { Asking::NotYet };
        loop {
            let decided = match decided.take() {
                Some(decided) => Ok(decided),
                None => stages::admit(self, message, asking).await,
            };
            asking = Asking::Perhaps;
            let stepped = match decided {
                Ok(decided) => self.step(message, &mut ticket, decided).await,
                Err(error) => Err(error),
            };
            let error = match stepped {
                Ok(Step::Over) => return,
                Ok(Step::Again) => continue,
                Err(error) => error,
            };
            let request = &message.request;
            tracing::error!(%request, %error, hint = ?error.hint(), "accepted message not queued");
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
        message: &Message,
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
                ticket.enqueue(&message.options.session);
                Ok(Step::Again)
            }
            Decided::Run(run) => {
                tokio::select! {
                    () = tokio::time::sleep(run.remaining_delay(message)) => {}
                    () = self.stopping.cancelled() => return Ok(Step::Over),
                }
                ticket.wait().await;
                self.enqueue(message, &run).await?;
                Ok(Step::Over)
            }
        }
    }

    /// Puts the request into its session's queue (S3); being there already is fine.
    pub(crate) async fn enqueue(&self, message: &Message, run: &Run) -> Result<(), StoreError> {
        tracing::trace!("it goes to its queue");
        let (session, item) = self.place(message, run);
        self.broker.admit(session, item).await.map(drop)
    }

    /// Returns the session a request goes to and its place in that session's queue.
    pub(crate) fn place(&self, message: &Message, run: &Run) -> (NewSession, NewItem) {
        let (Message { event, request, .. }, options) = (message, &run.options);
        let routed = run.persona.as_deref().filter(|persona| self.agent_factory.live.has_persona(persona));
        let settings = SessionSettings {
            persona: routed.map(str::to_owned),
            project: options.project.clone(),
            ..SessionSettings::default()
        };
        let session = NewSession {
            label: options.session.clone(),
            persona: routed.map_or_else(|| self.agent_factory.persona_name(), str::to_owned),
            role: Role::Manager,
            origin: "nexus",
            settings,
        };
        let is_runtimes = options.system_part().is_some();
        let sender = if is_runtimes { "system" } else { "owner" };
        let mut facts = vec![
            (key::PLATFORM.to_owned(), event.body.platform.clone()),
            (key::SENDER.to_owned(), sender.to_owned()),
        ];
        facts.extend(options.model.clone().map(|model| (key::MODEL.to_owned(), model)));
        if !is_runtimes && options.kind == ItemKind::System && options.caller != SentBy::Owner {
            // A program put it there; whose words it passes on nobody knows.
            facts.push((key::UNTRUSTED.to_owned(), format!("a note of {}", options.caller)));
        }
        facts.extend(run.enrichment.iter().map(|(name, text)| (format!("{ADDED}{name}"), text.clone())));
        let item = NewItem {
            id: QueueItemId::new(event.id.as_str()),
            session: options.session.clone(),
            request_id: request.clone(),
            parent_request_id: None,
            root_request_id: request.clone(),
            source_event_id: Some(event.id.clone()),
            kind: options.kind,
            mode: options.mode,
            facts: ItemFacts::new(facts),
            content: event.body.content.clone(),
            permissions: run.permissions.snapshot(),
        };
        (session, item)
    }
}

impl Run {
    /// Returns how long a message still has to wait because a policy delays it. Counted from its arrival,
    /// so that a restart does not begin anew.
    pub(crate) fn remaining_delay(&self, message: &Message) -> Duration {
        let waited = Timestamp::now().since(message.event.received_at);
        self.delay.map_or(Duration::ZERO, |delay| delay.saturating_sub(waited))
    }
}
