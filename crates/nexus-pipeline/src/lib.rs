//! The way of a message, from its arrival to the last line of its trace, and the bus that tells of it.
//!
//! A request passes eight stages: receive, identity, access, automations, context, agent, deliver, finalize. The first four
//! stand in [`pipeline`], the others in [`sessions`], which holds queues, the turn ledger, workers, the outbox and recovery.

mod admission;
pub mod agent_factory;
pub mod bus;
pub mod consent;
mod error;
pub mod hooks;
mod marks;
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
