//! What a daemon of the workspace is started with: the place, and everything of the world outside that it may look at.

use std::path::PathBuf;
use std::sync::Arc;

use nexus_base::redact::Redactor;

use crate::Layout;
use crate::trust::{self, Trust, TrustFolder};

/// What `nexus start` was told.
#[derive(Debug, Clone)]
pub struct StartOptions {
    /// The workspace.
    pub layout: Layout,
    /// Where trust records lie.
    pub trust_folder: TrustFolder,
    /// Port to use instead of the configured one.
    pub port: Option<u16>,
    /// The environment as it was at start; the only copy the daemon looks at.
    pub environment: Vec<(String, String)>,
    /// The person's home folder.
    pub home: PathBuf,
    /// The one redactor of this process; the log has it, too.
    pub redactor: Arc<Redactor>,
}

impl StartOptions {
    /// Returns whose the workspace is; doubt means that it is a stranger's.
    pub fn standing(&self) -> Trust {
        trust::standing(&self.trust_folder, &self.layout).unwrap_or(Trust::NoRecord)
    }

    /// Returns the folders that programs are looked up in.
    pub fn programs(&self) -> Vec<PathBuf> {
        let path = self.environment.iter().find(|(name, _)| name == "PATH");
        path.map(|(_, folders)| std::env::split_paths(folders).collect()).unwrap_or_default()
    }
}
