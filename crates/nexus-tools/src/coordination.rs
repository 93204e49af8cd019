//! The tools by which agents work together: `agent_send`, `get_agent_status`, `wait`.

use nexus_base::id::SessionLabel;
use serde_json::Value;

/// Tool that dispatches, messages, cancels and lists workers.
pub const AGENT_SEND: &str = "agent_send";
/// Tool that looks at a worker.
pub const GET_AGENT_STATUS: &str = "get_agent_status";
/// Tool that ends a manager's turn without more words.
pub const WAIT: &str = "wait";

/// Older names that models may still use.
const DISPATCH_ALIAS: &str = "spawn_worker";
const MESSAGE_ALIAS: &str = "send_message_to_agent";

/// Longest task or message an agent may hand to another, in bytes.
const MAX_TEXT_LEN: usize = 64 * 1024;

/// What an agent wants of others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Coordinate {
    /// Send a worker off.
    Dispatch {
        /// Its task.
        text: String,
        /// Catalog role it should take.
        agent: Option<String>,
        /// Model it should use.
        model: Option<String>,
        /// Task of the project it should do.
        task: Option<u64>,
    },
    /// Say something to another session.
    Message {
        /// `parent`, or a session of one's own workers.
        target: String,
        /// The words.
        text: String,
        /// A worker stops what it is doing for them.
        interrupt: bool,
    },
    /// End a worker and everything below it.
    Cancel {
        /// The worker.
        session: SessionLabel,
    },
    /// List one's workers.
    List,
    /// Look at one worker, or all.
    Status {
        /// Which; all when absent.
        session: Option<SessionLabel>,
    },
}

/// Returns whether `tool` belongs to this family.
pub fn is_coordination(tool: &str) -> bool {
    matches!(tool, AGENT_SEND | GET_AGENT_STATUS | DISPATCH_ALIAS | MESSAGE_ALIAS)
}

/// Returns the name a tool goes by today.
pub(crate) fn canonical(tool: &str) -> &str {
    match tool {
        DISPATCH_ALIAS | MESSAGE_ALIAS => AGENT_SEND,
        other => other,
    }
}

/// Reads the arguments of a coordination call; the error is for the model.
pub fn parse(tool: &str, arguments: &Value) -> Result<Coordinate, String> {
    let op = match tool {
        DISPATCH_ALIAS => "dispatch",
        MESSAGE_ALIAS => "message",
        GET_AGENT_STATUS => {
            return Ok(Coordinate::Status { session: text_of(arguments, "session").map(SessionLabel::new) });
        }
        _ => arguments.get("op").and_then(Value::as_str).unwrap_or("(missing)"),
    };
    let interrupt = text_of(arguments, "deliveryMode").as_deref() == Some("interrupt");
    match (op, target_of(arguments)) {
        // Work for a session that is there already is a message to it.
        ("dispatch", Some(target)) => Ok(Coordinate::Message {
            target,
            text: bounded(arguments, &["text", "task", "message"])?,
            interrupt,
        }),
        ("dispatch", None) => {
            let task = arguments.get("task").and_then(Value::as_u64);
            let text = match bounded(arguments, &["text", "task", "message"]) {
                Err(_) if task.is_some() && text_of(arguments, "text").is_none() => String::new(),
                other => other?,
            };
            let (agent, model) = (text_of(arguments, "agent"), text_of(arguments, "model"));
            Ok(Coordinate::Dispatch { text, agent, model, task })
        }
        ("message", target) => Ok(Coordinate::Message {
            target: target.ok_or("agent_send message needs `target`: a session label or \"parent\"")?,
            text: bounded(arguments, &["text", "message"])?,
            interrupt,
        }),
        ("cancel", target) => Ok(Coordinate::Cancel {
            session: SessionLabel::new(
                target.ok_or("agent_send cancel needs `target`: the worker's session label")?,
            ),
        }),
        ("list", _) => Ok(Coordinate::List),
        (other, _) => Err(format!("agent_send has no op {other:?}; use dispatch, message, cancel or list")),
    }
}

fn bounded(arguments: &Value, names: &[&str]) -> Result<String, String> {
    let text = names.iter().find_map(|name| text_of(arguments, name)).ok_or("`text` is missing or empty")?;
    if text.len() > MAX_TEXT_LEN {
        return Err(format!(
            "`text` has {} bytes; the limit is {MAX_TEXT_LEN}. Put long material in a file",
            text.len()
        ));
    }
    Ok(text)
}

/// Reads `target` as a label or as `{session: …}`; both forms are in use.
fn target_of(arguments: &Value) -> Option<String> {
    let target = arguments.get("target")?;
    match target {
        Value::String(label) => Some(label.clone()),
        Value::Object(fields) => fields.get("session").and_then(Value::as_str).map(str::to_owned),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) => None,
    }
    .filter(|label| !label.is_empty())
}

fn text_of(arguments: &Value, name: &str) -> Option<String> {
    arguments.get(name).and_then(Value::as_str).filter(|text| !text.trim().is_empty()).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(tool: &str, arguments: &Value, expected: Result<Coordinate, &str>) {
        assert_eq!(parse(tool, arguments), expected.map_err(str::to_owned), "{tool} {arguments}");
    }

    #[test]
    fn every_form_of_a_call_is_read() {
        let dispatch = Coordinate::Dispatch { text: "look".into(), agent: None, model: None, task: None };
        check("agent_send", &json!({"op": "dispatch", "text": "look"}), Ok(dispatch.clone()));
        check("spawn_worker", &json!({"task": "look"}), Ok(dispatch));
        let message = Coordinate::Message { target: "parent".into(), text: "hi".into(), interrupt: false };
        check(
            "agent_send",
            &json!({"op": "message", "target": {"session": "parent"}, "text": "hi"}),
            Ok(message),
        );
        let more = Coordinate::Message { target: "worker:1".into(), text: "go on".into(), interrupt: true };
        check(
            "agent_send",
            &json!({"op": "dispatch", "target": {"kind": "session", "session": "worker:1"}, "text": "go on",
                    "deliveryMode": "interrupt"}),
            Ok(more),
        );
        check(
            "agent_send",
            &json!({"op": "dispatch", "target": {"kind": "new_session"}, "text": "look"}),
            Ok(Coordinate::Dispatch { text: "look".into(), agent: None, model: None, task: None }),
        );
        let numbered = Coordinate::Dispatch {
            text: String::new(),
            agent: Some("engineer".into()),
            model: None,
            task: Some(3),
        };
        check("agent_send", &json!({"op": "dispatch", "agent": "engineer", "task": 3}), Ok(numbered));
        check("agent_send", &json!({"op": "list"}), Ok(Coordinate::List));
        check("get_agent_status", &json!({}), Ok(Coordinate::Status { session: None }));
        check("agent_send", &json!({"op": "dispatch"}), Err("`text` is missing or empty"));
        check(
            "agent_send",
            &json!({}),
            Err("agent_send has no op \"(missing)\"; use dispatch, message, cancel or list"),
        );
    }
}
