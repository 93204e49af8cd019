//! Why the daemon did not do what was asked; each variant has one code on the wire.

use nexus_protocol::error::{ErrorCode, WireError};

/// Why a control-plane call gave no answer.
#[derive(Debug, thiserror::Error)]
pub enum RuntimeError {
    /// The request itself is wrong.
    #[error("{message}")]
    Invalid {
        /// What is wrong.
        message: String,
        /// What to do.
        hint: Option<String>,
    },
    /// No such request, session or key.
    #[error("no {what} named {name}")]
    NotFound {
        /// Kind of thing.
        what: &'static str,
        name: String,
    },
    /// Not allowed.
    #[error("{reason}")]
    Forbidden {
        /// Why.
        reason: String,
    },
    /// Starting or stopping.
    #[error("the daemon is {state} and accepts no new work")]
    NotServing {
        /// `starting` or `stopping`.
        state: &'static str,
    },
    /// Only a running daemon can do it, and none runs.
    #[error("{method} needs a running daemon")]
    NeedsDaemon {
        /// What was asked for.
        method: &'static str,
    },
    /// A defect, or a file that does not answer as it should.
    #[error("{message}")]
    Internal {
        /// What failed.
        message: String,
    },
    /// A database did not answer.
    #[error("{message}")]
    Store {
        /// What failed, file named.
        message: String,
        /// What to do.
        hint: Option<String>,
    },
}

impl RuntimeError {
    /// Returns the error as the wire carries it.
    pub fn to_wire(&self) -> WireError {
        let (code, hint) = match self {
            Self::Invalid { hint, .. } => (ErrorCode::InvalidRequest, hint.clone()),
            Self::NotFound { .. } => (ErrorCode::NotFound, None),
            Self::Forbidden { .. } => (ErrorCode::Forbidden, None),
            Self::NotServing { .. } => (ErrorCode::Unavailable, Some("try again in a moment".to_owned())),
            Self::NeedsDaemon { .. } => (
                ErrorCode::Unavailable,
                Some("`nexus up` starts one and talks to it; `nexus start` runs it alone".to_owned()),
            ),
            Self::Internal { .. } => (ErrorCode::Internal, Some("the log has the details".to_owned())),
            Self::Store { hint, .. } => (ErrorCode::Unavailable, hint.clone()),
        };
        WireError { code, message: self.to_string(), hint }
    }
}

impl From<nexus_store::StoreError> for RuntimeError {
    fn from(error: nexus_store::StoreError) -> Self {
        Self::Store { hint: error.hint(), message: nexus_base::error::chain(&error) }
    }
}
