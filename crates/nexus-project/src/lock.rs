//! Who may write. Our own processes queue on a `flock`, which ends with its holder and wakes the
//! next one at once; then comes a `<file>.lock` beside each file that changes, which is what other
//! implementations look for.
//!
//! That lock file is a hard link to the file we hold the `flock` on. So it appears in one step, and
//! whoever holds the `flock` and finds such a link knows that it was left by one of us who died:
//! nobody has to wait for it to grow old.

use std::fs::{self, File, Metadata};
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nexus_base::{failpoint, file};
use rustix::fs::{Timespec, Timestamps, UTIME_NOW};

use crate::ProjectError;

/// How long a writer waits for the programs of others, as they do for us.
const MAX_WAIT: Duration = Duration::from_secs(5);
/// How often it looks; others look every tenth of a second.
const PAUSE: Duration = Duration::from_millis(20);
/// When a lock file of somebody else counts as left behind.
const STALE: Duration = Duration::from_secs(30);

/// The right to change some files of a project, until dropped.
#[derive(Debug)]
pub(crate) struct WriteLock {
    // The links go before the queue moves on: fields drop in this order.
    _links: Links,
    queue: File,
}

#[derive(Debug, Default)]
struct Links(Vec<PathBuf>);

impl Drop for Links {
    fn drop(&mut self) {
        for path in self.0.drain(..).rev() {
            // A link that cannot be removed is recognised as ours by the next of us.
            let _ = file::remove(&path);
        }
    }
}

impl WriteLock {
    /// Waits in our queue at `queue`, then takes the lock file of each of `files`, in the order given.
    /// Links that one of us left beside any file of `all` go first: others would wait for them.
    pub(crate) fn acquire(queue: &Path, files: &[&Path], all: &[&Path]) -> Result<Self, ProjectError> {
        let file = enter(queue)?;
        failpoint::hit("project.queued");
        let ours = file.metadata().map_err(|error| ProjectError::file("locking", queue, error))?;
        if ours.nlink() > 1 {
            let mut names = 1;
            for path in all.iter().map(|path| beside(path)) {
                let found = fs::symlink_metadata(&path).ok();
                if found.is_some_and(|found| found.dev() == ours.dev() && found.ino() == ours.ino()) {
                    // One that stays is met again when its file is to be locked.
                    names += u64::from(file::remove(&path).is_err());
                }
            }
            let left = file.metadata().map_err(|error| ProjectError::file("locking", queue, error))?.nlink();
            if left > names {
                // Somebody gave another file this name; a note in it would change that one.
                let error = std::io::Error::new(ErrorKind::InvalidInput, "a hard link to another file");
                return Err(ProjectError::file("locking", queue, error));
            }
        }
        if !files.is_empty() {
            // Others judge by this time whether a lock was left behind; all links share it. Setting it to now needs no
            // more than the right to write, which whoever shares the folder has.
            let now = Timespec { tv_sec: 0, tv_nsec: UTIME_NOW };
            rustix::fs::futimens(&file, &Timestamps { last_access: now, last_modification: now })
                .map_err(|error| ProjectError::file("locking", queue, error.into()))?;
        }
        let mut links = Links::default();
        for path in files {
            let path = beside(path);
            link(queue, &ours, &path)?;
            links.0.push(path);
        }
        failpoint::hit("project.locked");
        Ok(Self { _links: links, queue: file })
    }

    /// Returns the file we queue on. Whoever has the lock may keep a note in it.
    pub(crate) fn queue(&self) -> &File {
        &self.queue
    }
}

/// Shares the queue with other readers, so that no append is half done while the value lives.
/// `None` when nobody ever wrote, or when we may not: then there is nothing to wait for.
pub(crate) fn share(queue: &Path) -> Option<File> {
    let file = file::open_read(queue).ok()?;
    file.lock_shared().ok()?;
    Some(file)
}

fn enter(queue: &Path) -> Result<File, ProjectError> {
    let file = file::open_lock(queue, 0o644)?;
    file.lock().map_err(|error| ProjectError::file("locking", queue, error))?;
    Ok(file)
}

fn beside(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".lock");
    PathBuf::from(name)
}

fn link(queue: &Path, ours: &Metadata, path: &Path) -> Result<(), ProjectError> {
    let deadline = Instant::now() + MAX_WAIT;
    loop {
        match file::hard_link(queue, path) {
            Ok(()) => return Ok(()),
            Err(error) if error.source.kind() == ErrorKind::AlreadyExists => {}
            Err(error) if no_links(&error.source) => match file::create_new(path, 0o644) {
                Ok(_) => return Ok(()),
                Err(error) if error.source.kind() == ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error.into()),
            },
            Err(error) => return Err(error.into()),
        }
        let Ok(found) = fs::symlink_metadata(path) else { continue };
        let left_by_us = found.dev() == ours.dev() && found.ino() == ours.ino();
        // One from the future was left by a clock that was wrong, and would never grow old.
        let age = found
            .modified()
            .map_or(Duration::ZERO, |at| at.elapsed().unwrap_or_else(|ahead| ahead.duration()));
        if left_by_us || age > STALE {
            file::remove(path)?;
            continue;
        }
        if Instant::now() >= deadline {
            return Err(ProjectError::Busy { path: path.to_owned() });
        }
        std::thread::sleep(PAUSE);
    }
}

/// Some file systems have no hard links; there a plain file has to do, and grows old if left.
fn no_links(error: &std::io::Error) -> bool {
    matches!(error.kind(), ErrorKind::Unsupported)
        || error.raw_os_error().is_some_and(|code| {
            code == rustix::io::Errno::PERM.raw_os_error()
                || code == rustix::io::Errno::OPNOTSUPP.raw_os_error()
        })
}
