//! WebSocket frames: requests in, answers and events out, and the handshake before them.
//!
//! Reading a frame is bounded in size, depth and shape, and every way of being wrong has one stable
//! code. Who may do what is decided elsewhere.

use nexus_base::clock::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::error::{ErrorCode, WireError};
use crate::status::HealthBrief;

/// The protocol this program speaks.
pub const PROTOCOL: u32 = 1;
/// Longest frame taken, in bytes.
pub const MAX_FRAME_LEN: usize = 512 * 1024;
/// Most bytes waiting for a client that reads slowly; then it loses its connection.
pub const MAX_BUFFERED: usize = 1536 * 1024;
/// Milliseconds between two signs of life.
pub const TICK_MS: u64 = 15_000;
/// Longest id a client may give a request.
pub const MAX_ID_LEN: usize = 128;
/// Longest method name looked at.
const MAX_METHOD_LEN: usize = 64;
/// Deepest nesting taken; no parameter of ours goes deeper than six.
const MAX_DEPTH: usize = 32;

/// A frame from a client.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RequestFrame {
    /// Always `req`.
    #[serde(rename = "type")]
    pub kind: RequestKind,
    /// The client's own name for it; the answer carries the same.
    pub id: String,
    /// A method of the table.
    pub method: String,
    /// What the method takes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub params: Option<Value>,
}

/// The one kind of frame a client sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum RequestKind {
    /// A request.
    #[serde(rename = "req")]
    Request,
}

/// A frame from the daemon.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type")]
pub enum ServerFrame {
    /// The answer to a request.
    #[serde(rename = "res")]
    Response(ResponseFrame),
    /// Something happened.
    #[serde(rename = "event")]
    Event(EventFrame),
}

/// The answer to a request.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ResponseFrame {
    /// The request's id; null when the request was too broken to have one.
    pub id: Option<String>,
    /// Whether it worked.
    pub ok: bool,
    /// What came of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payload: Option<Value>,
    /// Why it did not work.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<FrameFault>,
}

/// Why a request did not work, for programs and for people.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FrameFault {
    /// Stable code.
    pub code: ErrorCode,
    /// What failed.
    pub message: String,
    /// What to do about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
    /// Whether the same request may work later.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub retryable: bool,
    /// After how many milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after_ms: Option<u64>,
}

impl From<WireError> for FrameFault {
    fn from(error: WireError) -> Self {
        let retryable = match error.code {
            ErrorCode::Unavailable | ErrorCode::AgentTimeout => true,
            ErrorCode::InvalidRequest
            | ErrorCode::Unauthorized
            | ErrorCode::Forbidden
            | ErrorCode::NotFound
            | ErrorCode::TooLarge
            | ErrorCode::Internal => false,
        };
        let retry_after_ms = retryable.then_some(1_000);
        Self { code: error.code, message: error.message, hint: error.hint, retryable, retry_after_ms }
    }
}

/// Something happened.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct EventFrame {
    /// Its stable name: `connect.challenge`, `tick`, or a bus event's type.
    pub event: String,
    /// What is known about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payload: Option<Value>,
    /// Its number on the bus, for bus events.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seq: Option<u64>,
}

/// Payload of `connect.challenge`, the first frame of every connection.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Challenge {
    /// Random; `connect` may repeat it to show that it answers this connection.
    pub nonce: String,
    /// When.
    pub ts: Timestamp,
}

/// Parameters of `connect`, the first request of every connection.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Connect {
    /// Oldest protocol the client speaks.
    pub min_protocol: u32,
    /// Newest protocol the client speaks.
    pub max_protocol: u32,
    /// Who the client says it is; shown, never believed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client: Option<ClientInfo>,
    /// Ignored but for its length: what a token may do is stored with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<String>,
    /// Less than the token's own reach, if the client wants less. More is refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scopes: Option<Vec<String>>,
    /// The token; not needed when the upgrade request carried it as `Authorization: Bearer`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub auth: Option<ConnectAuth>,
    /// The challenge's nonce.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nonce: Option<String>,
    /// Bus events wanted from the start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subscribe: Option<Subscribe>,
}

/// Who a client says it is.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ClientInfo {
    /// Name of the program.
    pub id: String,
    /// Its version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Where it runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub platform: Option<String>,
    /// How it is used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<String>,
}

/// What shows who is asking.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ConnectAuth {
    /// The token.
    pub token: String,
}

impl std::fmt::Debug for ConnectAuth {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("ConnectAuth([redacted])")
    }
}

/// Parameters of `events.subscribe`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Subscribe {
    /// Only these kinds of events; all when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub types: Option<Vec<String>>,
    /// Only this request tree, and what is about the daemon itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub root: Option<String>,
    /// First what came after this number, as far as it is kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<u64>,
}

/// The answer to `connect`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct HelloOk {
    /// Always `hello-ok`.
    #[serde(rename = "type")]
    pub kind: HelloKind,
    /// The protocol both speak from here on.
    pub protocol: u32,
    /// Who answers.
    pub server: ServerInfo,
    /// What can be asked and heard.
    pub features: Features,
    /// What this connection may do.
    pub scopes: Vec<String>,
    /// How the daemon stands.
    pub snapshot: HealthBrief,
    /// Limits.
    pub policy: Limits,
}

/// The word of a successful handshake.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum HelloKind {
    /// Welcome.
    #[serde(rename = "hello-ok")]
    HelloOk,
}

/// Who answers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ServerInfo {
    /// Version of the program.
    pub version: String,
    /// This connection's name in the log.
    pub conn_id: String,
}

/// What can be asked and heard.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Features {
    /// Methods this connection may call.
    pub methods: Vec<String>,
    /// Events it can subscribe to.
    pub events: Vec<String>,
}

/// Limits of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Limits {
    /// Longest frame taken, in bytes.
    pub max_payload: usize,
    /// Most bytes waiting for a slow reader.
    pub max_buffered_bytes: usize,
    /// Milliseconds between two `tick` events.
    pub tick_interval_ms: u64,
}

impl Limits {
    /// The limits in force.
    pub const CURRENT: Self =
        Self { max_payload: MAX_FRAME_LEN, max_buffered_bytes: MAX_BUFFERED, tick_interval_ms: TICK_MS };
}

/// Why bytes are no request.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// Over the limit.
    #[error("the frame has {length} bytes; the limit is {MAX_FRAME_LEN}")]
    TooLong {
        /// Its length.
        length: usize,
    },
    /// Not UTF-8.
    #[error("the frame is not UTF-8")]
    NotText,
    /// Nested deeper than anything we take.
    #[error("the frame is nested deeper than {MAX_DEPTH} levels")]
    TooDeep,
    /// Not JSON, or not of the shape of a request.
    #[error("the frame is not a request: {reason}")]
    NotARequest {
        /// What is wrong, without what was sent.
        reason: String,
        /// The request's id, where it could be made out.
        id: Option<String>,
    },
}

impl FrameError {
    /// Returns the stable code.
    pub const fn code(&self) -> ErrorCode {
        match self {
            Self::TooLong { .. } => ErrorCode::TooLarge,
            Self::NotText | Self::TooDeep | Self::NotARequest { .. } => ErrorCode::InvalidRequest,
        }
    }

    /// Returns the answer to such bytes.
    pub fn to_response(&self) -> ResponseFrame {
        let error = WireError { code: self.code(), message: self.to_string(), hint: None };
        let id = match self {
            Self::NotARequest { id, .. } => id.clone(),
            Self::TooLong { .. } | Self::NotText | Self::TooDeep => None,
        };
        ResponseFrame::failed(id, error)
    }
}

impl ResponseFrame {
    /// An answer that worked.
    pub const fn done(id: String, payload: Value) -> Self {
        Self { id: Some(id), ok: true, payload: Some(payload), error: None }
    }

    /// An answer that did not.
    pub fn failed(id: Option<String>, error: WireError) -> Self {
        Self { id, ok: false, payload: None, error: Some(error.into()) }
    }
}

/// Reads one frame.
///
/// # Errors
/// It is none; see [`FrameError`]. Never panics and never takes more memory than a small multiple
/// of the frame.
pub fn read_request(bytes: &[u8]) -> Result<RequestFrame, FrameError> {
    if bytes.len() > MAX_FRAME_LEN {
        return Err(FrameError::TooLong { length: bytes.len() });
    }
    let text = std::str::from_utf8(bytes).map_err(|_| FrameError::NotText)?;
    if depth(text) > MAX_DEPTH {
        return Err(FrameError::TooDeep);
    }
    let frame: RequestFrame = serde_json::from_str(text)
        .map_err(|error| FrameError::NotARequest { reason: place_of(&error), id: id_of(text) })?;
    let is_name = |name: &str, longest: usize| {
        !name.is_empty() && name.len() <= longest && !name.chars().any(char::is_control)
    };
    if !is_name(&frame.id, MAX_ID_LEN) {
        let reason = format!("id must have 1 to {MAX_ID_LEN} bytes and no control characters");
        return Err(FrameError::NotARequest { reason, id: None });
    }
    if !is_name(&frame.method, MAX_METHOD_LEN) {
        let reason = format!("method must have 1 to {MAX_METHOD_LEN} bytes and no control characters");
        return Err(FrameError::NotARequest { reason, id: Some(frame.id) });
    }
    Ok(frame)
}

/// Returns how deep brackets nest outside of strings, whether or not they match.
fn depth(text: &str) -> usize {
    let (mut now, mut most) = (0usize, 0usize);
    let (mut in_string, mut escaped) = (false, false);
    for byte in text.bytes() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_string => escaped = true,
            b'"' => in_string = !in_string,
            b'[' | b'{' if !in_string => {
                now += 1;
                most = most.max(now);
            }
            b']' | b'}' if !in_string => now = now.saturating_sub(1),
            _ => {}
        }
    }
    most
}

/// Says where and what kind of mistake it is. The parser's own message may quote what was sent,
/// which may be a secret.
fn place_of(error: &serde_json::Error) -> String {
    use serde_json::error::Category;
    let what = match error.classify() {
        Category::Io | Category::Eof => "it ends too early",
        Category::Syntax => "it is not JSON",
        Category::Data => "it must have type \"req\", id, method and optionally params, and nothing else",
    };
    format!("{what} (line {}, column {})", error.line(), error.column())
}

fn id_of(text: &str) -> Option<String> {
    #[derive(Deserialize)]
    struct OnlyId {
        id: String,
    }
    serde_json::from_str::<OnlyId>(text).ok().map(|found| found.id).filter(|id| id.len() <= MAX_ID_LEN)
}

#[cfg(test)]
mod tests;
