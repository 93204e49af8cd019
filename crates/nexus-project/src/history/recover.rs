//! What the first of us does who comes after a death. After the death of a process: an append that is
//! whole is finished, one that is torn is undone, and a history that somebody else wrote meanwhile is
//! left alone. After a loss of power: appends that were reported and have not reached the history are
//! done again.

use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use nexus_base::{failpoint, file};
use serde_json::Value;

use super::Index;
use super::journal::{Identity, Journal, Record, Removal, hash, witness};
use super::mark::Mark;
use super::scan::{self, Fault, From};
use crate::lock::WriteLock;
use crate::{Project, ProjectError, document};

/// How far an append got.
#[derive(Debug, PartialEq, Eq)]
enum Progress {
    NotBegun,
    Whole,
    Torn,
    WrittenByOthers,
}

impl Project {
    /// Finishes, undoes or repeats what a death cut off.
    pub(crate) fn recover(&self, lock: &WriteLock) -> Result<(), ProjectError> {
        let mark = Mark::read(lock.queue());
        if mark.is_some_and(|mark| !mark.under_way) {
            return Ok(());
        }
        let Some(journal) = Journal::open(&self.journal())? else {
            // Nothing was ever archived here. Where the mark finds no room, the next one looks again.
            let _ = Mark::fresh().write(lock.queue());
            return Ok(());
        };
        match mark {
            Some(mark) => {
                if let Some(record) = journal.under_way(&mark) {
                    self.settle(&record)?;
                }
            }
            None => self.replay(&journal.records())?,
        }
        failpoint::hit("project.journal.done");
        // From here on the history stands for itself.
        if let Some(history) = document::open(&self.history())? {
            history.sync_data().map_err(|error| ProjectError::file("syncing", self.history(), error))?;
        }
        journal.forget().map_err(|error| ProjectError::file("writing", self.journal(), error))?;
        failpoint::hit("project.journal.forgotten");
        Mark::fresh().write(lock.queue()).map_err(|error| ProjectError::file("locking", self.queue(), error))
    }

    /// Brings one record to an end, either way.
    fn settle(&self, record: &Record) -> Result<(), ProjectError> {
        match progress(record, &self.history())? {
            Progress::NotBegun | Progress::WrittenByOthers => Ok(()),
            Progress::Torn => undo(record, &self.history()),
            Progress::Whole => self.remove_sources(record),
        }
    }

    /// Does again what the history has lost with the power.
    fn replay(&self, records: &[Record]) -> Result<(), ProjectError> {
        let Some(last) = records.last() else { return Ok(()) };
        if last.new_tail.is_none() {
            return self.settle(last);
        }
        // A record without text was followed by a sync of everything before.
        let synced = records.iter().rposition(|record| record.new_tail.is_none()).map_or(0, |at| at + 1);
        let lost = records.get(synced..).unwrap_or_default();
        if repeat(lost, &self.history())? {
            for record in records {
                self.remove_sources(record)?;
            }
        }
        Ok(())
    }

    /// Removes what was archived, as long as it is what was archived.
    fn remove_sources(&self, record: &Record) -> Result<(), ProjectError> {
        // A journal is a file like any other: it may name only what archiving removes.
        let known = |removal: &&Removal| matches!(removal.name.as_str(), "plan.json" | "tasks.json");
        for removal in record.sources.iter().filter(known) {
            let source = self.state().join(&removal.name);
            if document::read_bytes(&source)?.is_some_and(|bytes| hash(&bytes) == removal.hash) {
                document::retire(&source, &self.closed(&removal.name))?;
            }
        }
        Ok(())
    }
}

fn progress(record: &Record, path: &Path) -> Result<Progress, ProjectError> {
    let Some(file) = document::open(path)? else {
        return Ok(if record.offset.is_none() { Progress::NotBegun } else { Progress::WrittenByOthers });
    };
    let failed = |error| ProjectError::file("reading", path, error);
    let size = file.metadata().map_err(failed)?.len();
    let offset = record.offset.unwrap_or(0);
    let tail_length = size.saturating_sub(offset);
    if tail_length <= record.new_length.max(record.old_tail.len() as u64) {
        let mut tail = vec![0; usize::try_from(tail_length).unwrap_or(0)];
        file.read_exact_at(&mut tail, offset.min(size)).map_err(failed)?;
        if hash(&tail) == record.new_hash {
            return Ok(Progress::Whole);
        }
        if record.offset.is_some() && tail == record.old_tail.as_bytes() {
            return Ok(Progress::NotBegun);
        }
    }
    // Neither before nor after. Sound text comes from somebody else; the cycle may be in it.
    match Index::build(&file, path) {
        Ok(_) if is_in(record, &file, path)? => Ok(Progress::Whole),
        Ok(_) => Ok(Progress::WrittenByOthers),
        Err(ProjectError::Damaged { .. }) if record.offset.is_some() && size >= offset => Ok(Progress::Torn),
        Err(ProjectError::Damaged { .. }) => Ok(Progress::WrittenByOthers),
        Err(error) => Err(error),
    }
}

fn is_in(record: &Record, file: &File, path: &Path) -> Result<bool, ProjectError> {
    let mut is_in = false;
    // Cycle by cycle: a history may be larger than what is read whole.
    let walked = scan::walk(file, From::Start, |_, text| {
        let cycle: Option<Value> = serde_json::from_slice(text).ok();
        is_in = is_in || cycle.is_some_and(|cycle| hash(cycle.to_string().as_bytes()) == record.cycle_hash);
        Ok(())
    });
    match walked {
        Err(Fault::Io(error)) => Err(ProjectError::file("reading", path, error)),
        _ => Ok(is_in),
    }
}

fn undo(record: &Record, path: &Path) -> Result<(), ProjectError> {
    let failed = |error| ProjectError::file("repairing", path, error);
    let offset = record.offset.unwrap_or(0);
    let file = file::open_update(path)?;
    file.write_all_at(record.old_tail.as_bytes(), offset).map_err(failed)?;
    failpoint::hit("project.journal.undoing");
    file.set_len(offset + record.old_tail.len() as u64).map_err(failed)
}

/// Appends again what is missing; false when the history is not the one the records speak of, or in no
/// state that a loss of power leaves.
fn repeat(records: &[Record], path: &Path) -> Result<bool, ProjectError> {
    let failed = |error| ProjectError::file("repairing", path, error);
    let Some(first) = records.first() else { return Ok(true) };
    let Some(base) = first.offset else { return Ok(false) };
    let file = match file::open_update(path) {
        Ok(file) => file,
        Err(error) if error.is_not_found() => return Ok(false),
        Err(error) => return Err(error.into()),
    };
    let about = file.metadata().map_err(failed)?;
    if about.len() < base
        || Identity::of(&about) != first.identity
        || witness(&file, base).map_err(failed)? != first.witness
    {
        return Ok(false);
    }
    let found = rest(&file, base).map_err(failed)?;
    let mut is_a_state = found == first.old_tail.as_bytes();
    let mut wanted = Vec::new();
    for record in records {
        let (Some(offset), Some(new)) = (record.offset, &record.new_tail) else { return Ok(false) };
        let at = offset.checked_sub(base).and_then(|at| usize::try_from(at).ok());
        let Some(at) = at.filter(|at| *at <= wanted.len()) else { return Ok(false) };
        wanted.truncate(at);
        wanted.extend_from_slice(new.as_bytes());
        is_a_state = is_a_state || found == wanted;
    }
    if found == wanted {
        return Ok(true);
    }
    if !is_a_state && !matches!(Index::build(&file, path), Err(ProjectError::Damaged { .. })) {
        return Ok(false);
    }
    file.write_all_at(&wanted, base).map_err(failed)?;
    failpoint::hit("project.journal.repeating");
    file.set_len(base + wanted.len() as u64).map_err(failed)?;
    Ok(true)
}

fn rest(file: &File, from: u64) -> io::Result<Vec<u8>> {
    let mut reader = file;
    reader.seek(SeekFrom::Start(from))?;
    let mut bytes = Vec::new();
    reader.take(document::MAX_SIZE).read_to_end(&mut bytes)?;
    Ok(bytes)
}
