//! Who is asking and what they may do: principals, access policies, permissions.
//!
//! Decisions are made here and only here; rows are `nexus-store`'s. Nothing allowed means denied.

mod access;
mod approval;
mod permissions;
mod policy;
mod policy_document;
mod principal;
mod scope;
mod token;

pub use access::{Access, Circumstances, Operation, Verdict};
pub use approval::{ApprovalError, Approvals, Ask, Asked, Consent, Kind, Lasting};
pub use permissions::{DataLevel, Names, Permissions, Terms, ToolRule};
pub use policy::{
    Condition, Decision, Evaluation, Grant, Hours, Policy, Routing, SessionRule, StrangerRule,
    WhichPrincipal, built_in, evaluate,
};
pub use policy_document::{PolicyProblem, with_document};
pub use principal::{Principal, Source};
pub use principal::{SeededOwner, seed_owner};
pub use scope::{ScopeError, Scopes};
pub use token::{Holder, Made, NewTokenRequest, TokenError, Tokens, hash_of};
