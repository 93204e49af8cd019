//! The only place that starts a process.
//!
//! A [`Launch`] runs one program with an environment made from nothing, in its own process group, with a
//! deadline, capped output and, unless the caller says otherwise in so many words, a sandbox. Which command
//! may run, and what the model is told about it, is for others.

mod capture;
mod control;
mod detached;
mod disk;
mod environment;
mod git;
mod group;
mod inherited;
mod launch;
mod listener;
mod piped;
mod remedy;
mod running;
mod sandbox;

pub use capture::{Captured, LiveOutput};
pub use detached::start_detached;
pub use environment::{Environment, EnvironmentError, RUN_MARK_VARIABLE};
pub use git::{Git, GitChanges, GitError};
pub use group::{FileRecord, GroupRecord, Leader, LiveGroup, end_group, end_left_over};
pub use inherited::inherited_socket;
pub use launch::{
    Confinement, DEFAULT_DEADLINE, DEFAULT_OUTPUT_LIMIT, Helper, Input, Launch, LaunchError, MAX_DEADLINE,
    Outcome, Status,
};
pub use listener::listener_of;
pub use piped::Piped;
pub use remedy::remedy;
pub use sandbox::{
    Access, Grant, HELPER_ARGUMENT, Limits, Links, Network, SandboxError, SandboxProfile, SandboxSupport,
    Tier, Toolchains, known_tier, run_if_sandbox_helper, sandbox_entry, support, tier, tier_with,
};
