//! Why a model call gave no reply; each variant is a decision for the caller.

use std::fmt;
use std::time::Duration;

/// Why a model call did not give a reply.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ModelError {
    /// The caller gave up; nothing to report.
    #[error("the call was cancelled")]
    Cancelled,
    /// Wait, or use another credential.
    #[error("{provider} is rate limiting requests{}", wait(.retry_after.as_ref()))]
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
    #[error("{provider} rejected the credential {pointer}: {reason}")]
    Unauthorized {
        /// Who rejected.
        provider: String,
        /// Which credential, as `service/account/credential`; never the secret.
        pointer: String,
        /// What was said.
        reason: String,
        /// The provider takes this login from its own tool only, so trying again is useless.
        only_its_tool: bool,
    },
    /// The account has no credit; use another.
    #[error("{provider} reports no credit for {pointer}: {reason}")]
    NoCredit {
        provider: String,
        /// Which credential; never the secret.
        pointer: String,
        /// What was said.
        reason: String,
    },
    /// Passing trouble at the provider or on the way; nothing of the reply came.
    #[error("{provider} is unavailable: {reason}")]
    Unavailable {
        provider: String,
        /// What was seen.
        reason: String,
        /// How long it asks to wait.
        retry_after: Option<Duration>,
    },
    /// Nothing came for too long.
    #[error("{provider} took too long: {reason}")]
    TimedOut {
        provider: String,
        /// What was waited for.
        reason: String,
    },
    /// The reply ended in the middle. What came of it has been streamed.
    #[error("the reply from {provider} was cut off: {reason}")]
    BrokenOff {
        provider: String,
        /// What was seen.
        reason: String,
    },
    /// The provider will never accept this request.
    #[error("{provider} refused the request: {reason}")]
    Rejected {
        provider: String,
        /// What was said.
        reason: String,
    },
    /// Every credential and every model was tried, or rests.
    #[error("no model could answer: {}", list(.tried))]
    Exhausted {
        /// What was tried, in order.
        tried: Vec<Tried>,
    },
}

/// One thing that was tried and what came of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tried {
    /// The model, as `provider/model`.
    pub model: String,
    /// Which credential, if one was needed and found.
    pub pointer: Option<String>,
    /// What came of it.
    pub outcome: String,
}

impl fmt::Display for Tried {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}", self.model)?;
        if let Some(pointer) = &self.pointer {
            write!(formatter, " with {pointer}")?;
        }
        write!(formatter, ": {}", self.outcome)
    }
}

impl ModelError {
    /// Returns the stable word for the trace and the ledger.
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Cancelled => "cancelled",
            Self::RateLimited { .. } => "rate_limit",
            Self::ContextTooLong => "context_overflow",
            Self::Unauthorized { .. } | Self::NoCredit { .. } => "auth_failure",
            Self::TimedOut { .. } => "timeout",
            Self::Unavailable { .. }
            | Self::BrokenOff { .. }
            | Self::Rejected { .. }
            | Self::Exhausted { .. } => "model_error",
        }
    }

    /// Tells whether the same request may work a little later.
    pub const fn is_retryable(&self) -> bool {
        match self {
            Self::RateLimited { .. }
            | Self::Unavailable { .. }
            | Self::TimedOut { .. }
            | Self::BrokenOff { .. } => true,
            Self::Cancelled
            | Self::ContextTooLong
            | Self::Unauthorized { .. }
            | Self::NoCredit { .. }
            | Self::Rejected { .. }
            | Self::Exhausted { .. } => false,
        }
    }

    /// Returns advice for the person, where there is any.
    pub const fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Unauthorized { .. } => {
                Some("`nexus credential verify` tests each credential with its provider")
            }
            Self::NoCredit { .. } => Some("add credit with the provider, or add another credential"),
            Self::Exhausted { .. } => Some(
                "`nexus models` shows which model is chosen and why; agent.fallbacks lists models to try next",
            ),
            Self::RateLimited { .. } | Self::Unavailable { .. } | Self::TimedOut { .. } => {
                Some("try again later, or list another model in agent.fallbacks")
            }
            Self::Cancelled | Self::ContextTooLong | Self::BrokenOff { .. } | Self::Rejected { .. } => None,
        }
    }
}

fn wait(retry_after: Option<&Duration>) -> String {
    retry_after.map(|wait| format!(" for {} s", wait.as_millis().div_ceil(1000))).unwrap_or_default()
}

fn list(tried: &[Tried]) -> String {
    let lines: Vec<String> = tried.iter().map(ToString::to_string).collect();
    lines.join("; ")
}
