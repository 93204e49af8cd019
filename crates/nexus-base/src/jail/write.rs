//! Making, replacing and moving things inside the jail.

use std::ffi::OsStr;
use std::fs::File;
use std::io::Write as _;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use rustix::fs::{AtFlags, FileType, Mode, OFlags};
use rustix::io::Errno;

use super::{Jail, JailError, PathFault, RelativePath, check_relative};
use crate::failpoint;
use crate::file::staged::{Staged, rename_without_replacing};
use crate::file::{Created, Durability, mode_of};

impl Jail {
    /// Makes a folder and its missing parents, each with `mode`; existing ones are left alone.
    ///
    /// # Errors
    /// See [`JailError`]; a file or link in the way is one.
    pub fn create_dir_all(&self, path: impl AsRef<Path>, mode: u32) -> Result<Created, JailError> {
        let path = check_relative(path)?;
        let failed = |errno| JailError::from_errno("creating folder", path.as_path(), errno);
        let mut created = Created::AlreadyThere;
        let mut held: Option<OwnedFd> = None;
        for name in path.components() {
            let parent = held.as_ref().map_or_else(|| self.root.as_fd(), AsFd::as_fd);
            created = match rustix::fs::mkdirat(parent, name, mode_of(mode)) {
                Ok(()) => Created::New,
                Err(Errno::EXIST) => Created::AlreadyThere,
                Err(errno) => return Err(failed(errno)),
            };
            let child = self.open_child(parent, name, self.mounts).map_err(failed)?;
            if created == Created::New {
                // The umask took its share of the mode above.
                rustix::fs::fchmod(&child, mode_of(mode)).map_err(failed)?;
            }
            held = Some(child);
        }
        Ok(created)
    }

    /// Replaces the file at `path`, or makes it with `mode`, in one step. An existing file keeps its
    /// mode; a link or folder in its place is an error and stays.
    ///
    /// # Errors
    /// See [`JailError`]; the old file is then untouched.
    pub fn write_atomic(
        &self,
        path: impl AsRef<Path>,
        content: &[u8],
        mode: u32,
        durability: Durability,
    ) -> Result<(), JailError> {
        self.replace(path, content, mode_of(mode), durability, |found| found)
    }

    /// Replaces the file at `path`, or makes it, in one step; afterwards it has `mode` in any case.
    ///
    /// # Errors
    /// See [`JailError`]; the old file is then untouched.
    pub fn write_atomic_with_mode(
        &self,
        path: impl AsRef<Path>,
        content: &[u8],
        mode: u32,
        durability: Durability,
    ) -> Result<(), JailError> {
        self.replace(path, content, mode_of(mode), durability, |_| mode_of(mode))
    }

    fn replace(
        &self,
        path: impl AsRef<Path>,
        content: &[u8],
        mode: Mode,
        durability: Durability,
        mode_instead_of: impl FnOnce(Mode) -> Mode,
    ) -> Result<(), JailError> {
        let path = check_relative(path)?;
        let (folder, name) = self.folder_and_name(&path)?;
        let failed = |errno| JailError::from_errno("writing", path.as_path(), errno);
        let mode = match rustix::fs::statat(&folder, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => match FileType::from_raw_mode(stat.st_mode) {
                FileType::RegularFile => mode_instead_of(Mode::from_raw_mode(stat.st_mode)),
                FileType::Symlink => return Err(JailError::Symlink { path: path.into() }),
                _ => return Err(JailError::NotAFile { path: path.into() }),
            },
            Err(Errno::NOENT) => mode,
            Err(errno) => return Err(failed(errno)),
        };
        let failed = |source| JailError::from_io("writing", path.as_path(), source);
        let staged = Staged::write(folder, name, content, mode, durability).map_err(failed)?;
        failpoint::hit("jail.staged");
        // A rename replaces whatever stands at the name, a link included, and follows nothing.
        staged.replace().map_err(failed)
    }

    /// Makes the file at `path` unless something of that name stands there already.
    pub fn create_once(
        &self,
        path: impl AsRef<Path>,
        content: &[u8],
        mode: u32,
        durability: Durability,
    ) -> Result<Created, JailError> {
        let path = check_relative(path)?;
        let (folder, name) = self.folder_and_name(&path)?;
        if rustix::fs::statat(&folder, name, AtFlags::SYMLINK_NOFOLLOW).is_ok() {
            return Ok(Created::AlreadyThere);
        }
        let failed = |source| JailError::from_io("creating", path.as_path(), source);
        let staged = Staged::write(folder, name, content, mode_of(mode), durability).map_err(failed)?;
        failpoint::hit("jail.staged");
        staged.create().map_err(failed)
    }

    /// Makes a file that must not exist yet and writes it in place. A crash can leave half of it, so
    /// this is for folders nobody sees yet; everywhere else [`Self::create_once`] is the way.
    pub fn create_new(&self, path: impl AsRef<Path>, content: &[u8], mode: u32) -> Result<(), JailError> {
        let path = check_relative(path)?;
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let handle = self.open_at(&path, flags, mode_of(mode), "creating")?;
        rustix::fs::fchmod(&handle, mode_of(mode))
            .map_err(|errno| JailError::from_errno("creating", path.as_path(), errno))?;
        File::from(handle)
            .write_all(content)
            .map_err(|source| JailError::io("writing", path.as_path(), source))
    }

    /// Moves a file or folder; never onto something that exists.
    pub fn rename(&self, from: impl AsRef<Path>, to: impl AsRef<Path>) -> Result<(), JailError> {
        let (from, to) = (check_relative(from)?, check_relative(to)?);
        let (from_folder, from_name) = self.folder_and_name(&from)?;
        let (to_folder, to_name) = self.folder_and_name(&to)?;
        rename_without_replacing(&from_folder, from_name, &to_folder, to_name).map_err(|errno| {
            let about = if errno == Errno::EXIST || errno == Errno::NOTEMPTY { &to } else { &from };
            JailError::from_errno("renaming", about.as_path(), errno)
        })
    }

    /// Makes what was done in the folder at `path` survive a loss of power.
    pub fn sync(&self, path: impl AsRef<Path>) -> Result<(), JailError> {
        let path = check_relative(path)?;
        rustix::fs::fsync(self.open_folder(&path)?)
            .map_err(|errno| JailError::io("syncing the folder of", path.as_path(), errno))
    }

    /// Opens the folder a path lies in and gives its last name.
    pub(super) fn folder_and_name<'path>(
        &self,
        path: &'path RelativePath,
    ) -> Result<(OwnedFd, &'path OsStr), JailError> {
        let Some((folder, name)) = path.split() else {
            return Err(JailError::Escape { path: self.path.clone(), fault: PathFault::Empty });
        };
        Ok((self.open_folder(&folder)?, name))
    }
}
