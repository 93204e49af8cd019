//! What runs changed in files, so that it can be taken back.
//!
//! Before a tool changes a file, the file as it was is kept in `state/undo/{run}` and a record beside it
//! says what is about to happen. A record is on disk before its effect: whatever becomes of the daemon,
//! the way back is known. `write` and `edit` are covered always; a command as far as its task folder is
//! small enough to be copied ([`snapshot`]).

mod restore;
mod snapshot;

#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use nexus_base::clock::Timestamp;
use nexus_base::failpoint;
use nexus_base::file::Durability;
use nexus_base::id::{RequestId, ToolCallId, new_ulid, to_hex};
use nexus_base::jail::{Jail, JailError};
use nexus_workspace::Layout;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

pub use restore::{Conflict, Force, Restored, Run, UndoError, list_runs, undo};
pub(crate) use snapshot::Snapshot;

/// Folder below the state.
const FOLDER: &str = "undo";
/// The longest file whose content is kept.
const MAX_FILE_LEN: u64 = 8 * 1024 * 1024;
/// The most runs kept, and the most bytes of all of them.
const MAX_RUNS: usize = 50;
const MAX_BYTES: u64 = 256 * 1024 * 1024;

/// A file as it was or became.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "is")]
pub(crate) enum Image {
    /// There was none.
    Absent,
    /// Its content, by its hash; kept when it is an image from before.
    Content {
        /// Hash of the content.
        hash: String,
        /// Permission bits.
        mode: u32,
    },
    /// It was too long to be kept, or no regular file.
    NotKept,
    /// Nobody knows: the daemon died before it could look.
    Unknown,
}

impl Image {
    fn mode(&self) -> Option<u32> {
        match self {
            Self::Content { mode, .. } => Some(*mode),
            Self::Absent | Self::NotKept | Self::Unknown => None,
        }
    }
}

/// One file that changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Entry {
    /// The folder nothing leaves, without links.
    pub(crate) root: PathBuf,
    /// The file inside it.
    pub(crate) inside: PathBuf,
    pub(crate) before: Image,
    pub(crate) after: Image,
}

/// What one call changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Record {
    pub(crate) tool: String,
    pub call: String,
    pub(crate) session: String,
    pub(crate) request: String,
    pub(crate) at: Timestamp,
    /// The workspace it happened in; a copy of it elsewhere must not reach back.
    pub(crate) workspace: PathBuf,
    pub(crate) entries: Vec<Entry>,
    /// Why changes of this call may be missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) uncovered: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) undone_at: Option<Timestamp>,
}

/// Whose change it is.
#[derive(Debug, Clone)]
pub(crate) struct Author {
    pub(crate) run: RequestId,
    pub(crate) request: RequestId,
    pub(crate) session: String,
    pub call: ToolCallId,
}

/// The records of a workspace.
#[derive(Debug, Clone)]
pub struct Changes {
    jail: Arc<Jail>,
    workspace: PathBuf,
}

impl Changes {
    /// Opens the records of a workspace, making their folder if it is missing.
    ///
    /// # Errors
    /// It cannot be made or opened.
    pub fn at(layout: &Layout) -> Result<Self, JailError> {
        let state = Jail::open(layout.state())?;
        state.create_dir_all(FOLDER, 0o700)?;
        let workspace = layout.root().canonicalize().unwrap_or_else(|_| layout.root().to_owned());
        Ok(Self { jail: Arc::new(state.sub(FOLDER)?), workspace })
    }

    /// Keeps a file as it is and notes that it is about to become `content`. Durable when this returns.
    pub(crate) fn before_write(
        &self,
        author: &Author,
        tool: &str,
        (jail, inside): (&Jail, &Path),
        content: &[u8],
        mode: u32,
    ) -> Result<(), JailError> {
        let run = self.run_folder(&author.run)?;
        let before = keep(&run, jail, inside, Durability::PowerLoss)?;
        let entry = Entry {
            root: jail.root().to_owned(),
            inside: inside.to_owned(),
            before,
            after: Image::Content { hash: hash_of(content), mode },
        };
        let record = self.record(author, tool, vec![entry]);
        record.write(&run, &new_ulid(), Durability::PowerLoss)?;
        failpoint::hit("undo.kept");
        Ok(())
    }

    fn record(&self, author: &Author, tool: &str, entries: Vec<Entry>) -> Record {
        Record {
            tool: tool.to_owned(),
            call: author.call.to_string(),
            session: author.session.clone(),
            request: author.request.to_string(),
            at: Timestamp::now(),
            workspace: self.workspace.clone(),
            entries,
            uncovered: None,
            undone_at: None,
        }
    }

    /// Returns the folder of one run, making room for it if it is new.
    fn run_folder(&self, run: &RequestId) -> Result<Jail, JailError> {
        let name = run.as_str();
        if self.jail.metadata(name).is_err_and(|error| error.is_not_found()) {
            self.clear();
            self.jail.create_dir_all(Path::new(name).join("files"), 0o700)?;
        }
        self.jail.sub(name)
    }

    /// Removes the oldest runs beyond what may be kept.
    fn clear(&self) {
        let Ok(mut runs) = self.jail.list(".") else { return };
        runs.sort_unstable_by_key(|run| std::cmp::Reverse(run.modified));
        let mut bytes = 0;
        for (number, run) in runs.iter().enumerate() {
            let files = self.jail.list(Path::new(&run.name).join("files")).unwrap_or_default();
            bytes += files.iter().map(|file| file.len).sum::<u64>();
            if number + 1 >= MAX_RUNS || bytes > MAX_BYTES {
                // What cannot be removed now is tried again with the next run.
                let _ = self.jail.remove_dir_all(&run.name);
            }
        }
    }
}

impl Record {
    fn write(&self, run: &Jail, name: &str, durability: Durability) -> Result<(), JailError> {
        let text = serde_json::to_vec(self).map_err(|error| JailError::Io {
            action: "writing",
            path: run.root().join(name),
            source: std::io::Error::other(error),
        })?;
        run.write_atomic(format!("{name}.json"), &text, 0o600, durability)
    }
}

/// Keeps a file's content in the run's folder, by its hash, and returns what it was.
fn keep(run: &Jail, jail: &Jail, inside: &Path, durability: Durability) -> Result<Image, JailError> {
    let mode = match jail.metadata(inside) {
        Ok(found) if found.kind == nexus_base::jail::EntryKind::File && found.len <= MAX_FILE_LEN => {
            found.mode
        }
        Ok(_) => return Ok(Image::NotKept),
        Err(error) if error.is_not_found() => return Ok(Image::Absent),
        Err(JailError::NotAFolder { .. } | JailError::Symlink { .. }) => return Ok(Image::NotKept),
        Err(error) => return Err(error),
    };
    let content = match jail.read(inside, MAX_FILE_LEN) {
        Ok(content) => content,
        Err(JailError::TooLarge { .. }) => return Ok(Image::NotKept),
        Err(error) => return Err(error),
    };
    let hash = hash_of(&content);
    store(run, &hash, &content, durability)?;
    Ok(Image::Content { hash, mode: mode & 0o777 })
}

/// Stores content under its hash; the same content is stored once.
fn store(run: &Jail, hash: &str, content: &[u8], durability: Durability) -> Result<(), JailError> {
    let name = Path::new("files").join(hash);
    match run.metadata(&name) {
        Ok(_) => Ok(()),
        Err(_) => run.write_atomic(&name, content, 0o600, durability),
    }
}

pub fn hash_of(content: &[u8]) -> String {
    to_hex(&Sha256::digest(content))
}
