//! Sandbox profiles: what a program may touch. Everything not granted is denied.
//!
//! A profile is data. The helper ([`sandbox_entry`]) turns it into mounts, Landlock rules, a system call filter
//! and limits on processes of its own, so no code runs between fork and exec in the daemon. How much of that
//! this machine allows is its [`Tier`].

mod entry;
mod grants;
mod support;
mod tier;

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod broker;
#[cfg(target_os = "linux")]
mod confine;
#[cfg(target_os = "linux")]
mod descendants;
#[cfg(target_os = "linux")]
mod filter;
#[cfg(target_os = "linux")]
mod init;
#[cfg(target_os = "linux")]
mod mounts;
#[cfg(target_os = "linux")]
mod namespaces;
#[cfg(target_os = "linux")]
mod rules;
#[cfg(target_os = "linux")]
mod supervise;

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

pub use entry::{HELPER_ARGUMENT, run_if_sandbox_helper, sandbox_entry};
pub use grants::Toolchains;
pub use support::{SandboxSupport, support};
pub(crate) use tier::tier_of;
pub use tier::{Tier, known_tier, tier, tier_with};

/// What may be done below a granted path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Access {
    /// Read files and list folders.
    Read,
    /// Read and execute.
    Execute,
    /// Read, write, create, rename and remove, but not execute.
    Edit,
    /// Read, execute, write, create, rename and remove.
    Write,
    /// Read and write an existing file or device, nothing else.
    Device,
}

/// Whether a granted path may lead through symbolic links.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Links {
    /// System paths, which only an administrator can change.
    Follow,
    /// Paths a tool could have replaced by a link to something else.
    Refuse,
}

/// One path a program may use.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Grant {
    /// The file or folder; a folder stands for everything below it.
    pub path: PathBuf,
    /// What may be done.
    pub access: Access,
    /// Whether links are followed to reach it.
    pub links: Links,
    /// Whether a missing path stops the launch.
    pub required: bool,
}

/// Whether a program may talk to the network.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Network {
    /// No sockets at all but connected pairs between its own processes.
    Off,
    /// Internet sockets; local (Unix) sockets stay closed, they lead to other programs of the owner.
    On,
}

/// Resource limits; `None` leaves the limit as it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// Seconds of processor time per process.
    pub cpu_seconds: Option<u64>,
    /// Bytes of private memory per process.
    pub data_bytes: Option<u64>,
    /// Bytes of the longest file that may be written.
    pub file_bytes: Option<u64>,
    /// Open files per process.
    pub open_files: Option<u64>,
    /// Processes of the whole user; not applied to root, whom the kernel does not count.
    pub processes: Option<u64>,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            cpu_seconds: Some(3600),
            data_bytes: Some(16 << 30),
            file_bytes: Some(8 << 30),
            open_files: Some(4096),
            processes: Some(8192),
        }
    }
}

/// Why a profile is not acceptable.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum SandboxError {
    /// A grant would open something that must stay closed.
    #[error("a sandbox may not be given {}: it contains {}", grant.display(), protected.display())]
    Uncovers {
        /// The path that was to be granted.
        grant: PathBuf,
        /// What must stay closed.
        protected: PathBuf,
    },
    /// A path must be absolute.
    #[error("{} is not an absolute path", path.display())]
    Relative {
        /// The path as given.
        path: PathBuf,
    },
}

/// What a program may touch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SandboxProfile {
    grants: Vec<Grant>,
    protected: Vec<PathBuf>,
    /// Whether folders all programs share, where they are emptied for this one, can be written to.
    private_folders: bool,
    /// Whether it may use the network.
    pub network: Network,
    /// Its resource limits.
    pub limits: Limits,
}

impl SandboxProfile {
    /// Makes a profile that grants the system's programs, libraries and harmless devices, read-only.
    pub fn system() -> Self {
        Self {
            grants: grants::system(),
            protected: Vec::new(),
            private_folders: true,
            network: Network::Off,
            limits: Limits::default(),
        }
    }

    /// Makes a profile for `program` alone: it reads what [`SandboxProfile::system`] grants, and no other program of
    /// the system, the shell included, can be executed.
    pub fn only(program: &Path) -> Self {
        Self { grants: grants::only(program), private_folders: false, ..Self::system() }
    }

    /// Closes `path` for good: no grant may contain it. System grants that would are dropped.
    #[must_use]
    pub fn protect(mut self, path: impl Into<PathBuf>) -> Self {
        let path = path.into();
        self.grants.retain(|grant| grant.required || !path.starts_with(resolved(&grant.path)));
        self.protected.push(path);
        self
    }

    /// Grants reading below `path`, if it exists when the program starts.
    #[must_use]
    pub fn read(self, path: impl Into<PathBuf>) -> Self {
        self.grant(path.into(), Access::Read, false)
    }

    /// Grants reading and executing below `path`, if it exists when the program starts.
    #[must_use]
    pub fn execute(self, path: impl Into<PathBuf>) -> Self {
        self.grant(path.into(), Access::Execute, false)
    }

    /// Grants reading and changing what is below `path`, which must exist when the program starts, but not executing.
    #[must_use]
    pub fn edit(self, path: impl Into<PathBuf>) -> Self {
        self.grant(path.into(), Access::Edit, true)
    }

    /// Grants everything below `path`, which must exist when the program starts.
    #[must_use]
    pub fn write(self, path: impl Into<PathBuf>) -> Self {
        self.grant(path.into(), Access::Write, true)
    }

    /// Grants the owner's toolchains, read-only.
    #[must_use]
    pub fn toolchains(mut self, toolchains: &Toolchains) -> Self {
        self.grants.extend(toolchains.grants());
        self
    }

    /// Opens or closes the network.
    #[must_use]
    pub fn network(mut self, network: Network) -> Self {
        self.network = network;
        self
    }

    /// Replaces the limits.
    #[must_use]
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Returns the folders the program may write to.
    pub fn writable(&self) -> impl Iterator<Item = &Path> {
        let writable = |grant: &&Grant| matches!(grant.access, Access::Write | Access::Edit);
        self.grants.iter().filter(writable).map(|grant| grant.path.as_path())
    }

    /// Returns every grant.
    pub fn grants(&self) -> &[Grant] {
        &self.grants
    }

    /// Checks that nothing granted contains anything protected.
    pub fn check(&self) -> Result<(), SandboxError> {
        for grant in &self.grants {
            if !grant.path.is_absolute() {
                return Err(SandboxError::Relative { path: grant.path.clone() });
            }
            let real = resolved(&grant.path);
            for protected in &self.protected {
                if resolved(protected).starts_with(&real) || protected.starts_with(&grant.path) {
                    return Err(SandboxError::Uncovers {
                        grant: grant.path.clone(),
                        protected: protected.clone(),
                    });
                }
            }
        }
        Ok(())
    }

    fn grant(mut self, path: PathBuf, access: Access, required: bool) -> Self {
        self.grants.push(Grant { path, access, links: Links::Refuse, required });
        self
    }
}

/// The path without links as far as it exists; a path that does not exist stands for itself.
fn resolved(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| path.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_grant_above_something_protected_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("workspace");
        std::fs::create_dir_all(root.join("home")).unwrap();
        let profile = || SandboxProfile::system().protect(&root);
        profile().write(root.join("home")).check().unwrap();
        for open in [root.clone(), folder.path().to_owned(), PathBuf::from("/")] {
            assert!(matches!(profile().write(&open).check(), Err(SandboxError::Uncovers { .. })), "{open:?}");
            assert!(matches!(profile().read(&open).check(), Err(SandboxError::Uncovers { .. })), "{open:?}");
        }
    }

    #[test]
    fn a_link_to_something_protected_is_seen_through() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("workspace");
        std::fs::create_dir_all(&root).unwrap();
        let link = folder.path().join("link");
        std::os::unix::fs::symlink(&root, &link).unwrap();
        let profile = SandboxProfile::system().protect(&root).read(&link);
        assert!(matches!(profile.check(), Err(SandboxError::Uncovers { .. })));
    }

    #[test]
    fn a_workspace_inside_a_system_folder_closes_that_folder() {
        let profile = SandboxProfile::system().protect("/opt/assistant");
        assert!(profile.grants().iter().all(|grant| grant.path != Path::new("/opt")));
        profile.check().unwrap();
    }
}
