//! `history.json`: the record of closed cycles. It only grows, in place and under the write lock:
//! existing cycles are never read into memory and written again, so they keep every byte.
//!
//! An archiving is: journal, append, sync, remove the archived files, remove the journal. Whoever
//! takes the lock next and finds a journal finishes that (see [`journal`]).

mod index;
mod journal;
mod scan;
mod search;
mod stored;

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::PathBuf;
use std::sync::{MutexGuard, PoisonError};

use nexus_base::clock::Timestamp;
use nexus_base::failpoint;
use nexus_base::file::{self, Durability};
use serde_json::{Map, Value, json};

use crate::document::{self, FILE_MODE};
use crate::{Project, ProjectError, lock};
pub(crate) use index::{Index, whole};
use journal::Journal;
pub(crate) use search::Found;

/// What each cycle we write says about its own form.
const CYCLE_VERSION: &str = "0.5";

/// A cycle that was archived.
#[derive(Debug)]
pub(crate) struct Archived {
    pub(crate) completed_at: String,
    pub(crate) branch: String,
    pub(crate) total_cycles: usize,
    /// Names of the files that were removed after.
    pub(crate) deleted: Vec<String>,
}

/// A file whose content goes into a cycle and which goes away after.
#[derive(Debug)]
pub(crate) struct Source {
    pub(crate) path: PathBuf,
    pub(crate) bytes: Vec<u8>,
}

impl Project {
    /// Appends a cycle and removes the files it was made from. The caller holds the write lock.
    pub(crate) fn archive(
        &self,
        plan: Option<&Map<String, Value>>,
        tasks: &[Value],
        sources: &[Source],
    ) -> Result<Archived, ProjectError> {
        let completed_at = Timestamp::now().to_string();
        let branch = self.branch();
        // The archived plan has no version of its own; the cycle carries one.
        let plan = plan.map_or(Value::Null, |plan| {
            let kept = plan.iter().filter(|(name, _)| *name != "schema_version");
            Value::Object(kept.map(|(name, value)| (name.clone(), value.clone())).collect())
        });
        let cycle = json!({
            "schema_version": CYCLE_VERSION, "completed_at": completed_at, "branch": branch,
            "plan": plan, "tasks": tasks,
        });
        let total_cycles = self.append(&cycle, sources)?;
        let mut deleted = Vec::new();
        for source in sources {
            if document::remove(&source.path)? {
                let name = source.path.file_name().unwrap_or_default();
                deleted.push(name.to_string_lossy().into_owned());
            }
        }
        document::remove(&self.journal())?;
        Ok(Archived { completed_at, branch, total_cycles, deleted })
    }

    /// Returns the highest plan id among archived cycles.
    pub(crate) fn highest_plan_id(&self) -> Result<u64, ProjectError> {
        Ok(self.indexed()?.as_ref().map_or(0, |index| index.highest_plan_id))
    }

    /// Searches archived cycles, beside writers.
    pub(crate) fn search(&self, query: &str, last: usize) -> Result<Found, ProjectError> {
        self.check()?;
        // A journal means that the last append may be half there; who writes next repairs it, and
        // a reader that may write does so now.
        if self.journal().exists() {
            drop(self.write_lock(&[])?);
        }
        let _unchanged = lock::share(&self.queue());
        let index = self.indexed()?;
        match index.as_ref() {
            Some(index) => search::run(index, &self.history(), query, last),
            None => Ok(Found::default()),
        }
    }

    fn append(&self, cycle: &Value, sources: &[Source]) -> Result<usize, ProjectError> {
        let path = self.history();
        let mut guard = self.indexed()?;
        let Some(index) = guard.as_mut() else {
            let text = document::render(&json!({ "cycles": [cycle] }));
            let journal = Journal::creation(&text, cycle, sources);
            journal.write(&self.journal())?;
            file::replace(&path, text.as_bytes(), FILE_MODE, Durability::PowerLoss)?;
            failpoint::hit("project.archive.created");
            return Ok(1);
        };
        let file = File::options()
            .read(true)
            .write(true)
            .open(&path)
            .map_err(|error| ProjectError::file("opening", &path, error))?;
        let old_tail = index.tail(&file, &path)?;
        let addition = addition(cycle, index.count() == 0, &old_tail);
        let new_tail = format!("{addition}{old_tail}");
        let journal = Journal::append(index.elements_end, &old_tail, &new_tail, cycle, sources);
        journal.write(&self.journal())?;
        let appended = put(&file, new_tail.as_bytes(), index.elements_end).and_then(|()| file.sync_data());
        failpoint::hit("project.archive.synced");
        if let Err(error) = appended {
            *guard = None;
            drop(guard);
            // A full disk: what is half there goes away again, and the cycle stays open.
            self.recover()?;
            return Err(ProjectError::file("appending to", &path, error));
        }
        index.extend(&file, &path)?;
        stored::note(&self.memory(), index);
        Ok(index.count())
    }

    /// Brings the index up to what the file holds now; `None` when there is no file.
    fn indexed(&self) -> Result<MutexGuard<'_, Option<Index>>, ProjectError> {
        let path = self.history();
        let mut guard = self.index.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(file) = document::open(&path)? else {
            *guard = None;
            return Ok(guard);
        };
        let memory = self.memory();
        let fresh = match guard.as_mut() {
            Some(index) => {
                index.refresh(&file, &path, |now, reading| stored::vouches(&memory, now, reading))?
            }
            None => false,
        };
        if !fresh {
            *guard = None;
            let now = index::stamp(&file, &path)?;
            let mut index = match stored::load(&memory, &file, &path, now) {
                Some(mut index) => {
                    index.extend(&file, &path)?;
                    index
                }
                None => Index::build(&file, &path)?,
            };
            if !stored::is_near(&index) {
                stored::note(&memory, &mut index);
            }
            *guard = Some(index);
        }
        Ok(guard)
    }
}

/// Writes in two halves, so that a test can die between them as a real death could.
fn put(file: &File, bytes: &[u8], offset: u64) -> std::io::Result<()> {
    #[cfg(debug_assertions)]
    {
        let (first, second) = bytes.split_at(bytes.len() / 2);
        file.write_all_at(first, offset)?;
        failpoint::hit("project.archive.torn");
        file.write_all_at(second, offset + first.len() as u64)?;
    }
    #[cfg(not(debug_assertions))]
    file.write_all_at(bytes, offset)?;
    failpoint::hit("project.archive.appended");
    Ok(())
}

fn addition(cycle: &Value, is_first: bool, old_tail: &str) -> String {
    let text = serde_json::to_string_pretty(cycle).unwrap_or_default().replace('\n', "\n    ");
    let comma = if is_first { "" } else { "," };
    // A file written without line breaks gets one before its closing bracket.
    let after = if old_tail.starts_with(']') { "\n  " } else { "" };
    format!("{comma}\n    {text}{after}")
}
