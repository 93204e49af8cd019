//! The running daemon as the handlers see it: the parts that were put together at boot, and how far it is.

use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use nexus_pipeline::agent_factory::AgentFactory;
use nexus_pipeline::hooks::Automations;
use nexus_pipeline::observer::Counters;
use nexus_pipeline::pipeline::Pipeline;
use nexus_pipeline::questions::Questions;
use nexus_pipeline::sessions::Broker;
use nexus_pipeline::{Bus, RuntimeError};
use nexus_protocol::status::BootStep;
use nexus_store::{Store, StoreError};
use tokio_util::sync::CancellationToken;

use crate::TokenAccess;

/// What only a running daemon has.
#[derive(Debug)]
pub struct Daemon {
    pub broker: Broker,
    pub pipeline: Arc<Pipeline>,
    pub questions: Arc<Questions>,
    pub automations: Arc<Automations>,
    pub agent_factory: Arc<AgentFactory>,
    pub counters: Arc<Counters>,
    pub bus: Bus,
    pub lifecycle: Lifecycle,
    pub tokens: TokenAccess,
}

impl Daemon {
    /// Refuses new work while starting or stopping.
    pub(crate) fn check_serving(&self) -> Result<(), RuntimeError> {
        match self.lifecycle.phase() {
            Phase::Serving => Ok(()),
            Phase::Starting => Err(RuntimeError::NotServing { state: "starting" }),
            Phase::Stopping => Err(RuntimeError::NotServing { state: "stopping" }),
        }
    }

    /// Returns the hash of the owner's token as it is now; tokens given out under another one are worth nothing.
    pub(crate) fn owner_token_hash(&self) -> String {
        nexus_identity::hash_of(self.agent_factory.settings().runtime.auth.token.expose())
    }

    /// Ends every token that was given out under another token of the owner's than the present one: whoever had
    /// that could have made themselves one. Such tokens open nothing from the moment the settings changed; this
    /// makes it last, also when the old token comes back.
    ///
    /// # Errors
    /// A database cannot be written.
    pub async fn note_owner_token(&self, store: &Store) -> Result<(), StoreError> {
        self.tokens.note_owner_token(store, self.owner_token_hash()).await
    }
}

/// How far the daemon is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    Starting,
    Serving,
    /// Draining.
    Stopping,
}

/// How far the daemon is, and what its boot found.
#[derive(Debug)]
pub struct Lifecycle {
    phase: AtomicU8,
    started: Instant,
    notes: Mutex<BootNotes>,
    stopping: CancellationToken,
}

/// What the boot found, for reports.
#[derive(Debug, Default)]
pub struct BootNotes {
    pub steps: Vec<BootStep>,
    pub warnings: Vec<String>,
}

impl Lifecycle {
    /// Begins a life; `stopping` is cancelled when open streams should end.
    pub fn new(started: Instant, stopping: CancellationToken) -> Self {
        Self { phase: AtomicU8::new(Phase::Starting as u8), started, notes: Mutex::default(), stopping }
    }

    pub fn phase(&self) -> Phase {
        match self.phase.load(Ordering::Acquire) {
            phase if phase == Phase::Starting as u8 => Phase::Starting,
            phase if phase == Phase::Serving as u8 => Phase::Serving,
            _ => Phase::Stopping,
        }
    }

    pub fn set_phase(&self, phase: Phase) {
        self.phase.store(phase as u8, Ordering::Release);
    }

    pub fn notes(&self) -> MutexGuard<'_, BootNotes> {
        self.notes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn stopping(&self) -> &CancellationToken {
        &self.stopping
    }

    pub(crate) fn uptime(&self) -> Duration {
        self.started.elapsed()
    }
}
