//! What tools are told about the turn that calls them, and whom they may ask.

use async_trait::async_trait;
pub use nexus_base::conversation::Role;
use nexus_base::id::{RequestId, SessionLabel, ToolCallId};

/// The ledger could not be written; the turn must not go on.
#[derive(Debug, Clone, thiserror::Error)]
#[error("the ledger could not be written: {0}")]
pub struct LedgerError(pub String);

/// One tool call.
#[derive(Debug, Clone)]
pub struct Call {
    /// Our id.
    pub id: ToolCallId,
    /// Id the model gave it.
    pub model_call_id: String,
    /// Tool name.
    pub tool: String,
    /// Arguments as the model gave them.
    pub arguments: serde_json::Value,
}

/// What stands around a turn is told about it.
#[derive(Debug, Clone)]
pub struct TurnFacts {
    /// Manager or worker.
    pub role: Role,
    /// The session that takes the turn.
    pub session: SessionLabel,
    /// The request it answers.
    pub request_id: RequestId,
    /// The words it answers, without their context block.
    pub words: String,
}

/// What somebody is asked to allow.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApprovalAsk {
    /// The call that needs it.
    pub call: ToolCallId,
    pub tool: String,
    /// It runs a command, so that only this one run can be allowed.
    pub runs_command: bool,
    /// What would happen: in its first line the folder or path, below it the exact command or content.
    pub summary: String,
    /// What the answer is bound to; nothing else is allowed by it.
    pub resources: Vec<String>,
    /// Why it needs asking.
    pub reason: String,
}

/// The answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Approval {
    /// Yes, for exactly this.
    Granted,
    /// No, or nobody answered in time.
    Refused {
        /// Why, for the model and the person.
        reason: String,
    },
}

/// Somebody who can be asked.
#[async_trait]
pub trait Approve: Send + Sync {
    /// Asks and waits; whatever is not a clear yes in time is a no.
    async fn ask(&self, turn: &TurnFacts, ask: &ApprovalAsk) -> Approval;
}

/// There is nobody to ask.
#[derive(Debug, Clone, Copy, Default)]
pub struct NobodyToAsk;

#[async_trait]
impl Approve for NobodyToAsk {
    async fn ask(&self, _turn: &TurnFacts, _ask: &ApprovalAsk) -> Approval {
        Approval::Refused { reason: "there is nobody to approve it".to_owned() }
    }
}
