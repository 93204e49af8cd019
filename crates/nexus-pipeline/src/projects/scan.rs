//! Which files of a project changed since a moment. A command does not say what it touched; the clock of the file
//! system does. Parallel commands may be taken for each other's, which only makes resuming more careful.

use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// Most entries looked at.
const MAX_SEEN: usize = 50_000;
/// Most changed files told.
const MAX_TOLD: usize = 500;
/// Folders that hold what tools make, and our own.
const SKIPPED: &[&str] =
    &[".git", ".nexus", "target", "node_modules", ".venv", "__pycache__", "dist", "build"];

/// Returns the files below `root` that were written at or after `since`.
pub(super) fn changed(root: &Path, since: SystemTime) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut seen = 0;
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        let Ok(entries) = std::fs::read_dir(&folder) else { continue };
        for entry in entries.filter_map(Result::ok) {
            seen += 1;
            if seen > MAX_SEEN || found.len() >= MAX_TOLD {
                return found;
            }
            let Ok(about) = entry.metadata() else { continue };
            if about.is_dir() {
                let skipped = entry.file_name().to_str().is_some_and(|name| SKIPPED.contains(&name));
                if !skipped {
                    folders.push(entry.path());
                }
            } else if about.is_file() && about.modified().is_ok_and(|at| at >= since) {
                found.push(entry.path());
            }
        }
    }
    found
}
