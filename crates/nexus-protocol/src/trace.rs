//! The story of a request as `GET /api/requests/{id}` and `nexus trace` show it.

use nexus_base::clock::Timestamp;
use nexus_base::id::{EventId, RequestId, SessionLabel, TurnId};
use nexus_base::words;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

words! {
    /// The eight pipeline stages, in order.
    #[derive(PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
    #[serde(rename_all = "camelCase")]
    pub enum Stage {
        /// Durable insert, then the acknowledgement.
        ReceiveEvent = "receiveEvent",
        /// Who sent it.
        ResolveIdentity = "resolveIdentity",
        /// May they.
        ResolveAccess = "resolveAccess",
        /// Automations that may enrich or handle it.
        RunAutomations = "runAutomations",
        /// What the model will be told.
        AssembleContext = "assembleContext",
        /// The turn itself.
        RunAgent = "runAgent",
        /// The reply reaches its channel.
        DeliverResponse = "deliverResponse",
        /// Trace closed, outbound event written.
        Finalize = "finalize",
    }
}

impl Stage {
    /// Returns the stable name.
    pub const fn name(self) -> &'static str {
        self.as_str()
    }
}

/// One stage's time in a request.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StageTiming {
    /// Stage name.
    pub stage: String,
    /// Start, Unix milliseconds.
    pub started_at: Timestamp,
    /// Microseconds spent.
    pub duration_us: u64,
}

/// One tool call as the trace shows it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ToolCallView {
    /// Tool name.
    pub tool: String,
    /// Arguments, redacted and cut.
    pub arguments: Value,
    /// `completed`, `failed`, `interrupted`, `running`.
    pub status: String,
    /// First part of the result.
    pub result: String,
    /// Milliseconds, once it ended.
    pub duration_ms: Option<u64>,
    /// Worker session this call started.
    pub spawned_session: Option<SessionLabel>,
}

/// What was decided about a request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AccessView {
    /// allow, deny, ask.
    pub decision: String,
    /// The policy that decided; none when no policy matched.
    pub policy: Option<String>,
}

/// One request and what it led to.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RequestView {
    /// The request.
    pub request_id: RequestId,
    /// The request it belongs to, for workers and their results.
    pub parent_request_id: Option<RequestId>,
    /// The event that began it.
    pub event_id: EventId,
    /// `message`, `worker_task`, `worker_result`, …
    pub event_type: String,
    /// Where it came from.
    pub event_source: String,
    /// Last stage reached.
    pub stage: String,
    /// processing, completed, skipped, denied, handled_by_automation, failed, interrupted.
    pub status: String,
    /// What was decided about it, and by which policy; absent for what it led to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub access: Option<AccessView>,
    /// Session it ran in.
    pub session: Option<SessionLabel>,
    /// Turn it produced.
    pub turn_id: Option<TurnId>,
    /// Attempts the turn needed.
    pub attempts: u32,
    /// Model that answered, `provider/model`.
    pub model: Option<String>,
    /// What was asked, cut.
    pub input: String,
    /// What was answered, cut.
    pub output: String,
    /// Tokens in and out.
    pub input_tokens: u64,
    /// Tokens the model produced.
    pub output_tokens: u64,
    /// When it began.
    pub started_at: Timestamp,
    /// When it ended.
    pub completed_at: Option<Timestamp>,
    /// Time in each stage.
    pub stages: Vec<StageTiming>,
    /// Tool calls in order.
    pub tool_calls: Vec<ToolCallView>,
    /// What it had read that nobody vouches for: why it stayed in its box. Empty when nothing.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub untrusted: Vec<String>,
    /// Failure, if any.
    pub error: Option<String>,
    /// Requests that this one led to, oldest first.
    pub children: Vec<RequestView>,
}

/// One row of `GET /api/requests`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RequestSummary {
    /// The request.
    pub request_id: RequestId,
    /// What kind of event began it.
    pub event_type: String,
    /// Session it ran in.
    pub session: Option<SessionLabel>,
    /// Where it stands.
    pub status: String,
    /// What was asked, cut.
    pub input: String,
    /// When it began.
    pub started_at: Timestamp,
    /// Milliseconds from start to end.
    pub duration_ms: Option<u64>,
}

/// What a request's model was sent, part by part: `nexus trace --prompt`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PromptView {
    /// The request.
    pub request_id: RequestId,
    /// The turn.
    pub turn_id: TurnId,
    /// Session it ran in.
    pub session: SessionLabel,
    /// Model that answered.
    pub model: Option<String>,
    /// Parts in the order a model reads them.
    pub parts: Vec<PromptPartView>,
    /// Bytes of all of it.
    pub total_bytes: u64,
    /// Facts that were put before the words, best first.
    pub memory: Vec<RememberedView>,
    /// Compactions taken while the turn ran.
    pub compactions: Vec<String>,
}

/// One part of what a model was sent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PromptPartView {
    /// Where it stands: `tools`, `system`, `history`, `message`.
    pub section: String,
    /// Its name.
    pub name: String,
    /// Its size in bytes.
    pub bytes: u64,
    /// Its size before it was cut, when it was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cut_from: Option<u64>,
    /// Its words, known secrets hidden; only where they were asked for and are still kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
}

/// A fact that was put before a message.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RememberedView {
    /// The fact.
    pub id: String,
    /// How well it fitted.
    pub score: f64,
    /// What was sent.
    pub text: String,
}
