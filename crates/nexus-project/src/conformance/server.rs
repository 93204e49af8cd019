//! An MCP server of any make as the one that is asked: started anew for each project, spoken to on
//! its standard streams, its tools called by whatever names it gives them.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nexus_process::Piped;
use serde_json::{Map, Value, json};

use super::subject::{Event, Subject};

/// How long an answer may take.
const ANSWER_WITHIN: Duration = Duration::from_secs(30);
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
                _ => return Err(format!("{ours}: a name or an object with a name was expected")),
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
    running: Option<Running>,
}

#[derive(Debug)]
struct Running {
    root: PathBuf,
    pipe: Piped,
    listed: Vec<String>,
    asked: u64,
}

impl Server {
    /// Takes the command that starts the server; `{PROJECT}` in it stands for the project's folder,
    /// which is also the working folder.
    ///
    /// # Errors
    /// The command is empty.
    pub fn new(command: Vec<String>, names: ToolNames) -> Result<Self, String> {
        if command.is_empty() {
            return Err("the command names no program".to_owned());
        }
        Ok(Self { command, names, running: None })
    }

    fn at(&mut self, root: &Path) -> Result<&mut Running, String> {
        let same = self.running.as_ref().is_some_and(|running| running.root == root);
        if !same {
            self.running = None;
            self.running = Some(Running::start(&self.command, root)?);
        }
        self.running.as_mut().ok_or_else(|| "the server does not run".to_owned())
    }
}

impl Running {
    fn start(command: &[String], root: &Path) -> Result<Self, String> {
        let folder = root.to_string_lossy();
        let mut words = command.iter().map(|word| word.replace(PROJECT_TOKEN, &folder));
        let program = words.next().unwrap_or_default();
        let arguments: Vec<String> = words.collect();
        let pipe = Piped::start(program.as_ref(), &arguments, root)
            .map_err(|error| format!("{program} cannot be started: {error}"))?;
        let mut running = Self { root: root.to_owned(), pipe, listed: Vec::new(), asked: 0 };
        running.ask(
            "initialize",
            &json!({
                "protocolVersion": PROTOCOL, "capabilities": {},
                "clientInfo": { "name": "nexus-conformance", "version": env!("CARGO_PKG_VERSION") },
            }),
        )?;
        running.say(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }))?;
        let tools = running.ask("tools/list", &json!({}))?;
        let listed = tools["tools"].as_array().into_iter().flatten();
        running.listed = listed.filter_map(|tool| tool["name"].as_str()).map(str::to_owned).collect();
        Ok(running)
    }

    fn say(&mut self, message: &Value) -> Result<(), String> {
        self.pipe.say(&message.to_string()).map_err(|error| format!("the server does not listen: {error}"))
    }

    fn ask(&mut self, method: &str, parameters: &Value) -> Result<Value, String> {
        self.asked += 1;
        let id = self.asked;
        self.say(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": parameters }))?;
        let deadline = Instant::now() + ANSWER_WITHIN;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let line =
                self.pipe.hear(left).map_err(|error| format!("the server does not answer: {error}"))?;
            // Servers that print other things are forgiven.
            let Ok(mut message) = serde_json::from_str::<Value>(&line) else { continue };
            if message["method"].is_string() && !message["id"].is_null() {
                let refused = json!({ "code": -32601, "message": "not supported" });
                self.say(&json!({ "jsonrpc": "2.0", "id": message["id"], "error": refused }))?;
            } else if message["id"] == id {
                if let Some(error) = message["error"]["message"].as_str() {
                    return Err(error.to_owned());
                }
                return Ok(message["result"].take());
            }
        }
    }
}

impl Subject for Server {
    fn call(&mut self, root: &Path, tool: &str, parameters: &Map<String, Value>) -> Result<Value, String> {
        let names = self.names.clone();
        let running = self.at(root)?;
        let (name, parameters) = names.apply(tool, parameters, &running.listed);
        let result = running.ask("tools/call", &json!({ "name": name, "arguments": parameters }))?;
        let text = result["content"][0]["text"].as_str().unwrap_or_default();
        let value = serde_json::from_str(text).unwrap_or_else(|_| Value::from(text));
        if result["isError"] == true {
            let message = value["error"].as_str().map(str::to_owned);
            return Err(message.unwrap_or_else(|| text.to_owned()));
        }
        Ok(value)
    }

    fn event(&mut self, _root: &Path, _harness: &str, _event: &Event) -> Result<(), String> {
        Err("a server is not told of events".to_owned())
    }

    fn takes_events(&self) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        Server::new(Vec::new(), names).unwrap_err();
    }

    #[test]
    fn a_server_that_ends_is_a_failure_and_no_hang() {
        let folder = tempfile::tempdir().unwrap();
        let mut server = Server::new(vec!["true".to_owned()], ToolNames::default()).unwrap();
        let said = server.call(folder.path(), "context", &Map::new()).unwrap_err();
        assert!(said.contains("server does not"), "{said}");
        let mut server = Server::new(vec!["/no/such".to_owned()], ToolNames::default()).unwrap();
        assert!(
            server.call(folder.path(), "context", &Map::new()).unwrap_err().contains("cannot be started")
        );
    }
}
