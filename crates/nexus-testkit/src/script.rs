//! A model that does exactly what the message says: the message lists tool calls, and the scripted server makes
//! them one after the other, by a worker (`WORK [["tool", {…}], …] mark`) or by the manager itself (`SELF …`).
//!
//! The script has no memory: what comes next is read off the conversation, so that it goes on after a
//! crash of the daemon as a real model would.

use serde_json::{Value, json};

use crate::model::{Asked, ModelServer, Reply};

/// Stands before a list of calls for a worker.
pub const WORK: &str = "WORK ";
/// Stands before a list of calls for the manager.
pub const SELF: &str = "SELF ";

/// Starts a server that follows the lists of calls.
pub fn server() -> ModelServer {
    let server = ModelServer::start();
    server.answer(|asked| Some(next(asked)));
    server
}

/// Returns the results the model was told for the message with this mark.
pub fn results_of(server: &ModelServer, mark: &str) -> Vec<String> {
    let asked = server.asked();
    let own = asked.iter().filter(|asked| lines(asked).iter().any(|line| is_own(line, mark)));
    own.map(results).max_by_key(Vec::len).unwrap_or_default()
}

/// Whether a message is the list of calls with this mark, as its maker was told it.
fn is_own(text: &str, mark: &str) -> bool {
    text.ends_with(mark) && (text.contains(SELF) || text.contains("kind: task"))
}

/// What the scripted model says next.
pub fn next(asked: &Asked) -> Reply {
    let texts = lines(asked);
    // A policy may have taken a manager's `wait` away.
    let is_worker = !asked.has_tool("wait") && !texts.iter().any(|text| text.contains("kind: message"));
    let Some((place, task)) = texts
        .iter()
        .enumerate()
        .rev()
        .find(|(_, text)| if is_worker { text.contains(WORK) } else { text.contains("kind: message") })
    else {
        return Reply::text("Nothing to do.");
    };
    let done = texts.iter().skip(place).filter(|text| text.starts_with(RESULT)).count();
    if !is_worker && !task.contains(SELF) {
        let came_back = texts.iter().skip(place).any(|text| text.contains("kind: worker_result"));
        return match (task.rsplit_once(WORK), done) {
            (Some(_), _) if came_back => Reply::text("It is done."),
            (Some((_, list)), 0) => {
                Reply::calls("agent_send", &json!({"op": "dispatch", "text": format!("{WORK}{list}")}))
            }
            (Some(_), _) => Reply::text("Somebody is at it."),
            (None, _) => Reply::text("Hello."),
        };
    }
    let list = task.rsplit_once(WORK).or_else(|| task.rsplit_once(SELF)).map_or("[]", |(_, list)| list);
    let list = list.rsplit_once(' ').map_or(list, |(list, _)| list);
    let calls: Vec<(String, Value)> = serde_json::from_str(list).unwrap_or_default();
    match calls.get(done) {
        Some((tool, arguments)) => Reply::calls(tool, arguments),
        None => Reply::text(format!("All {done} calls are made.")),
    }
}

/// Stands before a result among the texts of a conversation.
const RESULT: &str = "\u{1}result ";

/// Everything said to the model in order: words as they are, results marked.
fn lines(asked: &Asked) -> Vec<String> {
    let mut texts = Vec::new();
    for message in asked.messages().iter().filter(|message| message["role"] == "user") {
        match &message["content"] {
            Value::String(text) => texts.push(text.clone()),
            Value::Array(parts) => {
                for part in parts {
                    if part["type"] == "tool_result" {
                        texts.push(format!("{RESULT}{}", content_of(&part["content"])));
                    } else if let Some(text) = part["text"].as_str() {
                        texts.push(text.to_owned());
                    }
                }
            }
            _ => {}
        }
    }
    texts
}

fn content_of(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(parts) => {
            parts.iter().filter_map(|part| part["text"].as_str()).collect::<Vec<_>>().join("\n")
        }
        _ => String::new(),
    }
}

fn results(asked: &Asked) -> Vec<String> {
    let texts = lines(asked);
    let start = texts.iter().rposition(|text| text.contains(WORK) || text.contains(SELF)).unwrap_or(0);
    texts.iter().skip(start).filter_map(|text| text.strip_prefix(RESULT)).map(str::to_owned).collect()
}
