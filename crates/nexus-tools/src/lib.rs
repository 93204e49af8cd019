//! What agents can do: files, commands, the web, memory, a project; how it is taken back; and who may use what.
//!
//! A tool is told about its turn through [`ports`] and never sees a model or a session.

pub mod changes;
pub mod coordination;
pub mod marks;
mod memory_tools;
pub mod ports;
mod project_tool;
mod relevance;
mod scope;
mod specs;
mod taint;
pub mod toolbox;
mod tools;
pub mod web;

pub use memory_tools::RememberedFact;
pub use ports::Role;
pub use project_tool::ProjectTool;
pub use scope::{Done, RunFacts, Scope};
pub use taint::{Level as TaintLevel, Taint};
pub use toolbox::Toolbox;
pub use tools::{
    AccessError, Artifacts, BackgroundPrograms, FileAccess, FileTools, OpenToolSocket, Rights, Shell,
    ShellError, ShellSetup, Unconfined,
};
