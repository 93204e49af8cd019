//! The way of a message, from its arrival to the last line of its trace, and the bus that tells of it.
//!
//! | stage | where |
//! |---|---|
//! | 1 receive | `Pipeline::receive` in `pipeline.rs` |
//! | 2 identity | `Pipeline::identify` in `pipeline/identify.rs` |
//! | 3 access | `Pipeline::authorize` in `pipeline/authorize.rs` |
//! | 4 automations | `Pipeline::automate` in `pipeline/automate.rs` |
//! | 5 context, 6 agent | `attempt` in `sessions/run.rs` |
//! | 7 deliver | `deliver` in `sessions/settlement.rs` |
//! | 8 finalize | `project` there, written down by `Recorder` in `observer.rs` |
//!
//! `Pipeline::decide` lists the stages from two to four; [`sessions`] holds queues, the turn ledger, workers, the outbox and
//! recovery.

mod admission;
pub mod agent_factory;
pub mod bus;
pub mod consent;
mod error;
mod file_taint;
pub mod hooks;
pub mod memory_service;
pub mod observer;
pub mod pipeline;
pub mod projects;
pub mod questions;
pub mod recover;
pub mod sessions;
pub mod spending;
pub mod streams;
pub mod tool_assembly;
mod turn_model;

pub use bus::{Bus, BusReader};
pub use error::RuntimeError;
pub use memory_service::MemoryService;
