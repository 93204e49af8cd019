//! The tool contract: what a model is told about a tool and what a call gives back.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Whether a call that was cut off by a crash may simply run again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Replay {
    /// It only looks: run it again.
    Safe,
    /// Its effect commits in the same transaction as its result, so no result means no effect: run it again.
    Transactional,
    /// It may have acted: never run it again, tell the model that the outcome is unknown.
    Unsafe,
}

/// A tool as a model sees it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolSpec {
    /// Name the model calls it by.
    pub name: String,
    /// What it does and when to use it, in as few words as work.
    pub description: String,
    /// JSON Schema of its arguments.
    pub input_schema: Value,
    /// What a crash in the middle of a call allows.
    pub replay: Replay,
}

/// What a tool call gave back to the model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolOutput {
    /// Text for the model.
    pub text: String,
    /// The call did not do what was asked.
    pub is_error: bool,
}

impl ToolOutput {
    /// A call that worked.
    pub fn ok(text: impl Into<String>) -> Self {
        Self { text: text.into(), is_error: false }
    }

    /// A call that did not; the text says what, where and what to do.
    pub fn error(text: impl Into<String>) -> Self {
        Self { text: text.into(), is_error: true }
    }
}
