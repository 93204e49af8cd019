//! What can be wrong with a configuration, always with the key and the remedy.

use std::fmt;
use std::path::PathBuf;

use nexus_base::file::FileError;
use serde::Serialize;

/// One thing that is wrong, never quoting a value that could be a secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Problem {
    /// Dotted path of the key.
    pub key: String,
    /// What is wrong.
    pub message: String,
    /// What to do.
    pub fix: String,
}

impl Problem {
    pub(crate) fn new(key: impl Into<String>, message: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { key: key.into(), message: message.into(), fix: fix.into() }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: {}", self.key, self.message)
    }
}

/// Why there are no settings, or why an edit was refused.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// There is no document.
    #[error("{path} does not exist")]
    Missing {
        /// Where it should lie.
        path: PathBuf,
    },
    /// The document is not JSON, or not an object.
    #[error("{path} is not a JSON object: {detail}")]
    Malformed {
        /// The document.
        path: PathBuf,
        /// Line, column and what was expected.
        detail: String,
    },
    /// The document breaks a rule that no default can stand in for.
    #[error("{}", first(.problems))]
    Invalid {
        /// Everything that is wrong; at least one.
        problems: Vec<Problem>,
    },
    /// A dotted path is empty, too long, or leads through something that is no object.
    #[error("{key:?} is not a usable key: {detail}")]
    BadKey {
        /// What was given, shortened.
        key: String,
        /// Why it cannot be used.
        detail: &'static str,
    },
    /// Another process is changing the configuration right now.
    #[error("another process is changing {path}")]
    Busy {
        /// The document.
        path: PathBuf,
    },
    /// The file system refused.
    #[error(transparent)]
    File(#[from] FileError),
    /// The system gave no random bytes for a new token.
    #[error("getting random bytes")]
    Random(#[source] std::io::Error),
}

impl ConfigError {
    /// Returns advice for the person.
    pub fn hint(&self) -> String {
        match self {
            Self::Missing { .. } => "run `nexus init` first".into(),
            Self::Malformed { .. } => {
                "correct the JSON, or copy the valid parts from state/config.last-good.json".into()
            }
            Self::Invalid { problems } => problems.first().map(|one| one.fix.clone()).unwrap_or_default(),
            Self::BadKey { .. } => {
                "use a dotted path such as agent.model; `nexus config list` shows them".into()
            }
            Self::Busy { .. } => "try again in a moment".into(),
            Self::File(_) => "check the file's owner, permissions and free space".into(),
            Self::Random(_) => "check that the system's random source works".into(),
        }
    }
}

fn first(problems: &[Problem]) -> String {
    match problems {
        [] => "configuration is invalid".into(),
        [only] => only.to_string(),
        [one, rest @ ..] => format!("{one} (and {} more)", rest.len()),
    }
}
