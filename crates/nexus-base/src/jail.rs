//! The path jail: the only way to open a file whose name came from outside.
//!
//! A [`Jail`] holds its root folder open and does everything relative to that descriptor, so a
//! path can neither climb out, nor follow a symbolic link, nor be redirected by somebody who swaps
//! a folder between check and use. Where the workspace lies and what its files mean is for others.

mod path;
mod remove;
mod resolve;
mod write;

#[cfg(test)]
mod tests;

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::Read as _;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;

use crate::clock::Timestamp;
pub use crate::file::staged::TEMPORARY_PREFIX;

pub use path::{
    MAX_COMPONENT_BYTES, MAX_COMPONENTS, MAX_PATH_BYTES, PathFault, RelativePath, check_relative,
};
use resolve::Resolver;

/// The most entries one folder may have and still be listed.
pub const MAX_ENTRIES: usize = 200_000;

/// Whether paths inside the jail may lead onto another mounted file system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mounts {
    /// A mount below the root is part of the tree.
    Follow,
    /// A mount below the root is a wall.
    Refuse,
}

/// A folder that nothing opened through it can leave.
#[derive(Debug)]
pub struct Jail {
    root: OwnedFd,
    path: PathBuf,
    stat: Stat,
    mounts: Mounts,
    resolver: Resolver,
}

/// What stands at a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EntryKind {
    /// A regular file.
    File,
    /// A folder.
    Folder,
    /// A symbolic link, which the jail never follows.
    Symlink,
    /// A socket, pipe or device.
    Other,
}

/// One name in a folder and what it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The name alone, without its folder.
    pub name: OsString,
    /// What it is.
    pub kind: EntryKind,
    /// Its length in bytes; meaningful for files.
    pub len: u64,
    /// When its content last changed.
    pub modified: Timestamp,
}

/// What is known about a path without opening it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Metadata {
    /// What it is.
    pub kind: EntryKind,
    /// Its length in bytes; meaningful for files.
    pub len: u64,
    /// When its content last changed.
    pub modified: Timestamp,
    /// Its permission bits.
    pub mode: u32,
}

/// Why the jail did not do what was asked.
#[derive(Debug, thiserror::Error)]
pub enum JailError {
    /// The text is not a path the jail accepts; nothing was touched.
    #[error("{} is not a path inside the folder: {fault}", path.display())]
    Escape {
        /// The path as given.
        path: PathBuf,
        /// What is wrong with it.
        fault: PathFault,
    },
    /// A symbolic link stands in the way.
    #[error("{} contains a symbolic link", path.display())]
    Symlink {
        /// The path as given.
        path: PathBuf,
    },
    /// The path leads onto another file system and this jail refuses that.
    #[error("{} is on another file system", path.display())]
    Mount {
        /// The path as given.
        path: PathBuf,
    },
    /// Nothing of that name is there.
    #[error("{} does not exist", path.display())]
    NotFound {
        /// The path as given.
        path: PathBuf,
    },
    /// Something of that name is there already.
    #[error("{} already exists", path.display())]
    AlreadyThere {
        /// The path as given.
        path: PathBuf,
    },
    /// A regular file was needed.
    #[error("{} is not a file", path.display())]
    NotAFile {
        /// The path as given.
        path: PathBuf,
    },
    /// A folder was needed.
    #[error("{} is not a folder", path.display())]
    NotAFolder {
        /// The path as given.
        path: PathBuf,
    },
    /// The file or listing is longer than the caller allows.
    #[error("{} is larger than the allowed {limit}", path.display())]
    TooLarge {
        /// The path as given.
        path: PathBuf,
        /// The limit, in bytes or entries.
        limit: u64,
    },
    /// The operating system refused.
    #[error("{action} {}", path.display())]
    Io {
        /// What was tried, such as `reading`.
        action: &'static str,
        /// The path as given.
        path: PathBuf,
        /// Why it did not work.
        #[source]
        source: std::io::Error,
    },
}

impl JailError {
    fn io(action: &'static str, path: &Path, source: impl Into<std::io::Error>) -> Self {
        Self::Io { action, path: path.to_owned(), source: source.into() }
    }

    fn from_io(action: &'static str, path: &Path, source: std::io::Error) -> Self {
        match Errno::from_io_error(&source) {
            Some(errno) => Self::from_errno(action, path, errno),
            None => Self::io(action, path, source),
        }
    }

    fn from_errno(action: &'static str, path: &Path, errno: Errno) -> Self {
        let path = path.to_owned();
        match errno {
            Errno::NOENT => Self::NotFound { path },
            Errno::LOOP => Self::Symlink { path },
            Errno::XDEV => Self::Mount { path },
            Errno::NOTDIR => Self::NotAFolder { path },
            Errno::ISDIR => Self::NotAFile { path },
            Errno::EXIST | Errno::NOTEMPTY => Self::AlreadyThere { path },
            other => Self::Io { action, path, source: other.into() },
        }
    }

    /// Returns whether the path was simply not there.
    pub fn is_not_found(&self) -> bool {
        matches!(self, Self::NotFound { .. })
    }
}

impl Jail {
    /// Opens the folder at `root`, links in `root` itself included: who names the root is trusted.
    ///
    /// # Errors
    /// The folder is missing or cannot be opened.
    pub fn open(root: &Path) -> Result<Self, JailError> {
        Self::open_with(root, Mounts::Follow)
    }

    /// Opens the folder at `root` and says whether mounts below it belong to it.
    ///
    /// # Errors
    /// The folder is missing or cannot be opened.
    pub fn open_with(root: &Path, mounts: Mounts) -> Result<Self, JailError> {
        let failed = |errno| JailError::from_errno("opening folder", root, errno);
        let handle = rustix::fs::open(root, resolve::FOLDER, Mode::empty()).map_err(failed)?;
        let stat = rustix::fs::fstat(&handle).map_err(failed)?;
        let resolver = Resolver::probe(&handle);
        Ok(Self { root: handle, path: root.to_owned(), stat, mounts, resolver })
    }

    /// Opens a jail on a folder inside this one.
    ///
    /// # Errors
    /// The folder is missing, is no folder or cannot be reached.
    pub fn sub(&self, path: impl AsRef<Path>) -> Result<Self, JailError> {
        let path = check_relative(path)?;
        let root = self.open_folder(&path)?;
        let stat = rustix::fs::fstat(&root)
            .map_err(|errno| JailError::from_errno("opening folder", path.as_path(), errno))?;
        let (mounts, resolver) = (self.mounts, self.resolver);
        Ok(Self { root, path: self.path.join(path.as_path()), stat, mounts, resolver })
    }

    /// Returns the root as it was given, for messages.
    pub fn root(&self) -> &Path {
        &self.path
    }

    /// Opens a regular file for reading.
    pub fn open_file(&self, path: impl AsRef<Path>) -> Result<File, JailError> {
        let path = check_relative(path)?;
        // Without NONBLOCK, opening a pipe somebody planted would hang until a writer comes.
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let handle = self.open_at(&path, flags, Mode::empty(), "opening")?;
        let file = File::from(handle);
        let metadata =
            file.metadata().map_err(|source| JailError::io("inspecting", path.as_path(), source))?;
        if metadata.is_file() { Ok(file) } else { Err(JailError::NotAFile { path: path.into() }) }
    }

    /// Reads a whole regular file of at most `limit` bytes.
    pub fn read(&self, path: impl AsRef<Path>, limit: u64) -> Result<Vec<u8>, JailError> {
        let path = path.as_ref();
        let file = self.open_file(path)?;
        let mut content = Vec::new();
        file.take(limit.saturating_add(1))
            .read_to_end(&mut content)
            .map_err(|source| JailError::io("reading", path, source))?;
        if content.len() as u64 > limit {
            return Err(JailError::TooLarge { path: path.to_owned(), limit });
        }
        Ok(content)
    }

    /// Tells what stands at `path`; a symbolic link is reported as such.
    pub fn metadata(&self, path: impl AsRef<Path>) -> Result<Metadata, JailError> {
        let path = check_relative(path)?;
        let failed = |errno| JailError::from_errno("inspecting", path.as_path(), errno);
        let stat = match path.split() {
            None => rustix::fs::fstat(&self.root).map_err(failed)?,
            Some((folder, name)) => {
                let folder = self.open_folder(&folder)?;
                rustix::fs::statat(&folder, name, AtFlags::SYMLINK_NOFOLLOW).map_err(failed)?
            }
        };
        Ok(metadata_of(&stat))
    }

    /// Lists a folder, sorted by the bytes of the names.
    ///
    /// # Errors
    /// See [`JailError`]; more than [`MAX_ENTRIES`] names is `TooLarge`.
    pub fn list(&self, path: impl AsRef<Path>) -> Result<Vec<Entry>, JailError> {
        let path = check_relative(path)?;
        let folder = self.open_folder(&path)?;
        let mut entries = Vec::new();
        for (name, _) in names_in(&folder, path.as_path())? {
            // An entry that went away meanwhile is not there; everything else is told.
            match rustix::fs::statat(&folder, &name, AtFlags::SYMLINK_NOFOLLOW) {
                Ok(stat) => {
                    let Metadata { kind, len, modified, mode: _ } = metadata_of(&stat);
                    entries.push(Entry { name, kind, len, modified });
                }
                Err(Errno::NOENT) => {}
                Err(errno) => return Err(JailError::from_errno("inspecting", path.as_path(), errno)),
            }
        }
        entries.sort_unstable_by(|left, right| left.name.as_bytes().cmp(right.name.as_bytes()));
        Ok(entries)
    }

    /// Lists names and kinds only, unsorted, without a system call per entry where the file system
    /// tells kinds with the names.
    ///
    /// # Errors
    /// See [`JailError`]; more than [`MAX_ENTRIES`] names is `TooLarge`.
    pub fn names(&self, path: impl AsRef<Path>) -> Result<Vec<(OsString, EntryKind)>, JailError> {
        let path = check_relative(path)?;
        names_in(&self.open_folder(&path)?, path.as_path())
    }
}

fn names_in(folder: &OwnedFd, path: &Path) -> Result<Vec<(OsString, EntryKind)>, JailError> {
    let failed = |errno| JailError::from_errno("listing", path, errno);
    let mut names = Vec::new();
    for entry in Dir::read_from(folder).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let name = entry.file_name();
        if matches!(name.to_bytes(), b"." | b"..") {
            continue;
        }
        let kind = match entry.file_type() {
            FileType::Unknown => match rustix::fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW) {
                Ok(stat) => metadata_of(&stat).kind,
                Err(Errno::NOENT) => continue,
                Err(errno) => return Err(failed(errno)),
            },
            known => kind_of(known),
        };
        if names.len() == MAX_ENTRIES {
            return Err(JailError::TooLarge { path: path.to_owned(), limit: MAX_ENTRIES as u64 });
        }
        names.push((OsStr::from_bytes(name.to_bytes()).to_owned(), kind));
    }
    Ok(names)
}

fn kind_of(kind: FileType) -> EntryKind {
    match kind {
        FileType::RegularFile => EntryKind::File,
        FileType::Directory => EntryKind::Folder,
        FileType::Symlink => EntryKind::Symlink,
        FileType::Fifo
        | FileType::Socket
        | FileType::CharacterDevice
        | FileType::BlockDevice
        | FileType::Unknown => EntryKind::Other,
    }
}

fn metadata_of(stat: &Stat) -> Metadata {
    let mode = stat.st_mode;
    let millis = i128::from(stat.st_mtime) * 1000 + i128::from(stat.st_mtime_nsec) / 1_000_000;
    Metadata {
        kind: kind_of(FileType::from_raw_mode(mode)),
        len: u64::try_from(stat.st_size).unwrap_or(0),
        modified: Timestamp(i64::try_from(millis).unwrap_or(i64::MAX)),
        mode: widen(mode) & 0o7777,
    }
}

/// Mode bits are 16 wide on some systems and 32 on others.
fn widen(mode: impl Into<u32>) -> u32 {
    mode.into()
}
