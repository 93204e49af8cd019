//! An MCP server of any make as the one that is asked: started anew for each project, spoken to on
//! its standard streams, its tools called by whatever names it gives them.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nexus_process::Piped;
use serde_json::{Map, Value, json};

use super::subject::{Event, NoAnswer, Subject};

/// How many answers may fail to come before nothing more is asked.
const MAX_SILENCES: usize = 3;
/// Most pages of a list of tools.
const MAX_PAGES: usize = 100;
/// How a server says that it does not know a method.
const NO_SUCH_METHOD: i64 = -32601;
/// The version asked for: old enough for every server, and any the server names instead will do.
const PROTOCOL: &str = "2025-06-18";
/// What stands for the project's folder in the command.
const PROJECT_TOKEN: &str = "{PROJECT}";

/// What a server calls a tool, and which parameters it wants otherwise.
#[derive(Debug, Clone, Default, PartialEq)]
struct Mapped {
    name: String,
    set: Map<String, Value>,
    drop: Vec<String>,
}

/// Names of tools at a server.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ToolNames(Vec<(String, Mapped)>);

impl ToolNames {
    /// Reads an object from our name to the server's, or to `{"name", "set", "drop"}`.
    ///
    /// # Errors
    /// The text is no such object.
    pub fn parse(text: &str) -> Result<Self, String> {
        let map: Map<String, Value> = serde_json::from_str(text).map_err(|error| error.to_string())?;
        let entry = |(ours, theirs): (String, Value)| {
            let mapped = match theirs {
                Value::String(name) => Mapped { name, ..Mapped::default() },
                Value::Object(entry) => Mapped {
                    name: entry.get("name").and_then(Value::as_str).unwrap_or(&ours).to_owned(),
                    set: entry.get("set").and_then(Value::as_object).cloned().unwrap_or_default(),
                    drop: entry
                        .get("drop")
                        .and_then(Value::as_array)
                        .into_iter()
                        .flatten()
                        .filter_map(Value::as_str)
                        .map(str::to_owned)
                        .collect(),
                },
                _ => return Err(format!("{ours}: a name or an object with expected a name")),
            };
            Ok((ours, mapped))
        };
        map.into_iter().map(entry).collect::<Result<_, _>>().map(Self)
    }

    fn apply(
        &self,
        tool: &str,
        parameters: &Map<String, Value>,
        listed: &[String],
    ) -> (String, Map<String, Value>) {
        let mut parameters = parameters.clone();
        if let Some((_, mapped)) = self.0.iter().find(|(ours, _)| ours == tool) {
            parameters.retain(|name, _| !mapped.drop.contains(name));
            parameters.extend(mapped.set.clone());
            return (mapped.name.clone(), parameters);
        }
        // The one prefix that upstream's own servers use.
        let prefixed = format!("nx_{tool}");
        let is_prefixed = !listed.iter().any(|name| name == tool) && listed.contains(&prefixed);
        (if is_prefixed { prefixed } else { tool.to_owned() }, parameters)
    }
}

/// A server under test.
#[derive(Debug)]
pub struct Server {
    command: Vec<String>,
    names: ToolNames,
    patience: Duration,
    running: Option<Running>,
    has_started: bool,
    silences: usize,
    given_up: Option<String>,
}

#[derive(Debug)]
struct Running {
    root: PathBuf,
    pipe: Piped,
    patience: Duration,
    listed: Vec<String>,
    asked: u64,
}

/// How asking went wrong.
#[derive(Debug)]
enum Fault {
    /// The server answered with an error.
    Said(String),
    /// No answer came in time.
    Silent(String),
    /// There is no server, or not the one that is meant.
    Gone(String),
}

impl Fault {
    fn into_message(self) -> String {
        match self {
            Self::Said(message) | Self::Silent(message) | Self::Gone(message) => message,
        }
    }
}

impl Server {
    /// Takes the command that starts the server; `{PROJECT}` in it stands for the project's folder,
    /// which is also the working folder. No answer may take longer than `patience`.
    ///
    /// # Errors
    /// The command is empty.
    pub fn new(command: Vec<String>, names: ToolNames, patience: Duration) -> Result<Self, String> {
        if command.is_empty() {
            return Err("the command does not name a program".to_owned());
        }
        let (running, given_up) = (None, None);
        Ok(Self { command, names, patience, running, has_started: false, silences: 0, given_up })
    }

    fn ask(
        &mut self,
        root: &Path,
        tool: &str,
        parameters: &Map<String, Value>,
    ) -> Result<Result<Value, String>, Fault> {
        let running = match self.running.take().filter(|running| running.root == root) {
            Some(running) => self.running.insert(running),
            None => self.running.insert(Running::start(&self.command, root, self.patience)?),
        };
        self.has_started = true;
        let (name, parameters) = self.names.apply(tool, parameters, &running.listed);
        if !running.listed.contains(&name) {
            return Err(Fault::Gone(format!("the server does not list the tool {name}")));
        }
        // An error to a call of a tool that is there is how some servers refuse.
        match running.ask("tools/call", &json!({ "name": name, "arguments": parameters })) {
            Ok(result) => Ok(read(&result)),
            Err(Fault::Said(message)) => Ok(Err(message)),
            Err(fault) => Err(fault),
        }
    }
}

/// Returns the answer in the result of a call, or the refusal.
fn read(result: &Value) -> Result<Value, String> {
    let text = result["content"][0]["text"].as_str().unwrap_or_default();
    let value = serde_json::from_str(text).unwrap_or_else(|_| Value::from(text));
    if result["isError"] == true {
        let message = value["error"].as_str().map(str::to_owned);
        return Err(message.unwrap_or_else(|| text.to_owned()));
    }
    Ok(value)
}

impl Running {
    fn start(command: &[String], root: &Path, patience: Duration) -> Result<Self, Fault> {
        let folder = root.to_string_lossy();
        let mut words = command.iter().map(|word| word.replace(PROJECT_TOKEN, &folder));
        let program = words.next().unwrap_or_default();
        let arguments: Vec<String> = words.collect();
        let pipe = Piped::start(program.as_ref(), &arguments, root)
            .map_err(|error| Fault::Gone(format!("{program} cannot be started: {error}")))?;
        let mut running = Self { root: root.to_owned(), pipe, patience, listed: Vec::new(), asked: 0 };
        running.ask(
            "initialize",
            &json!({
                "protocolVersion": PROTOCOL, "capabilities": {},
                "clientInfo": { "name": "nexus-conformance", "version": env!("CARGO_PKG_VERSION") },
            }),
        )?;
        running.say(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }))?;
        let mut page = json!({});
        for _ in 0..MAX_PAGES {
            let tools = running.ask("tools/list", &page)?;
            let listed = tools["tools"].as_array().into_iter().flatten();
            running.listed.extend(listed.filter_map(|tool| tool["name"].as_str()).map(str::to_owned));
            match tools["nextCursor"].as_str() {
                Some(next) => page = json!({ "cursor": next }),
                None => break,
            }
        }
        Ok(running)
    }

    fn say(&mut self, message: &Value) -> Result<(), Fault> {
        let said = self.pipe.say(&message.to_string());
        said.map_err(|error| Fault::Gone(format!("the server does not accept input: {error}")))
    }

    fn ask(&mut self, method: &str, parameters: &Value) -> Result<Value, Fault> {
        self.asked += 1;
        let id = self.asked;
        self.say(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": parameters }))?;
        let deadline = Instant::now() + self.patience;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let line = self.pipe.hear(left).map_err(|error| match error.kind() {
                std::io::ErrorKind::TimedOut => {
                    let seconds = self.patience.as_secs();
                    Fault::Silent(format!("the server does not answer {method} within {seconds} s"))
                }
                _ => Fault::Gone(format!("the server does not answer {method}: {error}")),
            })?;
            // Servers that print other things are forgiven.
            let Ok(mut message) = serde_json::from_str::<Value>(&line) else { continue };
            if message["method"].is_string() && !message["id"].is_null() {
                let refused = json!({ "code": NO_SUCH_METHOD, "message": "not supported" });
                self.say(&json!({ "jsonrpc": "2.0", "id": message["id"], "error": refused }))?;
            } else if message["id"] == id {
                let error = &message["error"];
                if !error.is_object() {
                    return Ok(message["result"].take());
                }
                let said = error["message"].as_str().unwrap_or("an error without a message").to_owned();
                let is_foreign = error["code"] == NO_SUCH_METHOD;
                return Err(if is_foreign {
                    Fault::Gone(format!("{method}: {said}"))
                } else {
                    Fault::Said(said)
                });
            }
        }
    }
}

impl Subject for Server {
    fn call(&mut self, root: &Path, tool: &str, parameters: &Map<String, Value>) -> Result<Value, NoAnswer> {
        if let Some(why) = &self.given_up {
            return Err(NoAnswer::Unreachable(format!("not asked because {why}")));
        }
        let fault = match self.ask(root, tool, parameters) {
            Ok(answer) => return answer.map_err(NoAnswer::Refused),
            Err(fault) => fault,
        };
        // What is said late may not be taken for the answer to something else.
        self.running = None;
        self.silences += usize::from(matches!(fault, Fault::Silent(_)));
        let message = fault.into_message();
        // One that never came up will not come up for the next fixture, and a silent one is not waited for forever.
        if !self.has_started || self.silences >= MAX_SILENCES {
            self.given_up = Some(message.clone());
        }
        Err(NoAnswer::Unreachable(message))
    }

    fn event(&mut self, _root: &Path, _harness: &str, _event: &Event) -> Result<(), String> {
        Err("a server does not receive events".to_owned())
    }

    fn takes_events(&self) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATIENCE: Duration = Duration::from_secs(30);

    #[test]
    fn names_and_parameters_are_translated() {
        let names = ToolNames::parse(
            r#"{ "task_list": "list", "task_close": { "name": "close", "set": { "force": true }, "drop": ["x"] } }"#,
        )
        .unwrap();
        let parameters = Map::from_iter([("x".to_owned(), json!(1)), ("y".to_owned(), json!(2))]);
        let apply = |tool: &str, listed: &[String]| names.apply(tool, &parameters, listed);
        assert_eq!(apply("task_list", &[]), ("list".to_owned(), parameters.clone()));
        let (name, changed) = apply("task_close", &[]);
        assert_eq!((name.as_str(), Value::Object(changed)), ("close", json!({ "y": 2, "force": true })));
        let listed = ["nx_context".to_owned(), "nx_plan_start".to_owned(), "plan_start".to_owned()];
        assert_eq!(apply("context", &listed).0, "nx_context");
        assert_eq!(apply("plan_start", &listed).0, "plan_start");
        ToolNames::parse(r#"{ "task_list": 1 }"#).unwrap_err();
        ToolNames::parse("[]").unwrap_err();
        Server::new(Vec::new(), names, PATIENCE).unwrap_err();
    }

    #[test]
    fn a_server_that_is_none_is_never_a_refusal() {
        let folder = tempfile::tempdir().unwrap();
        let ask = |command: &[&str], times: usize| {
            let command = command.iter().map(|word| (*word).to_owned()).collect();
            let mut server = Server::new(command, ToolNames::default(), PATIENCE).unwrap();
            let mut said = String::new();
            for _ in 0..times {
                match server.call(folder.path(), "context", &Map::new()) {
                    Err(NoAnswer::Unreachable(why)) => said = why,
                    other => panic!("{other:?}"),
                }
            }
            said
        };
        assert!(ask(&["true"], 1).contains("server does not"));
        assert!(ask(&["/no/such"], 1).contains("cannot be started"));
        assert!(ask(&["true"], 2).starts_with("not asked because "), "it never came up");
    }

    #[test]
    fn a_server_that_falls_silent_is_waited_for_three_times() {
        let folder = tempfile::tempdir().unwrap();
        let script = r#"read -r a; echo '{"id":1,"result":{}}'; read -r b; read -r c
            echo '{"id":2,"result":{"tools":[{"name":"nx_other"}],"nextCursor":"2"}}'; read -r d
            echo '{"id":3,"result":{"tools":[{"name":"nx_context"}]}}'; cat > /dev/null"#;
        let command = ["sh", "-c", script].map(str::to_owned).to_vec();
        let mut server = Server::new(command, ToolNames::default(), Duration::from_millis(200)).unwrap();
        let mut ask = || server.call(folder.path(), "context", &Map::new()).unwrap_err().to_string();
        for _ in 0..MAX_SILENCES {
            assert!(ask().starts_with("the server does not answer tools/call within"));
        }
        assert!(ask().starts_with("not asked because the server does not answer tools/call"));
    }
}
