//! A runtime in miniature: frames messages, plays tools, runs workers through the guide itself and
//! brings their results back. Knows the tool contract, not the guide's insides.

use std::collections::BTreeMap;
use std::sync::Arc;

use nexus_guide::Guide;
use nexus_llm::{Content, Conversation, Message, ModelReply, Role, StopReason};
use nexus_protocol::framing::{Frame, Kind, key};
use nexus_protocol::tool::{Replay, ToolSpec};
use serde_json::{Value, json};

/// What `nexus credential scan --json` prints in this world.
#[derive(Clone, Debug)]
pub(crate) enum Scan {
    Finds(Vec<(&'static str, &'static str)>),
    Breaks(&'static str),
}

/// One simulated workspace with one manager conversation.
pub(crate) struct World {
    pub(crate) files: BTreeMap<String, String>,
    pub(crate) memory: Vec<String>,
    pub(crate) messages: Vec<Message>,
    pub(crate) log: Vec<String>,
    pub(crate) scan: Scan,
    pub(crate) imported: Vec<String>,
    pub(crate) skills: Option<&'static str>,
    /// Paths that cannot be written.
    pub(crate) read_only: bool,
    /// Results wait until [`World::deliver`].
    pub(crate) hold_results: bool,
    pub(crate) pending: Vec<Message>,
    dispatches: usize,
    clock: usize,
}

pub(crate) fn tool(name: &str, properties: &Value) -> ToolSpec {
    ToolSpec {
        name: name.to_owned(),
        description: String::new(),
        input_schema: json!({ "type": "object", "properties": properties }),
        replay: Replay::Safe,
    }
}

pub(crate) fn manager_tools() -> Arc<[ToolSpec]> {
    Arc::from([
        tool(
            "agent_send",
            &json!({"op": {"type": "string"}, "text": {"type": "string"}, "target": {"type": "string"}, "agent": {"type": "string"}, "model": {"type": "string"}}),
        ),
        tool("wait", &json!({"reason": {"type": "string"}})),
        tool("get_agent_status", &json!({"session": {"type": "string"}})),
        tool("read", &json!({"path": {"type": "string"}})),
        tool("write", &json!({"path": {"type": "string"}, "content": {"type": "string"}})),
        tool(
            "edit",
            &json!({"path": {"type": "string"}, "old": {"type": "string"}, "new": {"type": "string"}}),
        ),
        tool("recall", &json!({"query": {"type": "string"}, "limit": {"type": "integer"}})),
        tool("remember", &json!({"text": {"type": "string"}})),
    ])
}

pub(crate) fn worker_tools() -> Arc<[ToolSpec]> {
    Arc::from([
        tool("read", &json!({"path": {"type": "string"}})),
        tool("write", &json!({"path": {"type": "string"}, "content": {"type": "string"}})),
        tool("list", &json!({"path": {"type": "string"}})),
        tool("bash", &json!({"command": {"type": "string"}, "timeout_ms": {"type": "integer"}})),
        tool("recall", &json!({"query": {"type": "string"}, "limit": {"type": "integer"}})),
        tool("remember", &json!({"text": {"type": "string"}})),
        tool("agent_send", &json!({"op": {"type": "string"}, "text": {"type": "string"}})),
    ])
}

impl World {
    pub(crate) fn new() -> Self {
        Self {
            files: BTreeMap::new(),
            memory: Vec::new(),
            messages: Vec::new(),
            log: Vec::new(),
            scan: Scan::Finds(Vec::new()),
            imported: Vec::new(),
            skills: None,
            read_only: false,
            hold_results: false,
            pending: Vec::new(),
            dispatches: 0,
            clock: 0,
        }
    }

    /// A world after onboarding as Atlas with Sam.
    pub(crate) fn onboarded() -> Self {
        let mut world = Self::new();
        world.files.insert(
            "state/agents/atlas/IDENTITY.md".into(),
            "---\nname: Atlas\nemoji: 🧭\ncreature: owl\nvibe: calm\n---\n\n# Atlas\n\nI am Atlas.\n".into(),
        );
        world.files.insert(
            "state/agents/atlas/SOUL.md".into(),
            "---\nname: Atlas\n---\n\n# What Atlas stands for\n".into(),
        );
        world.files.insert(
            "state/user/IDENTITY.md".into(),
            "---\nname: Sam Reed\ncall: Sam\ntimezone: Europe/Berlin\n---\n\n# Sam Reed\n".into(),
        );
        world
    }

    pub(crate) fn is_onboarded(&self) -> bool {
        self.files.keys().any(|path| path.starts_with("state/agents/") && path.ends_with("/IDENTITY.md"))
    }

    pub(crate) fn system(&self) -> Arc<str> {
        let mut parts = vec!["You talk with the person.".to_owned()];
        if self.is_onboarded() {
            // The newest persona wins; the map's last is enough here.
            let find = |tail: &str| {
                self.files
                    .iter()
                    .rev()
                    .find(|(path, _)| path.starts_with("state/agents/") && path.ends_with(tail))
            };
            for (heading, tail) in [("## Agent Identity", "/IDENTITY.md"), ("## Agent Soul", "/SOUL.md")] {
                if let Some((_, text)) = find(tail) {
                    parts.push(format!("{heading}\n{text}"));
                }
            }
            if let Some(text) = self.files.get("state/user/IDENTITY.md") {
                parts.push(format!("## User Identity\n{text}"));
            }
        }
        parts.push("## How to work\nDispatch.".to_owned());
        if !self.is_onboarded() {
            parts.push("## Onboarding\nGet to know the person.".to_owned());
        }
        parts.join("\n").into()
    }

    pub(crate) fn frame(&mut self, kind: Kind) -> Frame {
        self.clock += 1;
        let mut frame = Frame::new(kind)
            .with(key::TIME, &format!("2026-07-22T10:{:02}:{:02}+02:00", self.clock / 60, self.clock % 60))
            .with(key::ZONE, "Europe/Berlin")
            .with(key::MODEL, "nexus/guide");
        if let Some(skills) = self.skills {
            frame = frame.with(key::SKILLS, skills);
        }
        frame
    }

    /// Says something and lets everything settle; gives what the person saw.
    pub(crate) fn say(&mut self, text: &str) -> String {
        self.log.push(format!("> {text}"));
        let frame = self.frame(Kind::Message);
        self.messages.push(Message::user(format!("{}{text}", frame.render())));
        let mut seen = vec![self.turn()];
        if !self.hold_results {
            seen.extend(self.deliver());
        }
        seen.join("\n---\n")
    }

    /// Hands over waiting worker results, all of them as one turn, until none is left.
    pub(crate) fn deliver(&mut self) -> Vec<String> {
        let mut seen = Vec::new();
        while !self.pending.is_empty() {
            self.messages.append(&mut self.pending);
            seen.push(self.turn());
        }
        seen
    }

    pub(crate) fn conversation(&self) -> Conversation {
        Conversation {
            system: self.system(),
            messages: self.messages.clone(),
            tools: manager_tools(),
            max_tokens: 4096,
        }
    }

    /// Runs one manager turn and gives its visible text.
    pub(crate) fn turn(&mut self) -> String {
        let mut said = Vec::new();
        for step in 0.. {
            assert!(step < 4, "the turn does not end");
            let conversation = self.conversation();
            let reply = Guide::answer(&conversation);
            check(&conversation, &reply);
            let results = self.act(&reply, &mut said);
            self.messages.push(Message { role: Role::Assistant, content: reply.content });
            if reply.stop == StopReason::EndTurn {
                break;
            }
            self.messages.push(Message { role: Role::User, content: results });
        }
        let text = said.join("\n\n");
        assert!(!text.trim().is_empty(), "a silent turn");
        text
    }

    fn act(&mut self, reply: &ModelReply, said: &mut Vec<String>) -> Vec<Content> {
        let mut results = Vec::new();
        for part in &reply.content {
            match part {
                Content::Text { text } => {
                    self.log.push(text.clone());
                    said.push(text.clone());
                }
                Content::ToolUse { id, name, input } => {
                    let outcome = self.manager_tool(id, name, input);
                    let is_error = outcome.is_err();
                    let text = outcome.unwrap_or_else(|text| text);
                    results.push(Content::ToolResult { tool_use_id: id.clone(), text, is_error });
                }
                Content::Thinking { .. } | Content::ToolResult { .. } => panic!("unexpected {part:?}"),
            }
        }
        results
    }

    fn manager_tool(&mut self, id: &str, name: &str, input: &Value) -> Result<String, String> {
        let text = |field: &str| input[field].as_str().unwrap_or_default().to_owned();
        self.log.push(format!("  [{name} {}]", summary(input)));
        match name {
            "agent_send" if text("op") == "dispatch" => {
                self.dispatches += 1;
                let session = format!("worker:{}", self.dispatches);
                let (status, result) = self.worker(&text("text"), id);
                self.log.push(format!("  [{session} {status}] {}", result.replace('\n', "\n    ")));
                let frame = self
                    .frame(Kind::WorkerResult)
                    .with(key::DISPATCH, id)
                    .with(key::SESSION, &session)
                    .with(key::STATUS, &status);
                self.pending.push(Message::user(format!("{}{result}", frame.render())));
                Ok(json!({"dispatch_id": id, "spawned_session_label": session}).to_string())
            }
            "agent_send" => Ok("{}".to_owned()),
            "get_agent_status" => Ok(json!({"workers": [
                {"session": "worker:1", "task": "Run `ls` and report.", "status": "completed", "running": false},
            ]})
            .to_string()),
            "remember" => {
                self.memory.push(text("text"));
                Ok("stored".to_owned())
            }
            "recall" => {
                let hits: Vec<Value> =
                    self.memory.iter().map(|fact| json!({"text": fact, "date": "2026-07-22"})).collect();
                Ok(json!({ "hits": hits }).to_string())
            }
            "write" => {
                self.files.insert(text("path"), text("content"));
                Ok("written".to_owned())
            }
            other => panic!("unexpected tool {other}"),
        }
    }

    /// Plays a worker to its end; gives status and final text.
    fn worker(&mut self, task: &str, dispatch: &str) -> (String, String) {
        let frame = self.frame(Kind::Task).with(key::DISPATCH, dispatch);
        let mut messages = vec![Message::user(format!("{}{task}", frame.render()))];
        for _ in 0..4 {
            let conversation = Conversation {
                system: "You are a worker.".into(),
                messages: messages.clone(),
                tools: worker_tools(),
                max_tokens: 4096,
            };
            let reply = Guide::answer(&conversation);
            check(&conversation, &reply);
            let mut results = Vec::new();
            let mut said = String::new();
            for part in &reply.content {
                match part {
                    Content::Text { text } => said.push_str(text),
                    Content::ToolUse { id, name, input } => {
                        let outcome = self.worker_tool(name, input);
                        let is_error = outcome.is_err();
                        let text = outcome.unwrap_or_else(|text| text);
                        results.push(Content::ToolResult { tool_use_id: id.clone(), text, is_error });
                    }
                    Content::Thinking { .. } | Content::ToolResult { .. } => panic!("unexpected {part:?}"),
                }
            }
            messages.push(Message { role: Role::Assistant, content: reply.content });
            if reply.stop == StopReason::EndTurn {
                assert!(!said.is_empty(), "a silent worker");
                return ("completed".to_owned(), said);
            }
            messages.push(Message { role: Role::User, content: results });
        }
        panic!("the worker does not end");
    }

    fn worker_tool(&mut self, name: &str, input: &Value) -> Result<String, String> {
        let text = |field: &str| input[field].as_str().unwrap_or_default().to_owned();
        match name {
            "bash" => self.bash(&text("command")),
            "write" if self.read_only => Err(format!("{}: read-only file system", text("path"))),
            "write" => {
                self.files.insert(text("path"), text("content"));
                Ok(format!("wrote {}", text("path")))
            }
            "read" => self
                .files
                .get(&text("path"))
                .cloned()
                .ok_or_else(|| format!("{}: no such file", text("path"))),
            "list" => Ok(self
                .files
                .keys()
                .filter(|path| path.starts_with(&text("path")))
                .cloned()
                .collect::<Vec<_>>()
                .join("\n")),
            other => panic!("unexpected tool {other}"),
        }
    }

    fn bash(&mut self, command: &str) -> Result<String, String> {
        let masked = format!("ghp_…{}", "abcd");
        match (command, self.scan.clone()) {
            (
                "nexus credential scan --json" | "nexus credential scan --import --yes --json",
                Scan::Breaks(reason),
            ) => Err(reason.to_owned()),
            ("nexus credential scan --json", Scan::Finds(found)) => {
                let findings: Vec<Value> = found
                    .iter()
                    .map(|(variable, service)| json!({"variable": variable, "service": service, "kind": "token", "masked": masked, "known": true, "imported": self.imported.contains(&(*variable).to_owned())}))
                    .collect();
                Ok(json!({"findings": findings, "imported": []}).to_string())
            }
            ("nexus credential scan --import --yes --json", Scan::Finds(found)) => {
                self.imported = found.iter().map(|(variable, _)| (*variable).to_owned()).collect();
                let references: Vec<String> =
                    found.iter().map(|(variable, service)| format!("{service}/env:{variable}")).collect();
                Ok(json!({"findings": [], "imported": references}).to_string())
            }
            ("ls -1p", _) => Ok("notes/\ntodo.txt\n".to_owned()),
            (other, _) => Ok(format!("ran {other}\n")),
        }
    }
}

/// Shows a call's arguments on one short line.
fn summary(input: &Value) -> String {
    let flat = input.to_string().replace("\\n", "⏎");
    let short: String = flat.chars().take(160).collect();
    if short.len() < flat.len() { format!("{short}…") } else { short }
}

/// What must hold for every reply of the guide.
pub(crate) fn check(conversation: &Conversation, reply: &ModelReply) {
    let mut calls = 0;
    for part in &reply.content {
        if let Content::ToolUse { name, input, .. } = part {
            calls += 1;
            let spec = conversation.tools.iter().find(|tool| tool.name == *name);
            let spec = spec.unwrap_or_else(|| panic!("unknown tool {name}"));
            for (field, value) in input.as_object().expect("arguments are an object") {
                let kind = spec.input_schema["properties"][field]["type"].as_str();
                let fits = match kind {
                    Some("string") => value.is_string(),
                    Some("integer") => value.is_u64(),
                    _ => false,
                };
                assert!(fits, "{name}.{field} = {value} does not fit {kind:?}");
            }
            let required: &[&str] = match name.as_str() {
                "agent_send" => &["op"],
                "write" => &["path", "content"],
                "read" | "list" => &["path"],
                "bash" => &["command"],
                "recall" => &["query"],
                "remember" => &["text"],
                _ => &[],
            };
            for field in required {
                assert!(
                    input[*field].as_str().is_some_and(|value| !value.trim().is_empty()),
                    "{name} lacks {field}: {input}"
                );
            }
        }
    }
    let wanted = if calls == 0 { StopReason::EndTurn } else { StopReason::ToolUse };
    assert_eq!(reply.stop, wanted);
}

/// Joins neighbouring messages of one speaker, as the runtime does for providers.
pub(crate) fn joined(messages: &[Message]) -> Vec<Message> {
    let mut result: Vec<Message> = Vec::new();
    for message in messages {
        let mut content = message.content.clone();
        if content.is_empty() {
            content.push(Content::Text { text: "(no reply)".to_owned() });
        }
        match result.last_mut() {
            Some(last) if last.role == message.role => last.content.extend(content),
            _ => result.push(Message { role: message.role, content }),
        }
    }
    result
}
