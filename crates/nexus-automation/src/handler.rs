//! What carries an automation out: code of ours by name, or the owner's program.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use nexus_store::runtime::Automation;

use crate::hook_point::HookPoint;
use crate::occasion::Occasion;
use crate::verdict::Verdict;

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
