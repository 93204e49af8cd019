//! Where things lie below the run folder, and whether that folder can be trusted.

use std::fs::Metadata;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use nexus_base::file::{self, FileError};

use crate::ws_id::WsId;

/// The longest path a unix socket can have, its NUL not counted.
pub const MAX_SOCKET_PATH_BYTES: usize = 107;

/// Why the run folder cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum RunDirError {
    /// A socket path would be cut by the operating system.
    #[error("{} is {} bytes long; a socket path may have at most {MAX_SOCKET_PATH_BYTES}", path.display(), path.as_os_str().len())]
    PathTooLong {
        /// The socket path.
        path: PathBuf,
    },
    /// Others could plant things in it.
    #[error("{} belongs to user {owner} and has mode {mode:o}; it must belong to you and be writable by you alone", path.display())]
    NotPrivate {
        /// The folder.
        path: PathBuf,
        owner: u32,
        /// Its permission bits.
        mode: u32,
    },
    /// It cannot be made or opened.
    #[error(transparent)]
    File(#[from] FileError),
}

impl RunDirError {
    /// Returns what a person can do about it.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::PathTooLong { .. } => Some("set NEXUS_RUN_DIR to a shorter path"),
            Self::NotPrivate { .. } => {
                Some("run `chmod go-w` on it, or set NEXUS_RUN_DIR to a folder of your own")
            }
            Self::File(_) => None,
        }
    }
}

/// The run folder: the jail of all workspaces, with the planes' own folders beside them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunDir(PathBuf);

impl RunDir {
    /// Names a run folder; touches nothing.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self(path.into())
    }

    /// Makes the folder and the planes' folders if missing, and refuses one that others can change.
    pub fn prepare(&self) -> Result<(), RunDirError> {
        for socket in [self.root_socket(), self.kernel_socket()] {
            if socket.as_os_str().len() > MAX_SOCKET_PATH_BYTES {
                return Err(RunDirError::PathTooLong { path: socket });
            }
        }
        file::create_folder(&self.0, 0o700)?;
        let metadata = inspected(&self.0, std::fs::metadata(&self.0))?;
        let (owner, mode) = (metadata.uid(), metadata.mode() & 0o7777);
        if owner != rustix::process::geteuid().as_raw() || mode & 0o022 != 0 {
            return Err(RunDirError::NotPrivate { path: self.0.clone(), owner, mode });
        }
        for plane in ["root", "kernel"] {
            let folder = self.0.join(plane);
            file::create_folder(&folder, 0o700)?;
            if !inspected(&folder, std::fs::symlink_metadata(&folder))?.is_dir() {
                return Err(FileError::new("opening folder", &folder, not_a_folder()).into());
            }
            // The sockets are born inside, so nobody else may look in before they get their mode.
            file::set_mode(&folder, 0o700)?;
        }
        Ok(())
    }

    /// Returns the folder.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Returns where a workspace lies.
    pub fn workspace(&self, id: &WsId) -> PathBuf {
        self.0.join(id.as_str())
    }

    /// Returns where clients connect.
    pub fn root_socket(&self) -> PathBuf {
        self.0.join("root/root.sock")
    }

    /// Returns where Root connects.
    pub fn kernel_socket(&self) -> PathBuf {
        self.0.join("kernel/control.sock")
    }

    /// Returns Root's log.
    pub fn root_log(&self) -> PathBuf {
        self.0.join("root/root.log")
    }

    /// Returns the Kernel's log.
    pub fn kernel_log(&self) -> PathBuf {
        self.0.join("kernel/kernel.log")
    }

    /// Returns the lock of whoever serves Root here.
    pub fn root_lock(&self) -> PathBuf {
        self.0.join("root/root.lock")
    }

    /// Returns the lock of whoever changes workspaces here.
    pub fn kernel_lock(&self) -> PathBuf {
        self.0.join("kernel/kernel.lock")
    }
}

fn inspected(path: &Path, metadata: io::Result<Metadata>) -> Result<Metadata, FileError> {
    metadata.map_err(|source| FileError::new("inspecting", path, source))
}

fn not_a_folder() -> io::Error {
    io::Error::from(io::ErrorKind::NotADirectory)
}
