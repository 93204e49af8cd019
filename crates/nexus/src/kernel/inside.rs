//! What only the binary knows about the inside of a workspace: how a Nexus workspace is made there,
//! whether its daemon runs, and how that is stopped.

use nexus_kernel::Hooks;
use nexus_workspace::Layout;

use crate::commands;

/// Returns the closures the Kernel works with.
pub(super) fn hooks() -> Hooks {
    Hooks {
        init: Some(Box::new(|path| {
            commands::init::make(&Layout::new(path)).map(drop).map_err(|failure| failure.to_string())
        })),
        in_use: Some(Box::new(|path| nexus_base::lock::holder(&Layout::new(path).lock()).is_some())),
        stop: Some(Box::new(|path| {
            let layout = Layout::new(path);
            let holder = nexus_base::lock::holder(&layout.lock()).and_then(|pid| i32::try_from(pid).ok());
            match holder.and_then(rustix::process::Pid::from_raw) {
                Some(pid) => commands::stop::end(&layout, pid).map_err(|failure| failure.to_string()),
                None => Ok(()),
            }
        })),
    }
}
