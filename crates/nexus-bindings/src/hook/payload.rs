//! What harnesses send, under the names they give it.

use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};

/// What stands before our roles' names in a harness.
const ROLE_PREFIX: &str = "nexus-";
/// How a prompt begins that a harness wrote itself, to tell of a subagent's end.
const NOTIFICATION: &str = "<task-notification>";

/// The fields of one hook.
#[derive(Debug)]
pub(super) struct Incoming {
    fields: Map<String, Value>,
    folder: PathBuf,
}

impl Incoming {
    pub(super) fn new(fields: Map<String, Value>, process_folder: &Path) -> Self {
        let named = fields.get("cwd").and_then(Value::as_str).filter(|folder| folder.starts_with('/'));
        let first_root = || fields.get("workspace_roots")?.get(0)?.as_str();
        let folder = named.or_else(first_root).map_or_else(|| process_folder.to_owned(), PathBuf::from);
        Self { fields, folder }
    }

    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    pub(super) fn text(&self, name: &str) -> Option<&str> {
        self.fields.get(name).and_then(Value::as_str).filter(|text| !text.is_empty())
    }

    /// Returns a field, read once more where a harness sends JSON inside a text.
    pub(super) fn value(&self, name: &str) -> Value {
        match self.fields.get(name) {
            Some(Value::String(text)) => {
                serde_json::from_str(text).unwrap_or_else(|_| json!({ "command": text }))
            }
            Some(value) => value.clone(),
            None => Value::Null,
        }
    }

    pub(super) fn flag(&self, name: &str) -> bool {
        self.fields.get(name) == Some(&Value::Bool(true))
    }

    /// Returns what the person said; none when a harness or a subagent speaks.
    pub(super) fn prompt(&self) -> Option<&str> {
        let prompt = self.text("prompt").filter(|prompt| !prompt.trim().is_empty())?;
        (!prompt.trim_start().starts_with(NOTIFICATION) && !self.is_subagent()).then_some(prompt)
    }

    pub(super) fn is_subagent(&self) -> bool {
        self.text("agent_id").is_some() || self.text("parent_id").is_some()
    }

    /// Returns the model the session runs on, where the harness names it: as a text, or as an object with an id.
    pub(super) fn model(&self) -> Option<&str> {
        let named = self.fields.get("model")?;
        let named =
            named.as_str().or_else(|| named.get("id")?.as_str()).or_else(|| named.get("modelID")?.as_str());
        named.filter(|model| !model.trim().is_empty())
    }

    /// Returns what tells this session from others.
    pub(super) fn session(&self) -> &str {
        self.text("conversation_id").or_else(|| self.text("session_id")).unwrap_or("only")
    }

    /// Adds who calls: a subagent has an id and a kind, the one who talks to the person has neither.
    pub(super) fn name_the_caller(&self, payload: &mut Map<String, Value>) {
        let id = self
            .text("agent_id")
            .or_else(|| self.text("subagent_id"))
            .or_else(|| self.text("parent_id").and_then(|_| self.text("session_id")));
        let kind = self.text("agent_type").or_else(|| self.text("subagent_type")).or_else(|| self.spawned());
        if let Some(id) = id {
            payload.insert("agent_id".to_owned(), json!(id));
        }
        if let Some(kind) =
            kind.filter(|_| id.is_some() || self.spawned().is_some() || self.text("subagent_type").is_some())
        {
            payload.insert("agent_name".to_owned(), json!(kind.strip_prefix(ROLE_PREFIX).unwrap_or(kind)));
        }
    }

    /// Returns the kind of subagent that a tool call starts.
    fn spawned(&self) -> Option<&str> {
        let input = self.fields.get("tool_input")?;
        ["agent_name", "subagent_type"].iter().find_map(|name| input.get(name)?.as_str())
    }
}
