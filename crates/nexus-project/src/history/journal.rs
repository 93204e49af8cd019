//! The note an archiving leaves before it touches anything, and what whoever finds one does: an
//! append that is whole is finished, one that is torn is undone, and a history that somebody else
//! wrote meanwhile is left alone.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use nexus_base::failpoint;
use nexus_base::file::{self, Durability};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use super::{Index, Source};
use crate::document::{self, FILE_MODE};
use crate::{Project, ProjectError};

/// What was about to happen.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Journal {
    /// Where the file changes; nothing when it did not exist.
    offset: Option<u64>,
    /// What stood there to its end.
    old_tail: String,
    /// Length and hash of what stands there when the append is whole.
    new_length: u64,
    new_hash: String,
    /// Hash of the cycle as compact JSON, by which it is known wherever it stands.
    cycle_hash: String,
    /// Files to remove once the cycle is archived.
    sources: Vec<Removal>,
}

#[derive(Debug, Serialize, Deserialize)]
struct Removal {
    name: String,
    hash: String,
}

/// How far the append got.
#[derive(Debug, PartialEq, Eq)]
enum Progress {
    NotBegun,
    Whole,
    Torn,
    WrittenByOthers,
}

impl Journal {
    pub(super) fn creation(text: &str, cycle: &Value, sources: &[Source]) -> Self {
        Self::new(None, "", text, cycle, sources)
    }

    pub(super) fn append(offset: u64, old: &str, new: &str, cycle: &Value, sources: &[Source]) -> Self {
        Self::new(Some(offset), old, new, cycle, sources)
    }

    fn new(offset: Option<u64>, old: &str, new: &str, cycle: &Value, sources: &[Source]) -> Self {
        let removal = |source: &Source| Removal {
            name: source.path.file_name().unwrap_or_default().to_string_lossy().into_owned(),
            hash: hash(&source.bytes),
        };
        Self {
            offset,
            old_tail: old.to_owned(),
            new_length: new.len() as u64,
            new_hash: hash(new.as_bytes()),
            cycle_hash: hash(cycle.to_string().as_bytes()),
            sources: sources.iter().map(removal).collect(),
        }
    }

    /// Puts the journal there in one step. It is not synced: it answers for the death of a process. A
    /// loss of power is answered for by the sync of the history, before which nothing is removed.
    pub(super) fn write(&self, path: &Path) -> Result<(), ProjectError> {
        let text = serde_json::to_vec(self).map_err(|error| document::damaged_by(path, &error))?;
        failpoint::hit("project.journal.write");
        file::replace(path, &text, FILE_MODE, Durability::Crash)?;
        failpoint::hit("project.journal.written");
        Ok(())
    }

    fn progress(&self, path: &Path) -> Result<Progress, ProjectError> {
        let Some(file) = document::open(path)? else {
            return Ok(if self.offset.is_none() { Progress::NotBegun } else { Progress::WrittenByOthers });
        };
        let failed = |error| ProjectError::file("reading", path, error);
        let size = file.metadata().map_err(failed)?.len();
        let offset = self.offset.unwrap_or(0);
        let tail_length = size.saturating_sub(offset);
        if tail_length <= self.new_length.max(self.old_tail.len() as u64) {
            let mut tail = vec![0; usize::try_from(tail_length).unwrap_or(0)];
            file.read_exact_at(&mut tail, offset.min(size)).map_err(failed)?;
            if hash(&tail) == self.new_hash {
                return Ok(Progress::Whole);
            }
            if self.offset.is_some() && tail == self.old_tail.as_bytes() {
                return Ok(Progress::NotBegun);
            }
        }
        // Neither before nor after. Sound text comes from somebody else; the cycle may be in it.
        match Index::build(&file, path) {
            Ok(_) if self.is_in(path)? => Ok(Progress::Whole),
            Ok(_) => Ok(Progress::WrittenByOthers),
            Err(ProjectError::Damaged { .. }) if self.offset.is_some() && size >= offset => {
                Ok(Progress::Torn)
            }
            Err(ProjectError::Damaged { .. }) => Ok(Progress::WrittenByOthers),
            Err(error) => Err(error),
        }
    }

    fn is_in(&self, path: &Path) -> Result<bool, ProjectError> {
        let Some(history) = document::read_object(path)? else { return Ok(false) };
        let cycles = history.get("cycles").and_then(Value::as_array);
        // Newest first: that is where it would be.
        let mut newest_first = cycles.into_iter().flatten().rev();
        Ok(newest_first.any(|cycle| hash(cycle.to_string().as_bytes()) == self.cycle_hash))
    }

    fn undo(&self, path: &Path) -> Result<(), ProjectError> {
        let failed = |error| ProjectError::file("repairing", path, error);
        let offset = self.offset.unwrap_or(0);
        let file = File::options().write(true).open(path).map_err(failed)?;
        file.write_all_at(self.old_tail.as_bytes(), offset).map_err(failed)?;
        failpoint::hit("project.journal.undoing");
        file.set_len(offset + self.old_tail.len() as u64).map_err(failed)?;
        file.sync_all().map_err(failed)
    }
}

impl Project {
    /// Finishes or undoes an archiving that a crash cut off. The caller holds the write lock.
    pub(crate) fn recover(&self) -> Result<(), ProjectError> {
        let path = self.journal();
        let Some(bytes) = document::read_bytes(&path)? else { return Ok(()) };
        // A journal is written in one step, so one that cannot be read is none of ours.
        let Ok(journal) = serde_json::from_slice::<Journal>(&bytes) else {
            return document::remove(&path).map(drop);
        };
        match journal.progress(&self.history())? {
            Progress::NotBegun | Progress::WrittenByOthers => {}
            Progress::Torn => journal.undo(&self.history())?,
            Progress::Whole => {
                // A journal is a file like any other: it may name only what archiving removes.
                let known = |removal: &&Removal| matches!(removal.name.as_str(), "plan.json" | "tasks.json");
                for removal in journal.sources.iter().filter(known) {
                    let source = self.state().join(&removal.name);
                    let same =
                        document::read_bytes(&source)?.is_some_and(|bytes| hash(&bytes) == removal.hash);
                    if same {
                        document::remove(&source)?;
                    }
                }
            }
        }
        failpoint::hit("project.journal.done");
        document::remove(&path).map(drop)
    }
}

fn hash(bytes: &[u8]) -> String {
    let digest = Sha256::digest(bytes);
    digest.iter().fold(String::with_capacity(64), |mut text, byte| {
        use std::fmt::Write as _;
        // Writing to a String cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}
