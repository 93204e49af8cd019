//! What a `nexus …` command inside a tool call says to the daemon over its inherited socket.
//!
//! One JSON line each way. The authority is the socket itself: it belongs to one worker's one call
//! and closes with it. No token is involved, so none can be taken.

use serde::{Deserialize, Serialize};

/// Environment variable carrying the number of the inherited descriptor.
pub const RUN_SOCKET_VARIABLE: &str = "NEXUS_RUN_FD";

/// Longest line either side accepts, in bytes.
pub const MAX_LINE_LEN: usize = 512 * 1024;

/// A command as the tool process was started with it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunRequest {
    /// Arguments after the program name.
    pub arguments: Vec<String>,
}

/// What to print and how to exit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunReply {
    /// Exit code.
    pub exit_code: u8,
    /// For standard output.
    pub stdout: String,
    /// For standard error.
    pub stderr: String,
}
