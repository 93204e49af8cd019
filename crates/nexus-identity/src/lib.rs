//! Who is asking and what they may do: principals, access policies, permissions.
//!
//! Decisions are made here and only here; rows are `nexus-store`'s. Nothing allowed means denied.

mod access;
mod owner;
mod permissions;
mod policy;
mod principal;

pub use access::{Access, Circumstances, Verdict};
pub use owner::{SeededOwner, seed_owner};
pub use permissions::{DataLevel, Names, Permissions, ToolRule};
pub use policy::{Decision, Evaluation, Grant, Policy, StrangerRule, WhichPrincipal, built_in, evaluate};
pub use principal::{Principal, Source};
