//! Free space on the disks a program may write to, looked at while it runs.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Free bytes below which a program that writes is ended: databases, logs and other programs need them.
const MIN_FREE: u64 = 256 * 1024 * 1024;
const LOOK_EVERY: Duration = Duration::from_millis(250);

/// Disks and how far a program may fill each.
#[derive(Debug, Clone, Default)]
pub(crate) struct DiskWatch(Vec<(PathBuf, u64)>);

impl DiskWatch {
    /// Notes the disks of these folders. On one that is nearly full already, half of what is left may be used:
    /// cleaning up must remain possible.
    pub(crate) fn of<'a>(folders: impl Iterator<Item = &'a Path>) -> Self {
        let mut seen = BTreeSet::new();
        let new_disk = |path: &&Path| rustix::fs::stat(*path).is_ok_and(|found| seen.insert(found.st_dev));
        let floors = folders
            .filter(new_disk)
            .filter_map(|path| Some((path.to_owned(), MIN_FREE.min(free_at(path)? / 2))));
        Self(floors.collect())
    }

    /// Returns once one of the disks has less left than it should.
    pub(crate) async fn ran_low(&self) {
        if self.0.is_empty() {
            return std::future::pending().await;
        }
        loop {
            tokio::time::sleep(LOOK_EVERY).await;
            let disks = self.0.clone();
            // A disk that does not answer must not hold up everybody else.
            let low = tokio::task::spawn_blocking(move || {
                disks.iter().any(|(path, floor)| free_at(path).is_some_and(|free| free < *floor))
            });
            if low.await.unwrap_or(false) {
                return;
            }
        }
    }
}

/// Bytes an ordinary user may still write.
fn free_at(path: &Path) -> Option<u64> {
    let found = rustix::fs::statvfs(path).ok()?;
    Some(found.f_bavail.saturating_mul(found.f_frsize))
}
