//! The journal of archivings: a file that keeps its size, so that syncing a record costs one write and
//! no change of the file system's own books. A record holds what is appended to the history and what
//! stood there, so that the append can be done again after a loss of power and undone after a death
//! in the middle.
//!
//! Records begin at pages of their own: writing one never touches another that counts.

use std::fs::{File, Metadata};
use std::io;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::Path;
use std::time::UNIX_EPOCH;

use nexus_base::failpoint;
use nexus_base::file::{self, Durability};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::cycle::Cycle;
use super::mark::Mark;
use super::{Source, checksum};
use crate::document::FILE_MODE;
use crate::{ProjectError, document};

/// Says what this is and in which form.
const MAGIC: u64 = u64::from_le_bytes(*b"nxredo\x00\x01");
/// Words before a record: magic, epoch, number, length, checksum.
const HEAD: usize = 5;
const PAGE: u64 = 4096;
/// Pages of the journal: a few dozen cycles between two syncs of the history.
pub(super) const PAGES: u64 = 64;
/// Longest record that is read, in bytes; only the text after the last cycle can make one long.
const MAX_LEN: u64 = 8 * 1024 * 1024;
/// How many bytes before an append stand for all before them.
const WITNESS: u64 = 4096;

/// What an archiving was about to do.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Record {
    /// Where the history changes; nothing when it did not exist.
    pub(super) offset: Option<u64>,
    /// What stood there to its end.
    pub(super) old_tail: String,
    /// What stands there after; nothing when the history is synced at once instead.
    pub(super) new_tail: Option<String>,
    /// Length and hash of it.
    pub(super) new_length: u64,
    pub(super) new_hash: String,
    /// Which file it was, and a hash of what stood before the offset.
    pub(super) identity: Identity,
    pub(super) witness: String,
    /// Hash of the cycle as compact JSON, by which it is known wherever it stands.
    pub(super) cycle_hash: String,
    /// Files to remove once the cycle is archived.
    pub(super) sources: Vec<Removal>,
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Removal {
    pub(super) name: String,
    pub(super) hash: String,
}

/// Which file a history is. Its number alone may be given to another file; the time it was made tells
/// them apart, where the file system keeps it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Identity {
    inode: u64,
    born: Option<u64>,
}

impl Identity {
    pub(super) fn of(about: &Metadata) -> Self {
        let born = about.created().ok().and_then(|at| at.duration_since(UNIX_EPOCH).ok());
        Self { inode: about.ino(), born: born.and_then(|since| u64::try_from(since.as_nanos()).ok()) }
    }
}

/// Where an append begins.
#[derive(Debug)]
pub(super) struct Place {
    pub(super) identity: Identity,
    pub(super) offset: u64,
    pub(super) witness: String,
}

impl Record {
    pub(super) fn creation(text: &str, cycle: &Cycle, sources: &[Source]) -> Self {
        Self {
            offset: None,
            old_tail: String::new(),
            new_tail: None,
            new_length: text.len() as u64,
            new_hash: hash(text.as_bytes()),
            identity: Identity::default(),
            witness: String::new(),
            cycle_hash: hash(cycle.compact.as_bytes()),
            sources: removals(sources),
        }
    }

    pub(super) fn append(place: Place, old: String, new: &str, cycle: &Cycle, sources: &[Source]) -> Self {
        Self {
            offset: Some(place.offset),
            old_tail: old,
            new_tail: Some(new.to_owned()),
            identity: place.identity,
            witness: place.witness,
            ..Self::creation(new, cycle, sources)
        }
    }
}

/// Returns a hash of what stands before `offset`.
pub(super) fn witness(history: &File, offset: u64) -> io::Result<String> {
    let start = offset.saturating_sub(WITNESS);
    let mut bytes = vec![0; usize::try_from(offset - start).unwrap_or(0)];
    history.read_exact_at(&mut bytes, start)?;
    Ok(hash(&bytes))
}

/// The journal's file.
#[derive(Debug)]
pub(super) struct Journal {
    file: File,
}

impl Journal {
    /// Opens the journal; `None` when there is none or something else stands in its place.
    pub(super) fn open(path: &Path) -> Result<Option<Self>, ProjectError> {
        match file::open_update(path) {
            Ok(file) if file.metadata().is_ok_and(|about| about.len() >= PAGES * PAGE) => {
                Ok(Some(Self { file }))
            }
            Ok(_) => Ok(None),
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Opens the journal, making it first where there is none, and says whether it was made. Made with all its
    /// blocks written and synced: from then on a record changes nothing but bytes.
    pub(super) fn open_or_make(path: &Path) -> Result<(Self, bool), ProjectError> {
        if let Some(journal) = Self::open(path)? {
            return Ok((journal, false));
        }
        let empty = vec![0; usize::try_from(PAGES * PAGE).unwrap_or(0)];
        file::replace(path, &empty, FILE_MODE, Durability::PowerLoss)?;
        failpoint::hit("project.journal.made");
        Self::open(path)?.map(|journal| (journal, true)).ok_or_else(|| {
            let error = io::Error::new(io::ErrorKind::InvalidData, "shorter than it was written");
            ProjectError::file("opening", path, error)
        })
    }

    /// Writes a record at the page that is free, not synced.
    pub(super) fn put(&self, mark: &Mark, text: &[u8]) -> io::Result<()> {
        let head = head(mark.epoch, mark.count, text);
        let mut bytes: Vec<u8> = head.into_iter().flat_map(u64::to_le_bytes).collect();
        bytes.extend_from_slice(text);
        self.file.write_all_at(&bytes, mark.free * PAGE)
    }

    pub(super) fn sync(&self) -> io::Result<()> {
        self.file.sync_data()
    }

    /// Returns the record that is being carried out.
    pub(super) fn under_way(&self, mark: &Mark) -> Option<Record> {
        self.read(mark.free, Some((mark.epoch, mark.count))).map(|(_, record, _)| record)
    }

    /// Returns the records of the epoch that was begun last, as far as they are whole.
    pub(super) fn records(&self) -> Vec<Record> {
        let mut records = Vec::new();
        let Some((epoch, first, mut page)) = self.read(0, None) else { return records };
        records.push(first);
        while let Some((_, record, pages)) = self.read(page, Some((epoch, records.len() as u64))) {
            records.push(record);
            page += pages;
        }
        records
    }

    /// Makes every record void. Whatever they were about is on disk.
    pub(super) fn forget(&self) -> io::Result<()> {
        self.file.set_len(PAGES * PAGE)?;
        self.file.write_all_at(&[0; HEAD * 8], 0)?;
        self.file.sync_data()
    }

    /// Reads the record at a page, if one of that epoch and number is there: its epoch, itself, its pages.
    fn read(&self, page: u64, wanted: Option<(u64, u64)>) -> Option<(u64, Record, u64)> {
        let mut bytes = [0; HEAD * 8];
        self.file.read_exact_at(&mut bytes, page * PAGE).ok()?;
        let mut words = [0; HEAD];
        for (word, bytes) in words.iter_mut().zip(bytes.chunks_exact(8)) {
            *word = bytes.try_into().map(u64::from_le_bytes).unwrap_or_default();
        }
        let [_, epoch, number, length, _] = words;
        let (wanted_epoch, wanted_number) = wanted.unwrap_or((epoch, 0));
        if (epoch, number) != (wanted_epoch, wanted_number) || length > MAX_LEN {
            return None;
        }
        let mut text = vec![0; usize::try_from(length).ok()?];
        self.file.read_exact_at(&mut text, page * PAGE + HEAD as u64 * 8).ok()?;
        if words != head(epoch, number, &text) {
            return None;
        }
        Some((epoch, serde_json::from_slice(&text).ok()?, pages(&text)))
    }
}

/// Renders a record, and says how many pages it takes.
pub(super) fn render(record: &Record, path: &Path) -> Result<(Vec<u8>, u64), ProjectError> {
    let text = serde_json::to_vec(record).map_err(|error| document::damaged_by(path, &error))?;
    let pages = pages(&text);
    Ok((text, pages))
}

fn pages(text: &[u8]) -> u64 {
    (HEAD as u64 * 8 + text.len() as u64).div_ceil(PAGE)
}

fn head(epoch: u64, number: u64, text: &[u8]) -> [u64; HEAD] {
    let length = text.len() as u64;
    let (words, rest) = text.as_chunks::<8>();
    let words = words.iter().map(|word| u64::from_le_bytes(*word));
    let sum = checksum(
        [MAGIC, epoch, number, length].into_iter().chain(words).chain(rest.iter().copied().map(u64::from)),
    );
    [MAGIC, epoch, number, length, sum]
}

fn removals(sources: &[Source]) -> Vec<Removal> {
    let removal = |source: &Source| Removal {
        name: source.path.file_name().unwrap_or_default().to_string_lossy().into_owned(),
        hash: hash(&source.bytes),
    };
    sources.iter().map(removal).collect()
}

pub(super) fn hash(bytes: &[u8]) -> String {
    nexus_base::id::to_hex(&Sha256::digest(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(number: usize, length: usize) -> Record {
        Record {
            old_tail: number.to_string(),
            new_tail: Some("x".repeat(length)),
            ..Record::creation("", &Cycle::new(None, Vec::new(), String::new()).unwrap(), &[])
        }
    }

    #[test]
    fn records_of_the_last_epoch_are_read_until_one_is_torn() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("journal");
        let (journal, is_new) = Journal::open_or_make(&path).unwrap();
        assert!(is_new && journal.records().is_empty());
        let write = |mark: &mut Mark, length| {
            let (text, pages) = render(&record(usize::try_from(mark.count).unwrap(), length), &path).unwrap();
            journal.put(mark, &text).unwrap();
            mark.count += 1;
            mark.free += pages;
        };
        let mut first = Mark::fresh();
        for length in [10, 5000, 20, 3000] {
            write(&mut first, length);
        }
        let lengths = || -> Vec<usize> {
            journal.records().iter().map(|record| record.new_tail.as_ref().unwrap().len()).collect()
        };
        assert_eq!(lengths(), [10, 5000, 20, 3000]);
        // A new epoch lies over the old one; what is behind its end counts no more.
        let mut second = Mark::fresh();
        write(&mut second, 7);
        assert_eq!(lengths(), [7]);
        write(&mut second, 8);
        assert_eq!(lengths(), [7, 8]);
        journal.file.write_all_at(b"torn", PAGE + 100).unwrap();
        assert_eq!(lengths(), [7]);
        journal.forget().unwrap();
        assert!(journal.records().is_empty());
    }
}
