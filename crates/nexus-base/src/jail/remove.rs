//! Removing things inside the jail: by descriptor, never through a link, never across a mount.

use std::ffi::CString;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;

use rustix::fs::{AtFlags, Dir, FileType};
use rustix::io::Errno;

use super::{Jail, JailError, Mounts, check_relative};
use crate::file::staged::temporary_name;

/// How many folders are held open at once while descending. Deeper ones are moved up to the top of
/// the tree first, so neither the stack nor the descriptor limit bounds what can be removed.
const MAX_HELD: usize = 48;

impl Jail {
    /// Removes a file or a link, never a folder.
    pub fn remove_file(&self, path: impl AsRef<Path>) -> Result<(), JailError> {
        let path = check_relative(path)?;
        let (folder, name) = self.folder_and_name(&path)?;
        rustix::fs::unlinkat(&folder, name, AtFlags::empty()).map_err(|errno| {
            // POSIX says PERM for a folder, Linux says ISDIR.
            let is_folder = errno == Errno::PERM
                && rustix::fs::statat(&folder, name, AtFlags::SYMLINK_NOFOLLOW)
                    .is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Directory);
            let errno = if is_folder { Errno::ISDIR } else { errno };
            JailError::from_errno("removing", path.as_path(), errno)
        })
    }

    /// Removes a folder with all it holds. Links inside are removed, not followed; a mount inside
    /// stops the removal.
    ///
    /// # Errors
    /// See [`JailError`]; a part may be gone then.
    pub fn remove_dir_all(&self, path: impl AsRef<Path>) -> Result<(), JailError> {
        let path = check_relative(path)?;
        let (folder, name) = self.folder_and_name(&path)?;
        let failed = |errno| JailError::from_errno("removing folder", path.as_path(), errno);
        let top = self.open_child(folder.as_fd(), name, Mounts::Refuse).map_err(failed)?;
        // Each pass takes what the one before moved up; a pass that moved nothing left nothing.
        while self.empty(top.as_fd(), top.as_fd(), 0).map_err(failed)? == Moved::Some {}
        rustix::fs::unlinkat(&folder, name, AtFlags::REMOVEDIR).map_err(failed)
    }

    /// Finds out, changing nothing, whether a folder holds a mount point.
    ///
    /// # Errors
    /// [`JailError::Mount`] if it does; others as everywhere.
    pub fn refuse_mounts_below(&self, path: impl AsRef<Path>) -> Result<(), JailError> {
        let path = check_relative(path)?;
        let (folder, name) = self.folder_and_name(&path)?;
        let failed = |errno| JailError::from_errno("inspecting folder", path.as_path(), errno);
        let top = self.open_child(folder.as_fd(), name, Mounts::Refuse).map_err(failed)?;
        self.look_for_mounts(top.as_fd(), 0).map_err(failed)
    }

    fn empty(&self, top: BorrowedFd<'_>, folder: BorrowedFd<'_>, depth: usize) -> Result<Moved, Errno> {
        let mut moved = Moved::None;
        for entry in Dir::read_from(folder)? {
            let entry = entry?;
            let name = entry.file_name();
            if matches!(name.to_bytes(), b"." | b"..") {
                continue;
            }
            if !is_folder(folder, name, entry.file_type())? {
                ignore_missing(rustix::fs::unlinkat(folder, name, AtFlags::empty()))?;
                continue;
            }
            let child = match self.open_child(folder, name, Mounts::Refuse) {
                Ok(child) => child,
                Err(Errno::NOENT) => continue,
                Err(errno) => return Err(errno),
            };
            if depth + 1 == MAX_HELD {
                let parked = temporary_name().map_err(|_| Errno::IO)?;
                rustix::fs::renameat(folder, name, top, &parked)?;
                moved = Moved::Some;
                continue;
            }
            if self.empty(top, child.as_fd(), depth + 1)? == Moved::Some {
                moved = Moved::Some;
            }
            ignore_missing(rustix::fs::unlinkat(folder, name, AtFlags::REMOVEDIR))?;
        }
        Ok(moved)
    }

    fn look_for_mounts(&self, folder: BorrowedFd<'_>, depth: usize) -> Result<(), Errno> {
        // Below the depth removal holds open, removal itself stops at a mount before touching it.
        if depth == MAX_HELD {
            return Ok(());
        }
        let mut folders: Vec<CString> = Vec::new();
        for entry in Dir::read_from(folder)? {
            let entry = entry?;
            let name = entry.file_name();
            if !matches!(name.to_bytes(), b"." | b"..") && is_folder(folder, name, entry.file_type())? {
                folders.push(name.to_owned());
            }
        }
        for name in folders {
            match self.open_child(folder, name.as_c_str(), Mounts::Refuse) {
                Ok(child) => self.look_for_mounts(child.as_fd(), depth + 1)?,
                Err(Errno::NOENT) => {}
                Err(errno) => return Err(errno),
            }
        }
        Ok(())
    }
}

/// Whether a pass parked deep folders at the top for the next pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Moved {
    None,
    Some,
}

fn is_folder(folder: BorrowedFd<'_>, name: &std::ffi::CStr, told: FileType) -> Result<bool, Errno> {
    if told != FileType::Unknown {
        return Ok(told == FileType::Directory);
    }
    match rustix::fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) => Ok(FileType::from_raw_mode(stat.st_mode) == FileType::Directory),
        Err(Errno::NOENT) => Ok(false),
        Err(errno) => Err(errno),
    }
}

fn ignore_missing(outcome: Result<(), Errno>) -> Result<(), Errno> {
    match outcome {
        Err(Errno::NOENT) => Ok(()),
        settled => settled,
    }
}
