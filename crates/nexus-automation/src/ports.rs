//! What shipped automations need from the daemon around them: a model to think with, and a voice.
//! What carries an automation out: code of ours by name, or the owner's program.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use nexus_base::id::{EventId, RequestId};
use nexus_base::words;
use nexus_memory::{Learnt, Utterance};
use nexus_store::runtime::Automation;

use crate::hook_point::HookPoint;
use crate::occasion::Occasion;
use crate::verdict::{Cost, Verdict};

words! {
    /// What an automation thinks about.
    pub enum Purpose {
        /// Looking something up: it may only search memory.
        Read = "read",
        /// Writing down: it may search memory and add to it.
        Write = "write",
        /// Its own work: it may change what it has learnt.
        Reflect = "reflect",
    }
}

/// One turn an automation wants to take.
#[derive(Debug, Clone)]
pub struct Ask {
    /// The automation's name.
    pub automation: String,
    pub purpose: Purpose,
    /// What it is told.
    pub text: String,
    /// The request that led to it.
    pub because_of: Option<RequestId>,
    /// The event that facts written down in it come from.
    pub source: Option<EventId>,
    /// Some of what it is told is vouched for by nobody.
    pub tainted: bool,
    /// How long it may take.
    pub limit: Duration,
}

/// What came of such a turn.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Thought {
    /// Its last words.
    pub text: String,
    /// Tool calls it made.
    pub calls: u64,
    pub cost: Cost,
}

/// Thinks with a model, in a session of the automation's own.
#[async_trait]
pub trait Think: Send + Sync {
    /// Tells whether there is a model to think with.
    fn has_model(&self) -> bool;

    /// Takes one turn and waits for its end.
    async fn take_turn(&self, ask: Ask) -> Result<Thought, RunError>;
}

/// Says something in the runtime's own name.
#[async_trait]
pub trait Speak: Send + Sync {
    /// Sends a text to the assistant as the system principal, once for each key.
    async fn say(&self, key: &str, text: &str) -> Result<(), RunError>;
}

/// Makes facts of what was said, without a model.
#[async_trait]
pub trait Learn: Send + Sync {
    /// Finds facts in words and keeps them.
    async fn learn(&self, utterance: Utterance) -> Result<Learnt, RunError>;
}

/// One run of an automation.
#[derive(Debug, Clone)]
pub struct Run {
    pub automation: Arc<Automation>,
    /// Where it runs.
    pub hook: HookPoint,
    /// What led there.
    pub occasion: Arc<Occasion>,
    /// Id of its row in `hook_invocations`.
    pub invocation: String,
    /// How long it may take.
    pub limit: Duration,
}

/// Why a run failed. It fails the automation, never the request around it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct RunError(pub String);

/// Carries automations out.
#[async_trait]
pub trait Handler: Send + Sync {
    /// Runs once. Whoever calls it minds the time and drops the future when it is up.
    async fn run(&self, run: &Run) -> Result<Verdict, RunError>;
}
