//! Why a model call gave no reply; each variant is a decision for the caller.

use std::time::Duration;

/// Why a model call did not give a reply.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ModelError {
    /// The caller gave up; nothing to report.
    #[error("the call was cancelled")]
    Cancelled,
    /// Wait, or use another credential.
    #[error("{provider} asks to slow down")]
    RateLimited {
        /// Who asks.
        provider: String,
        /// For how long.
        retry_after: Option<Duration>,
    },
    /// The conversation must become shorter.
    #[error("the conversation exceeds the model's limit")]
    ContextTooLong,
    /// The credential does not work; use another.
    #[error("{provider} rejected the credential {pointer}")]
    Unauthorized {
        /// Who rejected.
        provider: String,
        /// Which credential, as `service/account`; never the secret.
        pointer: String,
    },
    /// Passing trouble at the provider or on the way.
    #[error("{provider} is unavailable: {reason}")]
    Unavailable {
        /// Who.
        provider: String,
        /// What was seen.
        reason: String,
    },
    /// The provider will never accept this request.
    #[error("{provider} refused the request: {reason}")]
    Rejected {
        /// Who.
        provider: String,
        /// What was said.
        reason: String,
    },
}
