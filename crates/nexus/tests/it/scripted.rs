//! A workspace whose model does exactly what the message says: the message lists tool calls, and the
//! scripted server makes them one after the other, by a worker or by the manager itself.
//!
//! The script has no memory: what comes next is read off the conversation, so that it goes on after a
//! crash of the daemon as a real model would.

use std::sync::atomic::{AtomicUsize, Ordering};

use nexus_testkit::model::{Asked, ModelServer, Reply, Wire};
use nexus_testkit::{Daemon, DaemonOptions, Workspace};
use serde_json::{Value, json};

/// Stands before a list of calls for a worker, and for the manager.
const WORK: &str = "WORK ";
const SELF: &str = "SELF ";

/// A workspace, its daemon and its model.
pub(crate) struct Scripted {
    pub(crate) workspace: Workspace,
    pub(crate) server: ModelServer,
    pub(crate) daemon: Daemon,
    count: AtomicUsize,
}

/// What came of one message.
#[derive(Debug)]
pub(crate) struct Done {
    pub(crate) request: String,
    /// Results of the calls, in order.
    pub(crate) results: Vec<String>,
    /// The last reply.
    pub(crate) reply: String,
}

/// Makes an onboarded workspace that talks to `server`.
pub(crate) fn workspace(server: &ModelServer) -> Workspace {
    let mut workspace = Workspace::initialized(env!("CARGO_BIN_EXE_nexus"));
    server.configure(&mut workspace, Wire::Anthropic);
    workspace.write("state/agents/ada/IDENTITY.md", "---\nname: Ada\n---\nAda helps.\n");
    workspace.write("state/agents/ada/SOUL.md", "Kind and exact.\n");
    workspace.write("state/user/IDENTITY.md", "---\nname: Tim\n---\nTim owns it.\n");
    workspace
}

/// Starts a server that follows the lists of calls.
pub(crate) fn server() -> ModelServer {
    let server = ModelServer::start();
    server.answer(|asked| Some(next(asked)));
    server
}

impl Scripted {
    /// Starts everything; `prepare` may change the workspace before the daemon runs.
    pub(crate) fn start(prepare: impl FnOnce(&mut Workspace)) -> Self {
        let server = server();
        let mut workspace = workspace(&server);
        prepare(&mut workspace);
        let daemon = Daemon::start(&workspace, &DaemonOptions::default());
        Self { workspace, server, daemon, count: AtomicUsize::new(0) }
    }

    /// Has a worker make these calls.
    pub(crate) fn work(&self, calls: &Value) -> Done {
        self.finish(&self.begin(WORK, calls))
    }

    /// Has a worker make these calls, in another conversation.
    pub(crate) fn work_in(&self, session: &str, calls: &Value) -> Done {
        self.finish(&self.begin_in(WORK, calls, Some(session)))
    }

    /// Has the manager make these calls.
    pub(crate) fn manage(&self, calls: &Value) -> Done {
        self.finish(&self.begin(SELF, calls))
    }

    /// Sends a worker off and returns at once, with the request and the mark of this message.
    pub(crate) fn begin_work(&self, calls: &Value) -> (String, String) {
        self.begin(WORK, calls)
    }

    fn begin(&self, who: &str, calls: &Value) -> (String, String) {
        self.begin_in(who, calls, None)
    }

    fn begin_in(&self, who: &str, calls: &Value, session: Option<&str>) -> (String, String) {
        let mark = format!("mark-{}", self.count.fetch_add(1, Ordering::Relaxed));
        let mut body = json!({ "message": format!("{who}{} {mark}", json!(calls)) });
        if let Some(session) = session {
            body["session"] = json!(session);
        }
        let accepted = self.daemon.post("/api/chat", &body).json();
        let request = accepted["requestId"].as_str().unwrap_or_else(|| panic!("{accepted}")).to_owned();
        (request, mark)
    }

    /// Waits for the end of a message.
    pub(crate) fn finish(&self, (request, mark): &(String, String)) -> Done {
        let waited = self.daemon.get(&format!("/api/chat/wait?request={request}&timeoutMs=60000")).json();
        assert_eq!(waited["quiescent"], true, "{waited}\n{}", self.daemon.log());
        let replies = waited["replies"].as_array().cloned().unwrap_or_default();
        let reply = replies.last().and_then(|line| line["text"].as_str()).unwrap_or_default().to_owned();
        Done { request: request.clone(), results: self.results(mark), reply }
    }

    /// Returns the results the model was told for the message with this mark.
    pub(crate) fn results(&self, mark: &str) -> Vec<String> {
        let asked = self.server.asked();
        let own = asked.iter().filter(|asked| lines(asked).iter().any(|line| is_own(line, mark)));
        own.map(results).max_by_key(Vec::len).unwrap_or_default()
    }
}

/// Whether a message is the list of calls with this mark, as its maker was told it.
fn is_own(text: &str, mark: &str) -> bool {
    text.ends_with(mark) && (text.contains(SELF) || text.contains("kind: task"))
}

/// What the scripted model says next.
pub(crate) fn next(asked: &Asked) -> Reply {
    let is_worker = !asked.has_tool("wait");
    let texts = lines(asked);
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
