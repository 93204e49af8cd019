//! The daemon: boot order, eight-stage pipeline, reload, composition; status and trace reports;
//! `init` as composition of the folder and its databases.

mod between;
mod boot;
mod bus;
mod consent;
mod control;
mod engine;
mod error;
mod hooks;
mod marks;
mod memory_desk;
mod memory_keeper;
mod observer;
mod outfit;
mod pipeline;
mod projects;
mod questions;
mod recover;
pub mod report;
mod run_socket;
mod runtime;
mod signals;
pub mod skills;
mod spending;
mod streams;
mod tool_sources;
mod turn_model;

pub use boot::{StartError, start};
pub use bus::{Bus, BusReader};
pub use control::{Caller, automation_view, fresh_id, invocation_view, now, sample};
pub use error::RuntimeError;
pub use memory_desk::MemoryDesk;
pub use runtime::Runtime;
