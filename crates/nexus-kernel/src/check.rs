//! The order in which a frame is judged. The order decides which code a doubly wrong frame gets, so
//! it is part of the protocol, and both planes take it from here.

use crate::code::{self, Reject};
use crate::frame::{Envelope, MAGIC, MAX_PAYLOAD, Role, VERSION};
use crate::ws_id;

/// Judges what must be right before a payload is read: size, magic, version.
///
/// # Errors
/// 103, 100 or 101, in this order.
pub fn head(envelope: &Envelope) -> Result<(), Reject> {
    if envelope.payload_len.get() as usize > MAX_PAYLOAD {
        return Err(code::PAYLOAD_TOO_BIG);
    }
    if envelope.magic.get() != MAGIC {
        return Err(code::BAD_MAGIC);
    }
    if envelope.version.get() != VERSION {
        return Err(code::BAD_VERSION);
    }
    Ok(())
}

/// Judges the rest of the envelope, once the frame is whole: checksum, arming, role, workspace id.
///
/// # Errors
/// 104, 201, 202 or 102, in this order.
pub fn fields(envelope: &Envelope) -> Result<Role, Reject> {
    if envelope.checksum.get() != 0 {
        return Err(code::BAD_CHECKSUM);
    }
    if envelope.arming > 1 {
        return Err(code::ARMING_FLAG_INVALID);
    }
    let role = Role::from_number(envelope.role.get()).ok_or(code::ROLE_INVALID)?;
    if !ws_id::is_legal_field(&envelope.ws_id) {
        return Err(code::BAD_WS_ID);
    }
    Ok(role)
}
