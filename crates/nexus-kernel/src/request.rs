//! What a payload asks for, from either spelling: `CONTROL` (method and params) or `CONTROL_CALL`
//! (command and argv). Whether it may be asked for is the policy's business.

use nexus_base::words;
use serde_json::{Map, Value};

use crate::code::{self, Reject};
use crate::json;
use crate::policy::Needs;
use crate::ws_id::WsId;

words! {
    /// The methods there are.
    pub enum Method {
        /// Are you there?
        Ping = "ping",
        /// How is the Kernel?
        Status = "status",
        /// Make a workspace.
        Create = "ws_create",
        /// Name the workspaces.
        List = "ws_list",
        /// Is this workspace there?
        Show = "ws_status",
        /// Remove a workspace.
        Destroy = "ws_destroy",
        /// Remove a workspace and make it anew.
        Reset = "ws_reset",
    }
}

impl Method {
    /// Returns what it takes to use it.
    pub const fn needs(self) -> Needs {
        match self {
            Self::Ping | Self::Status | Self::List | Self::Show => Needs::Handshake,
            Self::Create | Self::Destroy | Self::Reset => Needs::Authority,
        }
    }
}

/// A request with its arguments checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Request {
    /// See [`Method::Ping`].
    Ping,
    /// See [`Method::Status`].
    Status,
    /// See [`Method::Create`].
    Create {
        id: WsId,
        /// Whether to make a Nexus workspace inside.
        init: bool,
    },
    /// See [`Method::List`].
    List {
        /// Only names after this one.
        after: Option<String>,
        /// At most this many.
        limit: Option<usize>,
    },
    /// See [`Method::Show`].
    Show { id: WsId },
    /// See [`Method::Destroy`].
    Destroy {
        id: WsId,
        /// Whether to stop a daemon that runs in it.
        stop: bool,
    },
    /// See [`Method::Reset`].
    Reset {
        id: WsId,
        /// Whether to stop a daemon that runs in it.
        stop: bool,
    },
}

impl Request {
    /// Reads the payload of a `CONTROL` frame, method and arguments, without judging authority.
    ///
    /// # Errors
    /// What the sender would hear, had it all authority.
    pub fn from_control(payload: &[u8]) -> Result<Self, Reject> {
        parse_control(payload)?.request
    }

    /// Reads the payload of a `CONTROL_CALL` frame whose envelope names `envelope_ws`.
    ///
    /// # Errors
    /// What the sender would hear, had it all authority.
    pub fn from_call(payload: &[u8], envelope_ws: &[u8]) -> Result<Self, Reject> {
        parse_call(payload, envelope_ws).parsed?.request
    }

    /// Returns the workspace it is about, if it is about one.
    pub fn target(&self) -> Option<&WsId> {
        match self {
            Self::Create { id, .. }
            | Self::Show { id }
            | Self::Destroy { id, .. }
            | Self::Reset { id, .. } => Some(id),
            Self::Ping | Self::Status | Self::List { .. } => None,
        }
    }
}

/// A payload whose method is known; its arguments may still be wrong, which is told only to those
/// with the authority to use the method.
#[derive(Debug)]
pub(crate) struct Parsed {
    pub(crate) method: Method,
    /// The target as the client spelled it, for the log.
    pub(crate) target: Option<String>,
    pub(crate) request: Result<Request, Reject>,
}

/// Reads the payload of a `CONTROL` frame.
pub(crate) fn parse_control(payload: &[u8]) -> Result<Parsed, Reject> {
    let Some(Value::Object(mut call)) = json::parse(payload) else {
        return Err(code::BAD_REQUEST);
    };
    let method = take_text(&mut call, "method").ok_or(code::BAD_REQUEST)?;
    let params = match call.remove("params") {
        Some(Value::Object(params)) => params,
        None => Map::new(),
        Some(_) => return Err(code::BAD_REQUEST),
    };
    // A client that pastes an id into its JSON can be made to add keys; none is passed over.
    if !call.is_empty() {
        return Err(code::BAD_REQUEST);
    }
    let method = match method.as_str() {
        "ping" => Method::Ping,
        "status" => Method::Status,
        "ws_create" => Method::Create,
        "ws_list" => Method::List,
        "ws_status" => Method::Show,
        "ws_destroy" => Method::Destroy,
        "ws_reset" => Method::Reset,
        _ => return Err(code::UNKNOWN_METHOD),
    };
    let target = params.get("ws_id").and_then(Value::as_str).map(str::to_owned);
    Ok(Parsed { method, target, request: from_params(method, params) })
}

fn from_params(method: Method, mut params: Map<String, Value>) -> Result<Request, Reject> {
    let request = match method {
        Method::Ping => Request::Ping,
        Method::Status => Request::Status,
        Method::Create => {
            let init = take_flag(&mut params, "init")?;
            Request::Create { id: take_target(&mut params)?, init }
        }
        Method::List => {
            let after = match params.remove("after") {
                None => None,
                Some(Value::String(text)) => Some(text),
                Some(_) => return Err(code::BAD_REQUEST),
            };
            let limit = match params.remove("limit") {
                None => None,
                Some(value) => Some(limit_of(value.as_u64())?),
            };
            Request::List { after, limit }
        }
        Method::Show => Request::Show { id: take_target(&mut params)? },
        Method::Destroy => {
            let stop = take_flag(&mut params, "stop")?;
            Request::Destroy { id: take_target(&mut params)?, stop }
        }
        Method::Reset => {
            let stop = take_flag(&mut params, "stop")?;
            Request::Reset { id: take_target(&mut params)?, stop }
        }
    };
    if params.is_empty() || method == Method::Ping { Ok(request) } else { Err(code::BAD_REQUEST) }
}

/// A `CONTROL_CALL` payload: what its reply must repeat, and what it asks for.
#[derive(Debug)]
pub(crate) struct ParsedCall {
    pub(crate) command_id: String,
    pub(crate) parsed: Result<Parsed, Reject>,
}

/// Reads the payload of a `CONTROL_CALL` frame; `envelope_ws` is the target if argv names none.
pub(crate) fn parse_call(payload: &[u8], envelope_ws: &[u8]) -> ParsedCall {
    let refused = |command_id: String, reject| ParsedCall { command_id, parsed: Err(reject) };
    let Some(Value::Object(mut call)) = json::parse(payload) else {
        return refused(String::new(), code::BAD_REQUEST);
    };
    let Some(command_id) = take_text(&mut call, "command_id").filter(|text| text.len() <= 128) else {
        return refused(String::new(), code::BAD_REQUEST);
    };
    let Some(words) = take_words(&mut call) else {
        return refused(command_id, code::BAD_REQUEST);
    };
    let parsed = match command_id.as_str() {
        "yai.kernel.ping" => Ok(Parsed { method: Method::Ping, target: None, request: Ok(Request::Ping) }),
        "yai.kernel.ws_list" => list_from_words(&words),
        "yai.kernel.ws_status" => with_target(Method::Show, &words, envelope_ws),
        "yai.kernel.ws" => match words.split_first() {
            Some((action, rest)) => match action.as_str() {
                "create" => with_target(Method::Create, rest, envelope_ws),
                "destroy" => with_target(Method::Destroy, rest, envelope_ws),
                "reset" => with_target(Method::Reset, rest, envelope_ws),
                _ => Err(code::UNSUPPORTED_ACTION),
            },
            None => Err(code::UNSUPPORTED_ACTION),
        },
        _ => Err(code::UNKNOWN_METHOD),
    };
    ParsedCall { command_id, parsed }
}

fn list_from_words(words: &[String]) -> Result<Parsed, Reject> {
    let mut request = Ok(Request::List { after: None, limit: None });
    let mut words = words.iter();
    while let (Some(word), Ok(Request::List { after, limit })) = (words.next(), &mut request) {
        match (word.as_str(), words.next()) {
            ("--after", Some(value)) => *after = Some(value.clone()),
            ("--limit", Some(value)) => match limit_of(value.parse().ok()) {
                Ok(number) => *limit = Some(number),
                Err(reject) => request = Err(reject),
            },
            _ => request = Err(code::BAD_REQUEST),
        }
    }
    Ok(Parsed { method: Method::List, target: None, request })
}

fn with_target(method: Method, words: &[String], envelope_ws: &[u8]) -> Result<Parsed, Reject> {
    let (mut target, mut init, mut stop) = (None, false, false);
    let mut words = words.iter();
    while let Some(word) = words.next() {
        match word.as_str() {
            "--ws-id" | "--ws" if target.is_none() => {
                target = Some(words.next().ok_or(code::BAD_REQUEST)?.clone());
            }
            "--init" if method == Method::Create => init = true,
            "--stop" if method == Method::Destroy || method == Method::Reset => stop = true,
            _ => return Err(code::BAD_REQUEST),
        }
    }
    let target = target.unwrap_or_else(|| String::from_utf8_lossy(envelope_ws).into_owned());
    let request = WsId::parse_target(target.as_bytes()).map(|id| match method {
        Method::Create => Request::Create { id, init },
        Method::Destroy => Request::Destroy { id, stop },
        Method::Reset => Request::Reset { id, stop },
        Method::Ping | Method::Status | Method::List | Method::Show => Request::Show { id },
    });
    Ok(Parsed { method, target: Some(target), request })
}

fn take_text(map: &mut Map<String, Value>, key: &str) -> Option<String> {
    match map.remove(key) {
        Some(Value::String(text)) => Some(text),
        _ => None,
    }
}

fn take_words(call: &mut Map<String, Value>) -> Option<Vec<String>> {
    let words = match call.remove("argv") {
        None => return Some(Vec::new()),
        Some(Value::Array(words)) => words,
        Some(_) => return None,
    };
    words.into_iter().map(|word| if let Value::String(text) = word { Some(text) } else { None }).collect()
}

fn take_flag(map: &mut Map<String, Value>, key: &str) -> Result<bool, Reject> {
    match map.remove(key) {
        None => Ok(false),
        Some(Value::Bool(flag)) => Ok(flag),
        Some(_) => Err(code::BAD_REQUEST),
    }
}

fn take_target(map: &mut Map<String, Value>) -> Result<WsId, Reject> {
    WsId::parse_target(take_text(map, "ws_id").ok_or(code::BAD_REQUEST)?.as_bytes())
}

fn limit_of(number: Option<u64>) -> Result<usize, Reject> {
    number
        .and_then(|number| usize::try_from(number).ok())
        .filter(|&number| number > 0)
        .ok_or(code::BAD_REQUEST)
}
