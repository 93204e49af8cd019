//! How far our archiving got, as a few words in the file that all of us queue on: whoever has the turn
//! reads them with one call. They are never synced. They answer for the death of a process, and after
//! the death of the machine they are known by its boot and count no more.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::sync::OnceLock;

use super::{checksum, unique_id};

/// Says what this is and in which form.
const MAGIC: u64 = u64::from_le_bytes(*b"nxmark\x00\x01");
const WORDS: usize = 9;
/// Where Linux names the time between two starts of the machine.
const BOOT: &str = "/proc/sys/kernel/random/boot_id";

/// The state of the journal and of the history as the last of us left them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Mark {
    boot: u64,
    /// Records of one epoch lie one after the other from the journal's first page.
    pub(super) epoch: u64,
    /// How many records it has that are done with.
    pub(super) count: u64,
    /// The page after them.
    pub(super) free: u64,
    /// The record after them is being carried out.
    pub(super) under_way: bool,
    /// Size and inode of the history after the last record.
    pub(super) left: (u64, u64),
}

impl Mark {
    /// Begins an epoch in which nothing was recorded.
    pub(super) fn fresh() -> Self {
        Self { boot: boot(), epoch: unique_id(), count: 0, free: 0, under_way: false, left: (0, 0) }
    }

    /// The same with a record under way.
    pub(super) fn begun(self) -> Self {
        Self { under_way: true, ..self }
    }

    /// The same after a record of so many pages.
    pub(super) fn ended(self, pages: u64, left: (u64, u64)) -> Self {
        Self { count: self.count + 1, free: self.free + pages, under_way: false, left, ..self }
    }

    /// Reads the mark; `None` when there is none of this start of the machine.
    pub(super) fn read(queue: &File) -> Option<Self> {
        let mut bytes = [0; WORDS * 8];
        queue.read_exact_at(&mut bytes, 0).ok()?;
        let mut words = [0; WORDS];
        for (word, bytes) in words.iter_mut().zip(bytes.chunks_exact(8)) {
            *word = bytes.try_into().map(u64::from_le_bytes).unwrap_or_default();
        }
        let [magic, boot_then, epoch, count, free, under_way, size, inode, sum] = words;
        let known = magic == MAGIC
            && boot_then == boot()
            && sum == checksum([magic, boot_then, epoch, count, free, under_way, size, inode]);
        known.then_some(Self {
            boot: boot_then,
            epoch,
            count,
            free,
            under_way: under_way != 0,
            left: (size, inode),
        })
    }

    pub(super) fn write(&self, queue: &File) -> io::Result<()> {
        let Self { boot, epoch, count, free, under_way, left: (size, inode) } = *self;
        let words = [MAGIC, boot, epoch, count, free, u64::from(under_way), size, inode];
        let bytes: Vec<u8> = words.into_iter().chain([checksum(words)]).flat_map(u64::to_le_bytes).collect();
        queue.write_all_at(&bytes, 0)
    }
}

/// Returns whether the machine says when it was started. Where it does not, nobody can tell a history
/// that lost its end with the power from one that somebody cut, and nothing may be left to a journal.
pub(super) fn knows_the_boot() -> bool {
    boot() != 0
}

fn boot() -> u64 {
    static NAME: OnceLock<u64> = OnceLock::new();
    *NAME.get_or_init(|| {
        let name = nexus_base::file::read_text(std::path::Path::new(BOOT), 64).unwrap_or_default();
        if name.is_empty() { 0 } else { checksum(name.bytes().map(u64::from)).max(1) }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_is_read_as_it_was_written_and_never_when_damaged() {
        let file = tempfile::tempfile().unwrap();
        assert_eq!(Mark::read(&file), None);
        let mark = Mark { count: 3, free: 7, under_way: true, left: (5, 6), ..Mark::fresh() };
        mark.write(&file).unwrap();
        assert_eq!(Mark::read(&file), Some(mark));
        for at in 0..WORDS as u64 * 8 {
            mark.write(&file).unwrap();
            let mut byte = [0];
            file.read_exact_at(&mut byte, at).unwrap();
            file.write_all_at(&[byte[0] ^ 4], at).unwrap();
            assert_eq!(Mark::read(&file), None, "{at}");
        }
        let other = Mark { boot: mark.boot ^ 1, ..mark };
        other.write(&file).unwrap();
        assert_eq!(Mark::read(&file), None, "of another start of the machine");
    }
}
