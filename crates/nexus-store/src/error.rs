//! What can go wrong with a database file, as decisions a caller can take, each with its remedy.

use std::path::{Path, PathBuf};

use rusqlite::ErrorCode;
use rusqlite::ffi;

/// Extended code of "the shared-memory file could not be grown", which means a full disk.
const SHARED_MEMORY_SIZE: i32 = ffi::SQLITE_IOERR_SHMSIZE;

/// What SQLite or the operating system said, kept as text so that an error can go to several waiters.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Cause(String);

impl Cause {
    pub(crate) fn new(text: impl std::fmt::Display) -> Self {
        Self(text.to_string())
    }
}

/// Why the store did not do what was asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// The file is not there, and this command does not make it.
    #[error("{} does not exist", .path.display())]
    Missing {
        /// The database file.
        path: PathBuf,
    },
    /// The file was written by a newer Nexus.
    #[error("{} has schema version {found}; this nexus knows versions up to {known}", .path.display())]
    NewerSchema {
        /// The database file.
        path: PathBuf,
        /// Version found in the file.
        found: u32,
        /// Newest version this program knows.
        known: u32,
    },
    /// A read-only command met a schema that first has to be brought up to date.
    #[error("{} has schema version {found}; this nexus needs {known}", .path.display())]
    OlderSchema {
        /// The database file.
        path: PathBuf,
        /// Version found in the file.
        found: u32,
        /// Version this program reads.
        known: u32,
    },
    /// The record of an applied migration differs from the migration we ship.
    #[error("{}: migration {version} ({name}) differs from the one in this nexus", .path.display())]
    AlteredMigration {
        /// The database file.
        path: PathBuf,
        /// Number of the migration.
        version: u32,
        /// Name recorded in the file.
        name: String,
    },
    /// A migration could not be applied; the file is as it was before it.
    #[error("{}: migration {version} ({name}) failed", .path.display())]
    Migration {
        /// The database file.
        path: PathBuf,
        /// Number of the migration.
        version: u32,
        name: String,
        /// What SQLite said.
        #[source]
        source: Cause,
    },
    /// The file is something else than an SQLite database.
    #[error("{} is not an SQLite database", .path.display())]
    NotADatabase {
        /// The file.
        path: PathBuf,
    },
    /// The file is an SQLite database, but not one of ours.
    #[error("{} is an SQLite database that was not created by nexus", .path.display())]
    Foreign {
        /// The file.
        path: PathBuf,
    },
    /// The file is damaged.
    #[error("{} is damaged", .path.display())]
    Damaged {
        /// The database file.
        path: PathBuf,
        /// What was found.
        #[source]
        source: Cause,
    },
    /// Another program keeps the database locked.
    #[error("{} is locked by another program", .path.display())]
    Locked {
        /// The database file.
        path: PathBuf,
    },
    #[error("no space left to write {}", .path.display())]
    DiskFull {
        /// The database file.
        path: PathBuf,
    },
    /// The file or its folder cannot be written by this user.
    #[error("{} cannot be written", .path.display())]
    Unwritable {
        /// The database file.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: Cause,
    },
    /// The file cannot be read by this user.
    #[error("{} cannot be read", .path.display())]
    Unreadable {
        /// The database file.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: Cause,
    },
    /// Reading or writing failed below SQLite.
    #[error("input/output error on {}", .path.display())]
    Io {
        /// The database file.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: Cause,
    },
    /// A row that must be unique, present or well-formed is not.
    #[error("{}: a constraint of the schema was violated", .path.display())]
    Constraint {
        /// The database file.
        path: PathBuf,
        /// Which rule.
        #[source]
        source: Cause,
    },
    /// A stored value is none this program knows.
    #[error("{}: unexpected value in {column}: {value}", .path.display())]
    UnexpectedValue {
        /// The database file.
        path: PathBuf,
        /// Table and column.
        column: String,
        /// The value, shortened.
        value: String,
    },
    /// A statement failed in a way none of the other variants describes.
    #[error("{}: statement failed", .path.display())]
    Statement {
        /// The database file.
        path: PathBuf,
        /// What SQLite said.
        #[source]
        source: Cause,
    },
    /// A job panicked; its changes were rolled back.
    #[error("{}: a database job panicked", .path.display())]
    Panicked {
        /// The database file.
        path: PathBuf,
    },
    /// More unawaited writes are waiting than memory should hold.
    #[error("{}: the write queue is full", .path.display())]
    QueueFull {
        /// The database file.
        path: PathBuf,
    },
    /// The store was opened for reading only.
    #[error("{} is open for reading only", .path.display())]
    ReadOnly {
        /// The database file.
        path: PathBuf,
    },
    /// The store was closed.
    #[error("{} is closed", .path.display())]
    Closed {
        /// The database file.
        path: PathBuf,
    },
}

/// Borrows the path that every variant has, in the way the error itself is borrowed.
macro_rules! path_of {
    ($error:expr) => {
        match $error {
            StoreError::Missing { path }
            | StoreError::NewerSchema { path, .. }
            | StoreError::OlderSchema { path, .. }
            | StoreError::AlteredMigration { path, .. }
            | StoreError::Migration { path, .. }
            | StoreError::NotADatabase { path }
            | StoreError::Foreign { path }
            | StoreError::Damaged { path, .. }
            | StoreError::Locked { path }
            | StoreError::DiskFull { path }
            | StoreError::Unwritable { path, .. }
            | StoreError::Unreadable { path, .. }
            | StoreError::Io { path, .. }
            | StoreError::Constraint { path, .. }
            | StoreError::UnexpectedValue { path, .. }
            | StoreError::Statement { path, .. }
            | StoreError::Panicked { path }
            | StoreError::QueueFull { path }
            | StoreError::ReadOnly { path }
            | StoreError::Closed { path } => path,
        }
    };
}

impl StoreError {
    /// Returns the file the error is about.
    pub fn path(&self) -> &Path {
        path_of!(self)
    }

    /// Returns what a person can do about it.
    pub fn hint(&self) -> Option<String> {
        let path = self.path().display();
        let folder = self.path().parent().unwrap_or(Path::new(".")).display();
        let text = match self {
            Self::Missing { .. } => "run `nexus init` to create what is missing".to_owned(),
            Self::NewerSchema { .. } => {
                "install the newer nexus that last used this workspace, or restore an older backup".to_owned()
            }
            Self::OlderSchema { .. } => "run `nexus start` once to bring it up to date".to_owned(),
            Self::AlteredMigration { .. } => {
                "use the nexus build that created this workspace, or restore a backup".to_owned()
            }
            Self::Migration { .. } => {
                "the file was left unchanged; keep a copy and report this with the cause".to_owned()
            }
            Self::NotADatabase { .. } | Self::Foreign { .. } => {
                format!("move {path} out of the way or restore it from a backup, then run `nexus init`")
            }
            Self::Damaged { .. } => {
                format!(
                    "restore it with `nexus restore`, or move {path} away and run `nexus init` to start afresh"
                )
            }
            Self::Locked { .. } => {
                format!("close the program that uses {path} (`fuser {path}` shows it), then try again")
            }
            Self::DiskFull { .. } => {
                format!("free some space on the disk that holds {folder}, then try again")
            }
            Self::Unwritable { .. } => format!("make {path} and its folder {folder} writable for your user"),
            Self::Unreadable { .. } => format!("make {path} readable for your user"),
            Self::Io { .. } => format!("check the disk that holds {folder}"),
            Self::QueueFull { .. } => format!("the disk that holds {folder} is too slow or stuck"),
            Self::Constraint { .. }
            | Self::UnexpectedValue { .. }
            | Self::Statement { .. }
            | Self::Panicked { .. }
            | Self::ReadOnly { .. }
            | Self::Closed { .. } => return None,
        };
        Some(text)
    }

    /// Names the file, unless the error does already. Jobs run without knowing their file, so the
    /// conversion from SQLite's errors leaves the path empty and the database's edge fills it in.
    pub(crate) fn at(mut self, file: &Path) -> Self {
        let path: &mut PathBuf = path_of!(&mut self);
        if path.as_os_str().is_empty() {
            file.clone_into(path);
        }
        self
    }
}

impl From<rusqlite::Error> for StoreError {
    fn from(error: rusqlite::Error) -> Self {
        let path = PathBuf::new();
        let source = Cause::new(&error);
        if let rusqlite::Error::FromSqlConversionFailure(index, _, cause) = &error {
            let value = cause.to_string().chars().take(160).collect();
            return Self::UnexpectedValue { path, column: format!("column {index}"), value };
        }
        let Some(failure) = error.sqlite_error() else {
            return Self::Statement { path, source };
        };
        if failure.extended_code == SHARED_MEMORY_SIZE {
            return Self::DiskFull { path };
        }
        match failure.code {
            ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked | ErrorCode::FileLockingProtocolFailed => {
                Self::Locked { path }
            }
            ErrorCode::DiskFull => Self::DiskFull { path },
            ErrorCode::NotADatabase => Self::NotADatabase { path },
            ErrorCode::DatabaseCorrupt => Self::Damaged { path, source },
            ErrorCode::ReadOnly | ErrorCode::PermissionDenied | ErrorCode::CannotOpen => {
                Self::Unwritable { path, source }
            }
            ErrorCode::SystemIoFailure => Self::Io { path, source },
            ErrorCode::ConstraintViolation => Self::Constraint { path, source },
            // The remaining codes are SQLite's own and may grow; none of them is a decision for us.
            _ => Self::Statement { path, source },
        }
    }
}
