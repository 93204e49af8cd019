//! The numbers and words a refusal carries. One table for both planes and the client.

use std::fmt;

/// Stable numeric codes of the protocol; none is ever added by one plane alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Code {
    /// The magic differs.
    BadMagic = 100,
    /// The version differs, in the envelope or in the handshake.
    BadVersion = 101,
    /// An illegal or reserved workspace id.
    BadWsId = 102,
    /// A payload that is too big, or a handshake of the wrong size.
    PayloadTooBig = 103,
    /// A checksum that is not zero.
    BadChecksum = 104,
    /// A command before the handshake.
    NeedHandshake = 200,
    /// Not armed, or an arming flag out of range.
    ArmingRequired = 201,
    /// Too low a role, an unknown one, or a peer that is not the owner.
    RoleRequired = 202,
    /// What lies on disk would lead out of the jail.
    LawViolation = 300,
    /// Everything else that did not work.
    InternalError = 500,
}

impl Code {
    /// Returns the number on the wire.
    pub const fn number(self) -> u16 {
        self as u16
    }
}

impl fmt::Display for Code {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}", self.number())
    }
}

/// A refusal: its number and the token that says why.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reject {
    /// The number.
    pub code: Code,
    /// The token; lower case, underscores, stable.
    pub reason: &'static str,
}

impl Reject {
    /// Ties a number to a token.
    pub const fn new(code: Code, reason: &'static str) -> Self {
        Self { code, reason }
    }

    /// Renders the error payload; clients compare it byte for byte.
    pub fn payload(self) -> String {
        format!(r#"{{"status":"error","code":{},"reason":"{}"}}"#, self.code, self.reason)
    }
}

impl fmt::Display for Reject {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} {}", self.code, self.reason)
    }
}

macro_rules! rejects {
    ($($(#[$doc:meta])* $name:ident = $code:ident $reason:literal;)+) => {
        $($(#[$doc])* pub const $name: Reject = Reject::new(Code::$code, $reason);)+
        /// Every refusal this crate can give.
        pub const ALL_REJECTS: &[Reject] = &[$($name),+];
    };
}

rejects! {
    /// Envelope: wrong magic.
    BAD_MAGIC = BadMagic "bad_magic";
    /// Envelope or handshake: wrong version.
    BAD_VERSION = BadVersion "bad_version";
    /// Envelope or target: not a workspace id.
    BAD_WS_ID = BadWsId "bad_ws_id";
    /// Target: a name the planes use themselves.
    RESERVED_WS_ID = BadWsId "reserved_ws_id";
    /// Envelope: more payload announced than allowed.
    PAYLOAD_TOO_BIG = PayloadTooBig "payload_too_big";
    /// Handshake: not 40 bytes.
    BAD_HANDSHAKE_SIZE = PayloadTooBig "bad_handshake_payload_size";
    /// Envelope: checksum set.
    BAD_CHECKSUM = BadChecksum "bad_checksum";
    /// A command came first.
    NEED_HANDSHAKE = NeedHandshake "need_handshake";
    /// Privileged and not armed.
    ARMING_REQUIRED = ArmingRequired "arming_required";
    /// Arming flag above 1.
    ARMING_FLAG_INVALID = ArmingRequired "arming_flag_invalid";
    /// Privileged and too low a role.
    ROLE_REQUIRED = RoleRequired "role_required";
    /// Role above 3.
    ROLE_INVALID = RoleRequired "role_invalid";
    /// The peer runs under another user id.
    PEER_NOT_OWNER = RoleRequired "peer_not_owner";
    /// A link or mount stands where the workspace should be.
    JAIL_VIOLATION = LawViolation "jail_violation";
    /// Payload: not the JSON that was asked for.
    BAD_REQUEST = InternalError "bad_request";
    /// Payload: a method nobody knows.
    UNKNOWN_METHOD = InternalError "unknown_method";
    /// Envelope: a command nobody serves.
    UNKNOWN_COMMAND = InternalError "unknown_command";
    /// Call: an action `yai.kernel.ws` does not have.
    UNSUPPORTED_ACTION = InternalError "unsupported_workspace_action";
    /// Something other than a folder has the workspace's name.
    NOT_A_WORKSPACE = InternalError "not_a_workspace";
    /// A daemon runs in the workspace.
    WORKSPACE_IN_USE = InternalError "workspace_in_use";
    /// The daemon in the workspace did not stop.
    STOP_FAILED = InternalError "workspace_stop_failed";
    /// The Nexus workspace inside could not be made; the workspace was taken back.
    INIT_FAILED = InternalError "workspace_init_failed";
    /// This server cannot make Nexus workspaces.
    INIT_UNAVAILABLE = InternalError "workspace_init_unavailable";
    /// The disk or a quota is full.
    NO_SPACE = InternalError "no_space";
    /// The operating system refused for another reason; the log has it.
    STORAGE_FAILED = InternalError "storage_failed";
    /// More connections than the server takes.
    TOO_MANY_CONNECTIONS = InternalError "too_many_connections";
    /// Root: nobody listens on the Kernel's socket.
    KERNEL_CONNECT_FAILED = InternalError "kernel_connect_failed";
    /// Root: its handshake could not be sent.
    KERNEL_HANDSHAKE_WRITE_FAILED = InternalError "kernel_handshake_write_failed";
    /// Root: its handshake was not answered.
    KERNEL_HANDSHAKE_READ_FAILED = InternalError "kernel_handshake_read_failed";
    /// Root: the frame could not be sent on.
    KERNEL_WRITE_FAILED = InternalError "kernel_write_failed";
    /// Root: no whole reply came back.
    KERNEL_READ_FAILED = InternalError "kernel_read_failed";
}
