//! Bounded, symlink-aware folder listings shared by personas and skills.

use std::io;
use std::path::{Path, PathBuf};

use nexus_base::file::FileError;

/// Most entries looked at in one folder; more than that is not a folder of personas or skills.
const MAX_ENTRIES: usize = 4096;

/// Lists the names of sub-folders of `folder`, sorted. A missing folder has none.
///
/// Names starting with a dot and names that are not UTF-8 are left out, and so are symlinks whose
/// target lies outside `boundary`.
pub(crate) fn subfolders(folder: &Path, boundary: &Path) -> Result<Vec<String>, FileError> {
    let failed = |error| FileError::new("listing", folder, error);
    let entries = match std::fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(failed(error)),
    };
    let mut names = Vec::new();
    for entry in entries.take(MAX_ENTRIES) {
        let entry = entry.map_err(failed)?;
        let Ok(name) = entry.file_name().into_string() else { continue };
        let kind = entry.file_type().map_err(failed)?;
        let is_folder = if kind.is_symlink() {
            lies_inside(&entry.path(), boundary).is_some_and(|target| target.is_dir())
        } else {
            kind.is_dir()
        };
        if is_folder && !name.starts_with('.') {
            names.push(name);
        }
    }
    names.sort();
    Ok(names)
}

/// Returns where `path` really lies if that is inside `boundary`.
pub(crate) fn lies_inside(path: &Path, boundary: &Path) -> Option<PathBuf> {
    let target = path.canonicalize().ok()?;
    let boundary = boundary.canonicalize().ok()?;
    target.starts_with(&boundary).then_some(target)
}
