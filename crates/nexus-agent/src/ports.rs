//! What a turn needs from above: a ledger to write into, a way to send workers off, somebody to
//! tell about progress, somebody to ask, and those who stand around its steps. The pipeline implements
//! them.

use std::time::Duration;

use async_trait::async_trait;
use nexus_base::clock::Timestamp;
pub use nexus_base::conversation::Spent;
use nexus_base::id::{MessageId, ToolCallId};
use nexus_llm::{ModelName, Usage};
use nexus_protocol::tool::ToolOutput;

use crate::compaction::Compacted;
use nexus_tools::coordination::Coordinate;
use nexus_tools::ports::{Call, LedgerError, TurnFacts};

/// One reply with tool calls, before the first of them runs.
#[derive(Debug, Clone)]
pub struct Step {
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

/// How a call ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallEnd {
    /// It ran; the output says how it went.
    Ran,
    /// It was cut off; whether it acted is unknown.
    Interrupted,
}

/// When a call ran: it may have waited for the calls before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CallSpan {
    pub began: Timestamp,
    /// How long it took, whatever the wall clock did meanwhile.
    pub took: Duration,
}

impl CallSpan {
    /// A call that was answered without being run.
    pub fn nothing() -> Self {
        Self { began: Timestamp::now(), took: Duration::ZERO }
    }
}

/// Keeps what a turn does, durably enough that a killed process can go on from it.
#[async_trait]
pub trait Ledger: Send + Sync {
    /// Writes a reply and all its calls.
    async fn record_step(&self, step: &Step) -> Result<(), LedgerError>;

    /// Keeps the block before the turn's newest words as it is sent, and the record of what was added.
    async fn record_enrichment(&self, frame: &str, record: &str) -> Result<(), LedgerError>;

    /// Keeps a compaction; from now on the turns it stands for are sent as its summary.
    async fn record_compaction(&self, compacted: &Compacted) -> Result<(), LedgerError>;

    /// Writes a call's result, and when it ran if that is known.
    async fn record_result(
        &self,
        call: &ToolCallId,
        output: &ToolOutput,
        end: CallEnd,
        span: Option<CallSpan>,
    ) -> Result<(), LedgerError>;

    /// Keeps the texts that a turn shares with others, as JSON under their id.
    async fn record_prompt(&self, id: &str, parts: &str) -> Result<(), LedgerError>;

    /// Writes down what the turn has read that nobody vouches for, one source a line, before the model
    /// sees any of it.
    async fn record_taint(&self, sources: &str) -> Result<(), LedgerError>;
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

/// Counts what models cost, across turns and restarts.
#[async_trait]
pub trait Spending: Send + Sync {
    /// Returns what was spent before the turn's next call.
    async fn so_far(&self) -> Result<Spent, LedgerError>;

    /// Counts a call and returns what was spent with it.
    async fn add(&self, model: &ModelName, usage: &Usage) -> Result<Spent, LedgerError>;
}

/// Nothing is counted, because the model costs nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct Free;

#[async_trait]
impl Spending for Free {
    async fn so_far(&self) -> Result<Spent, LedgerError> {
        Ok(Spent::default())
    }

    async fn add(&self, _model: &ModelName, _usage: &Usage) -> Result<Spent, LedgerError> {
        Ok(Spent::default())
    }
}

/// Something to show while a turn runs. Must not block.
#[derive(Debug, Clone)]
pub enum Progress<'a> {
    /// Text as the model says it.
    Text(&'a str),
    /// What the turn has used so far.
    Used {
        /// Tokens of all its model calls.
        usage: &'a Usage,
    },
    /// Earlier turns were summed up or results shortened to make room.
    Compacted {
        /// What was decided.
        compacted: &'a Compacted,
    },
    /// A call begins.
    CallStarted { call: &'a Call },
    CallEnded {
        call: &'a Call,
        /// It did not do what was asked.
        is_error: bool,
        /// Time it took.
        milliseconds: u64,
    },
}

/// Takes progress.
pub type ProgressSink<'a> = &'a (dyn Fn(Progress<'_>) + Send + Sync);

/// A piece of context that somebody adds to a turn's newest message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Enrichment {
    /// Who adds it, in one word such as `memory`.
    pub source: String,
    /// The text, as the model will read it.
    pub text: String,
}

impl Enrichment {
    /// Returns the text as it stands below a summary, with its source around it.
    pub(crate) fn with_its_source(&self) -> String {
        format!("\n\n<{0}>\n{1}\n</{0}>", self.source, self.text.trim_end())
    }
}

/// Whether a call may run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Gate {
    /// It may.
    Open,
    /// It may look and not change: a command gets its task folder read-only. A tool that is no command
    /// just runs; refuse those that write.
    LookOnly {
        /// Why, and what to do about it; told where the command is denied something.
        reason: String,
    },
    /// It may not; the reason tells the model what to do instead.
    Refused {
        /// Why, and what to do.
        reason: String,
    },
}

/// Those who stand around a turn's steps: automations and the project's rules. A hook that fails
/// deals with it by itself; nothing here can fail a turn.
#[async_trait]
pub trait Hooks: Send + Sync {
    /// The context is ready and no model was asked yet. Not called again when a turn is resumed.
    async fn context_ready(&self, turn: &TurnFacts) -> Vec<Enrichment> {
        let _ = turn;
        Vec::new()
    }

    /// A call is about to run; it is in the ledger already.
    async fn before_call(&self, turn: &TurnFacts, call: &Call) -> Gate {
        let _ = (turn, call);
        Gate::Open
    }

    /// A call ran; what is returned is added below its output.
    async fn after_call(&self, turn: &TurnFacts, call: &Call, output: &ToolOutput) -> Option<String> {
        let _ = (turn, call, output);
        None
    }

    /// The conversation was shortened; what is returned goes with the summary that stands for the rest.
    async fn compacted(&self, turn: &TurnFacts) -> Vec<Enrichment> {
        let _ = turn;
        Vec::new()
    }

    /// The turn is over; what it said is not yet delivered.
    async fn turn_ended(&self, turn: &TurnFacts, said: &str) {
        let _ = (turn, said);
    }
}

/// Nobody stands around.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoHooks;

impl Hooks for NoHooks {}

/// Several of them, asked in order; the first refusal counts, else the first narrowing.
#[async_trait]
impl Hooks for Vec<std::sync::Arc<dyn Hooks>> {
    async fn context_ready(&self, turn: &TurnFacts) -> Vec<Enrichment> {
        let mut all = Vec::new();
        for hooks in self {
            all.extend(hooks.context_ready(turn).await);
        }
        all
    }

    async fn before_call(&self, turn: &TurnFacts, call: &Call) -> Gate {
        let mut gate = Gate::Open;
        for hooks in self {
            match hooks.before_call(turn, call).await {
                refused @ Gate::Refused { .. } => return refused,
                Gate::LookOnly { reason } if gate == Gate::Open => gate = Gate::LookOnly { reason },
                Gate::LookOnly { .. } | Gate::Open => {}
            }
        }
        gate
    }

    async fn after_call(&self, turn: &TurnFacts, call: &Call, output: &ToolOutput) -> Option<String> {
        let mut all = Vec::new();
        for hooks in self {
            all.extend(hooks.after_call(turn, call, output).await);
        }
        (!all.is_empty()).then(|| all.join("\n"))
    }

    async fn compacted(&self, turn: &TurnFacts) -> Vec<Enrichment> {
        let mut all = Vec::new();
        for hooks in self {
            all.extend(hooks.compacted(turn).await);
        }
        all
    }

    async fn turn_ended(&self, turn: &TurnFacts, said: &str) {
        for hooks in self {
            hooks.turn_ended(turn, said).await;
        }
    }
}
