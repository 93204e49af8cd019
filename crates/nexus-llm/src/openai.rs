//! OpenAI Chat Completions, as its maker and everybody compatible speak it: the request.

mod decode;

use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::{Value, json};

use crate::client::as_object;
use crate::{Content, Conversation, Message, Role};

pub(crate) use decode::Decoder;

/// What differs from server to server. Guessed at first, learned from refusals.
#[derive(Debug)]
pub(crate) struct Dialect {
    /// Longest reply goes by its new name.
    new_limit: AtomicBool,
    /// The cost is asked for.
    asks_usage: AtomicBool,
    /// A longest reply is named at all.
    names_limit: AtomicBool,
}

impl Dialect {
    pub(crate) fn new(new_limit: bool) -> Self {
        Self {
            new_limit: AtomicBool::new(new_limit),
            asks_usage: AtomicBool::new(true),
            names_limit: AtomicBool::new(true),
        }
    }

    /// Looks whether a refusal is about a word of ours; returns whether another wording is left to try.
    pub(crate) fn learn(&self, refusal: &str) -> bool {
        let names = |word: &str| refusal.contains(word);
        let (old, new) = (names("max_tokens"), names("max_completion_tokens"));
        let had_new = self.new_limit.load(Ordering::Relaxed);
        if names("stream_options") && self.asks_usage.swap(false, Ordering::Relaxed) {
            return true;
        }
        // The provider names both words: the one it does not take and the one to use instead.
        if !had_new && old && new {
            self.new_limit.store(true, Ordering::Relaxed);
            return true;
        }
        if had_new && new {
            self.new_limit.store(false, Ordering::Relaxed);
            return true;
        }
        // Only the limit's value can be meant: some models allow less than we ask for.
        (old || new) && self.names_limit.swap(false, Ordering::Relaxed)
    }
}

/// Words a conversation.
pub(crate) fn request(model: &str, conversation: &Conversation, dialect: &Dialect) -> Value {
    let mut messages = Vec::with_capacity(conversation.messages.len() + 1);
    if !conversation.system.is_empty() {
        messages.push(json!({"role": "system", "content": &*conversation.system}));
    }
    for message in &conversation.messages {
        match message.role {
            Role::User => user(message, &mut messages),
            Role::Assistant => messages.extend(assistant(message)),
        }
    }
    let mut request = json!({"model": model, "stream": true});
    if dialect.asks_usage.load(Ordering::Relaxed) {
        request["stream_options"] = json!({"include_usage": true});
    }
    if dialect.names_limit.load(Ordering::Relaxed) {
        let new = dialect.new_limit.load(Ordering::Relaxed);
        let name = if new { "max_completion_tokens" } else { "max_tokens" };
        request[name] = json!(conversation.max_tokens);
    }
    if !conversation.tools.is_empty() {
        let tools = conversation.tools.iter().map(|tool| {
            json!({"type": "function", "function": {
                "name": tool.name, "description": tool.description, "parameters": tool.input_schema}})
        });
        request["tools"] = tools.collect();
    }
    request["messages"] = Value::Array(messages);
    request
}

/// Results come before words: they must follow the calls they answer.
fn user(message: &Message, messages: &mut Vec<Value>) {
    let mut words = Vec::new();
    for part in &message.content {
        match part {
            Content::ToolResult { tool_use_id, text, .. } => {
                messages.push(json!({"role": "tool", "tool_call_id": tool_use_id, "content": text}));
            }
            Content::Text { text } => words.push(text.as_str()),
            Content::Thinking { .. } | Content::ToolUse { .. } => {}
        }
    }
    if !words.is_empty() {
        messages.push(json!({"role": "user", "content": words.join("\n")}));
    }
}

fn assistant(message: &Message) -> Option<Value> {
    let text = message.text();
    let calls: Vec<Value> = message
        .content
        .iter()
        .filter_map(|part| match part {
            Content::ToolUse { id, name, input } => Some(json!({"id": id, "type": "function",
                "function": {"name": name, "arguments": as_object(input).to_string()}})),
            // Reasoning is not sent back: these servers take it as noise.
            Content::Text { .. } | Content::Thinking { .. } | Content::ToolResult { .. } => None,
        })
        .collect();
    if text.is_empty() && calls.is_empty() {
        return None;
    }
    let content = if text.is_empty() { Value::Null } else { json!(text) };
    let mut words = json!({"role": "assistant", "content": content});
    if !calls.is_empty() {
        words["tool_calls"] = Value::Array(calls);
    }
    Some(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dialect_is_learned_from_refusals_and_runs_out() {
        let dialect = Dialect::new(false);
        assert!(!dialect.learn("tools.0 is wrong"));
        assert!(dialect.learn("unknown field stream_options"));
        assert!(!dialect.learn("unknown field stream_options"));
        assert!(dialect.learn("'max_tokens' is not supported, use 'max_completion_tokens' instead"));
        assert!(dialect.new_limit.load(Ordering::Relaxed));
        assert!(dialect.learn("unknown field max_completion_tokens"));
        assert!(!dialect.new_limit.load(Ordering::Relaxed));
        assert!(dialect.learn("max_tokens is too large: 8192"));
        assert!(!dialect.learn("max_tokens is too large: 8192"));
    }
}
