//! The way of a message, from its arrival to the last line of its trace, and the bus that tells of it.
//!
//! [`stages`] lists its eight stages, one below the other, and has a file for each. Below them: `queue` and
//! `admission` (from the acknowledgement to the queue), [`sessions`] (who runs when, the turn ledger, workers, the
//! outbox), [`recovery`].

mod admission;
pub mod agent_factory;
pub mod bus;
pub mod consent;
mod error;
mod file_taint;
pub mod hooks;
pub mod live_settings;
pub mod memory_service;
pub mod observer;
pub mod pipeline;
pub mod projects;
pub mod questions;
mod queue;
pub mod recovery;
pub mod reminder;
mod send_options;
pub mod sessions;
pub mod spending;
mod stages;
pub mod streams;
pub mod tool_assembly;
pub mod tool_sockets;
mod turn_model;

pub use bus::{Bus, BusReader};
pub use error::RuntimeError;
