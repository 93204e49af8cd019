//! Automations: hook points, the four shipped definitions, and what a start seeds for them.
//!
//! Rows live in `nexus-store`, folders in the workspace. This room says what may run where; what
//! runs a handler when a hook point is reached belongs to the runner.

mod active;
mod hook_point;
mod seed;
mod seed_files;
mod shipped;

pub use active::{ActiveAutomations, load_active};
pub use hook_point::HookPoint;
pub use seed::{SEED_STEPS, SeedError, SeedReport, seed};
pub use shipped::{SHIPPED, Shipped};
