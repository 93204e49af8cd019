//! Why something in a project could not be done. Each variant is a decision for the caller: tell the
//! model, ask a person to repair a file, wait, or look at the disk.

use std::error::Error as _;
use std::path::PathBuf;

use nexus_base::file::FileError;
use nexus_base::jail::JailError;
use serde_json::{Value, json};

/// Why something in a project could not be done.
#[derive(Debug, thiserror::Error)]
pub enum ProjectError {
    /// The contract says no: the text is the one it fixes.
    #[error("{0}")]
    Refused(String),
    /// A parameter is missing, of the wrong type or too long; nothing was touched.
    #[error("{0}")]
    Parameter(String),
    /// A state file is not what it should be; it was left as it is.
    #[error("{} is damaged at line {line}, column {column}: {what}; it was left as it is", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Line of the first fault, from 1.
        line: usize,
        /// Column of the first fault, from 1.
        column: usize,
        /// What is wrong there.
        what: String,
    },
    /// A state file is larger than anything we read, or would become larger than what we write.
    #[error(
        "{} {} larger than the allowed {limit} bytes{}",
        path.display(),
        if *would_be { "would be" } else { "is" },
        if *would_be { "; it was left as it is: close the cycle to start an empty one" } else { "" },
    )]
    TooLarge {
        /// The file.
        path: PathBuf,
        limit: u64,
        /// Whether this was about to be written.
        would_be: bool,
    },
    /// Somebody else keeps writing to the project.
    #[error("{} is held by another program; try again in a moment", path.display())]
    Busy {
        /// The lock file.
        path: PathBuf,
    },
    /// A part of `.nexus/` is a link or no folder, so writing there could land anywhere.
    #[error("{} is not a plain folder, so nothing in it is read or written", path.display())]
    NotAFolder {
        /// What stands in the way.
        path: PathBuf,
    },
    /// The operating system refused.
    #[error(transparent)]
    File(#[from] FileError),
    /// A path leads out of its folder, or the operating system refused.
    #[error(transparent)]
    Jail(#[from] JailError),
}

impl ProjectError {
    pub(crate) fn file(action: &'static str, path: impl Into<PathBuf>, source: std::io::Error) -> Self {
        Self::File(FileError::new(action, path, source))
    }

    /// Returns the whole story on one line, causes included.
    pub fn message(&self) -> String {
        let mut line = self.to_string();
        let mut cause = self.source();
        while let Some(error) = cause {
            let text = error.to_string();
            if !line.contains(&text) {
                line.push_str(": ");
                line.push_str(&text);
            }
            cause = error.source();
        }
        line
    }

    /// Returns the value a failed tool call gives back.
    pub fn to_value(&self) -> Value {
        json!({ "error": self.message() })
    }
}
