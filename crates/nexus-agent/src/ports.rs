//! What a turn needs from above: a ledger to write into, a way to send workers off, somebody to
//! tell about progress. The session room implements them over its store.

use async_trait::async_trait;
use nexus_base::id::{MessageId, ToolCallId};
use nexus_protocol::tool::ToolOutput;

use crate::coordination::Coordinate;

/// The ledger could not be written; the turn must not go on.
#[derive(Debug, Clone, thiserror::Error)]
#[error("the ledger could not be written: {0}")]
pub struct LedgerError(pub String);

/// One reply with tool calls, before the first of them runs.
#[derive(Debug, Clone)]
pub struct Step {
    /// The message.
    pub message_id: MessageId,
    /// Text of the reply.
    pub text: String,
    /// Reasoning kept apart.
    pub thinking: Option<String>,
    /// Calls, in order.
    pub calls: Vec<Call>,
    /// One of them may act on the world and must never run twice, not even after a loss of power.
    pub acts: bool,
}

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

/// How a call ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallEnd {
    /// It ran; the output says how it went.
    Ran,
    /// It was cut off; whether it acted is unknown.
    Interrupted,
}

/// Keeps what a turn does, durably enough that a killed process can go on from it.
#[async_trait]
pub trait Ledger: Send + Sync {
    /// Writes a reply and all its calls.
    async fn record_step(&self, step: &Step) -> Result<(), LedgerError>;

    /// Writes a call's result.
    async fn record_result(
        &self,
        call: &ToolCallId,
        output: &ToolOutput,
        end: CallEnd,
    ) -> Result<(), LedgerError>;
}

/// A coordination call's answer.
#[derive(Debug, Clone)]
pub struct Coordinated {
    /// Text for the model.
    pub output: ToolOutput,
    /// The result is in the ledger already, committed with the call's effect.
    pub recorded: bool,
}

/// Sends workers off, talks to them, ends them.
#[async_trait]
pub trait Dispatch: Send + Sync {
    /// Carries out one coordination call.
    async fn coordinate(&self, call: &ToolCallId, what: Coordinate) -> Result<Coordinated, LedgerError>;

    /// Returns how many workers of this session have not reported.
    async fn outstanding(&self) -> Result<u32, LedgerError>;
}

/// Something to show while a turn runs. Must not block.
#[derive(Debug, Clone)]
pub enum Progress<'a> {
    /// Text as the model says it.
    Text(&'a str),
    /// A call begins.
    CallStarted {
        /// The call.
        call: &'a Call,
    },
    /// A call ended.
    CallEnded {
        /// The call.
        call: &'a Call,
        /// It did not do what was asked.
        is_error: bool,
        /// Time it took.
        milliseconds: u64,
    },
}

/// Takes progress.
pub type ProgressSink<'a> = &'a (dyn Fn(Progress<'_>) + Send + Sync);
