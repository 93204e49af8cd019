//! Who may do what: the one table of authority. Root applies none of it, the Kernel all of it.

use crate::code::{self, Reject};
use crate::frame::Role;

/// What a request needs beyond the handshake.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Needs {
    /// Nothing more.
    Handshake,
    /// A role of at least operator, and arming.
    Authority,
}

/// Checks the authority an envelope carries. The role is tested first, so that a caller who lacks
/// both always hears 202.
///
/// # Errors
/// 202 or 201.
pub fn check(needs: Needs, role: Role, armed: bool) -> Result<(), Reject> {
    match needs {
        Needs::Handshake => Ok(()),
        Needs::Authority if role < Role::Operator => Err(code::ROLE_REQUIRED),
        Needs::Authority if !armed => Err(code::ARMING_REQUIRED),
        Needs::Authority => Ok(()),
    }
}
