//! What the Kernel cannot know about the inside of a workspace, as closures from whoever does.

use std::fmt;
use std::path::Path;

/// Makes a Nexus workspace in the folder, or says why not.
pub type InitHook = Box<dyn Fn(&Path) -> Result<(), String> + Send + Sync>;
/// Tells whether a daemon runs in the folder.
pub type InUseHook = Box<dyn Fn(&Path) -> bool + Send + Sync>;
/// Stops the daemon in the folder and waits for its end, or says why not.
pub type StopHook = Box<dyn Fn(&Path) -> Result<(), String> + Send + Sync>;

/// The closures; without them workspaces are plain folders that are never in use.
#[derive(Default)]
pub struct Hooks {
    /// Serves `init` of create.
    pub init: Option<InitHook>,
    /// Guards destroy.
    pub in_use: Option<InUseHook>,
    /// Serves `stop` of destroy.
    pub stop: Option<StopHook>,
}

impl fmt::Debug for Hooks {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Hooks")
            .field("init", &self.init.is_some())
            .field("in_use", &self.in_use.is_some())
            .field("stop", &self.stop.is_some())
            .finish()
    }
}

/// Runs a hook on a thread of its own: it may need more stack than a connection has, and a panic in
/// it is an answer like any other.
pub(crate) fn run<T: Send>(hook: impl FnOnce() -> T + Send) -> Result<T, String> {
    std::thread::scope(|scope| {
        std::thread::Builder::new()
            .name("kernel-hook".into())
            .stack_size(8 * 1024 * 1024)
            .spawn_scoped(scope, hook)
            .map_err(|error| error.to_string())?
            .join()
            .map_err(|_| "the hook panicked".to_owned())
    })
}
