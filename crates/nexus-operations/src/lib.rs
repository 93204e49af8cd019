//! One handler for each method of the control plane. HTTP, WebSocket, the command line without a daemon and `nexus …`
//! inside a tool call all come here, each with a caller whose permissions decide.
//!
//! `table.rs` lists the methods with what each needs and who carries it out; a file per noun holds the handlers.

mod agents;
mod approvals;
mod automations;
mod call;
mod caller;
mod chat;
mod config;
mod credentials;
mod daemon;
mod logs;
mod memory;
mod metrics;
mod models;
mod offline;
mod operations;
mod report;
mod requests;
mod sessions;
mod skills;
mod status;
mod table;
mod tokens;
mod tool_socket;
mod tool_sources;
mod usage;

pub use caller::{Caller, CallerKind};
pub use config::policies_of;
pub use daemon::{BootNotes, Daemon, Lifecycle, Phase};
pub use nexus_pipeline::{Bus, BusReader, RuntimeError};
pub use offline::OfflineOperations;
pub use operations::{Operations, Reload};
pub use report::{IdentityReport, StatusReport};
pub use skills::look as look_at_skills;
pub use tokens::TokenAccess;
