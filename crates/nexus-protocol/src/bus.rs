//! Bus events: what observers see while it happens. Nothing depends on anybody listening.

use nexus_base::clock::Timestamp;
use nexus_base::id::{CompactionId, MessageId, OutboxId, RequestId, SessionLabel, ToolCallId, TurnId};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// One event with its place in this boot's order.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct BusEvent {
    /// Counts up by one for each event of this boot.
    pub seq: u64,
    /// When it happened.
    pub at: Timestamp,
    /// The request tree it belongs to, so that a client can follow one conversation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub root_request_id: Option<RequestId>,
    /// What happened.
    #[serde(flatten)]
    pub body: BusBody,
}

/// What can happen. `type` is the stable name.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", content = "properties")]
pub enum BusBody {
    /// A piece of text the assistant is saying right now.
    #[serde(rename = "agent.streaming.token")]
    Delta { request_id: RequestId, session: SessionLabel, turn_id: TurnId, attempt: u32, text: String },
    /// A turn began.
    #[serde(rename = "turn.created")]
    TurnStarted {
        request_id: RequestId,
        session: SessionLabel,
        turn_id: TurnId,
        attempt: u32,
        /// What the assistant is called in this turn; empty before it has a name.
        #[serde(default)]
        speaker: String,
    },
    /// A turn ended, with the state a person would call it by.
    #[serde(rename = "turn.completed")]
    TurnEnded { request_id: RequestId, session: SessionLabel, turn_id: TurnId, state: TurnState },
    /// A reply is readable in `chat.history`.
    #[serde(rename = "chat.final")]
    Reply {
        request_id: RequestId,
        session: SessionLabel,
        turn_id: TurnId,
        outbox_id: OutboxId,
        message_id: MessageId,
        state: TurnState,
        text: String,
        /// The platform's message, or the event, that it quotes.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reply_to: Option<String>,
    },
    /// A tool call began.
    #[serde(rename = "agent.tool.started")]
    ToolStarted {
        session: SessionLabel,
        turn_id: TurnId,
        tool_call_id: ToolCallId,
        tool: String,
        summary: String,
    },
    /// A tool call ended.
    #[serde(rename = "agent.tool.completed")]
    ToolEnded {
        session: SessionLabel,
        turn_id: TurnId,
        tool_call_id: ToolCallId,
        tool: String,
        is_error: bool,
        duration_ms: u64,
    },
    /// What a turn has used so far.
    #[serde(rename = "agent.usage")]
    Used {
        session: SessionLabel,
        turn_id: TurnId,
        input_tokens: u64,
        cached_input_tokens: u64,
        output_tokens: u64,
    },
    /// Earlier turns were summed up, or results shortened, to make room.
    #[serde(rename = "session.compacted")]
    Compacted {
        session: SessionLabel,
        turn_id: TurnId,
        compaction_id: CompactionId,
        turns: u64,
        tokens_before: u64,
        tokens_after: u64,
    },
    /// A session begins anew: nothing of what was said before is sent to the model.
    #[serde(rename = "session.reset")]
    Reset { session: SessionLabel, compaction_id: CompactionId, turns: u64 },
    /// A worker was sent off.
    #[serde(rename = "worker.dispatched")]
    WorkerDispatched { parent: SessionLabel, session: SessionLabel, request_id: RequestId, task: String },
    /// A worker came back, whatever the outcome.
    #[serde(rename = "worker.completed")]
    WorkerEnded { parent: SessionLabel, session: SessionLabel, status: String },
    /// A request passed a pipeline stage.
    #[serde(rename = "nex.request.stage")]
    Stage { request_id: RequestId, stage: String },
    /// A request reached its end.
    #[serde(rename = "nex.request.completed")]
    RequestEnded { request_id: RequestId, status: String },
    /// No queued or running item is left in a request's tree and its replies are delivered.
    #[serde(rename = "chat.quiescent")]
    Quiescent { request_id: RequestId },
    /// Somebody needs the owner's consent.
    #[serde(rename = "permission.requested")]
    PermissionRequested {
        permission_request_id: String,
        kind: String,
        summary: String,
        expires_at: Timestamp,
    },
    /// A request for consent is no longer open: approved, denied or expired.
    #[serde(rename = "permission.resolved")]
    PermissionResolved { permission_request_id: String, status: String },
    /// An automation ran.
    #[serde(rename = "hook.fired")]
    HookFired { automation: String, hook_point: String },
    /// An automation failed; nothing else did.
    #[serde(rename = "hook.error")]
    HookFailed { automation: String, hook_point: String, error: String },
    /// The daemon is ready.
    #[serde(rename = "system.started")]
    Started { version: String },
    /// The daemon is draining.
    #[serde(rename = "system.stopping")]
    Stopping,
    /// A new configuration is in force.
    #[serde(rename = "system.config_reloaded")]
    ConfigReloaded,
    /// A slow reader missed this many events.
    #[serde(rename = "bus.gap")]
    Gap { missed: u64 },
}

impl BusBody {
    /// Every kind of event by its stable name.
    pub const TYPES: [&'static str; 22] = [
        "agent.streaming.token",
        "turn.created",
        "turn.completed",
        "chat.final",
        "agent.tool.started",
        "agent.tool.completed",
        "agent.usage",
        "session.compacted",
        "session.reset",
        "worker.dispatched",
        "worker.completed",
        "nex.request.stage",
        "nex.request.completed",
        "chat.quiescent",
        "permission.requested",
        "permission.resolved",
        "hook.fired",
        "hook.error",
        "system.started",
        "system.stopping",
        "system.config_reloaded",
        "bus.gap",
    ];

    /// Returns the stable name without writing the event as JSON first; a test compares the two.
    pub const fn type_name(&self) -> &'static str {
        match self {
            Self::Delta { .. } => "agent.streaming.token",
            Self::TurnStarted { .. } => "turn.created",
            Self::TurnEnded { .. } => "turn.completed",
            Self::Reply { .. } => "chat.final",
            Self::ToolStarted { .. } => "agent.tool.started",
            Self::ToolEnded { .. } => "agent.tool.completed",
            Self::Used { .. } => "agent.usage",
            Self::Compacted { .. } => "session.compacted",
            Self::Reset { .. } => "session.reset",
            Self::WorkerDispatched { .. } => "worker.dispatched",
            Self::WorkerEnded { .. } => "worker.completed",
            Self::Stage { .. } => "nex.request.stage",
            Self::RequestEnded { .. } => "nex.request.completed",
            Self::Quiescent { .. } => "chat.quiescent",
            Self::PermissionRequested { .. } => "permission.requested",
            Self::PermissionResolved { .. } => "permission.resolved",
            Self::HookFired { .. } => "hook.fired",
            Self::HookFailed { .. } => "hook.error",
            Self::Started { .. } => "system.started",
            Self::Stopping => "system.stopping",
            Self::ConfigReloaded => "system.config_reloaded",
            Self::Gap { .. } => "bus.gap",
        }
    }
}

/// How a turn stands or ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TurnState {
    /// It said what it had to say.
    Final,
    /// It ended with `wait`: a worker's result will bring the next turn.
    Waiting,
    /// It was interrupted; what it had said is kept.
    Aborted,
    /// It failed; the reply says why.
    Error,
}
