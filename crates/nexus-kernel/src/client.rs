//! A blocking client of the planes: what the command line, the torture suite and tests speak with.

use std::io;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use serde_json::Value;
use zerocopy::{FromBytes as _, IntoBytes as _};

use crate::code::Reject;
use crate::frame::{self, ENVELOPE_BYTES, Envelope, MAX_PAYLOAD, Role, command};
use crate::handshake;
use crate::link;
use crate::stream::{self, Incoming, Input};

/// The workspace control requests speak in.
pub const CONTROL_WORKSPACE: &str = "system";

/// Why a call has no answer.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// Nobody listens.
    #[error("connecting to the workspace kernel")]
    Connect(#[source] io::Error),
    /// The connection broke.
    #[error("talking to the workspace kernel")]
    Io(#[source] io::Error),
    /// The server ended the connection without a whole answer.
    #[error("the workspace kernel closed the connection")]
    Closed,
    /// The answer is no frame of this protocol.
    #[error("the workspace kernel's answer does not follow the protocol")]
    NotTheProtocol,
    /// The request was refused.
    #[error("refused with code {code}: {reason}")]
    Refused {
        /// The number.
        code: u64,
        /// The token.
        reason: String,
    },
}

impl ClientError {
    /// Returns the protocol's number, if the server gave one.
    pub fn code(&self) -> Option<u64> {
        match self {
            Self::Refused { code, .. } => Some(*code),
            Self::Connect(_) | Self::Io(_) | Self::Closed | Self::NotTheProtocol => None,
        }
    }
}

/// Who a request is made as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Authority {
    /// The role claimed.
    pub role: Role,
    /// Whether privileged operations are deliberately enabled.
    pub armed: bool,
}

impl Authority {
    /// A user who enables nothing.
    pub const USER: Self = Self { role: Role::User, armed: false };
    /// An operator who means it.
    pub const OPERATOR: Self = Self { role: Role::Operator, armed: true };
}

/// One connection.
#[derive(Debug)]
pub struct Client {
    stream: UnixStream,
    input: Input,
    prefix: String,
    counter: u32,
}

/// A reply as it came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reply {
    /// Its head.
    pub envelope: Envelope,
    /// What followed.
    pub payload: Vec<u8>,
}

impl Reply {
    /// Returns whether the payload refuses with exactly this.
    pub fn is(&self, reject: Reject) -> bool {
        self.payload == reject.payload().as_bytes()
    }

    /// Returns the payload as JSON; null if it is none.
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.payload).unwrap_or_default()
    }
}

impl Client {
    /// Connects to a socket; the server must answer each request within `patience`.
    ///
    /// # Errors
    /// [`ClientError::Connect`].
    pub fn connect(path: &Path, patience: Duration) -> Result<Self, ClientError> {
        Ok(Self::over(link::open_socket(path, patience).map_err(ClientError::Connect)?))
    }

    /// Speaks over a connection that is there already.
    pub fn over(stream: UnixStream) -> Self {
        static CLIENTS: AtomicU32 = AtomicU32::new(0);
        let number = CLIENTS.fetch_add(1, Ordering::Relaxed);
        let prefix = format!("nexus-{}-{number}", std::process::id());
        Self { stream, input: Input::default(), prefix, counter: 0 }
    }

    /// Returns the connection itself.
    pub fn stream(&self) -> &UnixStream {
        &self.stream
    }

    /// Opens the gate.
    pub fn handshake(&mut self, authority: Authority) -> Result<(), ClientError> {
        let payload = handshake::Request::named("nexus-cli");
        let reply = self.exchange(command::HANDSHAKE, payload.as_bytes(), authority)?;
        match handshake::Ack::read_from_bytes(&reply.payload) {
            Ok(ack) if ack.is_ready() => Ok(()),
            Ok(_) => Err(ClientError::NotTheProtocol),
            Err(_) => Err(refusal(&reply).unwrap_or(ClientError::NotTheProtocol)),
        }
    }

    /// Asks whether the server is alive.
    pub fn ping(&mut self, authority: Authority) -> Result<Value, ClientError> {
        let reply = self.exchange(command::PING, b"", authority)?;
        refusal(&reply).map_or_else(|| Ok(reply.json()), Err)
    }

    /// Calls a method and returns its answer.
    pub fn call(&mut self, method: &str, params: &Value, authority: Authority) -> Result<Value, ClientError> {
        let body = serde_json::json!({ "method": method, "params": params }).to_string();
        let reply = self.exchange(command::CONTROL, body.as_bytes(), authority)?;
        refusal(&reply).map_or_else(|| Ok(reply.json()), Err)
    }

    /// Names all workspaces, page by page.
    pub fn list_all(&mut self, authority: Authority) -> Result<Vec<String>, ClientError> {
        let mut names: Vec<String> = Vec::new();
        loop {
            let params = names
                .last()
                .map_or_else(|| serde_json::json!({}), |last| serde_json::json!({ "after": last }));
            let answer = self.call("ws_list", &params, authority)?;
            let Some(Value::Array(page)) = answer.get("workspaces") else {
                return Err(ClientError::NotTheProtocol);
            };
            let before = names.len();
            names.extend(page.iter().filter_map(Value::as_str).map(str::to_owned));
            if answer.get("truncated") != Some(&Value::Bool(true)) {
                return Ok(names);
            }
            if names.len() == before {
                return Err(ClientError::NotTheProtocol);
            }
        }
    }

    /// Sends one request under a trace id of its own and waits for its reply.
    pub fn exchange(
        &mut self,
        number: u32,
        payload: &[u8],
        authority: Authority,
    ) -> Result<Reply, ClientError> {
        let trace = self.next_trace();
        let envelope =
            Envelope::request(number, CONTROL_WORKSPACE.as_bytes(), trace.as_bytes(), payload.len())
                .with_authority(authority.role, authority.armed);
        self.send(&frame::frame(&envelope, payload))?;
        let reply = self.receive()?;
        // An answer to another frame would be worse than none.
        let is_turned_away = reply.envelope.trace_id_text().is_empty();
        if reply.envelope.trace_id_text() != trace.as_bytes() && !is_turned_away {
            return Err(ClientError::NotTheProtocol);
        }
        Ok(reply)
    }

    /// Sends bytes as they are.
    ///
    /// # Errors
    /// [`ClientError::Io`].
    pub fn send(&mut self, bytes: &[u8]) -> Result<(), ClientError> {
        stream::send_all(&self.stream, bytes).map_err(ClientError::Io)
    }

    /// Waits for one whole reply.
    ///
    /// # Errors
    /// See [`ClientError`]; `Closed` at the end of the stream.
    pub fn receive(&mut self) -> Result<Reply, ClientError> {
        loop {
            match self.input.look() {
                Incoming::Frame(envelope, len) => {
                    let payload = self.input.frame(len)[ENVELOPE_BYTES..].to_vec();
                    self.input.consume(len);
                    debug_assert!(payload.len() <= MAX_PAYLOAD);
                    return Ok(Reply { envelope, payload });
                }
                Incoming::BadHead(..) => return Err(ClientError::NotTheProtocol),
                Incoming::More => match self.input.fill(&self.stream) {
                    Ok(true) => {}
                    Ok(false) => return Err(ClientError::Closed),
                    Err(error) if error.kind() == io::ErrorKind::ConnectionReset => {
                        return Err(ClientError::Closed);
                    }
                    Err(error) => return Err(ClientError::Io(error)),
                },
            }
        }
    }

    fn next_trace(&mut self) -> String {
        self.counter += 1;
        format!("{}-{}", self.prefix, self.counter)
    }
}

fn refusal(reply: &Reply) -> Option<ClientError> {
    let answer = reply.json();
    if answer.get("status").and_then(Value::as_str) != Some("error") {
        return None;
    }
    let code = answer.get("code").and_then(Value::as_u64).unwrap_or_default();
    let reason = answer.get("reason").and_then(Value::as_str).unwrap_or_default().to_owned();
    Some(ClientError::Refused { code, reason })
}
