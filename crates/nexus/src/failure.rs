//! Why a command did not do what was asked: one line, perhaps a hint, and the exit code scripts see.

use std::error::Error;
use std::fmt;

use nexus_base::error::chain;
use nexus_client::ClientError;
use nexus_protocol::error::ErrorCode;
use nexus_store::StoreError;
use nexus_workspace::config::ConfigError;

/// Exit codes; `nexus --help` documents them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    /// Something went wrong.
    Failed = 1,
    /// The command line itself is wrong.
    Usage = 2,
    /// No daemon runs, or the thing asked about does not exist.
    Missing = 3,
    /// The person interrupted it.
    Interrupted = 130,
}

/// A failed command.
#[derive(Debug)]
pub(crate) struct Failure {
    message: String,
    hint: Option<String>,
    exit: Exit,
}

/// What every command returns.
pub(crate) type Outcome = Result<(), Failure>;

impl Failure {
    /// Makes an ordinary failure.
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), hint: None, exit: Exit::Failed }
    }

    /// Makes a failure from an error, with everything that caused it on the same line.
    pub(crate) fn caused(error: &dyn Error) -> Self {
        Self::new(chain(error))
    }

    /// Makes the failure of output that nobody reads any more; it prints nothing.
    pub(crate) fn unread() -> Self {
        Self::new(String::new())
    }

    /// Makes the end of a command that the person interrupted; it prints nothing.
    pub(crate) fn interrupted() -> Self {
        Self { message: String::new(), hint: None, exit: Exit::Interrupted }
    }

    /// Adds what the person can do about it.
    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Adds a hint that may be absent.
    pub(crate) fn maybe_hint(mut self, hint: Option<impl Into<String>>) -> Self {
        if let Some(hint) = hint {
            self.hint = Some(hint.into());
        }
        self
    }

    /// Adds what to do when the thing asked for is not there.
    pub(crate) fn hint_if_missing(self, hint: &str) -> Self {
        if self.exit == Exit::Missing && self.hint.is_none() { self.hint(hint) } else { self }
    }

    /// Sets the exit code.
    pub(crate) fn exit(mut self, exit: Exit) -> Self {
        self.exit = exit;
        self
    }

    /// Returns the exit code.
    pub(crate) fn code(&self) -> u8 {
        self.exit as u8
    }

    /// Returns what failed.
    pub(crate) fn message(&self) -> &str {
        &self.message
    }

    /// Returns the advice, if any.
    pub(crate) fn advice(&self) -> Option<&str> {
        self.hint.as_deref()
    }
}

impl From<ConfigError> for Failure {
    fn from(error: ConfigError) -> Self {
        let exit = match &error {
            ConfigError::Missing { .. } => Exit::Missing,
            ConfigError::BadKey { .. } => Exit::Usage,
            ConfigError::Malformed { .. }
            | ConfigError::Invalid { .. }
            | ConfigError::Busy { .. }
            | ConfigError::File(_)
            | ConfigError::Random(_) => Exit::Failed,
        };
        Self::caused(&error).hint(error.hint()).exit(exit)
    }
}

impl From<ClientError> for Failure {
    fn from(error: ClientError) -> Self {
        let failure = Self::caused(&error);
        match &error {
            ClientError::NotRunning { .. } => {
                failure.hint("nexus up starts the daemon and talks to it").exit(Exit::Missing)
            }
            ClientError::Wire(wire, _) => {
                let exit = if wire.code == ErrorCode::NotFound { Exit::Missing } else { Exit::Failed };
                failure.maybe_hint(wire.hint.as_deref()).exit(exit)
            }
            ClientError::Timeout { .. }
            | ClientError::Disconnected { .. }
            | ClientError::BadAnswer { .. } => failure.maybe_hint(error.hint()),
        }
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        Self::caused(&error).maybe_hint(error.hint())
    }
}

impl From<serde_json::Error> for Failure {
    fn from(error: serde_json::Error) -> Self {
        Self::caused(&error)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.message)
    }
}

impl Error for Failure {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn causes_join_on_one_line_without_repeats() {
        let io = std::io::Error::new(std::io::ErrorKind::PermissionDenied, "no\nway");
        let error = nexus_base::file::FileError::new("writing", "/x", io);
        assert_eq!(chain(&error), "writing /x: no way");
    }
}
