//! The one way to open, make, replace and move files we write. Nothing here follows a symbolic link, on no part of
//! the path, or opens anything but a regular file with one name: a worker or a repository may have put links, pipes
//! and devices where our files belong. Whoever settles where files lie (a workspace's root, a project's root) resolves
//! the links in that place once, with [`resolve`].
//!
//! Whole-file writes are either there or not, and say what they survive.

mod folder;
pub(crate) mod staged;

#[cfg(test)]
mod tests;

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, FileType, Mode, OFlags};
use rustix::io::Errno;

use folder::Parent;
use staged::Staged;

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

    /// Returns whether nothing is there.
    pub fn is_not_found(&self) -> bool {
        self.source.kind() == io::ErrorKind::NotFound
    }
}

/// What making something found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Created {
    /// It was made.
    New,
    /// Something of that name stood there and was left alone.
    AlreadyThere,
}

/// Resolves the links in a place that a person named, as far as it exists. For the roots of what we write, once, and
/// never for a path below them.
pub fn resolve(path: &Path) -> PathBuf {
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let mut existing = path.as_path();
    let mut missing = Vec::new();
    loop {
        if let Ok(real) = existing.canonicalize() {
            return missing.into_iter().rev().fold(real, |path, name| path.join(name));
        }
        let (Some(parent), Some(name)) = (existing.parent(), existing.file_name()) else { return path };
        missing.push(name);
        existing = parent;
    }
}

/// Replaces the file at `path` with `content` in one step.
///
/// # Errors
/// The folder is missing, not writable, full or reached through a link; the old file is then untouched.
pub fn replace(path: &Path, content: &[u8], mode: u32, durability: Durability) -> Result<(), FileError> {
    prepare(path, content, mode, durability)?.put()
}

/// A file that is written and not yet in its place; dropped, it leaves nothing.
#[derive(Debug)]
pub struct Prepared {
    staged: Staged,
    path: PathBuf,
}

/// Writes `content` beside `path`, so that what may fail for lack of room has happened before anything
/// changes.
///
/// # Errors
/// The folder is missing, not writable, full or reached through a link.
pub fn prepare(
    path: &Path,
    content: &[u8],
    mode: u32,
    durability: Durability,
) -> Result<Prepared, FileError> {
    let parent = Parent::of(path, "writing")?;
    let staged = Staged::write(parent.folder, parent.name, content, mode_of(mode), durability)
        .map_err(|error| FileError::new("writing", path, error))?;
    crate::failpoint::hit("file.staged");
    Ok(Prepared { staged, path: path.to_owned() })
}

impl Prepared {
    /// Replaces the file at the path in one step.
    ///
    /// # Errors
    /// The folder is gone or not writable; the old file is then untouched.
    pub fn put(self) -> Result<(), FileError> {
        // A rename replaces whatever stands at the name, a link included, and follows nothing.
        self.staged.replace().map_err(|error| FileError::new("writing", &self.path, error))
    }
}

/// Makes the file at `path` with `content` unless something of that name stands there already.
///
/// # Errors
/// The folder is missing, not writable, full or reached through a link.
pub fn create_once(
    path: &Path,
    content: &[u8],
    mode: u32,
    durability: Durability,
) -> Result<Created, FileError> {
    let failed = |error| FileError::new("creating", path, error);
    let parent = Parent::of(path, "creating")?;
    if rustix::fs::statat(&parent.folder, parent.name, AtFlags::SYMLINK_NOFOLLOW).is_ok() {
        return Ok(Created::AlreadyThere);
    }
    let staged =
        Staged::write(parent.folder, parent.name, content, mode_of(mode), durability).map_err(failed)?;
    crate::failpoint::hit("file.staged");
    staged.create().map_err(failed)
}

/// Makes the file at `path`, which must not exist, and opens it for writing.
///
/// # Errors
/// Something of that name is there, or the folder is missing, not writable or reached through a link.
pub fn create_new(path: &Path, mode: u32) -> Result<File, FileError> {
    open(path, OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL, mode, "creating")
}

/// Makes the folder at `path`, parents included, unless it stands there already.
///
/// # Errors
/// A file or a link stands in the way, or the parent is not writable.
pub fn create_folder(path: &Path, mode: u32) -> Result<Created, FileError> {
    folder::create(path, mode_of(mode))
}

/// Opens a regular file for reading; a pipe or a device is an error at once.
///
/// # Errors
/// Nothing is there, or a link, or it cannot be read.
pub fn open_read(path: &Path) -> Result<File, FileError> {
    let file = open_any(path, OFlags::RDONLY, Mode::empty(), "opening")?;
    regular(&file, path)?;
    Ok(file)
}

/// Opens a file for appending, making it with `mode` if missing.
///
/// # Errors
/// The folder is missing or not writable, or something else than a file with one name stands there.
pub fn open_append(path: &Path, mode: u32) -> Result<File, FileError> {
    open(path, OFlags::WRONLY | OFlags::APPEND | OFlags::CREATE, mode, "opening")
}

/// Opens an existing file to be read and changed in place.
///
/// # Errors
/// Nothing is there or not a file with one name, or it may not be changed.
pub fn open_update(path: &Path) -> Result<File, FileError> {
    open(path, OFlags::RDWR, 0, "opening")
}

/// Opens a file that processes lock, making it with `mode` if missing. Lock files may have several names: on some
/// file systems a second name is how a lock is taken.
///
/// # Errors
/// The folder is missing or not writable, or something else than a file stands there.
pub fn open_lock(path: &Path, mode: u32) -> Result<File, FileError> {
    let file = open_any(path, OFlags::RDWR | OFlags::CREATE, mode_of(mode), "locking")?;
    regular(&file, path)?;
    Ok(file)
}

/// Opens a folder itself, to lock it.
pub(crate) fn open_folder(path: &Path) -> Result<File, FileError> {
    folder::open(path)
        .map(File::from)
        .map_err(|errno| FileError::new("opening", path, folder::explain(errno)))
}

/// Gives a file a second name, which must not exist.
///
/// # Errors
/// Something of that name is there, the file system knows no second names, or a folder cannot be written.
pub fn hard_link(path: &Path, second: &Path) -> Result<(), FileError> {
    let (from, to) = (Parent::of(path, "linking")?, Parent::of(second, "linking")?);
    rustix::fs::linkat(&from.folder, from.name, &to.folder, to.name, AtFlags::empty())
        .map_err(|errno| FileError::new("linking", second, errno.into()))
}

/// Moves a file or folder in one step, in the place of a file of that name.
///
/// # Errors
/// Nothing is there, or a folder cannot be written or is reached through a link.
pub fn rename(from: &Path, to: &Path) -> Result<(), FileError> {
    let (old, new) = (Parent::of(from, "moving")?, Parent::of(to, "moving")?);
    rustix::fs::renameat(&old.folder, old.name, &new.folder, new.name)
        .map_err(|errno| FileError::new("moving", from, errno.into()))
}

/// Removes a file or a link and says whether one was there.
///
/// # Errors
/// It is a folder, or its folder cannot be written or is reached through a link.
pub fn remove(path: &Path) -> Result<bool, FileError> {
    let parent = match Parent::of(path, "removing") {
        Ok(parent) => parent,
        Err(error) if error.is_not_found() => return Ok(false),
        Err(error) => return Err(error),
    };
    match rustix::fs::unlinkat(&parent.folder, parent.name, AtFlags::empty()) {
        Ok(()) => Ok(true),
        Err(Errno::NOENT) => Ok(false),
        Err(errno) => Err(FileError::new("removing", path, errno.into())),
    }
}

/// Sets the permission bits of a file or folder.
///
/// # Errors
/// Nothing is there, or a link, or it belongs to somebody else.
pub fn set_mode(path: &Path, mode: u32) -> Result<(), FileError> {
    let failed = |error| FileError::new("setting permissions of", path, error);
    let parent = Parent::of(path, "setting permissions of")?;
    folder::set_mode(&parent, mode_of(mode)).map_err(failed)
}

/// Reads a text file of at most `limit` bytes, through links as a person may have laid them. A pipe or a device is an
/// error at once.
///
/// # Errors
/// The file cannot be read, is not a regular one, is longer than `limit` or is not UTF-8.
pub fn read_text(path: &Path, limit: u64) -> Result<String, FileError> {
    let failed = |error| FileError::new("reading", path, error);
    let file = fs::OpenOptions::new()
        .read(true)
        .custom_flags(i32::try_from(OFlags::NONBLOCK.bits()).unwrap_or(0))
        .open(path)
        .map_err(failed)?;
    regular(&file, path)?;
    let mut text = String::new();
    file.take(limit.saturating_add(1)).read_to_string(&mut text).map_err(failed)?;
    if text.len() as u64 > limit {
        return Err(failed(io::Error::new(
            io::ErrorKind::FileTooLarge,
            format!("longer than the allowed {limit} bytes"),
        )));
    }
    Ok(text)
}

/// Opens a file to be written: a regular one with one name.
fn open(path: &Path, flags: OFlags, mode: u32, action: &'static str) -> Result<File, FileError> {
    let file = open_any(path, flags, mode_of(mode), action)?;
    if regular(&file, path)?.st_nlink > 1 {
        return Err(FileError::new(
            action,
            path,
            io::Error::new(
                io::ErrorKind::InvalidInput,
                "the file has a second name (a hard link), so writing it would change another file; replace it with a copy",
            ),
        ));
    }
    Ok(file)
}

fn open_any(path: &Path, flags: OFlags, mode: Mode, action: &'static str) -> Result<File, FileError> {
    let parent = Parent::of(path, action)?;
    // Without NONBLOCK, opening a pipe that somebody planted would wait for its other end.
    let flags = flags | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOCTTY;
    rustix::fs::openat(&parent.folder, parent.name, flags, mode)
        .map(File::from)
        .map_err(|errno| FileError::new(action, path, folder::explain(errno)))
}

fn regular(file: &File, path: &Path) -> Result<rustix::fs::Stat, FileError> {
    let failed = |error| FileError::new("opening", path, error);
    let stat = rustix::fs::fstat(file).map_err(|errno| failed(errno.into()))?;
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => Ok(stat),
        FileType::Directory => Err(failed(io::Error::from(io::ErrorKind::IsADirectory))),
        _ => Err(failed(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"))),
    }
}

pub(crate) fn mode_of(mode: u32) -> Mode {
    Mode::from_bits_truncate(mode as rustix::fs::RawMode & 0o7777)
}
