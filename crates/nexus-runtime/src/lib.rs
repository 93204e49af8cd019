//! The daemon: boot order, eight-stage pipeline, reload, composition; status and trace reports;
//! `init` as composition of the folder and its databases.

pub mod backup;
mod between;
mod boot;
mod bus;
mod consent;
mod control;
pub mod credentials;
pub mod doctor;
mod engine;
mod error;
mod hooks;
mod init;
mod left_over;
mod models;
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
mod tool_sources;
pub mod skills;
mod spending;

pub use boot::{StartError, StartOptions, start};
pub use bus::{Bus, BusReader};
pub use control::{Caller, automation_view, fresh_id, invocation_view, now, sample};
pub use error::RuntimeError;
pub use init::{InitError, init};
pub use runtime::Runtime;
