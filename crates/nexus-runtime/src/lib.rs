//! The daemon: boot order, reload, composition, the methods of its control plane; status and trace reports.

mod boot;
mod control;
mod memory_keeper;
pub mod report;
mod runtime;
mod signals;
pub mod skills;
mod tool_socket;
mod tool_sources;

pub use boot::{StartError, start};
pub use control::{Caller, automation_view, fresh_id, invocation_view, now, sample};
pub use nexus_pipeline::{Bus, BusReader, MemoryService, RuntimeError};
pub use runtime::Runtime;
