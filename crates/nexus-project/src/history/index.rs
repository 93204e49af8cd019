//! What is remembered about `history.json` so that a search need not read it: where each cycle lies,
//! which groups of three bytes may occur in it and which words do. Derived from the file and thrown
//! away when somebody else changed the file.

use std::fs::{File, Metadata};
use std::hash::{DefaultHasher, Hasher as _};
use std::io::{self, BufReader};
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::Path;

use serde::de::IgnoredAny;
use serde_json::Value;

use super::cycle::Cycle;
use super::scan::{self, Fault, From};
use super::text::{folded, without_indentation};
use super::words::Words;
use crate::{ProjectError, document};

/// Words of 64 bits in a cycle's filter: 4096 bits, a third of them set by 5 kB of prose.
pub(super) const WORDS: usize = 64;
/// How many bytes before the end of the cycles stand for all before them.
const WITNESS: u64 = 4096;
/// Longest text after the last cycle that is carried along by an append.
const MAX_TAIL_LEN: u64 = 1024 * 1024;

/// Where a cycle lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) offset: u64,
    pub(super) length: usize,
    /// Whether its text is compact but for indentation, as ours, with no capitals but ASCII ones: it can be searched as it
    /// lies there.
    pub(super) is_plain: bool,
    /// Whether it holds words that are not among the known ones.
    pub(super) is_unsure: bool,
}

/// The memory of one state of the file.
#[derive(Debug)]
pub(crate) struct Index {
    pub(super) entries: Vec<Entry>,
    /// What may occur in each cycle, [`WORDS`] for each.
    pub(super) filters: Vec<u64>,
    pub(super) words: Words,
    pub(super) highest_plan_id: u64,
    /// Offset right after the last cycle.
    pub(super) elements_end: u64,
    pub(super) stamp: Stamp,
    pub(super) witness: u64,
    /// How many of the cycles the memory on disk knows.
    pub(super) stored: usize,
    /// Which reading of the whole file this goes back to.
    pub(super) reading: u64,
}

/// What the file system says about a state of the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stamp {
    pub(super) device: u64,
    pub(super) inode: u64,
    pub(super) size: u64,
    pub(super) modified: (i64, i64),
}

impl Stamp {
    fn of(about: &Metadata) -> Self {
        Self {
            device: about.dev(),
            inode: about.ino(),
            size: about.size(),
            modified: (about.mtime(), about.mtime_nsec()),
        }
    }
}

impl Index {
    /// Reads the whole file once.
    pub(super) fn build(file: &File, path: &Path) -> Result<Self, ProjectError> {
        let mut index = Self {
            entries: Vec::new(),
            filters: Vec::new(),
            words: Words::default(),
            highest_plan_id: 0,
            elements_end: 0,
            stamp: stamp(file, path)?,
            witness: 0,
            stored: 0,
            reading: super::unique_id(),
        };
        index.read(file, path, From::Start)?;
        Ok(index)
    }

    /// Takes in what was appended; false when everything must be read again. `ours` tells whether a
    /// state of the file came about by our own appending alone since a reading.
    pub(super) fn refresh(
        &mut self,
        file: &File,
        path: &Path,
        ours: impl FnOnce(Stamp, u64) -> bool,
    ) -> Result<bool, ProjectError> {
        let now = stamp(file, path)?;
        if self.look(file, path)? != self.witness {
            return Ok(false);
        }
        if now == self.stamp {
            return Ok(true);
        }
        let grown =
            (now.device, now.inode) == (self.stamp.device, self.stamp.inode) && now.size > self.stamp.size;
        if !grown || !ours(now, self.reading) {
            return Ok(false);
        }
        self.extend(file, path)?;
        Ok(true)
    }

    /// Reads on from the last known cycle.
    pub(super) fn extend(&mut self, file: &File, path: &Path) -> Result<(), ProjectError> {
        self.stamp = stamp(file, path)?;
        let from = if self.entries.is_empty() {
            From::AfterBracket(self.elements_end)
        } else {
            From::AfterCycle(self.elements_end)
        };
        self.read(file, path, from)
    }

    /// Takes in a cycle of ours that was just appended at `offset`, without reading it again.
    pub(super) fn push(
        &mut self,
        cycle: &Cycle,
        offset: u64,
        file: &File,
        path: &Path,
    ) -> Result<(), ProjectError> {
        self.stamp = stamp(file, path)?;
        self.add((offset, cycle.text.len()), true, cycle.plan_id, &cycle.compact);
        self.elements_end = offset + cycle.text.len() as u64;
        self.witness = self.look(file, path)?;
        Ok(())
    }

    /// Returns how many cycles there are.
    pub(super) fn count(&self) -> usize {
        self.entries.len()
    }

    /// Returns the text after the last cycle.
    pub(super) fn tail(&self, file: &File, path: &Path) -> Result<String, ProjectError> {
        let length = self.stamp.size.saturating_sub(self.elements_end);
        if length > MAX_TAIL_LEN {
            return Err(ProjectError::TooLarge {
                path: path.to_owned(),
                limit: MAX_TAIL_LEN,
                would_be: false,
            });
        }
        let mut bytes = vec![0; usize::try_from(length).unwrap_or(0)];
        file.read_exact_at(&mut bytes, self.elements_end)
            .map_err(|error| ProjectError::file("reading", path, error))?;
        String::from_utf8(bytes).map_err(|_| document::damaged(path, 1, 1, "text that is not UTF-8"))
    }

    /// Returns the cycles, the newest first, and for each whether it may hold all groups of `wanted`.
    pub(super) fn newest_first<'index>(
        &'index self,
        wanted: &'index [u16],
    ) -> impl Iterator<Item = (usize, &'index Entry, bool)> {
        let filters = self.filters.chunks_exact(WORDS);
        let entries = self.entries.iter().enumerate().zip(filters).rev();
        entries.map(|((number, entry), filter)| (number, entry, may_hold(filter, wanted)))
    }

    fn read(&mut self, file: &File, path: &Path, from: From) -> Result<(), ProjectError> {
        let walked = scan::walk(file, from, |offset, text| {
            let shape = |what| Fault::Shape { offset, what };
            let cycle: Value =
                serde_json::from_slice(text).map_err(|_| shape("a cycle is not valid JSON"))?;
            let id = cycle.get("plan").and_then(|plan| plan.get("id")).and_then(whole);
            let compact = cycle.to_string();
            let is_ours = std::str::from_utf8(text).is_ok_and(|text| without_indentation(text) == compact);
            self.add((offset, text.len()), is_ours, id, &compact);
            Ok(())
        });
        match walked {
            Ok(end) => self.elements_end = end.elements_end,
            Err(Fault::Io(error)) => return Err(ProjectError::file("reading", path, error)),
            Err(Fault::Shape { offset, what }) => return Err(place(file, path, offset, what)),
        }
        self.witness = self.look(file, path)?;
        Ok(())
    }

    fn add(&mut self, place: (u64, usize), is_ours: bool, plan_id: Option<u64>, compact: &str) {
        self.highest_plan_id = self.highest_plan_id.max(plan_id.unwrap_or(0));
        let folded = folded(compact);
        let (offset, length) = place;
        let is_plain = is_ours && (compact.is_ascii() || compact.to_ascii_lowercase() == folded);
        let is_unsure = !self.words.add(self.entries.len(), &folded);
        self.entries.push(Entry { offset, length, is_plain, is_unsure });
        add_filter(&mut self.filters, folded.as_bytes());
    }

    /// Returns a hash of what stands before the end of the cycles.
    pub(super) fn look(&self, file: &File, path: &Path) -> Result<u64, ProjectError> {
        let start = self.elements_end.saturating_sub(WITNESS);
        let mut bytes = vec![0; usize::try_from(self.elements_end - start).unwrap_or(0)];
        let mut hasher = DefaultHasher::new();
        match file.read_exact_at(&mut bytes, start) {
            Ok(()) => hasher.write(&bytes),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {}
            Err(error) => return Err(ProjectError::file("reading", path, error)),
        }
        Ok(hasher.finish())
    }
}

/// Returns the bits a text must have set.
pub(super) fn bits(text: &[u8]) -> Vec<u16> {
    let mut bits: Vec<u16> = text.windows(3).map(bit).collect();
    bits.sort_unstable();
    bits.dedup();
    bits
}

fn may_hold(filter: &[u64], wanted: &[u16]) -> bool {
    wanted.iter().all(|bit| {
        let word = filter.get(usize::from(bit / 64)).copied().unwrap_or(u64::MAX);
        word & (1 << (bit % 64)) != 0
    })
}

fn add_filter(filters: &mut Vec<u64>, text: &[u8]) {
    let mut filter = [0_u64; WORDS];
    for group in text.windows(3) {
        let bit = bit(group);
        if let Some(word) = filter.get_mut(usize::from(bit / 64)) {
            *word |= 1 << (bit % 64);
        }
    }
    filters.extend_from_slice(&filter);
}

fn bit(group: &[u8]) -> u16 {
    let number = group.iter().fold(0_u32, |number, byte| (number << 8) | u32::from(*byte));
    // Twelve bits of a multiplicative hash: as many as the filter has.
    u16::try_from(number.wrapping_mul(0x9E37_79B1) >> 20).unwrap_or(0)
}

/// Returns a JSON number that is a whole one, however it is spelled.
pub(crate) fn whole(value: &Value) -> Option<u64> {
    value.as_u64().or_else(|| {
        let number = value.as_f64()?;
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "checked on the same line"
        )]
        (number >= 0.0 && number.fract() == 0.0 && number < 9e15).then_some(number as u64)
    })
}

/// Returns what the file system says about the file now.
pub(super) fn stamp(file: &File, path: &Path) -> Result<Stamp, ProjectError> {
    let about = file.metadata().map_err(|error| ProjectError::file("inspecting", path, error))?;
    Ok(Stamp::of(&about))
}

/// Finds line and column of damage. A full parse tells more exactly than the walk; where the text is
/// sound JSON of the wrong shape, the walk's offset is all there is.
fn place(file: &File, path: &Path, offset: u64, what: &str) -> ProjectError {
    if let Ok(mut again) = file.try_clone() {
        use std::io::Seek as _;
        if again.rewind().is_ok()
            && let Err(error) = serde_json::from_reader::<_, IgnoredAny>(BufReader::new(again))
            && !error.is_io()
        {
            return document::damaged_by(path, &error);
        }
    }
    let mut before = vec![0; usize::try_from(offset).unwrap_or(0)];
    let read = file.read_at(&mut before, 0).unwrap_or(0);
    before.truncate(read);
    let line = before.iter().filter(|byte| **byte == b'\n').count() + 1;
    let column = before.iter().rev().take_while(|byte| **byte != b'\n').count() + 1;
    document::damaged(path, line, column, what)
}
