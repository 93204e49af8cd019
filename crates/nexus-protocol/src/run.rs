//! What a `nexus …` command inside a tool call says to the daemon over its inherited socket.
//!
//! One JSON line each way: a [`Call`](crate::control::Call) of a method of the control plane, and a [`RunReply`]. The
//! authority is the socket itself: it belongs to one worker's one call and closes with it. No token is involved, so none
//! can be taken.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::error::WireError;

/// Environment variable carrying the number of the inherited descriptor.
pub const RUN_SOCKET_VARIABLE: &str = "NEXUS_RUN_FD";

/// Longest line either side accepts, in bytes.
pub const MAX_LINE_LEN: usize = 512 * 1024;

/// What came of a call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunReply {
    /// What the method answers with.
    Done(Value),
    Failed(WireError),
}
