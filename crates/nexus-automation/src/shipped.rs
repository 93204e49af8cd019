//! The four automations that come with Nexus.
//! boot-md: sends the owner's BOOT.md to the assistant when the daemon is ready.

mod command_logger;
mod episodes;
mod learned;
mod reader;
mod writer;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use nexus_base::file;
use nexus_store::runtime::{AutomationMode, NewAutomation};
use nexus_workspace::Layout;
use serde_json::json;

use crate::hook_point::HookPoint;
use crate::ports::{Handler, Run, RunError, Speak};
use crate::verdict::Verdict;

pub use self::command_logger::CommandLogger;
pub use self::episodes::{Episode, Tell};
pub use self::reader::{MEMORY_CONTEXT, Reader, view};
pub use self::writer::{OpenTurn, Writer, WriterParts};

/// Version of the shipped definitions.
const SEED_VERSION: u32 = 1;

/// One shipped automation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shipped {
    pub name: &'static str,
    /// What it does, for people.
    pub description: &'static str,
    /// Where it runs.
    pub hook_point: HookPoint,
    /// Whether the turn waits for it.
    pub blocking: bool,
    /// Longest it may take; the runner's default when absent.
    pub timeout: Option<Duration>,
    /// The automation whose folder it shares, for those that have a folder of their own.
    pub peer: Option<&'static str>,
}

/// All of them, in the order they are seeded.
pub const SHIPPED: [Shipped; 4] = [
    Shipped {
        name: "memory-reader",
        description: "Looks up what memory knows before a worker starts",
        hook_point: HookPoint::WorkerPreExecution,
        blocking: true,
        timeout: Some(Duration::from_secs(10)),
        peer: Some("memory-writer"),
    },
    Shipped {
        name: "memory-writer",
        description: "Stores what will matter later from each finished turn",
        hook_point: HookPoint::AfterRunAgent,
        blocking: false,
        timeout: Some(Duration::from_secs(30)),
        peer: Some("memory-reader"),
    },
    Shipped {
        name: "command-logger",
        description: "Logs every command an agent ran to state/logs/commands.jsonl",
        hook_point: HookPoint::CommandExecute,
        blocking: false,
        timeout: None,
        peer: None,
    },
    Shipped {
        name: "boot-md",
        description: "Sends BOOT.md to the assistant when the daemon is ready, if the file exists",
        hook_point: HookPoint::RuntimeStartup,
        blocking: false,
        timeout: None,
        peer: None,
    },
];

impl Shipped {
    /// Tells whether it has a folder of its own. Those that have one share it with a peer.
    pub const fn has_workspace(&self) -> bool {
        self.peer.is_some()
    }

    /// Returns where its code is: in this program, not in a file.
    pub fn script_path(&self) -> String {
        format!("builtin:{}", self.name)
    }

    pub(crate) fn to_row(self, layout: &Layout) -> NewAutomation {
        let workspace = layout.automation_workspaces().join(self.name);
        NewAutomation {
            name: self.name.to_owned(),
            description: self.description.to_owned(),
            mode: AutomationMode::Persistent,
            script_path: self.script_path(),
            script_hash: None,
            triggers: None,
            config: None,
            hook_point: self.hook_point.as_str().to_owned(),
            workspace_dir: self.has_workspace().then(|| relative(layout, &workspace)),
            peer_workspaces: self.peer.map(|peer| json!([peer])),
            self_improvement: self.has_workspace(),
            timeout_ms: self.timeout.and_then(|limit| u64::try_from(limit.as_millis()).ok()),
            blocking: self.blocking,
            bundled: true,
            seed_version: Some(SEED_VERSION),
        }
    }
}

/// Returns a path as rows and files carry it: from the root, so that a workspace can be moved.
pub(crate) fn relative(layout: &Layout, path: &Path) -> String {
    path.strip_prefix(layout.root()).unwrap_or(path).display().to_string()
}

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
