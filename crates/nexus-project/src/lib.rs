//! The project layer: the `.nexus/` folder that a person and several agents, ours or not, share in
//! one repository. State files, the eleven tools over them, the catalog of roles and skills, and
//! the runner for conformance fixtures. How a tool call arrives and how its answer is shown is for others.

mod branch;
pub mod catalog;
pub mod conformance;
mod document;
mod error;
pub mod gates;
pub mod harness;
mod history;
mod ignored;
mod knowledge;
pub mod lifecycle;
mod lock;
pub mod memory_policy;
mod project;
pub mod resume;
pub mod skills;
mod source;
pub mod tags;
pub mod tools;

pub use error::ProjectError;
pub use knowledge::Knowledge;
pub use project::{Leftovers, Project, Started};
pub use source::ProjectTools;
pub use tools::{Tool, call};
