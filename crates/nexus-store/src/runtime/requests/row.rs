//! The nouns of `nexus_requests`.

use nexus_base::clock::Timestamp;
use nexus_base::id::{EntityId, EventId, RequestId, SessionLabel, TurnId};
use rusqlite::Row;
use serde_json::{Value, json as literal};

use crate::words::{count_or_none, json, moment, moment_or_none, words};

words! {
    /// Where a request stands.
    RequestStatus {
        /// Not ended.
        Processing = "processing",
        /// Answered.
        Completed = "completed",
        /// Nothing to do, such as a duplicate.
        Skipped = "skipped",
        /// Not allowed.
        Denied = "denied",
        /// An automation answered.
        HandledByAutomation = "handled_by_automation",
        /// Ended with an error.
        Failed = "failed",
        /// The daemon stopped in the middle; it may continue.
        Interrupted = "interrupted",
    }
}

/// What is known when a request begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewRequest {
    pub id: RequestId,
    /// The request that led to it.
    pub parent_request_id: Option<RequestId>,
    /// The request the whole tree began with; its own id for a root.
    pub root_request_id: RequestId,
    /// The event it serves.
    pub event_id: EventId,
    /// The event's type.
    pub event_type: String,
    /// The event's source.
    pub event_source: String,
    pub stage: String,
    /// Session it will run in, when known.
    pub session_key: Option<SessionLabel>,
    /// When it began.
    pub started_at: Timestamp,
}

/// One stage's time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StageTiming {
    /// Stage name.
    pub stage: String,
    /// When it began.
    pub started_at: Timestamp,
    /// Microseconds it took.
    pub duration_us: u64,
}

/// What a stage found; parts left out keep what the row has.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct RequestUpdate {
    /// Stage reached.
    pub stage: Option<String>,
    /// New status.
    pub status: Option<RequestStatus>,
    /// Time of a stage, added to those the row has.
    pub timing: Option<StageTiming>,
    /// Who asked.
    pub principal_id: Option<EntityId>,
    /// owner, known, system, …
    pub principal_type: Option<String>,
    /// Whether that is the owner.
    pub principal_is_user: Option<bool>,
    /// allow, deny, ask.
    pub access_decision: Option<String>,
    /// Policy that decided.
    pub access_policy: Option<String>,
    /// Session it runs in.
    pub session_key: Option<SessionLabel>,
    pub session_persona: Option<String>,
    /// What it may do.
    pub permissions: Option<Value>,
    /// Automations that matched.
    pub hooks_matched: Option<Value>,
    /// Automations that fired.
    pub hooks_fired: Option<Value>,
    /// Automation that answered instead of the agent.
    pub hooks_handled: Option<String>,
    /// What automations added.
    pub hooks_context: Option<Value>,
    /// Turn it produced.
    pub turn_id: Option<TurnId>,
    /// Model that answered.
    pub agent_model: Option<String>,
    /// Tokens sent.
    pub tokens_prompt: Option<u64>,
    /// Tokens produced.
    pub tokens_completion: Option<u64>,
    /// Both.
    pub tokens_total: Option<u64>,
    /// Tool calls, shortened.
    pub tool_calls: Option<Value>,
    /// Where the reply went.
    pub delivery_channel: Option<String>,
    /// Ids the channel gave.
    pub delivery_message_ids: Option<Value>,
    /// Whether it arrived.
    pub delivery_success: Option<bool>,
    /// Why not.
    pub delivery_error: Option<String>,
    /// Stage that failed.
    pub error_stage: Option<String>,
    /// Why.
    pub error_message: Option<String>,
    /// Chain of causes.
    pub error_stack: Option<String>,
    /// The whole request, kept at the end.
    pub snapshot: Option<Value>,
}

/// A request's row.
#[derive(Debug, Clone, PartialEq)]
pub struct Request {
    pub id: RequestId,
    /// The request that led to it.
    pub parent_request_id: Option<RequestId>,
    /// The request the tree began with.
    pub root_request_id: RequestId,
    /// The event it serves.
    pub event_id: EventId,
    /// The event's type.
    pub event_type: String,
    /// The event's source.
    pub event_source: String,
    /// When it began.
    pub started_at: Timestamp,
    /// When it ended.
    pub completed_at: Option<Timestamp>,
    /// Time in each stage, in order.
    pub timings: Vec<StageTiming>,
    /// Where it stands.
    pub status: RequestStatus,
    /// Stage reached.
    pub stage: String,
    /// Everything its stages found; `stage`, `status` and `timing` are none here.
    pub found: RequestUpdate,
}

impl StageTiming {
    pub(super) fn to_json(&self) -> String {
        literal!({
            "stage": self.stage, "started_at": self.started_at.as_millis(), "duration_us": self.duration_us,
        })
        .to_string()
    }

    fn from_json(value: &Value) -> Option<Self> {
        Some(Self {
            stage: value.get("stage")?.as_str()?.to_owned(),
            started_at: Timestamp(value.get("started_at")?.as_i64()?),
            duration_us: value.get("duration_us")?.as_u64()?,
        })
    }
}

impl Request {
    pub(super) fn from_row(row: &Row<'_>) -> rusqlite::Result<Self> {
        let timings = json(row, "stage_timings")?;
        let timings = timings.as_ref().and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        Ok(Self {
            id: RequestId::new(row.get::<_, String>("id")?),
            parent_request_id: row.get::<_, Option<String>>("parent_request_id")?.map(RequestId::new),
            root_request_id: RequestId::new(row.get::<_, String>("root_request_id")?),
            event_id: EventId::new(row.get::<_, String>("event_id")?),
            event_type: row.get("event_type")?,
            event_source: row.get("event_source")?,
            started_at: moment(row, "started_at")?,
            completed_at: moment_or_none(row, "completed_at")?,
            timings: timings.iter().filter_map(StageTiming::from_json).collect(),
            status: row.get("status")?,
            stage: row.get("stage")?,
            found: RequestUpdate::from_row(row)?,
        })
    }
}

impl RequestUpdate {
    fn from_row(row: &Row<'_>) -> rusqlite::Result<Self> {
        Ok(Self {
            stage: None,
            status: None,
            timing: None,
            principal_id: row.get::<_, Option<String>>("principal_id")?.map(EntityId::new),
            principal_type: row.get("principal_type")?,
            principal_is_user: row.get("principal_is_user")?,
            access_decision: row.get("access_decision")?,
            access_policy: row.get("access_policy")?,
            session_key: row.get::<_, Option<String>>("session_key")?.map(SessionLabel::new),
            session_persona: row.get("session_persona")?,
            permissions: json(row, "permissions")?,
            hooks_matched: json(row, "hooks_matched")?,
            hooks_fired: json(row, "hooks_fired")?,
            hooks_handled: row.get("hooks_handled")?,
            hooks_context: json(row, "hooks_context")?,
            turn_id: row.get::<_, Option<String>>("turn_id")?.map(TurnId::new),
            agent_model: row.get("agent_model")?,
            tokens_prompt: count_or_none(row, "agent_tokens_prompt")?,
            tokens_completion: count_or_none(row, "agent_tokens_completion")?,
            tokens_total: count_or_none(row, "agent_tokens_total")?,
            tool_calls: json(row, "agent_tool_calls")?,
            delivery_channel: row.get("delivery_channel")?,
            delivery_message_ids: json(row, "delivery_message_ids")?,
            delivery_success: row.get("delivery_success")?,
            delivery_error: row.get("delivery_error")?,
            error_stage: row.get("error_stage")?,
            error_message: row.get("error_message")?,
            error_stack: row.get("error_stack")?,
            snapshot: json(row, "request_snapshot")?,
        })
    }
}
