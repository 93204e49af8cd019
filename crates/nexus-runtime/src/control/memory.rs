//! Memory over the control plane. Whoever may call these methods acts for the owner.

use nexus_memory::MemoryError;
use nexus_protocol::methods::Method;
use serde_json::Value;

use super::{broken, missing, nothing, read, shown};
use crate::{Runtime, RuntimeError};
use nexus_pipeline::memory_service::MemoryService;

impl Runtime {
    pub(super) async fn memory_call(
        &self,
        method: Method,
        params: Option<Value>,
    ) -> Result<Value, RuntimeError> {
        let shared = &self.shared;
        let memory = shared.agent_factory.memory.clone();
        let service = MemoryService::new(memory, shared.store.clone(), shared.control.options.layout.clone());
        match method {
            Method::MemoryAdd => shown(&service.add(read(params)?).await.map_err(refused)?),
            Method::MemoryChanges => shown(&service.changes(read(params)?).await.map_err(refused)?),
            Method::MemoryForget => shown(&service.forget(read(params)?).await.map_err(refused)?),
            Method::MemoryEntities => {
                nothing(params)?;
                shown(&service.entities().await.map_err(refused)?)
            }
            Method::MemoryStats => {
                nothing(params)?;
                shown(&service.stats().await.map_err(refused)?)
            }
            // Only methods of memory come here.
            _ => shown(&service.recall(read(params)?).await.map_err(refused)?),
        }
    }
}

fn refused(error: MemoryError) -> RuntimeError {
    match error {
        MemoryError::Unknown { id } => missing("fact or event", id),
        MemoryError::Empty | MemoryError::TooLong { .. } | MemoryError::Busy { .. } => {
            RuntimeError::Invalid { message: error.to_string(), hint: error.hint() }
        }
        MemoryError::Interrupted | MemoryError::Files { .. } | MemoryError::Store(_) => broken(&error),
    }
}
