//! boot-md: sends the owner's BOOT.md to the assistant when the daemon is ready.

use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use nexus_base::file;
use nexus_workspace::Layout;
use serde_json::json;

use crate::handler::{Handler, Run, RunError};
use crate::ports::Speak;
use crate::verdict::Verdict;

/// Largest BOOT.md.
const MAX_SIZE: u64 = 64 * 1024;

/// Sends BOOT.md.
pub struct BootMd {
    path: PathBuf,
    speak: Arc<dyn Speak>,
    /// Whether the owner vouched for this workspace; a copied one brings somebody else's words.
    is_trusted: Box<dyn Fn() -> bool + Send + Sync>,
}

impl std::fmt::Debug for BootMd {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("BootMd").field("path", &self.path).finish_non_exhaustive()
    }
}

impl BootMd {
    /// Sends the BOOT.md of a workspace, while it is trusted.
    pub fn new(
        layout: &Layout,
        speak: Arc<dyn Speak>,
        is_trusted: Box<dyn Fn() -> bool + Send + Sync>,
    ) -> Self {
        Self { path: layout.boot_md(), speak, is_trusted }
    }
}

#[async_trait]
impl Handler for BootMd {
    async fn run(&self, run: &Run) -> Result<Verdict, RunError> {
        let nothing = |why: &str| Ok(Verdict { note: Some(json!(why)), ..Verdict::default() });
        let is_file = std::fs::symlink_metadata(&self.path).map(|found| found.is_file());
        match is_file {
            Ok(true) => {}
            Ok(false) => return Err(RunError(format!("{} is not a regular file", self.path.display()))),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return nothing("no BOOT.md"),
            Err(error) => return Err(RunError(format!("{}: {error}", self.path.display()))),
        }
        if !(self.is_trusted)() {
            return nothing("the workspace is not trusted");
        }
        let text = file::read_text(&self.path, MAX_SIZE)
            .map_err(|error| RunError(format!("{error}: {}", error.source)))?;
        if text.trim().is_empty() {
            return nothing("BOOT.md is empty");
        }
        self.speak.say(&format!("boot:{}", run.invocation), &text).await?;
        Ok(Verdict { fired: true, ..Verdict::default() })
    }
}
