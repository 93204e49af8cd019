//! The same methods while no daemon runs: only the databases that a method names are opened, and the workspace is
//! locked while something is written.

use nexus_base::lock::{HeldLock, LockError};
use nexus_pipeline::RuntimeError;
use nexus_protocol::methods::Method;
use nexus_store::{OpenMode, Store};
use nexus_workspace::StartOptions;
use serde_json::Value;

use crate::call::{Call, internal};
use crate::table::{self, Needs};
use crate::{Caller, Operations};

/// The methods that need no daemon.
#[derive(Debug, Clone)]
pub struct OfflineOperations {
    options: StartOptions,
}

impl Operations {
    /// Serves the person at the terminal out of the files; nothing is opened before the first call.
    pub const fn offline(options: StartOptions) -> OfflineOperations {
        OfflineOperations { options }
    }
}

impl OfflineOperations {
    /// Carries out one method for the owner.
    ///
    /// # Errors
    /// [`RuntimeError::NeedsDaemon`] for what only a daemon can do; else the parameters are wrong, or it did not work.
    pub async fn call(&self, method: Method, params: Option<Value>) -> Result<Value, RuntimeError> {
        let databases = match table::needs(method) {
            Needs::Daemon => return Err(RuntimeError::NeedsDaemon { method: method.entry().name }),
            Needs::Databases(databases) => databases,
        };
        let layout = &self.options.layout;
        let writes = method.entry().is_mutating() && !databases.is_empty();
        let lock = writes
            .then(|| HeldLock::acquire_with_folder(&layout.lock(), &layout.data()))
            .transpose()
            .map_err(|error| match error {
                LockError::Held { .. } => RuntimeError::NotServing { state: "starting" },
                LockError::File(error) => internal(&error),
            })?;
        let mode = if writes { OpenMode::ReadWrite } else { OpenMode::ReadOnly };
        let store = Store::open_only(&layout.data(), mode, databases)?;
        let caller = Caller::at_terminal();
        let call = Call { method, caller: &caller, options: &self.options, store: &store, running: None };
        let answer = table::dispatch(&call, params).await;
        store.close().await;
        if let Some(lock) = lock {
            lock.release();
        }
        answer
    }
}
