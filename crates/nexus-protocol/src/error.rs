//! The one error shape of the control plane.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Stable codes; scripts match on these, people read the message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum ErrorCode {
    /// The request itself is wrong; sending it again changes nothing.
    InvalidRequest,
    /// No token, or a wrong one.
    Unauthorized,
    /// The token does not reach this far.
    Forbidden,
    /// No such thing.
    NotFound,
    /// The body, header or message is over its limit.
    TooLarge,
    /// A deadline passed while waiting.
    AgentTimeout,
    /// The daemon cannot serve this now (starting, stopping, database trouble); try again.
    Unavailable,
    /// A defect or a failing disk; the message says where to look.
    Internal,
}

/// An error as the wire carries it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WireError {
    /// What kind of failure.
    pub code: ErrorCode,
    /// What failed.
    pub message: String,
    /// What to do about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

/// Body of every non-2xx answer: `{"error": {…}}`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ErrorBody {
    /// The failure.
    pub error: WireError,
}
