//! One conversation's line to the daemon: requests that outlive a restart of it, and a pump that
//! keeps the event stream open.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use nexus_base::id::{RequestId, SessionLabel, new_ulid};
use nexus_client::{Client, ClientError};
use nexus_protocol::bus::BusEvent;
use nexus_protocol::chat::{ChatAbort, ChatAborted, ChatAccepted, ChatHistory, ChatSend, ChatWaited};
use nexus_protocol::control::{ApprovalAnswer, ApprovalScope, ApprovalView, SessionShortened};
use nexus_protocol::error::ErrorCode;
use nexus_protocol::methods::Method;
use nexus_protocol::trace::RequestView;
use tokio::sync::{mpsc, oneshot};

use crate::context::Context;
use crate::failure::Failure;

/// Events that may wait for a slow screen before the pump stops reading.
const EVENT_DEPTH: usize = 256;
/// Longest single wait asked of the daemon; the loop asks again.
const WAIT_ROUND: Duration = Duration::from_secs(60);
/// First and longest pause between attempts to reach a daemon that is gone.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const MAX_PAUSE: Duration = Duration::from_secs(2);

/// What the pump reports.
#[derive(Debug)]
pub(crate) enum Signal {
    /// Something happened.
    Event(Box<BusEvent>),
    /// The stream broke; the daemon may be restarting.
    Lost,
    /// The stream is back; what was said meanwhile is in the history.
    Back,
}

/// What a conversation is about and where it is held.
#[derive(Debug, Clone, Default)]
pub(crate) struct Conversation {
    /// The session, the owner's own when absent.
    pub(crate) session: Option<SessionLabel>,
    /// The project folder, if one was named.
    pub(crate) project: Option<String>,
    /// The model that answers, if one was named.
    pub(crate) model: Option<String>,
}

/// The line to the daemon.
#[derive(Debug, Clone)]
pub(crate) struct Link {
    context: Arc<Context>,
    conversation: Conversation,
    client: Arc<Mutex<Option<Client>>>,
}

impl Link {
    /// Prepares a line; nothing is sent yet.
    pub(crate) fn new(context: &Context, conversation: Conversation) -> Self {
        Self { context: Arc::new(context.clone()), conversation, client: Arc::default() }
    }

    /// Sets the model that answers what is said from now on; the configured one when absent.
    pub(crate) fn choose_model(&mut self, model: Option<String>) {
        self.conversation.model = model;
    }

    /// Returns a line about the model that answers.
    pub(crate) fn chosen_model(&self) -> String {
        match &self.conversation.model {
            Some(model) => format!("{model} answers from here on"),
            None => "the configured model answers; nexus models shows which".to_owned(),
        }
    }

    /// Returns what the assistant calls itself now.
    pub(crate) fn assistant_name(&self) -> String {
        self.context.assistant_name()
    }

    /// Says something. A daemon that is being restarted is waited for, up to `patience`; the same key
    /// goes with every attempt, so nothing is said twice.
    pub(crate) async fn send(&self, message: String, patience: Duration) -> Result<ChatAccepted, Failure> {
        let send = ChatSend {
            message,
            session: self.conversation.session.clone(),
            idempotency_key: Some(new_ulid()),
            project: self.conversation.project.clone(),
            queue_mode: None,
            model: self.conversation.model.clone(),
        };
        let give_up = tokio::time::Instant::now() + patience;
        let mut pause = FIRST_PAUSE;
        loop {
            let failure = match self.call(async |client| client.send(send.clone()).await).await {
                Ok(accepted) => return Ok(accepted),
                Err(Trouble::Lasting(failure)) => return Err(failure),
                Err(Trouble::Passing(failure)) => failure,
            };
            if tokio::time::Instant::now() + pause > give_up {
                return Err(failure);
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(MAX_PAUSE);
        }
    }

    /// Waits for quiescence in a task of its own, through restarts of the daemon.
    pub(crate) fn wait(&self, request: &RequestId) -> oneshot::Receiver<Result<ChatWaited, Failure>> {
        let (answer, waited) = oneshot::channel();
        let link = self.clone();
        let request = request.clone();
        nexus_base::task::spawn("wait", async move {
            let result = link.wait_until_quiet(&request).await;
            // The conversation may have moved on; then nobody waits for this.
            let _ = answer.send(result);
        });
        waited
    }

    async fn wait_until_quiet(&self, request: &RequestId) -> Result<ChatWaited, Failure> {
        let mut pause = FIRST_PAUSE;
        loop {
            match self.call(async |client| client.wait(request, WAIT_ROUND).await).await {
                Ok(waited) if waited.quiescent => return Ok(waited),
                Ok(_) => pause = FIRST_PAUSE,
                Err(Trouble::Passing(_)) => {
                    tokio::time::sleep(pause).await;
                    pause = (pause * 2).min(MAX_PAUSE);
                }
                Err(Trouble::Lasting(failure)) => return Err(failure),
            }
        }
    }

    /// Returns the last lines of the conversation.
    pub(crate) async fn history(&self, limit: usize) -> Result<ChatHistory, Failure> {
        let session = self.conversation.session.as_ref();
        self.call(async |client| client.history(session, Some(limit)).await).await.map_err(Failure::from)
    }

    /// Ends the running turn, and the workers too if asked.
    pub(crate) async fn abort(&self, workers: bool) -> Result<ChatAborted, Failure> {
        let abort = ChatAbort { session: self.conversation.session.clone(), workers };
        self.call(async |client| client.abort(&abort).await).await.map_err(Failure::from)
    }

    /// Sums up the conversation's earlier turns now, or lets it begin anew.
    pub(crate) async fn shorten(&self, anew: bool) -> Result<SessionShortened, Failure> {
        let session = self.conversation.session.as_ref();
        self.call(async |client| client.shorten(session, anew).await).await.map_err(Failure::from)
    }

    /// Answers a question that waits for consent, for this one time.
    pub(crate) async fn answer(&self, id: &str, agrees: bool) -> Result<(), Failure> {
        let method = if agrees { Method::ApprovalsApprove } else { Method::ApprovalsDeny };
        let answer = ApprovalAnswer { id: id.to_owned(), scope: ApprovalScope::Once, reason: None };
        let told = self.call(async |client| client.call::<ApprovalView>(method, &answer).await).await;
        told.map(drop).map_err(Failure::from)
    }

    /// Returns a request with everything it led to.
    pub(crate) async fn request(&self, id: &RequestId) -> Result<RequestView, Failure> {
        self.call(async |client| client.request(id).await).await.map_err(Failure::from)
    }

    /// Opens the event stream and keeps it open until the receiver is dropped. The first connection
    /// is made before this returns, so nothing sent afterwards is missed.
    pub(crate) async fn events(&self) -> Result<mpsc::Receiver<Signal>, Failure> {
        let mut stream = self.call(async |client| client.events(None, None).await).await?;
        let (out, signals) = mpsc::channel(EVENT_DEPTH);
        let link = self.clone();
        nexus_base::task::spawn("events", async move {
            loop {
                while let Ok(Some(event)) = stream.next().await {
                    if out.send(Signal::Event(Box::new(event))).await.is_err() {
                        return;
                    }
                }
                if out.send(Signal::Lost).await.is_err() {
                    return;
                }
                let mut pause = FIRST_PAUSE;
                stream = loop {
                    tokio::time::sleep(pause).await;
                    pause = (pause * 2).min(MAX_PAUSE);
                    if out.is_closed() {
                        return;
                    }
                    // A new life of the daemon may have another port or token, and counts its events
                    // from one again, so nothing is carried over: the history closes the gap.
                    if let Ok(stream) = link.call(async |client| client.events(None, None).await).await {
                        break stream;
                    }
                };
                if out.send(Signal::Back).await.is_err() {
                    return;
                }
            }
        });
        Ok(signals)
    }

    /// Makes one call. After trouble the next call looks for the daemon's port and token anew.
    async fn call<T>(&self, call: impl AsyncFnOnce(Client) -> Result<T, ClientError>) -> Result<T, Trouble> {
        let known = self.cached().clone();
        let client = match known {
            Some(client) => client,
            None => self.context.client().map_err(Trouble::Passing)?,
        };
        match call(client.clone()).await {
            Ok(answer) => {
                *self.cached() = Some(client);
                Ok(answer)
            }
            Err(error) => {
                *self.cached() = None;
                let trouble = if is_passing(&error) { Trouble::Passing } else { Trouble::Lasting };
                Err(trouble(error.into()))
            }
        }
    }

    fn cached(&self) -> std::sync::MutexGuard<'_, Option<Client>> {
        self.client.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Why a call gave no answer.
#[derive(Debug)]
enum Trouble {
    /// The same call may work a moment later.
    Passing(Failure),
    /// It will not.
    Lasting(Failure),
}

impl From<Trouble> for Failure {
    fn from(trouble: Trouble) -> Self {
        match trouble {
            Trouble::Passing(failure) | Trouble::Lasting(failure) => failure,
        }
    }
}

fn is_passing(error: &ClientError) -> bool {
    match error {
        ClientError::NotRunning { .. } | ClientError::Timeout { .. } | ClientError::Disconnected { .. } => {
            true
        }
        ClientError::Wire(wire, _) => wire.code == ErrorCode::Unavailable,
        ClientError::BadAnswer { .. } => false,
    }
}
