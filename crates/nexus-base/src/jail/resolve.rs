//! From a checked path to an open descriptor, without ever following a link.
//!
//! Linux does it in one call (`openat2`). Where that call is missing, each component is opened from
//! the one before it with `O_NOFOLLOW`, which gives the same answers with more calls.

use std::ffi::OsStr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{AtFlags, FileType, Mode, OFlags};
use rustix::io::Errno;

use super::{Jail, JailError, Mounts, RelativePath};

/// How a folder is opened to work below it.
pub(super) const FOLDER: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

/// Which way paths are resolved here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Resolver {
    /// The kernel refuses links and escapes itself.
    #[cfg(target_os = "linux")]
    Openat2,
    /// We walk component by component.
    Walk,
}

impl Resolver {
    /// Finds out what the running system offers.
    pub(super) fn probe(root: &OwnedFd) -> Self {
        #[cfg(target_os = "linux")]
        {
            let flags = rustix::fs::ResolveFlags::BENEATH | rustix::fs::ResolveFlags::NO_SYMLINKS;
            // Old systems answer NOSYS and some container filters PERM; both mean "walk".
            if rustix::fs::openat2(root, ".", FOLDER, Mode::empty(), flags).is_ok() {
                return Self::Openat2;
            }
        }
        let _ = root;
        Self::Walk
    }
}

impl Jail {
    /// Opens a folder inside the jail.
    pub(super) fn open_folder(&self, path: &RelativePath) -> Result<OwnedFd, JailError> {
        self.open_at(path, FOLDER | OFlags::NOFOLLOW, Mode::empty(), "opening folder")
    }

    /// Opens whatever the flags ask for inside the jail.
    pub(super) fn open_at(
        &self,
        path: &RelativePath,
        flags: OFlags,
        mode: Mode,
        action: &'static str,
    ) -> Result<OwnedFd, JailError> {
        let failed = |errno| JailError::from_errno(action, path.as_path(), errno);
        if path.is_root() {
            return rustix::fs::openat(&self.root, ".", flags, mode).map_err(failed);
        }
        match self.resolver {
            #[cfg(target_os = "linux")]
            Resolver::Openat2 => open_beneath(self.root.as_fd(), path, flags, mode, self.mounts),
            Resolver::Walk => self.walk(path, flags, mode),
        }
        .map_err(failed)
    }

    /// Opens the folder `name` inside the open folder `parent`: no link, and no mount if refused.
    pub(super) fn open_child(
        &self,
        parent: BorrowedFd<'_>,
        name: impl rustix::path::Arg + Copy,
        mounts: Mounts,
    ) -> Result<OwnedFd, Errno> {
        let flags = FOLDER | OFlags::NOFOLLOW;
        match self.resolver {
            #[cfg(target_os = "linux")]
            Resolver::Openat2 => {
                let resolve = resolve_flags(mounts);
                retry_again(|| rustix::fs::openat2(parent, name, flags, Mode::empty(), resolve))
                    .map_err(|errno| refine(parent, name, errno))
            }
            Resolver::Walk => {
                let child = rustix::fs::openat(parent, name, flags, Mode::empty())
                    .map_err(|errno| refine(parent, name, errno))?;
                self.same_device(&child, mounts)?;
                Ok(child)
            }
        }
    }

    fn walk(&self, path: &RelativePath, flags: OFlags, mode: Mode) -> Result<OwnedFd, Errno> {
        let names: Vec<&OsStr> = path.components().collect();
        let Some((last, folders)) = names.split_last() else {
            return rustix::fs::openat(&self.root, ".", flags, mode);
        };
        let mut held: Option<OwnedFd> = None;
        for name in folders {
            let parent = held.as_ref().map_or_else(|| self.root.as_fd(), AsFd::as_fd);
            held = Some(self.open_child(parent, *name, self.mounts)?);
        }
        let parent = held.as_ref().map_or_else(|| self.root.as_fd(), AsFd::as_fd);
        let opened = rustix::fs::openat(parent, *last, flags | OFlags::NOFOLLOW, mode)
            .map_err(|errno| refine(parent, *last, errno))?;
        self.same_device(&opened, self.mounts)?;
        Ok(opened)
    }

    fn same_device(&self, handle: &OwnedFd, mounts: Mounts) -> Result<(), Errno> {
        match mounts {
            Mounts::Follow => Ok(()),
            Mounts::Refuse if rustix::fs::fstat(handle)?.st_dev == self.stat.st_dev => Ok(()),
            Mounts::Refuse => Err(Errno::XDEV),
        }
    }
}

#[cfg(target_os = "linux")]
fn open_beneath(
    root: BorrowedFd<'_>,
    path: &RelativePath,
    flags: OFlags,
    mode: Mode,
    mounts: Mounts,
) -> Result<OwnedFd, Errno> {
    let resolve = resolve_flags(mounts);
    retry_again(|| rustix::fs::openat2(root, path.as_path(), flags, mode, resolve)).map_err(|errno| {
        // A link as last component under O_DIRECTORY reads as "no folder"; say what it is.
        if errno == Errno::NOTDIR { refine(root, path.as_path(), errno) } else { errno }
    })
}

#[cfg(target_os = "linux")]
fn resolve_flags(mounts: Mounts) -> rustix::fs::ResolveFlags {
    use rustix::fs::ResolveFlags;
    let flags = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    match mounts {
        Mounts::Follow => flags,
        Mounts::Refuse => flags | ResolveFlags::NO_XDEV,
    }
}

/// `openat2` answers AGAIN when a rename elsewhere raced with it; a few tries settle that.
#[cfg(target_os = "linux")]
fn retry_again<T>(mut call: impl FnMut() -> Result<T, Errno>) -> Result<T, Errno> {
    let mut last = Errno::AGAIN;
    for _ in 0..32 {
        match call() {
            Err(errno @ (Errno::AGAIN | Errno::INTR)) => last = errno,
            settled => return settled,
        }
    }
    Err(last)
}

/// Tells a link from a plain non-folder: systems differ in the error they give for it.
fn refine(parent: BorrowedFd<'_>, name: impl rustix::path::Arg, errno: Errno) -> Errno {
    if !matches!(errno, Errno::NOTDIR | Errno::MLINK) {
        return errno;
    }
    match rustix::fs::statat(parent, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) if FileType::from_raw_mode(stat.st_mode) == FileType::Symlink => Errno::LOOP,
        _ => Errno::NOTDIR,
    }
}
