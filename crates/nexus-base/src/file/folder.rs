//! The folder a file lies in, reached without following a link on any part of the way.

use std::ffi::OsStr;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Component, Path};

use rustix::fs::{CWD, FileType, Mode, OFlags};
use rustix::io::Errno;

use super::{Created, FileError};

/// How a folder is opened to work in it.
const FOLDER: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// An open folder and the name in it that a path ends with.
pub(super) struct Parent<'path> {
    pub(super) folder: OwnedFd,
    pub(super) name: &'path OsStr,
}

impl<'path> Parent<'path> {
    pub(super) fn of(path: &'path Path, action: &'static str) -> Result<Self, FileError> {
        let failed = |error| FileError::new(action, path, error);
        let name = path.file_name().ok_or_else(|| failed(io::Error::from(io::ErrorKind::InvalidInput)))?;
        let folder = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let folder = open(folder).map_err(|errno| failed(explain(errno)))?;
        Ok(Self { folder, name })
    }
}

/// Opens a folder. Linux refuses links itself (`openat2`); where that call is missing or filtered away, each part
/// is opened from the one before it.
pub(super) fn open(path: &Path) -> Result<OwnedFd, Errno> {
    #[cfg(target_os = "linux")]
    {
        use rustix::fs::ResolveFlags;
        let resolve = ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
        for _ in 0..32 {
            match rustix::fs::openat2(CWD, path, FOLDER, Mode::empty(), resolve) {
                // A rename elsewhere raced with it.
                Err(Errno::AGAIN | Errno::INTR) => {}
                Err(Errno::NOSYS | Errno::PERM) => break,
                Err(errno) => return Err(refine(path, errno)),
                Ok(folder) => return Ok(folder),
            }
        }
    }
    walk(path)
}

pub(super) fn walk(path: &Path) -> Result<OwnedFd, Errno> {
    // Folders on the way need not be readable, where the system can open them without reading.
    #[cfg(target_os = "linux")]
    let on_the_way = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    #[cfg(not(target_os = "linux"))]
    let on_the_way = FOLDER;
    let start = if path.is_absolute() { "/" } else { "." };
    let mut held = rustix::fs::open(start, on_the_way, Mode::empty())?;
    for part in path.components() {
        let name = match part {
            Component::Normal(name) => name,
            Component::ParentDir => OsStr::new(".."),
            Component::RootDir | Component::CurDir | Component::Prefix(_) => continue,
        };
        held = rustix::fs::openat(&held, name, on_the_way, Mode::empty())
            .map_err(|errno| refine_at(&held, name, errno))?;
    }
    rustix::fs::openat(&held, ".", FOLDER, Mode::empty())
}

/// A link in a folder's place reads as "no folder" on some systems; says what it is.
fn refine(path: &Path, errno: Errno) -> Errno {
    if errno == Errno::NOTDIR && path.is_symlink() { Errno::LOOP } else { errno }
}

fn refine_at(folder: &OwnedFd, name: &OsStr, errno: Errno) -> Errno {
    let is_link = || {
        rustix::fs::statat(folder, name, rustix::fs::AtFlags::SYMLINK_NOFOLLOW)
            .is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Symlink)
    };
    if matches!(errno, Errno::NOTDIR | Errno::MLINK) && is_link() { Errno::LOOP } else { errno }
}

/// Puts into words what the system says by number.
pub(super) fn explain(errno: Errno) -> io::Error {
    match errno {
        Errno::LOOP | Errno::MLINK => io::Error::new(
            io::ErrorKind::InvalidInput,
            "the path contains a symbolic link, and links are not followed here",
        ),
        // A pipe without a reader.
        Errno::NXIO => io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"),
        errno => errno.into(),
    }
}

/// Sets permission bits, also of what we may not open because of them.
pub(super) fn set_mode(parent: &Parent<'_>, mode: Mode) -> io::Result<()> {
    #[cfg(target_os = "linux")]
    {
        use std::os::fd::AsRawFd as _;
        use std::os::unix::fs::PermissionsExt as _;
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let handle = rustix::fs::openat(&parent.folder, parent.name, flags, Mode::empty())?;
        if FileType::from_raw_mode(rustix::fs::fstat(&handle)?.st_mode) == FileType::Symlink {
            return Err(explain(Errno::LOOP));
        }
        // Older systems have no call that takes such a handle; its name in /proc leads nowhere but to it.
        let place = format!("/proc/self/fd/{}", handle.as_raw_fd());
        std::fs::set_permissions(place, std::fs::Permissions::from_mode(mode.as_raw_mode()))
    }
    #[cfg(not(target_os = "linux"))]
    Ok(rustix::fs::chmodat(&parent.folder, parent.name, mode, rustix::fs::AtFlags::SYMLINK_NOFOLLOW)?)
}

/// Makes a folder and its missing parents, each with `mode`.
pub(super) fn create(path: &Path, mode: Mode) -> Result<Created, FileError> {
    let failed = |error| FileError::new("creating folder", path, error);
    match open(path) {
        Ok(_) => return Ok(Created::AlreadyThere),
        Err(Errno::NOENT) => {}
        // It is there, and writing into it is for whoever tries.
        Err(Errno::ACCESS) if path.is_dir() && !path.is_symlink() => return Ok(Created::AlreadyThere),
        Err(errno) => return Err(failed(explain(errno))),
    }
    if let Some(parent) = path.parent().filter(|parent| !parent.as_os_str().is_empty()) {
        create(parent, mode)?;
    }
    let parent = Parent::of(path, "creating folder")?;
    let created = match rustix::fs::mkdirat(&parent.folder, parent.name, mode) {
        Ok(()) => Created::New,
        Err(Errno::EXIST) => Created::AlreadyThere,
        Err(errno) => return Err(failed(errno.into())),
    };
    let made = rustix::fs::openat(&parent.folder, parent.name, FOLDER, Mode::empty())
        .map_err(|errno| failed(explain(refine_at(&parent.folder, parent.name, errno))))?;
    if created == Created::New {
        // The umask took its share of the mode above.
        rustix::fs::fchmod(&made, mode)
            .map_err(|errno| FileError::new("setting permissions of", path, errno.into()))?;
    }
    Ok(created)
}
