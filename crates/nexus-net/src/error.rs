//! Why a request gave no answer. No message holds a query, a header or a body.

use std::time::Duration;

use crate::address::Kept;

/// Why a request gave no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NetError {
    /// The address cannot be used at all.
    #[error("the address is not usable: {reason}")]
    BadAddress {
        /// What is wrong with it.
        reason: String,
    },
    /// The guard refused the host; nothing was sent to it.
    #[error("{host} belongs to {kept} and may not be reached from here")]
    Kept {
        /// Name or address as asked for.
        host: String,
        /// What its address is kept for.
        kept: Kept,
    },
    /// The address is not under the base URL that was configured.
    #[error("{host} is not the configured host")]
    OtherHost {
        /// The host that was asked for.
        host: String,
    },
    /// The name has no address.
    #[error("{host} cannot be resolved")]
    Unresolved {
        /// The name.
        host: String,
    },
    /// Nobody answers there, or the TLS handshake did not work.
    #[error("{host} cannot be reached: {reason}")]
    Unreachable {
        host: String,
        /// What was seen.
        reason: String,
    },
    /// More redirects than are followed.
    #[error("{host} redirects too many times")]
    TooManyRedirects {
        /// The host first asked.
        host: String,
    },
    /// It took too long.
    #[error("{host} did not answer within {after:?}")]
    TimedOut {
        host: String,
        /// How long was waited.
        after: Duration,
    },
    /// The answer is longer than the caller accepts.
    #[error("the answer from {host} is longer than the allowed {limit} bytes")]
    TooLong {
        host: String,
        /// How much was allowed.
        limit: usize,
    },
    /// The connection ended in the middle.
    #[error("the answer from {host} was cut off: {reason}")]
    BrokenOff {
        host: String,
        /// What was seen.
        reason: String,
    },
    /// The client itself could not be made.
    #[error("building the HTTP client: {reason}")]
    Client {
        /// What went wrong.
        reason: String,
    },
}

impl NetError {
    /// Returns advice for the person, where there is any.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::BadAddress { .. } => Some("give an http or https address without a user name in it"),
            Self::Kept { .. } => {
                Some("only addresses you configured yourself may be on this machine or its networks")
            }
            Self::OtherHost { .. } | Self::TooManyRedirects { .. } => Some("check the configured base URL"),
            Self::Unresolved { .. } | Self::Unreachable { .. } | Self::TimedOut { .. } => {
                Some("check the network and the configured base URL")
            }
            Self::TooLong { .. } | Self::BrokenOff { .. } | Self::Client { .. } => None,
        }
    }
}
