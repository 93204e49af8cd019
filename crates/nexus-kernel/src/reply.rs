//! What the Kernel answers, in both spellings. Never a path; never longer than clients can take.

use serde::Serialize;
use serde_json::{Value, json};

use crate::code::{Code, Reject};
use crate::frame::MAX_REPLY_PAYLOAD;
use crate::ws_id::WsId;

/// What came of a request that was carried out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Outcome {
    Pong,
    Status(Status),
    Created { id: WsId, created: bool, created_at: Option<String> },
    Listed { names: Vec<String>, limit: usize },
    Shown { id: WsId, exists: bool, created_at: Option<String> },
    Destroyed { id: WsId, destroyed: bool, note: Option<&'static str> },
    Reset { id: WsId, created_at: Option<String> },
}

/// How the Kernel is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Status {
    pub(crate) status: &'static str,
    pub(crate) version: &'static str,
    pub(crate) pid: u32,
    pub(crate) uptime_seconds: u64,
    pub(crate) workspaces: usize,
    pub(crate) log_failures: u64,
}

/// Room for everything around the names of a listing, the longest trace and command id included.
const LISTING_FRAME_BYTES: usize = 512;

/// Renders the answer to a `CONTROL` frame.
pub(crate) fn control(outcome: &Outcome) -> String {
    let value = match outcome {
        Outcome::Pong => return r#"{"status":"pong"}"#.to_owned(),
        Outcome::Status(status) => json!(status),
        Outcome::Created { id, created, created_at: _ } => {
            json!({ "status": "ok", "ws_id": id.as_str(), "created": created })
        }
        Outcome::Listed { names, limit } => {
            let page = page(names, *limit, |name| name.len() + r#""","#.len());
            let mut value = json!({ "status": "ok", "count": page.len(), "workspaces": page });
            mark_truncated(&mut value, page.len() < names.len());
            value
        }
        Outcome::Shown { id, exists, created_at } => {
            json!({ "status": "ok", "ws_id": id.as_str(), "exists": exists, "created_at": created_at })
        }
        Outcome::Destroyed { id, destroyed, note } => {
            let mut value = json!({ "status": "ok", "ws_id": id.as_str(), "destroyed": destroyed });
            if let Some(note) = note {
                value["note"] = json!(note);
            }
            value
        }
        Outcome::Reset { id, created_at: _ } => {
            json!({ "status": "ok", "ws_id": id.as_str(), "reset": true })
        }
    };
    value.to_string()
}

/// Renders the answer to a `CONTROL_CALL` frame.
pub(crate) fn call(outcome: &Outcome, command_id: &str, trace_id: &[u8]) -> String {
    let (reason, data) = match outcome {
        Outcome::Pong => ("pong", json!({})),
        Outcome::Status(status) => ("status", json!(status)),
        Outcome::Created { id, created, created_at } => (
            "workspace_created",
            json!({ "ws_id": id.as_str(), "exists": true, "state": "created",
                    "created": created, "created_at": created_at }),
        ),
        Outcome::Listed { names, limit } => {
            let page = page(names, *limit, |name| name.len() + r#"{"ws_id":"","state":"created"},"#.len());
            let items: Vec<Value> =
                page.iter().map(|name| json!({ "ws_id": name, "state": "created" })).collect();
            let mut value = json!({ "count": items.len(), "workspaces": items });
            mark_truncated(&mut value, page.len() < names.len());
            ("workspace_list", value)
        }
        Outcome::Shown { id, exists, created_at } => {
            let state = if *exists { "created" } else { "absent" };
            let data =
                json!({ "ws_id": id.as_str(), "exists": exists, "state": state, "created_at": created_at });
            ("workspace_status", data)
        }
        Outcome::Destroyed { id, destroyed, note } => {
            let mut value = json!({ "ws_id": id.as_str(), "exists": false, "state": "destroyed",
                                    "destroyed": destroyed });
            if let Some(note) = note {
                value["note"] = json!(note);
            }
            ("workspace_destroyed", value)
        }
        Outcome::Reset { id, created_at } => (
            "workspace_reset",
            json!({ "ws_id": id.as_str(), "exists": true, "state": "created", "created_at": created_at }),
        ),
    };
    exec_reply("ok", "OK", reason, command_id, trace_id, Some(data), 0)
}

/// Renders the refusal of a `CONTROL_CALL` frame: the words that form has, and our number.
pub(crate) fn call_reject(reject: Reject, command_id: &str, trace_id: &[u8]) -> String {
    let word = match reject.code {
        Code::BadWsId => "BAD_ARGS",
        // That form has no word for missing authority; it never came this far upstream.
        Code::ArmingRequired | Code::RoleRequired => "DENIED",
        Code::InternalError if reject == crate::code::UNKNOWN_METHOD => "NOT_IMPLEMENTED",
        Code::InternalError
            if [crate::code::BAD_REQUEST, crate::code::UNSUPPORTED_ACTION].contains(&reject) =>
        {
            "BAD_ARGS"
        }
        Code::BadMagic
        | Code::BadVersion
        | Code::PayloadTooBig
        | Code::BadChecksum
        | Code::NeedHandshake
        | Code::LawViolation
        | Code::InternalError => "INTERNAL_ERROR",
    };
    exec_reply("error", word, reject.reason, command_id, trace_id, None, reject.code.number())
}

fn exec_reply(
    status: &str,
    word: &str,
    reason: &str,
    command_id: &str,
    trace_id: &[u8],
    data: Option<Value>,
    error_code: u16,
) -> String {
    let mut value = json!({
        "type": "yai.exec.reply.v1", "status": status, "code": word, "reason": reason,
        "command_id": command_id, "target_plane": "kernel",
        "trace_id": String::from_utf8_lossy(trace_id),
    });
    if let Some(data) = data {
        value["data"] = data;
    }
    value["error_code"] = json!(error_code);
    value.to_string()
}

/// Takes as many names as fit a reply.
fn page(names: &[String], limit: usize, cost: impl Fn(&String) -> usize) -> &[String] {
    let mut room = MAX_REPLY_PAYLOAD - LISTING_FRAME_BYTES;
    let mut count = 0;
    for name in names.iter().take(limit) {
        match room.checked_sub(cost(name)) {
            Some(left) => room = left,
            None => break,
        }
        count += 1;
    }
    &names[..count]
}

fn mark_truncated(value: &mut Value, truncated: bool) {
    if truncated {
        value["truncated"] = json!(true);
    }
}
