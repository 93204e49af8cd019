//! Words about conversations that more than one crate stores, sends, configures or decides by, each defined once.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Who an agent is in a conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Role {
    /// Talks to the person.
    Manager,
    /// Does a task and reports.
    Worker,
}

/// How a message meets a session that is busy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum QueueMode {
    /// End the running turn, keep its partial output, and answer everything waiting in one next turn.
    Interrupt,
    /// Another word for [`QueueMode::Interrupt`]: nothing is injected into a running turn.
    Steer,
    /// Wait, then run one at a time.
    Followup,
    /// Wait, then run everything pending as one turn.
    Collect,
    /// Another word for [`QueueMode::Followup`].
    Queue,
}

/// Why a conversation was compacted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CompactionCause {
    /// It came close to what the model takes.
    ContextLimit,
    /// The provider said it was too long.
    Overflow,
    /// It had too many turns to be read for every message.
    Length,
    /// Somebody asked for it.
    Asked,
    /// Somebody asked for the conversation to begin anew; nothing is sent of what was before.
    Reset,
}

/// What was spent so far, for those who have to stop in time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Spent {
    /// Tokens of the run: everything the owner's message led to.
    pub run_tokens: u64,
    pub day_tokens: u64,
    /// Cost of the day, in millionths of a dollar.
    pub day_micro_usd: u64,
}

impl Role {
    const ALL: [Self; 2] = [Self::Manager, Self::Worker];

    /// Returns the stored word.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Manager => "manager",
            Self::Worker => "worker",
        }
    }

    /// Returns the role a word stands for.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|role| role.as_str() == word)
    }
}

impl CompactionCause {
    const ALL: [Self; 5] = [Self::ContextLimit, Self::Overflow, Self::Length, Self::Asked, Self::Reset];

    /// Returns the stored word.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::ContextLimit => "context_limit",
            Self::Overflow => "overflow",
            Self::Length => "length",
            Self::Asked => "asked",
            Self::Reset => "reset",
        }
    }

    /// Returns the cause a word stands for.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|cause| cause.as_str() == word)
    }
}
