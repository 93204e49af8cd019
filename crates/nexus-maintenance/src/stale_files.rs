//! Temporary files of writes that a death cut off. Whoever holds the workspace's lock may remove them.

use std::path::Path;
use std::time::Duration;

use nexus_base::jail::TEMPORARY_PREFIX;
use nexus_workspace::Layout;
use nexus_workspace::trust::TrustFolder;

/// No write takes this long; a younger file may be somebody's who is still at it.
const OLD: Duration = Duration::from_secs(60);
/// How deep under `state/` is looked.
const MAX_DEPTH: u32 = 4;

/// Removes what was left over in the root, under `state/` and among the trust records; returns how many.
pub fn sweep(layout: &Layout, trusted: &TrustFolder) -> usize {
    let mut removed = 0;
    look(layout.root(), 0, &mut removed);
    look(layout.state(), MAX_DEPTH, &mut removed);
    look(trusted.path(), 0, &mut removed);
    removed
}

fn look(folder: &Path, deeper: u32, removed: &mut usize) {
    // What cannot be listed is somebody else's, and none of our temporary files.
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let Ok(kind) = entry.file_type() else { continue };
        if kind.is_dir() && deeper > 0 {
            look(&entry.path(), deeper - 1, removed);
        }
        let is_ours = entry.file_name().to_string_lossy().starts_with(TEMPORARY_PREFIX);
        let age = entry.metadata().ok().and_then(|found| found.modified().ok()?.elapsed().ok());
        if kind.is_file() && is_ours && age.is_some_and(|age| age > OLD) {
            *removed += usize::from(std::fs::remove_file(entry.path()).is_ok());
        }
    }
}
