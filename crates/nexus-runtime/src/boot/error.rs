//! Why the daemon did not start, with what to do about it.

use std::path::PathBuf;

use nexus_store::StoreError;
use nexus_workspace::config::ConfigError;

/// Why the daemon did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error("no workspace at {}", .0.display())]
    NoWorkspace(PathBuf),
    /// A daemon already runs here.
    #[error("a daemon is already running for this workspace{}", .0.map(|pid| format!(", process {pid}")).unwrap_or_default())]
    AlreadyRunning(Option<u32>),
    /// The lock file is unusable.
    #[error(transparent)]
    Lock(nexus_base::file::FileError),
    /// The configuration cannot be used.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// A database cannot be used.
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("port {port} is taken{}", .holder.map(|pid| format!(" by process {pid}")).unwrap_or_default())]
    PortTaken {
        port: u16,
        /// Who has it, where that can be seen.
        holder: Option<u32>,
    },
    /// The port cannot be used.
    #[error("listening on port {port}")]
    Listen {
        port: u16,
        /// Why not.
        #[source]
        source: std::io::Error,
    },
    /// The operating system refused signals or serving.
    #[error("serving")]
    Serve(#[source] std::io::Error),
}

impl StartError {
    /// Returns what a person can do about it.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::NoWorkspace(path) => Some(format!("`nexus init --workspace {}` creates one", path.display())),
            Self::AlreadyRunning(_) => Some("`nexus stop` stops it; `nexus up` attaches to it".to_owned()),
            Self::Lock(_) => Some("check the owner and permissions of the workspace's state folder".to_owned()),
            Self::Config(error) => Some(error.hint()),
            Self::Store(error) => error.hint(),
            Self::PortTaken { .. } => Some(
                "`--port N` uses another one this time, `nexus config set runtime.port N` permanently; `--port 0` \
                 picks a free one"
                    .to_owned(),
            ),
            Self::Listen { .. } => Some("`--port N` uses another one".to_owned()),
            Self::Serve(_) => None,
        }
    }
}
