//! The memory of `history.json` on disk, so that a new process need not read the whole history. It
//! lies in our own folder and is never a second truth: it counts only as long as the history is, by
//! device, inode, size and time, in a state that our own appends brought about, and the text before
//! the end of its cycles has the hash it had.
//!
//! The file is a short mark, renewed in place with each append, and a body, written anew now and then.
//! What was appended since the body was written is read from the history.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use nexus_base::failpoint;
use nexus_base::file::{self, Durability};

use super::checksum;
use super::index::{Entry, Index, Stamp, WORDS};
use super::words::Words;
use crate::document::{self, FILE_MODE};

/// Says what this is and in which form.
const MAGIC: u64 = u64::from_le_bytes(*b"nxhist\x00\x02");
/// Words of the mark: magic, five of the stamp, the reading it goes back to, a checksum.
const MARK: usize = 8;
/// Words before the entries: count, end of the cycles, highest plan id, witness, bytes of the text's words, checksum.
const HEAD: usize = 6;
/// Beside the length of a cycle.
const IS_PLAIN: u64 = 1 << 62;
const IS_UNSURE: u64 = 1 << 63;
/// Smallest history worth it, in bytes; a smaller one is read in less than a millisecond.
const MIN_SIZE: u64 = 64 * 1024;
/// Cycles that may be missing in the body before it is written anew.
const MAX_MISSING: usize = 512;

/// Returns what was remembered, if it still counts. The caller reads on from there.
pub(super) fn load(memory: &Path, history: &File, path: &Path, now: Stamp) -> Option<Index> {
    if now.size < MIN_SIZE {
        return None;
    }
    let bytes = document::read_bytes(memory).ok()??;
    let words: Vec<u64> = bytes
        .chunks_exact(8)
        .map(|word| word.try_into().map(u64::from_le_bytes).unwrap_or_default())
        .collect();
    drop(bytes);
    let (mark, body) = words.split_at_checked(MARK)?;
    let reading = *mark.get(MARK - 2)?;
    if mark != marked(now, reading) {
        return None;
    }
    let index = decode(body, now, reading)?;
    // Before the end of its cycles nothing may have changed.
    (index.look(history, path).ok()? == index.witness).then_some(index)
}

/// Returns whether the history came into the state `now` by our appends alone since it was read whole
/// in `reading`.
pub(super) fn vouches(memory: &Path, now: Stamp, reading: u64) -> bool {
    let mut bytes = [0; MARK * 8];
    let Ok(Some(file)) = document::open(memory) else { return false };
    file.read_exact_at(&mut bytes, 0).is_ok() && in_bytes(&marked(now, reading)) == bytes
}

/// Notes the state after an append of ours, or after the history was read whole. Nothing depends on
/// it: what cannot be written is read from the history next time.
pub(super) fn note(memory: &Path, index: &mut Index) {
    if index.stamp.size < MIN_SIZE || !memory.parent().is_some_and(Path::is_dir) {
        return;
    }
    if is_near(index) && renew(memory, index) {
        return;
    }
    let mut bytes = in_bytes(&marked(index.stamp, index.reading));
    bytes.extend(encode(index).into_iter().flat_map(u64::to_le_bytes));
    failpoint::hit("project.index.store");
    if file::replace(memory, &bytes, FILE_MODE, Durability::Crash).is_ok() {
        index.stored = index.entries.len();
    }
    failpoint::hit("project.index.stored");
}

/// Returns whether the body on disk lacks little of what is known.
pub(super) fn is_near(index: &Index) -> bool {
    index.stored > 0 && index.entries.len() - index.stored <= MAX_MISSING
}

/// Writes the mark in place; false when there is no body of the same reading behind it.
fn renew(memory: &Path, index: &Index) -> bool {
    let Ok(file) = file::open_update(memory) else { return false };
    let mut reading = [0; 8];
    let same = file.read_exact_at(&mut reading, (MARK as u64 - 2) * 8).is_ok()
        && u64::from_le_bytes(reading) == index.reading;
    failpoint::hit("project.index.renew");
    same && file.write_all_at(&in_bytes(&marked(index.stamp, index.reading)), 0).is_ok()
}

fn marked(stamp: Stamp, reading: u64) -> [u64; MARK] {
    let (seconds, nanoseconds) = stamp.modified;
    let words = [
        MAGIC,
        stamp.device,
        stamp.inode,
        stamp.size,
        seconds.cast_unsigned(),
        nanoseconds.cast_unsigned(),
        reading,
    ];
    let [magic, device, inode, size, seconds, nanoseconds, reading] = words;
    [magic, device, inode, size, seconds, nanoseconds, reading, checksum(words)]
}

fn encode(index: &Index) -> Vec<u64> {
    let known = index.words.encode();
    let mut words = Vec::with_capacity(HEAD + index.entries.len() * (2 + WORDS) + known.len().div_ceil(8));
    let count = index.entries.len() as u64;
    words.extend([count, index.elements_end, index.highest_plan_id, index.witness, known.len() as u64, 0]);
    words.extend(index.entries.iter().flat_map(|entry| {
        let plain = if entry.is_plain { IS_PLAIN } else { 0 };
        let unsure = if entry.is_unsure { IS_UNSURE } else { 0 };
        [entry.offset, entry.length as u64 | plain | unsure]
    }));
    words.extend(&index.filters);
    let (whole, rest) = known.as_chunks::<8>();
    words.extend(whole.iter().map(|bytes| u64::from_le_bytes(*bytes)));
    if !rest.is_empty() {
        words.push(rest.iter().rev().fold(0, |word, byte| (word << 8) | u64::from(*byte)));
    }
    let sum = checksum(words.iter().copied());
    if let Some(place) = words.get_mut(HEAD - 1) {
        *place = sum;
    }
    words
}

fn decode(body: &[u64], stamp: Stamp, reading: u64) -> Option<Index> {
    let (head, rest) = body.split_at_checked(HEAD)?;
    let [count, elements_end, highest_plan_id, witness, known, sum] = *head else { return None };
    let head = [count, elements_end, highest_plan_id, witness, known, 0];
    let (count, known) = (usize::try_from(count).ok()?, usize::try_from(known).ok()?);
    let fixed = count.checked_mul(2 + WORDS)?;
    if rest.len() != fixed.checked_add(known.div_ceil(8))? || elements_end > stamp.size {
        return None;
    }
    let whole = checksum(head.into_iter().chain(rest.iter().copied()));
    if whole != sum {
        return None;
    }
    let (rest, words) = rest.split_at_checked(fixed)?;
    let words = Words::decode(in_bytes(words).get(..known)?, count)?;
    let (places, filters) = rest.split_at_checked(count * 2)?;
    let mut entries = Vec::with_capacity(count);
    let mut after = 0;
    for place in places.chunks_exact(2) {
        let [offset, length] = *place else { return None };
        let (is_plain, is_unsure) = (length & IS_PLAIN > 0, length & IS_UNSURE > 0);
        let length = length & !(IS_PLAIN | IS_UNSURE);
        let end = offset.checked_add(length)?;
        if offset < after || end > elements_end {
            return None;
        }
        after = end;
        entries.push(Entry { offset, length: usize::try_from(length).ok()?, is_plain, is_unsure });
    }
    Some(Index {
        entries,
        filters: filters.to_vec(),
        words,
        highest_plan_id,
        elements_end,
        stamp,
        witness,
        stored: count,
        reading,
    })
}

fn in_bytes(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn index(count: u64) -> Index {
        let mut words = Words::default();
        assert!(words.add(0, "some words") && words.add(1, "more words"));
        let stamp = Stamp { device: 1, inode: 2, size: 1_000_000, modified: (3, 4) };
        Index {
            entries: (0..count)
                .map(|at| Entry {
                    offset: 10 + at * 100,
                    length: 90,
                    is_plain: at % 2 == 0,
                    is_unsure: at % 3 == 0,
                })
                .collect(),
            words,
            filters: (0..count * WORDS as u64).collect(),
            highest_plan_id: 7,
            elements_end: 10 + count * 100,
            stamp,
            witness: 99,
            stored: 0,
            reading: 5,
        }
    }

    #[test]
    fn what_was_written_is_read() {
        let index = index(3);
        let read = decode(&encode(&index), index.stamp, 5).unwrap();
        assert_eq!((read.entries, read.filters, read.words), (index.entries, index.filters, index.words));
        assert_eq!((read.highest_plan_id, read.elements_end, read.witness, read.stored), (7, 310, 99, 3));
    }

    #[test]
    fn whatever_is_damaged_does_not_count() {
        let index = index(2);
        let words = encode(&index);
        for cut in 0..words.len() {
            assert!(decode(&words[..cut], index.stamp, 5).is_none(), "{cut}");
        }
        for at in 0..words.len() {
            let mut words = words.clone();
            words[at] ^= 1 << 20;
            assert!(decode(&words, index.stamp, 5).is_none(), "{at}");
        }
        let small = Stamp { size: 100, ..index.stamp };
        assert!(decode(&words, small, 5).is_none(), "a history that ends before its cycles");
    }
}
