//! The exchange that opens a connection's gate.

use zerocopy::little_endian::{U16, U32};
use zerocopy::{FromBytes, FromZeros as _, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::code::{self, Reject};
use crate::frame::VERSION;

/// Bytes of a handshake request.
pub const REQUEST_BYTES: usize = 40;
/// Bytes of an acknowledgement.
pub const ACK_BYTES: usize = 12;
/// The session state an acknowledgement reports: commands are accepted.
pub const READY: u8 = 2;

/// What a client says about itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct Request {
    /// The protocol version the client speaks.
    pub client_version: U32,
    /// A bit mask; nothing is granted in this version.
    pub capabilities_requested: U32,
    /// NUL-padded, for logs.
    pub client_name: [u8; 32],
}

/// What the server answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct Ack {
    /// The protocol version the server speaks.
    pub server_version: U32,
    /// Always 0.
    pub capabilities_granted: U32,
    /// Always 1: nothing is kept between frames that would need a number.
    pub session_id: U16,
    /// [`READY`].
    pub status: u8,
    /// Always 0.
    pub pad: u8,
}

const _: () = assert!(size_of::<Request>() == REQUEST_BYTES && size_of::<Ack>() == ACK_BYTES);

impl Request {
    /// Makes the request of a client with this name.
    pub fn named(name: &str) -> Self {
        let mut request = Self::new_zeroed();
        request.client_version = U32::new(VERSION);
        let len = name.len().min(31);
        request.client_name[..len].copy_from_slice(&name.as_bytes()[..len]);
        request
    }
}

impl Ack {
    /// The one acknowledgement there is.
    pub fn ready() -> Self {
        Self {
            server_version: U32::new(VERSION),
            capabilities_granted: U32::new(0),
            session_id: U16::new(1),
            status: READY,
            pad: 0,
        }
    }

    /// Returns whether a client may go on after this answer.
    pub fn is_ready(&self) -> bool {
        self.server_version.get() == VERSION && self.status == READY
    }
}

/// Judges a handshake payload.
///
/// # Errors
/// 103 for a wrong size, 101 for a wrong client version.
pub fn check(payload: &[u8]) -> Result<Request, Reject> {
    let request = Request::read_from_bytes(payload).map_err(|_| code::BAD_HANDSHAKE_SIZE)?;
    if request.client_version.get() == VERSION { Ok(request) } else { Err(code::BAD_VERSION) }
}
