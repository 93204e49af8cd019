//! Which texts are paths inside a jail. Pure: touches no file.

use std::ffi::OsStr;
use std::fmt;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use super::JailError;

/// The longest path the jail takes.
pub const MAX_PATH_BYTES: usize = 4_000;
/// The longest single name the jail takes.
pub const MAX_COMPONENT_BYTES: usize = 255;
/// The most folders deep a path may go.
pub const MAX_COMPONENTS: usize = 256;

/// What is wrong with a path text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PathFault {
    /// No text at all.
    Empty,
    /// It starts at the root of the file system.
    Absolute,
    /// It has a `..` component.
    Parent,
    /// It has an empty component: a doubled or trailing slash.
    EmptyComponent,
    /// It holds a NUL byte.
    Nul,
    /// A name, or the whole, is too long or too deep.
    TooLong,
}

impl fmt::Display for PathFault {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Empty => "it is empty",
            Self::Absolute => "it is absolute",
            Self::Parent => "it contains `..`",
            Self::EmptyComponent => "it has an empty component",
            Self::Nul => "it contains a NUL byte",
            Self::TooLong => "it is too long or too deep",
        })
    }
}

/// A checked path below a jail's root; `.` components are gone, the root itself is no components.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RelativePath(PathBuf);

/// Checks the text of a path. `.` means the root of the jail.
///
/// # Errors
/// [`JailError::Escape`] with the fault.
pub fn check_relative(path: impl AsRef<Path>) -> Result<RelativePath, JailError> {
    let path = path.as_ref();
    match fault_of(path.as_os_str().as_bytes()) {
        Some(fault) => Err(JailError::Escape { path: path.to_owned(), fault }),
        None => Ok(RelativePath(path.iter().filter(|name| *name != OsStr::new(".")).collect())),
    }
}

fn fault_of(bytes: &[u8]) -> Option<PathFault> {
    if bytes.is_empty() {
        return Some(PathFault::Empty);
    }
    if bytes.len() > MAX_PATH_BYTES {
        return Some(PathFault::TooLong);
    }
    if bytes.contains(&0) {
        return Some(PathFault::Nul);
    }
    if bytes.starts_with(b"/") {
        return Some(PathFault::Absolute);
    }
    let mut count = 0;
    for component in bytes.split(|&byte| byte == b'/') {
        match component {
            b"" => return Some(PathFault::EmptyComponent),
            b".." => return Some(PathFault::Parent),
            name if name.len() > MAX_COMPONENT_BYTES => return Some(PathFault::TooLong),
            _ => count += 1,
        }
    }
    (count > MAX_COMPONENTS).then_some(PathFault::TooLong)
}

impl RelativePath {
    /// Returns the path; `.` for the root.
    pub fn as_path(&self) -> &Path {
        if self.0.as_os_str().is_empty() { Path::new(".") } else { &self.0 }
    }

    /// Returns whether this is the root of the jail.
    pub fn is_root(&self) -> bool {
        self.0.as_os_str().is_empty()
    }

    /// Returns the names from the root down.
    pub(super) fn components(&self) -> impl Iterator<Item = &OsStr> {
        self.0.iter()
    }

    /// Splits into the folder and the last name; nothing for the root.
    pub(super) fn split(&self) -> Option<(RelativePath, &OsStr)> {
        let name = self.0.file_name()?;
        let folder = self.0.parent().map(Path::to_owned).unwrap_or_default();
        Some((RelativePath(folder), name))
    }
}

impl AsRef<Path> for RelativePath {
    fn as_ref(&self) -> &Path {
        self.as_path()
    }
}

impl From<RelativePath> for PathBuf {
    fn from(path: RelativePath) -> Self {
        path.0
    }
}
