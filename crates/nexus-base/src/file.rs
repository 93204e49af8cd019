//! Whole-file writes that are either there or not, and say what they survive.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// What a finished write survives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Durability {
    /// The process dying at any instant.
    Crash,
    /// The machine losing power as well: file and folder are synced.
    PowerLoss,
}

/// A file operation that did not work, with the path it was about.
#[derive(Debug, thiserror::Error)]
#[error("{action} {path}")]
pub struct FileError {
    /// What was tried, such as `writing`.
    pub action: &'static str,
    /// The file or folder it was tried on.
    pub path: PathBuf,
    /// Why it did not work.
    #[source]
    pub source: io::Error,
}

impl FileError {
    /// Ties an io error to the action and path it belongs to.
    pub fn new(action: &'static str, path: impl Into<PathBuf>, source: io::Error) -> Self {
        Self { action, path: path.into(), source }
    }
}

/// What `create_once` found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Created {
    /// The file was made.
    New,
    /// A file of that name stood there and was left alone.
    AlreadyThere,
}

/// Replaces the file at `path` with `content` in one step.
///
/// # Errors
/// The folder is missing, not writable or full; the old file is then untouched.
pub fn replace(path: &Path, content: &[u8], mode: u32, durability: Durability) -> Result<(), FileError> {
    prepare(path, content, mode, durability)?.put()
}

/// A file that is written and not yet in its place; dropped, it leaves nothing.
#[derive(Debug)]
pub struct Prepared {
    staged: tempfile::NamedTempFile,
    path: PathBuf,
    durability: Durability,
}

/// Writes `content` beside `path`, so that what may fail for lack of room has happened before anything
/// changes.
///
/// # Errors
/// The folder is missing, not writable or full.
pub fn prepare(
    path: &Path,
    content: &[u8],
    mode: u32,
    durability: Durability,
) -> Result<Prepared, FileError> {
    Ok(Prepared { staged: stage(path, content, mode, durability)?, path: path.to_owned(), durability })
}

impl Prepared {
    /// Replaces the file at the path in one step.
    ///
    /// # Errors
    /// The folder is gone or not writable; the old file is then untouched.
    pub fn put(self) -> Result<(), FileError> {
        let Self { staged, path, durability } = self;
        staged.persist(&path).map_err(|error| FileError::new("writing", &path, error.error))?;
        sync_folder_of(&path, durability)
    }
}

/// Makes the file at `path` with `content` unless something of that name stands there already.
///
/// # Errors
/// The folder is missing, not writable or full.
pub fn create_once(
    path: &Path,
    content: &[u8],
    mode: u32,
    durability: Durability,
) -> Result<Created, FileError> {
    if fs::symlink_metadata(path).is_ok() {
        return Ok(Created::AlreadyThere);
    }
    let staged = stage(path, content, mode, durability)?;
    match staged.persist_noclobber(path) {
        Ok(_) => {
            sync_folder_of(path, durability)?;
            Ok(Created::New)
        }
        Err(error) if error.error.kind() == io::ErrorKind::AlreadyExists => Ok(Created::AlreadyThere),
        Err(error) => Err(FileError::new("creating", path, error.error)),
    }
}

/// Makes the folder at `path`, parents included, unless it stands there already.
///
/// # Errors
/// A file stands in the way or the parent is not writable.
pub fn create_folder(path: &Path, mode: u32) -> Result<Created, FileError> {
    if path.is_dir() {
        return Ok(Created::AlreadyThere);
    }
    if let Some(parent) = path.parent()
        && !parent.as_os_str().is_empty()
        && !parent.is_dir()
    {
        create_folder(parent, mode)?;
    }
    match fs::create_dir(path) {
        Ok(()) => {
            fs::set_permissions(path, fs::Permissions::from_mode(mode))
                .map_err(|error| FileError::new("setting permissions of", path, error))?;
            Ok(Created::New)
        }
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && path.is_dir() => {
            Ok(Created::AlreadyThere)
        }
        Err(error) => Err(FileError::new("creating folder", path, error)),
    }
}

/// Reads a text file of at most `limit` bytes.
///
/// # Errors
/// The file cannot be read, is longer than `limit` or is not UTF-8.
pub fn read_text(path: &Path, limit: u64) -> Result<String, FileError> {
    use std::io::Read as _;
    let failed = |error| FileError::new("reading", path, error);
    let mut text = String::new();
    let file = File::open(path).map_err(failed)?;
    file.take(limit + 1).read_to_string(&mut text).map_err(failed)?;
    if text.len() as u64 > limit {
        return Err(failed(io::Error::new(
            io::ErrorKind::FileTooLarge,
            format!("longer than the allowed {limit} bytes"),
        )));
    }
    Ok(text)
}

/// Opens a file for appending, making it with `mode` if missing.
///
/// # Errors
/// The folder is missing or not writable.
pub fn open_append(path: &Path, mode: u32) -> Result<File, FileError> {
    OpenOptions::new()
        .append(true)
        .create(true)
        .mode(mode)
        .open(path)
        .map_err(|error| FileError::new("opening", path, error))
}

fn stage(
    path: &Path,
    content: &[u8],
    mode: u32,
    durability: Durability,
) -> Result<tempfile::NamedTempFile, FileError> {
    let folder = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let failed = |error| FileError::new("writing", path, error);
    // The temporary name starts with a dot and the random part is long, so that a left-over from a
    // crash is neither listed as content nor ever taken for somebody else's file.
    let mut staged = tempfile::Builder::new()
        .prefix(".nexus-tmp-")
        .rand_bytes(12)
        .permissions(fs::Permissions::from_mode(mode))
        .tempfile_in(folder)
        .map_err(failed)?;
    staged.write_all(content).map_err(failed)?;
    staged.as_file().set_permissions(fs::Permissions::from_mode(mode)).map_err(failed)?;
    if durability == Durability::PowerLoss {
        staged.as_file().sync_all().map_err(failed)?;
    }
    crate::failpoint::hit("file.staged");
    Ok(staged)
}

fn sync_folder_of(path: &Path, durability: Durability) -> Result<(), FileError> {
    if durability == Durability::Crash {
        return Ok(());
    }
    let folder = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    File::open(folder)
        .and_then(|handle| handle.sync_all())
        .map_err(|error| FileError::new("syncing folder", folder, error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn create_once_never_overwrites() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("note");
        assert_eq!(create_once(&path, b"first", 0o600, Durability::Crash).unwrap(), Created::New);
        assert_eq!(create_once(&path, b"second", 0o600, Durability::Crash).unwrap(), Created::AlreadyThere);
        assert_eq!(fs::read(&path).unwrap(), b"first");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    }

    #[test]
    fn replace_keeps_the_old_file_when_the_folder_is_gone() {
        let folder = tempfile::tempdir().unwrap();
        let missing = folder.path().join("gone/note");
        let error = replace(&missing, b"x", 0o600, Durability::PowerLoss).unwrap_err();
        assert_eq!(error.path, missing);
    }
}
