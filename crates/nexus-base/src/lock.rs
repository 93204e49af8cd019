//! Exclusive locks held through an open file, so that they end with the process that holds them.
//!
//! The lock is the kernel's `flock`, never the text in the file: a recycled PID cannot block a
//! start, and a killed holder leaves nothing to clean up. The PID inside is for people.

use std::fs::{File, TryLockError};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::file::{self, FileError};

/// Longest content of a lock file that is looked at, in bytes.
const MAX_CONTENT_LEN: u64 = 256;
/// How often a lock that seems held is looked at again before that is believed.
const MAX_LOOKS: u32 = 10;
/// Pause between two such looks.
const BETWEEN_LOOKS: Duration = Duration::from_millis(2);

/// A lock that is held until this value is dropped.
#[derive(Debug)]
pub struct HeldLock {
    file: File,
    path: PathBuf,
    /// A folder that is locked as well: the file may be removed, and then locked again by somebody else.
    _folder: Option<File>,
}

/// Why the lock was not taken.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// Another live process holds it.
    #[error("{path} is held by {}", holder_text(*.holder))]
    Held {
        /// The lock file.
        path: PathBuf,
        /// The holder's process id, when the file says it.
        holder: Option<u32>,
    },
    /// The lock file could not be opened or written.
    #[error(transparent)]
    File(#[from] FileError),
}

fn holder_text(holder: Option<u32>) -> String {
    holder.map_or_else(|| "another process".to_owned(), |pid| format!("process {pid}"))
}

impl HeldLock {
    /// Takes the lock at once or says who holds it; writes this process's id into the file.
    pub fn acquire(path: &Path) -> Result<Self, LockError> {
        let failed = |error| FileError::new("locking", path, error);
        let mut file = file::open_lock(path, 0o600)?;
        // Whoever looks at the holder takes the lock for an instant; that is nobody to give way to.
        let mut looks = 0;
        let taken = loop {
            match file.try_lock() {
                Err(TryLockError::WouldBlock) if looks < MAX_LOOKS => looks += 1,
                taken => break taken,
            }
            std::thread::sleep(BETWEEN_LOOKS);
        };
        match taken {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(LockError::Held {
                    path: path.to_owned(),
                    holder: read_holder(&mut file).map(|holder| holder.pid),
                });
            }
            Err(TryLockError::Error(error)) => return Err(failed(error).into()),
        }
        file.set_len(0).map_err(failed)?;
        file.seek(SeekFrom::Start(0)).map_err(failed)?;
        writeln!(file, "{}", std::process::id()).map_err(failed)?;
        Ok(Self { file, path: path.to_owned(), _folder: None })
    }

    /// Takes the lock and one on `folder` itself, which nobody can take away by removing a file. Where folders cannot
    /// be locked, or it does not exist yet, the file's lock has to do.
    pub fn acquire_with_folder(path: &Path, folder: &Path) -> Result<Self, LockError> {
        let held = Self::acquire(path)?;
        let Ok(folder) = file::open_folder(folder) else { return Ok(held) };
        match folder.try_lock() {
            Ok(()) | Err(TryLockError::Error(_)) => Ok(Self { _folder: Some(folder), ..held }),
            Err(TryLockError::WouldBlock) => Err(LockError::Held { path: path.to_owned(), holder: None }),
        }
    }

    /// Returns the lock file's path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Adds a line for people and programs that look at the holder, such as the port it serves on.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn note(&mut self, line: &str) -> Result<(), FileError> {
        writeln!(self.file, "{line}").map_err(|error| FileError::new("writing", &self.path, error))
    }

    /// Empties the file and gives the lock up. Dropping gives it up too but leaves the PID text.
    pub fn release(self) {
        // The kernel lock goes with the file either way; an old PID in it misleads nobody but a reader.
        let _ = self.file.set_len(0);
    }
}

/// Who holds a lock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Holder {
    /// Its process id.
    pub pid: u32,
    /// What it noted, if anything yet.
    pub note: Option<String>,
}

/// Returns the live holder of the lock at `path`, if anybody holds it.
pub fn inspect(path: &Path) -> Option<Holder> {
    let mut file = file::open_read(path).ok()?;
    match file.try_lock_shared() {
        Err(TryLockError::WouldBlock) => read_holder(&mut file),
        Ok(()) | Err(TryLockError::Error(_)) => None,
    }
}

/// Returns the process id of the live holder of the lock at `path`, if anybody holds it.
pub fn holder(path: &Path) -> Option<u32> {
    inspect(path).map(|holder| holder.pid)
}

fn read_holder(file: &mut File) -> Option<Holder> {
    let mut text = String::new();
    file.seek(SeekFrom::Start(0)).ok()?;
    file.take(MAX_CONTENT_LEN).read_to_string(&mut text).ok()?;
    let mut lines = text.lines();
    let pid = lines.next()?.trim().parse().ok()?;
    Some(Holder { pid, note: lines.next().map(str::to_owned) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn somebody_who_only_looks_holds_nobody_up() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("nex.pid");
        let looker = file::open_lock(&path, 0o600).unwrap();
        looker.try_lock_shared().unwrap();
        let waiting = std::thread::spawn(move || HeldLock::acquire(&path).map(drop));
        looker.unlock().unwrap();
        waiting.join().unwrap().unwrap();
    }

    #[test]
    fn a_second_holder_learns_the_first_ones_pid() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("nex.pid");
        let mut held = HeldLock::acquire(&path).unwrap();
        held.note("18789").unwrap();
        assert_eq!(inspect(&path).unwrap().note.as_deref(), Some("18789"));
        match HeldLock::acquire(&path) {
            Err(LockError::Held { holder, .. }) => assert_eq!(holder, Some(std::process::id())),
            other => panic!("expected Held, got {other:?}"),
        }
        assert_eq!(super::holder(&path), Some(std::process::id()));
        held.release();
        assert_eq!(super::holder(&path), None);
        HeldLock::acquire(&path).unwrap();
    }

    #[test]
    fn a_stale_pid_blocks_nobody() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("nex.pid");
        // Process 1 is always alive: a PID test would refuse here for ever.
        File::create(&path).unwrap().write_all(b"1\n").unwrap();
        HeldLock::acquire(&path).unwrap();
    }
}
