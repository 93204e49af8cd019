//! The 96-byte envelope and the bytes around it. Knows the layout, judges nothing.

use std::fmt;

use nexus_base::words;
use zerocopy::little_endian::{U16, U32};
use zerocopy::{FromBytes, FromZeros as _, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::code::Reject;

/// First field of every envelope.
pub const MAGIC: u32 = 0x5941_4950;
/// The only version of the protocol there is.
pub const VERSION: u32 = 1;
pub const ENVELOPE_BYTES: usize = 96;
/// The largest payload a frame may carry.
pub const MAX_PAYLOAD: usize = 65_536;
/// The largest reply payload existing clients can take.
pub const MAX_REPLY_PAYLOAD: usize = 8_191;
/// Bytes of an id field; the last one is always NUL in what we send.
pub const ID_FIELD_BYTES: usize = 36;

/// What a frame asks for; the numbers are never reused.
pub mod command {
    /// Liveness.
    pub const PING: u32 = 0x0101;
    /// Opens the gate of one connection.
    pub const HANDSHAKE: u32 = 0x0102;
    /// A JSON method call; carries the workspace methods.
    pub const CONTROL: u32 = 0x0104;
    /// The later, argv-shaped form of the same calls.
    pub const CONTROL_CALL: u32 = 0x0105;
    /// The class bits of privileged commands.
    pub const PRIVILEGED_CLASS: u32 = 0xF000;
}

/// The head of every frame, exactly as it lies on the wire.
#[derive(Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct Envelope {
    /// [`MAGIC`].
    pub magic: U32,
    /// [`VERSION`].
    pub version: U32,
    /// The workspace the frame speaks in, NUL-padded.
    pub ws_id: [u8; ID_FIELD_BYTES],
    /// The caller's own mark, echoed in the reply.
    pub trace_id: [u8; ID_FIELD_BYTES],
    /// One of [`command`].
    pub command_id: U32,
    /// A [`Role`] as number.
    pub role: U16,
    /// 1 if the caller deliberately enabled a privileged operation.
    pub arming: u8,
    /// Sent as 0, ignored.
    pub pad: u8,
    /// Bytes that follow.
    pub payload_len: U32,
    /// Must be 0 in this version.
    pub checksum: U32,
}

const _: () = assert!(size_of::<Envelope>() == ENVELOPE_BYTES);

words! {
    /// Who the caller says it is.
    #[derive(PartialOrd, Ord)]
    pub enum Role {
        /// Nobody in particular.
        None = "none",
        User = "user",
        /// Somebody who runs the machine's workspaces.
        Operator = "operator",
        /// The system itself.
        System = "system",
    }
}

impl Role {
    /// Returns the role of a number, if there is one.
    pub fn from_number(number: u16) -> Option<Self> {
        Self::ALL.get(usize::from(number)).copied()
    }

    /// Returns the number on the wire.
    pub const fn number(self) -> u16 {
        self as u16
    }
}

impl Envelope {
    /// Makes a request head; ids longer than their field are cut.
    pub fn request(command_id: u32, ws_id: &[u8], trace_id: &[u8], payload_len: usize) -> Self {
        let mut envelope = Self::new_zeroed();
        envelope.magic = U32::new(MAGIC);
        envelope.version = U32::new(VERSION);
        put_id(&mut envelope.ws_id, ws_id);
        put_id(&mut envelope.trace_id, trace_id);
        envelope.command_id = U32::new(command_id);
        envelope.payload_len = U32::new(u32::try_from(payload_len).unwrap_or(u32::MAX));
        envelope
    }

    /// Returns the same head with this authority in it.
    pub fn with_authority(mut self, role: Role, armed: bool) -> Self {
        self.role = U16::new(role.number());
        self.arming = u8::from(armed);
        self
    }

    /// Reads the head at the start of `bytes`, if they are enough.
    pub fn read(bytes: &[u8]) -> Option<Self> {
        Self::read_from_prefix(bytes).ok().map(|(envelope, _)| envelope)
    }

    /// Returns the workspace id up to its NUL.
    pub fn ws_id_text(&self) -> &[u8] {
        until_nul(&self.ws_id)
    }

    /// Returns the trace id up to its NUL.
    pub fn trace_id_text(&self) -> &[u8] {
        until_nul(&self.trace_id)
    }

    /// Returns the length of the whole frame this head announces.
    pub fn frame_len(&self) -> usize {
        ENVELOPE_BYTES.saturating_add(self.payload_len.get() as usize)
    }

    /// Appends the reply to this request: same ids, command and authority, this payload.
    pub fn reply_into(&self, payload: &[u8], out: &mut Vec<u8>) {
        let mut reply =
            Self::request(self.command_id.get(), self.ws_id_text(), self.trace_id_text(), payload.len());
        reply.role = self.role;
        reply.arming = self.arming;
        out.extend_from_slice(reply.as_bytes());
        out.extend_from_slice(payload);
    }

    /// Appends the reply that refuses this request.
    pub fn reject_into(&self, reject: Reject, out: &mut Vec<u8>) {
        let mut request = *self;
        if request.command_id.get() == 0 {
            request.command_id = U32::new(command::CONTROL);
        }
        request.reply_into(reject.payload().as_bytes(), out);
    }

    /// Appends this head as it lies on the wire.
    pub fn write_into(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.as_bytes());
    }
}

impl fmt::Debug for Envelope {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Envelope")
            .field("command_id", &format_args!("{:#06x}", self.command_id.get()))
            .field("ws_id", &format_args!("{}", self.ws_id_text().escape_ascii()))
            .field("trace_id", &format_args!("{}", self.trace_id_text().escape_ascii()))
            .field("role", &self.role.get())
            .field("arming", &self.arming)
            .field("payload_len", &self.payload_len.get())
            .finish_non_exhaustive()
    }
}

/// Puts a whole frame together.
pub fn frame(envelope: &Envelope, payload: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(ENVELOPE_BYTES + payload.len());
    envelope.write_into(&mut bytes);
    bytes.extend_from_slice(payload);
    bytes
}

fn put_id(field: &mut [u8; ID_FIELD_BYTES], text: &[u8]) {
    let text = until_nul(text);
    let len = text.len().min(ID_FIELD_BYTES - 1);
    field[..len].copy_from_slice(&text[..len]);
}

fn until_nul(bytes: &[u8]) -> &[u8] {
    bytes.split(|&byte| byte == 0).next().unwrap_or_default()
}
