//! The running daemon as its surfaces see it.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::{Duration, Instant};

use nexus_automation::HookPoint;
use nexus_base::id::{RequestId, SessionLabel};
use nexus_base::redact::Redactor;
use nexus_pipeline::sessions::{Broker, Quiescence};
use nexus_protocol::chat::{
    ChatAbort, ChatAborted, ChatAccepted, ChatHistory, ChatLine, ChatSend, ChatWaited, Speaker,
};
use nexus_protocol::status::{AdapterCounts, BootStep, Health, HealthReport, PipelineCounts, SessionView};
use nexus_protocol::trace::{RequestSummary, RequestView};
use nexus_store::Store;
use nexus_store::agents::{HistoryLine, ItemKind, OutboxRecord, OutboxState};
use subtle::ConstantTimeEq;
use tokio_util::sync::CancellationToken;

use crate::control::{Caller, Control};
use crate::report;
use nexus_pipeline::agent_factory::AgentFactory;
use nexus_pipeline::hooks::Automations;
use nexus_pipeline::observer::Counters;
use nexus_pipeline::pipeline::{self, Pipeline};
use nexus_pipeline::questions::Questions;
use nexus_pipeline::{Bus, BusReader, RuntimeError};

/// Lines of history given at most.
const MAX_LINES: usize = 1_000;
/// Rows of a listing given at most.
const MAX_ROWS: usize = 1_000;

/// The running daemon; cheap to clone.
#[derive(Debug, Clone)]
pub struct Runtime {
    pub(crate) shared: Arc<Shared>,
}

#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) store: Store,
    pub(crate) broker: Broker,
    pub(crate) pipeline: Arc<Pipeline>,
    pub(crate) questions: Arc<Questions>,
    pub(crate) automations: Arc<Automations>,
    pub(crate) agent_factory: Arc<AgentFactory>,
    pub(crate) counters: Arc<Counters>,
    pub(crate) redactor: Arc<Redactor>,
    pub(crate) bus: Bus,
    pub(crate) health: AtomicU8,
    pub(crate) started: Instant,
    pub(crate) root: PathBuf,
    pub(crate) notes: std::sync::Mutex<BootNotes>,
    pub(crate) stopping: CancellationToken,
    pub(crate) control: Control,
}

/// What the boot found, for reports.
#[derive(Debug, Default)]
pub(crate) struct BootNotes {
    pub(crate) steps: Vec<BootStep>,
    pub(crate) warnings: Vec<String>,
}

impl Runtime {
    /// Takes one message: on disk when this returns.
    ///
    /// # Errors
    /// The message is refused, or could not be stored.
    pub async fn chat_send(&self, caller: &Caller, send: ChatSend) -> Result<ChatAccepted, RuntimeError> {
        tracing::trace!("the daemon serves");
        match self.health() {
            Health::Healthy | Health::Degraded | Health::Unhealthy => {}
            Health::Starting => return Err(RuntimeError::NotServing { state: "starting" }),
            Health::Stopping => return Err(RuntimeError::NotServing { state: "stopping" }),
        }
        self.shared.pipeline.accept(send, ItemKind::Message, &caller.name()).await
    }

    /// Returns the last lines of a session.
    ///
    /// # Errors
    /// There is no such session, or the database cannot be read.
    pub async fn chat_history(
        &self,
        session: Option<SessionLabel>,
        limit: usize,
    ) -> Result<ChatHistory, RuntimeError> {
        let session = self.session_or_own(session);
        let agents = self.shared.store.agents();
        if session != self.shared.pipeline.owner_session() && agents.session(&session).await?.is_none() {
            return Err(RuntimeError::NotFound { what: "session", name: session.to_string() });
        }
        let lines = agents.chat_history(&session, limit.clamp(1, MAX_LINES)).await?;
        Ok(ChatHistory { session, lines: lines.into_iter().map(|line| self.history_line(line)).collect() })
    }

    /// Waits until nothing of the request's tree is queued, running or undelivered.
    ///
    /// # Errors
    /// There is no such request, or the database cannot be read.
    pub async fn chat_wait(
        &self,
        request: &RequestId,
        timeout: Duration,
    ) -> Result<ChatWaited, RuntimeError> {
        let started = Instant::now();
        if tokio::time::timeout(timeout, self.shared.pipeline.settled(request)).await.is_err() {
            return Ok(ChatWaited { request_id: request.clone(), quiescent: false, replies: Vec::new() });
        }
        let quiescent = match self
            .shared
            .broker
            .wait_quiescent(request, timeout.saturating_sub(started.elapsed()))
            .await?
        {
            Quiescence::Reached => true,
            Quiescence::TimedOut => false,
            // Never admitted: denied or skipped requests have nothing to wait for.
            Quiescence::Unknown => {
                let trace = self.shared.store.runtime();
                // What is known of it may still be on its way into the file.
                trace.flush().await?;
                if trace.request(request.clone()).await?.is_none() {
                    return Err(RuntimeError::NotFound { what: "request", name: request.to_string() });
                }
                true
            }
        };
        let replies = self.shared.store.agents().replies_of(request).await?;
        let replies = replies.into_iter().map(|line| self.reply_line(line)).collect();
        Ok(ChatWaited { request_id: request.clone(), quiescent, replies })
    }

    /// Ends a session's running turn.
    ///
    /// # Errors
    /// The session's workers could not be cancelled.
    pub async fn chat_abort(&self, abort: ChatAbort) -> Result<ChatAborted, RuntimeError> {
        let session = match abort.session {
            Some(label) => pipeline::check_label(&label)?,
            None => self.shared.pipeline.owner_session(),
        };
        self.shared.automations.commanded(HookPoint::CommandStop, &session);
        let mut aborted = self.shared.broker.abort(&session);
        if abort.workers {
            aborted |= self.shared.broker.cancel_workers(&session, "the person stopped it").await? > 0;
        }
        Ok(ChatAborted { aborted })
    }

    /// Returns a request with everything it led to.
    ///
    /// # Errors
    /// There is no such request, or a database cannot be read.
    pub async fn request(&self, id: &RequestId) -> Result<RequestView, RuntimeError> {
        self.shared.store.runtime().flush().await?;
        report::request_view(&self.shared.store, &self.shared.redactor, id)
            .await?
            .ok_or_else(|| RuntimeError::NotFound { what: "request", name: id.to_string() })
    }

    /// Returns the newest requests.
    ///
    /// # Errors
    /// A database cannot be read.
    pub async fn recent_requests(&self, limit: usize) -> Result<Vec<RequestSummary>, RuntimeError> {
        Ok(report::recent_requests(&self.shared.store, limit.clamp(1, MAX_ROWS)).await?)
    }

    /// Returns the sessions, most recently used first.
    ///
    /// # Errors
    /// The database cannot be read.
    pub async fn sessions(&self, limit: usize) -> Result<Vec<SessionView>, RuntimeError> {
        Ok(report::sessions(&self.shared.store, limit.clamp(1, MAX_ROWS)).await?)
    }

    /// Starts reading bus events after the given number.
    pub fn subscribe(&self, after: Option<u64>) -> BusReader {
        self.shared.bus.subscribe(after)
    }

    /// Returns whether the daemon serves.
    pub fn health(&self) -> Health {
        match self.shared.health.load(Ordering::Acquire) {
            STARTING => Health::Starting,
            STOPPING => Health::Stopping,
            _ => self.judged(),
        }
    }

    /// Returns the owner's full report.
    pub async fn health_report(&self) -> HealthReport {
        let (active_requests, total_processed, avg_latency_ms) = self.shared.counters.read();
        let (boot, warnings) = {
            let notes = self.shared.notes.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            (notes.steps.clone(), notes.warnings.clone())
        };
        let ledgers = self.shared.store.health().into_iter().map(|health| {
            let state = health.trouble.map_or_else(|| "ok".to_owned(), |error| error.to_string());
            (format!("{}_db", health.name), state)
        });
        HealthReport {
            status: self.health(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            pid: std::process::id(),
            uptime_ms: u64::try_from(self.shared.started.elapsed().as_millis()).unwrap_or(u64::MAX),
            workspace: self.shared.root.display().to_string(),
            ledgers: ledgers.collect(),
            adapters: AdapterCounts::default(),
            pipeline: PipelineCounts { active_requests, total_processed, avg_latency_ms },
            boot,
            warnings,
            model: self.shared.agent_factory.models.name().to_string(),
        }
    }

    /// Compares a presented token with the configured one in constant time.
    pub fn token_matches(&self, presented: &str) -> bool {
        let settings = self.shared.agent_factory.settings();
        let token = settings.runtime.auth.token.expose();
        // An empty configured token matches nobody, not everybody.
        !token.is_empty() && bool::from(presented.as_bytes().ct_eq(token.as_bytes()))
    }

    /// Returns how long a new socket may take to show its token.
    pub fn handshake_within(&self) -> Duration {
        self.shared.agent_factory.settings().runtime.handshake
    }

    /// Resolves when the daemon begins to drain; open streams should end then.
    pub async fn stopping(&self) {
        self.shared.stopping.cancelled().await;
    }

    /// Moves from starting to serving to stopping.
    pub(crate) fn set_phase(&self, phase: u8) {
        self.shared.health.store(phase, Ordering::Release);
    }

    fn judged(&self) -> Health {
        if self.shared.store.health().iter().any(|health| health.trouble.is_some()) {
            return Health::Unhealthy;
        }
        let notes = self.shared.notes.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if notes.warnings.is_empty() { Health::Healthy } else { Health::Degraded }
    }

    fn session_or_own(&self, session: Option<SessionLabel>) -> SessionLabel {
        session.unwrap_or_else(|| self.shared.pipeline.owner_session())
    }

    fn history_line(&self, line: HistoryLine) -> ChatLine {
        ChatLine {
            message_id: line.message_id,
            turn_id: line.turn_id.unwrap_or_else(|| nexus_base::id::TurnId::new("")),
            request_id: line.request_id,
            speaker: line.state.map_or(Speaker::User, speaker),
            text: self.shared.redactor.redact_cut(&line.text),
            at: line.at,
        }
    }

    fn reply_line(&self, line: OutboxRecord) -> ChatLine {
        ChatLine {
            message_id: line.message_id,
            turn_id: line.turn_id.unwrap_or_else(|| nexus_base::id::TurnId::new("")),
            request_id: line.request_id,
            speaker: speaker(line.state),
            text: self.shared.redactor.redact_cut(&line.text),
            at: line.created_at,
        }
    }
}

/// Not yet serving.
pub(crate) const STARTING: u8 = 0;
pub(crate) const SERVING: u8 = 1;
/// Draining.
pub(crate) const STOPPING: u8 = 2;

const fn speaker(state: OutboxState) -> Speaker {
    match state {
        OutboxState::Final | OutboxState::Aborted => Speaker::Assistant,
        OutboxState::Error => Speaker::System,
    }
}
