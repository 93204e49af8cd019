//! A file on its way: written beside its place under a name of its own, then moved there in one step.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::OwnedFd;

use rustix::fs::{AtFlags, Mode, OFlags};
use rustix::io::Errno;

use super::{Created, Durability};

/// Names of files being written start with this, so that left-overs of a crash are recognised. The dot keeps them out
/// of listings, and the random part is long, so that none is ever taken for somebody else's file.
pub const TEMPORARY_PREFIX: &str = ".nexus-tmp-";

/// A written file that is removed again unless it is put in its place.
#[derive(Debug)]
pub(crate) struct Staged {
    folder: OwnedFd,
    temporary: OsString,
    name: OsString,
    durability: Durability,
    placed: bool,
}

impl Staged {
    pub(crate) fn write(
        folder: OwnedFd,
        name: &OsStr,
        content: &[u8],
        mode: Mode,
        durability: Durability,
    ) -> io::Result<Self> {
        let temporary = temporary_name()?;
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let handle = rustix::fs::openat(&folder, &temporary, flags, Mode::RUSR | Mode::WUSR)?;
        let staged = Self { folder, temporary, name: name.to_owned(), durability, placed: false };
        rustix::fs::fchmod(&handle, mode)?;
        let mut file = File::from(handle);
        file.write_all(content)?;
        if durability == Durability::PowerLoss {
            file.sync_all()?;
        }
        Ok(staged)
    }

    /// Puts the file in the place of whatever has its name.
    pub(crate) fn replace(mut self) -> io::Result<()> {
        rustix::fs::renameat(&self.folder, &self.temporary, &self.folder, &self.name)?;
        self.placed = true;
        self.sync_folder()
    }

    /// Puts the file in its place unless something has its name already.
    pub(crate) fn create(mut self) -> io::Result<Created> {
        match rename_without_replacing(&self.folder, &self.temporary, &self.folder, &self.name) {
            Ok(()) => {
                self.placed = true;
                self.sync_folder()?;
                Ok(Created::New)
            }
            Err(Errno::EXIST) => Ok(Created::AlreadyThere),
            Err(errno) => Err(errno.into()),
        }
    }

    fn sync_folder(&self) -> io::Result<()> {
        match self.durability {
            Durability::Crash => Ok(()),
            Durability::PowerLoss => Ok(rustix::fs::fsync(&self.folder)?),
        }
    }
}

impl Drop for Staged {
    fn drop(&mut self) {
        if !self.placed {
            // Best effort: a left-over is recognisable by its name and harmless.
            let _ = rustix::fs::unlinkat(&self.folder, &self.temporary, AtFlags::empty());
        }
    }
}

/// Returns a name nobody else uses.
pub(crate) fn temporary_name() -> io::Result<OsString> {
    let mut random = [0_u8; 12];
    getrandom::fill(&mut random).map_err(|error| io::Error::other(error.to_string()))?;
    Ok(format!("{TEMPORARY_PREFIX}{}", crate::id::to_hex(&random)).into())
}

/// Moves a file or folder; never onto something that exists.
pub(crate) fn rename_without_replacing(
    from_folder: &OwnedFd,
    from: &OsStr,
    to_folder: &OwnedFd,
    to: &OsStr,
) -> Result<(), Errno> {
    use rustix::fs::RenameFlags;
    match rustix::fs::renameat_with(from_folder, from, to_folder, to, RenameFlags::NOREPLACE) {
        // File systems without the flag: look first. The window is theirs, and a rename follows no link.
        Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => {
            match rustix::fs::statat(to_folder, to, AtFlags::SYMLINK_NOFOLLOW) {
                Ok(_) => Err(Errno::EXIST),
                Err(Errno::NOENT) => rustix::fs::renameat(from_folder, from, to_folder, to),
                Err(errno) => Err(errno),
            }
        }
        settled => settled,
    }
}
