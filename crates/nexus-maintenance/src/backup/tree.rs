//! Files of a tree: which there are, copying one and knowing its hash.

use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use nexus_base::file::{self, FileError};
use nexus_base::id::to_hex;
use sha2::{Digest, Sha256};

use super::{BackupError, StoredFile};

/// Most entries of one backup.
const MAX_ENTRIES: usize = 1_000_000;
/// Deepest folder.
const MAX_DEPTH: usize = 128;

/// What was found, by its path inside the backup.
#[derive(Debug, Default)]
pub(super) struct Tree {
    pub(super) files: Vec<(PathBuf, String)>,
    pub(super) links: Vec<(String, PathBuf)>,
    pub(super) folders: Vec<(String, u32)>,
    pub(super) skipped: Vec<String>,
}

impl Tree {
    fn len(&self) -> usize {
        self.files.len() + self.links.len() + self.folders.len()
    }
}

/// Finds everything under `folder`, which becomes `name` in the backup, or the backup itself when the name
/// is empty. No link is followed.
pub(super) fn collect(
    folder: &Path,
    name: &str,
    tree: &mut Tree,
    leave_out: &dyn Fn(&Path) -> bool,
) -> Result<(), BackupError> {
    let mut open = vec![(folder.to_owned(), name.to_owned(), 0)];
    while let Some((folder, name, depth)) = open.pop() {
        let failed = |error| FileError::new("listing", &folder, error);
        let entries = match std::fs::read_dir(&folder) {
            Ok(entries) => entries,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
            Err(error) => return Err(failed(error).into()),
        };
        if !name.is_empty()
            && let Ok(found) = std::fs::metadata(&folder)
        {
            tree.folders.push((name.clone(), found.permissions().mode() & 0o777));
        }
        for entry in entries {
            let entry = entry.map_err(failed)?;
            let path = entry.path();
            if leave_out(&path) {
                continue;
            }
            if tree.len() >= MAX_ENTRIES || depth > MAX_DEPTH {
                return Err(BackupError::TooMuch { path: folder, limit: MAX_ENTRIES });
            }
            let Ok(own) = entry.file_name().into_string() else {
                tree.skipped.push(format!("{}: its name is not UTF-8", path.display()));
                continue;
            };
            let inside = if name.is_empty() { own } else { format!("{name}/{own}") };
            let kind = entry.file_type().map_err(failed)?;
            if kind.is_dir() {
                open.push((path, inside, depth + 1));
            } else if kind.is_symlink() {
                let target =
                    std::fs::read_link(&path).map_err(|error| FileError::new("reading", &path, error))?;
                tree.links.push((inside, target));
            } else if kind.is_file() {
                tree.files.push((path, inside));
            } else {
                tree.skipped.push(format!("{}: neither file nor folder", path.display()));
            }
        }
    }
    Ok(())
}

/// Copies one file and returns what to remember of it.
pub(super) fn copy_file(from: &Path, to: &Path, name: String) -> Result<StoredFile, FileError> {
    let reading = |error| FileError::new("reading", from, error);
    let writing = |error| FileError::new("writing", to, error);
    let mut source = file::open_read(from)?;
    let mode = source.metadata().map_err(reading)?.permissions().mode() & 0o777;
    if let Some(parent) = to.parent() {
        file::create_folder(parent, 0o700)?;
    }
    let mut target = file::create_new(to, 0o600)?;
    let (mut hash, mut bytes) = (Sha256::new(), 0);
    let mut buffer = vec![0; 128 * 1024];
    loop {
        let length = source.read(&mut buffer).map_err(reading)?;
        if length == 0 {
            break;
        }
        hash.update(&buffer[..length]);
        target.write_all(&buffer[..length]).map_err(writing)?;
        bytes += length as u64;
    }
    Ok(StoredFile { path: name, bytes, sha256: to_hex(&hash.finalize()), mode })
}

/// Returns what to remember of a file that is in the backup already.
pub(super) fn stored(path: &Path, name: String, mode: u32) -> Result<StoredFile, FileError> {
    let (bytes, sha256) = hash_of(path)?;
    Ok(StoredFile { path: name, bytes, sha256, mode })
}

/// Returns length and hash of a file.
pub(super) fn hash_of(path: &Path) -> Result<(u64, String), FileError> {
    let failed = |error| FileError::new("reading", path, error);
    let mut file = file::open_read(path)?;
    let (mut hash, mut bytes) = (Sha256::new(), 0);
    let mut buffer = vec![0; 128 * 1024];
    loop {
        let length = file.read(&mut buffer).map_err(failed)?;
        if length == 0 {
            return Ok((bytes, to_hex(&hash.finalize())));
        }
        hash.update(&buffer[..length]);
        bytes += length as u64;
    }
}
