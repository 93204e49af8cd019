//! Something made of files, kept until one of them changes: reading the same files for every message
//! would cost more than answering it.

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime};

/// How long a file must have been at rest before its times are trusted: file systems tell time in ticks,
/// and two changes within one look the same.
const AT_REST: Duration = Duration::from_millis(100);

/// What changes whenever a file does.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Stamp {
    inode: u64,
    length: u64,
    changed: (i64, i64),
}

#[derive(Debug)]
struct Kept<T> {
    stamps: Vec<(PathBuf, Option<Stamp>)>,
    value: T,
}

/// A value and the files it was made of.
#[derive(Debug)]
pub struct Watched<T> {
    kept: Mutex<Option<Kept<T>>>,
}

impl<T> Default for Watched<T> {
    fn default() -> Self {
        Self { kept: Mutex::new(None) }
    }
}

impl<T: Clone> Watched<T> {
    /// Returns the value, made anew by `make` if one of the files it names has changed, appeared or gone
    /// since. `make` returns every file and folder that the value depends on, those that are missing
    /// included.
    ///
    /// # Errors
    /// `make` failed; nothing is kept then.
    pub fn get<E>(&self, make: impl FnOnce() -> Result<(T, Vec<PathBuf>), E>) -> Result<T, E> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(kept) = &*kept
            && kept.stamps.iter().all(|(path, before)| stamp(path) == *before)
        {
            return Ok(kept.value.clone());
        }
        *kept = None;
        let looked = SystemTime::now();
        let (value, paths) = make()?;
        let stamps: Vec<_> =
            paths.into_iter().map(|path| (stamp(&path), path)).map(|(stamp, path)| (path, stamp)).collect();
        if stamps.iter().all(|(_, stamp)| stamp.as_ref().is_none_or(|stamp| stamp.is_at_rest(looked))) {
            *kept = Some(Kept { stamps, value: value.clone() });
        }
        Ok(value)
    }
}

impl<T> Watched<T> {
    /// Forgets the value, because something else than its files has changed.
    pub fn forget(&self) {
        *self.kept.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

impl Stamp {
    /// Whether the file was last changed so long before `looked` that a later change will show.
    fn is_at_rest(&self, looked: SystemTime) -> bool {
        let (seconds, nanoseconds) = self.changed;
        let (Ok(seconds), Ok(nanoseconds)) = (u64::try_from(seconds), u32::try_from(nanoseconds)) else {
            return false;
        };
        let changed = SystemTime::UNIX_EPOCH + Duration::new(seconds, nanoseconds);
        looked.duration_since(changed).is_ok_and(|since| since >= AT_REST)
    }
}

fn stamp(path: &Path) -> Option<Stamp> {
    let found = std::fs::metadata(path).ok()?;
    // The time of the last change of status also moves when somebody sets the time of the content back.
    Some(Stamp { inode: found.ino(), length: found.len(), changed: (found.ctime(), found.ctime_nsec()) })
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use super::*;

    #[test]
    fn files_at_rest_are_read_once_and_every_change_is_seen() {
        let folder = tempfile::tempdir().unwrap();
        let (file, missing) = (folder.path().join("a"), folder.path().join("b"));
        let write = |path: &Path, text: &str| {
            nexus_base::file::replace(path, text.as_bytes(), 0o600, nexus_base::file::Durability::Crash)
                .unwrap();
        };
        write(&file, "one");
        let watched = Watched::default();
        let made = std::cell::Cell::new(0);
        let get = || {
            watched
                .get(|| {
                    made.set(made.get() + 1);
                    let text = std::fs::read_to_string(&file).unwrap_or_default()
                        + &std::fs::read_to_string(&missing).unwrap_or_default();
                    Ok::<_, Infallible>((text, vec![file.clone(), missing.clone()]))
                })
                .unwrap()
        };
        // Just written: not trusted yet, however often it is asked for.
        assert_eq!((get(), get(), made.get()), ("one".to_owned(), "one".to_owned(), 2));
        write(&file, "two");
        assert_eq!(get(), "two");
        let at_rest = std::time::Instant::now();
        while made.get() < 1_000_000 {
            let before = made.get();
            get();
            if made.get() == before {
                break;
            }
            assert!(at_rest.elapsed() < Duration::from_secs(10), "it never came to rest");
            std::thread::yield_now();
        }
        let rested = made.get();
        assert_eq!((get(), made.get()), ("two".to_owned(), rested));
        write(&missing, "!");
        assert_eq!(get(), "two!");
        std::fs::remove_file(&file).unwrap();
        assert_eq!(get(), "!");
    }
}
