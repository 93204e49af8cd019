//! Access to the memory: through the daemon, or over the files while none is running.

use nexus_base::lock::HeldLock;
use nexus_client::Client;
use nexus_memory::{Memory, MemoryError};
use nexus_protocol::memory::{
    MemoryAdd, MemoryAdded, MemoryChangesOf, MemoryEntities, MemoryForget, MemoryForgotten, MemoryFound,
    MemoryRecall, MemoryStats,
};
use nexus_protocol::methods::Method;
use nexus_runtime::MemoryService;
use nexus_store::{OpenMode, Store};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::json;

use super::super::{Reached, reach};
use crate::context::Context;
use crate::failure::{Exit, Failure};

/// Access to the memory.
pub(in crate::commands) enum Backend {
    Daemon(Client),
    Files { service: Box<MemoryService>, store: Store, lock: Option<HeldLock> },
}

impl Backend {
    /// Looks only.
    pub(in crate::commands) fn to_read(context: &Context) -> Result<Self, Failure> {
        Self::reach(context, OpenMode::ReadOnly, Memory::read_only)
    }

    /// Changes something.
    pub(in crate::commands) fn to_write(context: &Context) -> Result<Self, Failure> {
        Self::reach(context, OpenMode::ReadWrite, Memory::new)
    }

    fn reach(context: &Context, mode: OpenMode, memory: fn(&Store) -> Memory) -> Result<Self, Failure> {
        Ok(match reach(context, mode)? {
            Reached::Daemon(client) => Self::Daemon(client),
            Reached::Files { layout, store, lock } => {
                let service = Box::new(MemoryService::new(memory(&store), store.clone(), *layout));
                Self::Files { service, store, lock }
            }
        })
    }

    pub(in crate::commands) fn recall(self, asked: MemoryRecall) -> Result<MemoryFound, Failure> {
        self.go(Method::MemoryRecall, &asked.clone(), async |service| service.recall(asked).await)
    }

    pub(in crate::commands) fn add(self, asked: MemoryAdd) -> Result<MemoryAdded, Failure> {
        self.go(Method::MemoryAdd, &asked.clone(), async |service| service.add(asked).await)
    }

    pub(super) fn changes(self, asked: MemoryChangesOf) -> Result<MemoryFound, Failure> {
        self.go(Method::MemoryChanges, &asked.clone(), async |service| service.changes(asked).await)
    }

    pub(super) fn forget(self, asked: MemoryForget) -> Result<MemoryForgotten, Failure> {
        self.go(Method::MemoryForget, &asked.clone(), async |service| service.forget(asked).await)
    }

    pub(super) fn entities(self) -> Result<MemoryEntities, Failure> {
        self.go(Method::MemoryEntities, &json!({}), async |service| service.entities().await)
    }

    pub(super) fn stats(self) -> Result<MemoryStats, Failure> {
        self.go(Method::MemoryStats, &json!({}), async |service| service.stats().await)
    }

    fn go<P: Serialize, T: DeserializeOwned>(
        self,
        method: Method,
        params: &P,
        here: impl AsyncFnOnce(&MemoryService) -> Result<T, MemoryError>,
    ) -> Result<T, Failure> {
        let runtime = super::super::client_runtime()?;
        match self {
            Self::Daemon(client) => {
                let answer = runtime.block_on(client.call(method, params));
                answer.map_err(Failure::from)
            }
            Self::Files { service, store, lock } => {
                let answer = runtime.block_on(async {
                    let answer = here(&service).await;
                    store.close().await;
                    answer
                });
                if let Some(lock) = lock {
                    lock.release();
                }
                answer.map_err(|error| {
                    let exit = match &error {
                        MemoryError::Unknown { .. } => Exit::Missing,
                        MemoryError::Empty | MemoryError::TooLong { .. } => Exit::Usage,
                        MemoryError::Busy { .. }
                        | MemoryError::Files { .. }
                        | MemoryError::Interrupted
                        | MemoryError::Store(_) => Exit::Failed,
                    };
                    Failure::caused(&error).maybe_hint(error.hint()).exit(exit)
                })
            }
        }
    }
}
