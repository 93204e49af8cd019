//! `/health`, `nexus status`, `nexus sessions`, `nexus identity`.

use std::collections::BTreeMap;

use nexus_base::clock::Timestamp;
use nexus_base::id::SessionLabel;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Whether the daemon can serve.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Health {
    /// Boot has not finished; HTTP 503.
    Starting,
    /// Everything works; HTTP 200.
    Healthy,
    /// Something optional does not; HTTP 200.
    Degraded,
    /// The pipeline or a database does not work; HTTP 503.
    Unhealthy,
    /// Draining; HTTP 503.
    Stopping,
}

/// What anybody may know.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct HealthBrief {
    /// One word.
    pub status: Health,
}

/// What the owner may know.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HealthReport {
    /// One word.
    pub status: Health,
    /// Binary version.
    pub version: String,
    /// Process id.
    pub pid: u32,
    /// Milliseconds since start.
    pub uptime_ms: u64,
    /// Workspace root.
    pub workspace: String,
    /// `ok` or the error, per database.
    pub ledgers: BTreeMap<String, String>,
    /// Adapters; none exist yet, so all zero.
    pub adapters: AdapterCounts,
    /// Work in progress and done.
    pub pipeline: PipelineCounts,
    /// What each boot step cost, in order.
    pub boot: Vec<BootStep>,
    /// What is not as it should be, with the remedy.
    pub warnings: Vec<String>,
    /// The model in use, `provider/model`.
    pub model: String,
    /// How commands of agents are confined and what that does not cover; absent until the first one ran.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sandbox: Option<String>,
}

/// Adapter totals.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AdapterCounts {
    /// Configured.
    pub total: u32,
    /// Running.
    pub running: u32,
    /// In error.
    pub errored: u32,
}

/// Pipeline totals of this boot.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PipelineCounts {
    /// Requests between acknowledgement and end.
    pub active_requests: u64,
    /// Requests ended.
    pub total_processed: u64,
    /// Mean milliseconds of ended requests.
    pub avg_latency_ms: u64,
}

/// One boot step's cost.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct BootStep {
    /// Name of the step.
    pub step: String,
    /// Microseconds.
    pub duration_us: u64,
    /// What it found, or why it is degraded.
    pub note: String,
}

/// One session in a listing.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SessionView {
    /// Its label.
    pub session: SessionLabel,
    /// Persona it speaks as.
    pub persona: String,
    /// `active` or `archived`.
    pub status: String,
    /// For workers: pending, running, completed, failed, cancelled.
    pub task_status: Option<String>,
    /// For workers: what they were sent to do.
    pub task: Option<String>,
    /// For workers: who sent them.
    pub parent: Option<SessionLabel>,
    /// Turns on the path to its head.
    pub turns: u64,
    /// Items waiting.
    pub queued: u64,
    /// Whether a turn is running now.
    pub running: bool,
    /// Last change.
    pub updated_at: Timestamp,
}
