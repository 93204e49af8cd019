//! Why a call to the daemon gave no answer; each variant is something else to do next.

use std::time::Duration;

use nexus_protocol::error::WireError;

/// Why a call to the daemon gave no answer.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// Nobody listens on the port: start the daemon.
    #[error("no daemon is listening on 127.0.0.1:{port}")]
    NotRunning {
        /// The port tried.
        port: u16,
    },
    /// The daemon answered with an error; the number is the HTTP status.
    #[error("{}", .0.message)]
    Wire(WireError, u16),
    /// No answer in time; the daemon may still be working on it.
    #[error("no answer to {what} within {after:?}")]
    Timeout {
        /// The call that waited, such as `GET /health`.
        what: &'static str,
        /// How long it waited.
        after: Duration,
    },
    /// The connection broke before the answer was whole: the daemon stopped or died.
    #[error("the daemon closed the connection during {what}")]
    Disconnected {
        /// The call that was under way.
        what: &'static str,
        /// What the connection said.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// What came back is not what this client understands: another program, or another version.
    #[error("answer to {what} not understood: {reason}")]
    BadAnswer {
        /// The call.
        what: &'static str,
        /// What was wrong with the answer.
        reason: String,
    },
}

impl ClientError {
    /// Returns what a person can do about it.
    pub fn hint(&self) -> Option<&str> {
        match self {
            Self::NotRunning { .. } => Some("start it with `nexus start`, or use `nexus up`"),
            Self::Wire(error, _) => error.hint.as_deref(),
            Self::Timeout { .. } => Some("`nexus status` shows whether the daemon is busy"),
            Self::Disconnected { .. } => Some("`nexus status` shows whether the daemon is still running"),
            Self::BadAnswer { .. } => {
                Some("another program may be using the port, or the daemon may be another version")
            }
        }
    }
}
