//! One request as it arrived, with the questions tests ask about it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use serde_json::Value;

/// A provider's wire format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wire {
    /// Anthropic Messages.
    Anthropic,
    /// OpenAI Chat Completions.
    OpenAi,
}

impl Wire {
    /// Both, for tests that run over each.
    pub const BOTH: [Self; 2] = [Self::Anthropic, Self::OpenAi];

    /// Returns the provider's name in the configuration.
    pub const fn provider(self) -> &'static str {
        match self {
            Self::Anthropic => "anthropic",
            Self::OpenAi => "openai",
        }
    }

    /// Returns the variable its key is looked for in.
    pub const fn key_variable(self) -> &'static str {
        match self {
            Self::Anthropic => "ANTHROPIC_API_KEY",
            Self::OpenAi => "OPENAI_API_KEY",
        }
    }

    /// Returns a key of the right shape that opens nothing.
    pub fn key(self) -> String {
        match self {
            Self::Anthropic => format!("sk-ant-{}", "t1".repeat(12)),
            Self::OpenAi => format!("sk-{}", "t2".repeat(12)),
        }
    }
}

/// One request that arrived.
#[derive(Debug, Clone)]
pub struct Asked {
    /// The format, by its path; none for lists of models and unknown paths.
    pub wire: Option<Wire>,
    /// Method and path.
    pub target: String,
    /// Header names in lower case, with their values.
    pub headers: Vec<(String, String)>,
    /// The body; null when it was not JSON.
    pub body: Value,
    /// The body as sent.
    pub bytes: Vec<u8>,
    pub(crate) sent: Arc<Mutex<Vec<Instant>>>,
    pub(crate) gone: Arc<AtomicBool>,
}

impl Asked {
    pub(crate) fn is_conversation(&self) -> bool {
        self.wire.is_some()
    }

    /// Returns a header by its lower-case name.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// Returns when each event of the reply was sent.
    pub fn sent_at(&self) -> Vec<Instant> {
        self.sent.lock().unwrap().clone()
    }

    /// Tells whether the client closed the connection before the reply was over.
    pub fn hung_up(&self) -> bool {
        self.gone.load(Ordering::Acquire)
    }

    /// Returns the model asked for.
    pub fn model(&self) -> &str {
        self.body["model"].as_str().unwrap_or_default()
    }

    /// Returns the system prompt, however the format carries it.
    pub fn system(&self) -> String {
        if let Some(system) = self.body.get("system") {
            return text_of(system);
        }
        let first = self.body["messages"].get(0);
        first.filter(|message| message["role"] == "system").map(message_text).unwrap_or_default()
    }

    /// Returns the messages as sent, without a system message.
    pub fn messages(&self) -> Vec<Value> {
        let all = self.body["messages"].as_array().cloned().unwrap_or_default();
        all.into_iter().filter(|message| message["role"] != "system").collect()
    }

    /// Returns the names of the tools offered.
    pub fn tools(&self) -> Vec<String> {
        let tools = self.body["tools"].as_array().cloned().unwrap_or_default();
        let name = |tool: &Value| {
            let named = tool.get("name").or_else(|| tool["function"].get("name"));
            named.and_then(Value::as_str).unwrap_or_default().to_owned()
        };
        tools.iter().map(name).collect()
    }

    /// Tells whether a tool is offered; `bash` is a worker's, `wait` a manager's.
    pub fn has_tool(&self, name: &str) -> bool {
        self.tools().iter().any(|tool| tool == name)
    }

    /// Returns the text of the last thing said to the model: words, or results of tools.
    pub fn last_text(&self) -> String {
        let messages = self.messages();
        let mut texts: Vec<String> = Vec::new();
        for message in messages.iter().rev().take_while(|message| message["role"] != "assistant") {
            texts.push(message_text(message));
        }
        texts.reverse();
        texts.join("\n")
    }

    /// Returns the results that answer the last reply's calls, as call id and text.
    pub fn results(&self) -> Vec<(String, String)> {
        let messages = self.messages();
        let mut results = Vec::new();
        for message in messages.iter().rev().take_while(|message| message["role"] != "assistant") {
            if message["role"] == "tool" {
                results.push((id_of(&message["tool_call_id"]), message_text(message)));
            }
            for part in message["content"].as_array().into_iter().flatten().rev() {
                if part["type"] == "tool_result" {
                    results.push((id_of(&part["tool_use_id"]), text_of(&part["content"])));
                }
            }
        }
        results.reverse();
        results
    }

    /// Tells whether the text occurs anywhere in the body, also inside JSON strings.
    pub fn contains(&self, text: &str) -> bool {
        contains(&self.body, text)
    }
}

fn id_of(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn message_text(message: &Value) -> String {
    text_of(&message["content"])
}

fn text_of(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(parts) => {
            let texts: Vec<String> = parts
                .iter()
                .filter_map(|part| part.get("text").or_else(|| part.get("content")).map(text_of))
                .collect();
            texts.join("\n")
        }
        _ => String::new(),
    }
}

fn contains(value: &Value, text: &str) -> bool {
    match value {
        Value::String(found) => found.contains(text),
        Value::Array(items) => items.iter().any(|item| contains(item, text)),
        Value::Object(map) => map.iter().any(|(name, item)| name.contains(text) || contains(item, text)),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}
