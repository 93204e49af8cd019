//! `history.json`: the record of closed cycles. It only grows, in place and under the write lock:
//! existing cycles are never read into memory and written again, so they keep every byte.
//!
//! An archiving is: record in the journal, sync the journal, append, remove the archived files, say so in
//! the mark. Whoever takes the lock next and finds a mark that says otherwise, or one of an earlier start of
//! the machine, brings that to an end (see [`recover`]). The history itself is synced when the journal is full.

mod cycle;
mod index;
mod journal;
mod mark;
mod recover;
mod scan;
mod search;
mod stored;
mod text;
mod tidy;
mod words;

use std::fs::File;
use std::hash::{DefaultHasher, Hasher as _};
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::PathBuf;
use std::sync::{MutexGuard, PoisonError};
use std::time::SystemTime;

use nexus_base::failpoint;
use nexus_base::file::{self, Durability};
use serde_json::{Map, Value};

use crate::document::{self, FILE_MODE};
use crate::lock::WriteLock;
use crate::{Project, ProjectError, lock};
use cycle::Cycle;
pub(crate) use index::{Index, whole};
use journal::{Identity, Journal, PAGES, Place, Record, witness};
use mark::Mark;
pub(crate) use search::Found;
pub(crate) use tidy::Tidy;

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
        lock: &WriteLock,
        plan: Option<Map<String, Value>>,
        tasks: Vec<Value>,
        sources: &[Source],
    ) -> Result<Archived, ProjectError> {
        let cycle = Cycle::new(plan, tasks, self.branch())?;
        let (total_cycles, step) = self.append(lock, &cycle, sources)?;
        let mut deleted = Vec::new();
        for source in sources {
            let name = source.path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            if document::retire(&source.path, &self.closed(&name))? {
                deleted.push(name);
            }
        }
        step.end(lock).map_err(|error| ProjectError::file("locking", self.queue(), error))?;
        self.tidy.leave(deleted.iter().map(|name| self.closed(name)).collect());
        let Cycle { completed_at, branch, .. } = cycle;
        Ok(Archived { completed_at, branch, total_cycles, deleted })
    }

    /// Returns the highest plan id among archived cycles.
    pub(crate) fn highest_plan_id(&self) -> Result<u64, ProjectError> {
        Ok(self.indexed()?.as_ref().map_or(0, |index| index.highest_plan_id))
    }

    /// Searches archived cycles, beside writers.
    pub(crate) fn search(&self, query: &str, last: usize) -> Result<Found, ProjectError> {
        let mut unchanged = lock::share(&self.queue());
        // The last append may be half there, or lost; who writes next repairs it, and a reader that may
        // write does so now. One that may not reads what there is.
        if unchanged.as_ref().is_some_and(|queue| Mark::read(queue).is_none_or(|mark| mark.under_way)) {
            drop(unchanged.take());
            drop(self.write_lock(&[]));
            unchanged = lock::share(&self.queue());
        }
        let index = self.indexed()?;
        let found = match index.as_ref() {
            Some(index) => search::run(index, &self.history(), query, last),
            None => Ok(Found::nothing()),
        };
        drop(unchanged);
        found
    }

    fn append(
        &self,
        lock: &WriteLock,
        cycle: &Cycle,
        sources: &[Source],
    ) -> Result<(usize, Step), ProjectError> {
        let path = self.history();
        let failed = |error| ProjectError::file("appending to", &path, error);
        let (journal, is_new) = Journal::open_or_make(&self.journal())?;
        let mut mark = Mark::read(lock.queue()).unwrap_or_else(Mark::fresh);
        let mut guard = self.indexed()?;
        let Some(index) = guard.as_mut() else {
            let text = cycle.alone();
            let (record, pages) = journal::render(&Record::creation(&text, cycle, sources), &self.journal())?;
            if mark.free + pages > PAGES || is_new {
                mark = Mark::fresh();
            }
            let step = Step { mark, pages, left: (0, 0) };
            step.begin(lock, &journal, &record).map_err(failed)?;
            file::replace(&path, text.as_bytes(), FILE_MODE, Durability::PowerLoss)?;
            failpoint::hit("project.archive.created");
            return Ok((1, step));
        };
        let file = file::open_update(&path)?;
        let old_tail = index.tail(&file, &path)?;
        let (new_tail, at) = cycle.before(&old_tail, index.count() == 0);
        let offset = index.elements_end;
        let about = file.metadata().map_err(failed)?;
        let place = Place {
            identity: Identity::of(&about),
            offset,
            witness: witness(&file, offset).map_err(failed)?,
        };
        let mut record = Record::append(place, old_tail, &new_tail, cycle, sources);
        let (mut text, mut pages) = journal::render(&record, &self.journal())?;
        let deferred = pages <= PAGES && mark::knows_the_boot();
        if !deferred {
            record.new_tail = None;
            (text, pages) = journal::render(&record, &self.journal())?;
        }
        if mark.free + pages > PAGES || is_new || mark.left != (about.len(), about.ino()) {
            // Records build on what lies before them: it has to be on disk, and then the older ones are done
            // with. A journal that somebody threw away begins again in the same way.
            file.sync_data().map_err(failed)?;
            failpoint::hit("project.archive.synced");
            mark = Mark::fresh();
        }
        let left = (offset + new_tail.len() as u64, about.ino());
        let step = Step { mark, pages, left };
        step.begin(lock, &journal, &text).map_err(failed)?;
        let appended = if deferred { journal.sync() } else { Ok(()) }
            .inspect(|()| failpoint::hit("project.journal.synced"))
            .and_then(|()| put(&file, new_tail.as_bytes(), offset))
            .and_then(|()| if deferred { Ok(()) } else { file.sync_data() });
        if let Err(error) = appended {
            *guard = None;
            drop(guard);
            // A full disk: what is half there goes away again, and the cycle stays open.
            self.recover(lock)?;
            return Err(failed(error));
        }
        index.push(cycle, offset + at, &file, &path)?;
        stored::note(&self.memory(), index);
        Ok((index.count(), step))
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

/// An archiving that is under way, as the mark tells it.
#[derive(Debug)]
struct Step {
    mark: Mark,
    pages: u64,
    left: (u64, u64),
}

impl Step {
    /// Writes the record, and before it that there may be one.
    fn begin(&self, lock: &WriteLock, journal: &Journal, record: &[u8]) -> std::io::Result<()> {
        failpoint::hit("project.journal.write");
        self.mark.begun().write(lock.queue())?;
        failpoint::hit("project.journal.marked");
        journal.put(&self.mark, record)?;
        failpoint::hit("project.journal.written");
        Ok(())
    }

    /// Says that nothing is left to do.
    fn end(self, lock: &WriteLock) -> std::io::Result<()> {
        let Self { mark, pages, left } = self;
        mark.ended(pages, left).write(lock.queue())
    }
}

/// Tells torn bytes from whole ones; nobody has to be kept from forging it.
fn checksum(words: impl IntoIterator<Item = u64>) -> u64 {
    words.into_iter().fold(0x9E37_79B9_7F4A_7C15, |sum: u64, word| {
        (sum.rotate_left(5) ^ word).wrapping_mul(0x517C_C1B7_2722_0A95)
    })
}

/// Returns a number that no other call returned, as far as time and process tell them apart.
fn unique_id() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let mut hasher = DefaultHasher::new();
    hasher.write_u128(since.as_nanos());
    hasher.write_u32(std::process::id());
    hasher.finish()
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
