//! Automations: hook points, the runner, the four shipped ones and the owner's own programs.
//!
//! Rows live in `nexus-store`, folders in the workspace. This crate says what may run where and runs it;
//! where in a request a hook point lies, and what a handler needs from the rest of the daemon, is the
//! runtime's business.

mod circuit;
pub mod home;
mod hook_point;
mod occasion;
pub mod ports;
mod program;
mod quiet;
mod reflection;
mod register;
mod registry;
mod runner;
mod seed;
mod seed_files;
mod shipped;
mod triggers;
mod verdict;

pub use hook_point::HookPoint;
pub use occasion::{EventFacts, OWN_SESSIONS, Occasion, PrincipalFacts};
pub use ports::{Handler, Run, RunError};
pub use program::{Program, ProgramError, Programs, inspect, wants_network};
pub use quiet::Quiet;
pub use reflection::{Happened, Reflection};
pub use register::{RegisterError, Registration, check, register};
pub use registry::{ActiveAutomations, load_active};
pub use runner::{Handled, Merged, Ran, Reflect, Runner, RunnerParts, Tried, Watch};
pub use seed::{SEED_STEPS, SeedError, SeedReport, seed};
pub use shipped::{
    BootMd, CommandLogger, Episode, MEMORY_CONTEXT, OpenTurn, Reader, SHIPPED, Shipped, Tell, Writer,
    WriterParts, view,
};
pub use triggers::Triggers;
pub use verdict::{Cost, Verdict};
