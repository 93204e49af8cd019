//! The workspace id: one validator for Root, Kernel and client.

use std::fmt;

use crate::code::{self, Reject};
use crate::frame::ID_FIELD_BYTES;

/// The longest id.
pub const MAX_WS_ID_BYTES: usize = ID_FIELD_BYTES - 1;

/// Names of plane folders that lie beside the workspaces. Fine in an envelope, never as a target.
pub const RESERVED: [&str; 4] = ["engine", "kernel", "root", "system"];

/// A legal workspace id: 1 to 35 of `A-Z a-z 0-9 _ -`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct WsId(String);

impl WsId {
    /// Accepts a legal id.
    ///
    /// # Errors
    /// 102 for anything else.
    pub fn parse(bytes: &[u8]) -> Result<Self, Reject> {
        if !is_legal(bytes) {
            return Err(code::BAD_WS_ID);
        }
        // Legal ids are ASCII; the conversion cannot lose anything.
        Ok(Self(String::from_utf8_lossy(bytes).into_owned()))
    }

    /// Accepts a legal id that may be created and destroyed.
    ///
    /// # Errors
    /// 102, with its own reason for a reserved name.
    pub fn parse_target(bytes: &[u8]) -> Result<Self, Reject> {
        let id = Self::parse(bytes)?;
        if id.is_reserved() { Err(code::RESERVED_WS_ID) } else { Ok(id) }
    }

    /// Returns whether a plane uses this name.
    pub fn is_reserved(&self) -> bool {
        RESERVED.contains(&self.0.as_str())
    }

    /// Returns the id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for WsId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

/// Returns whether these bytes are a legal id.
pub fn is_legal(bytes: &[u8]) -> bool {
    (1..=MAX_WS_ID_BYTES).contains(&bytes.len())
        && bytes.iter().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'))
}

/// Returns whether the field of an envelope holds a legal id; what follows its NUL is ignored.
pub(crate) fn is_legal_field(field: &[u8; ID_FIELD_BYTES]) -> bool {
    match field.iter().position(|&byte| byte == 0) {
        Some(end) => is_legal(&field[..end]),
        None => false,
    }
}
