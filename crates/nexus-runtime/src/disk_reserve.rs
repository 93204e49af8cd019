//! A file that only takes space, given up when the disk is nearly full so that messages are still accepted.

use std::path::{Path, PathBuf};
use std::time::Duration;

use nexus_base::file::{self, FileError};
use rustix::fs::FallocateFlags;
use tokio_util::sync::CancellationToken;

/// Its name in the folder of the databases.
const NAME: &str = "reserve";
/// Enough for thousands of messages, and for cleaning up.
const SIZE: u64 = 16 * 1024 * 1024;
/// Free bytes below which it is given up.
const LOW: u64 = 16 * 1024 * 1024;
/// Free bytes above which it is made again.
const ENOUGH: u64 = 512 * 1024 * 1024;
const LOOK_EVERY: Duration = Duration::from_secs(2);

/// Keeps the reserve until the daemon stops.
pub(crate) async fn keep(data: PathBuf, stopping: CancellationToken) {
    loop {
        let folder = data.clone();
        // A disk that does not answer must not hold up everybody else.
        let looked = nexus_base::task::blocking(move || look(&folder)).await;
        if let Ok(Err(error)) = looked {
            tracing::debug!(%error, "the disk reserve could not be kept");
        }
        if stopping.run_until_cancelled(tokio::time::sleep(LOOK_EVERY)).await.is_none() {
            return;
        }
    }
}

fn look(data: &Path) -> Result<(), FileError> {
    let path = data.join(NAME);
    let found = rustix::fs::statvfs(data)
        .map_err(|error| FileError::new("looking at the disk of", data, error.into()))?;
    let free = found.f_bavail.saturating_mul(found.f_frsize);
    if free < LOW && file::remove(&path)? {
        tracing::warn!(
            free,
            "the disk is nearly full; the reserve was given up so that messages are still accepted"
        );
    }
    if free > ENOUGH && !path.exists() {
        let reserve = file::create_new(&path, 0o600)?;
        let made = rustix::fs::fallocate(&reserve, FallocateFlags::empty(), 0, SIZE);
        if let Err(error) = made {
            file::remove(&path)?;
            return Err(FileError::new("reserving", path, error.into()));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_takes_space_where_there_is_enough() {
        let folder = tempfile::tempdir().unwrap();
        look(folder.path()).unwrap();
        let reserve = folder.path().join(NAME);
        if reserve.exists() {
            assert_eq!(reserve.metadata().unwrap().len(), SIZE);
        }
        look(folder.path()).unwrap();
    }
}
