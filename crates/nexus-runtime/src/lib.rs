//! The daemon: boot order, eight-stage pipeline, reload, composition; status and trace reports;
//! `init` as composition of the folder and its databases.

pub mod backup;
mod between;
mod boot;
mod bus;
mod control;
pub mod credentials;
pub mod doctor;
mod engine;
mod error;
mod init;
mod observer;
mod pipeline;
mod questions;
mod recover;
pub mod report;
mod run_socket;
mod runtime;
mod signals;
pub mod skills;

pub use boot::{StartError, StartOptions, start};
pub use bus::{Bus, BusReader};
pub use control::{Caller, fresh_id, now};
pub use error::RuntimeError;
pub use init::{InitError, init};
pub use runtime::Runtime;
