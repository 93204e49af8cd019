//! Earlier turns as the ledger keeps them, and their way back into a model's conversation.
//!
//! What was sent once is sent again byte for byte: a prompt only grows at its end, so that
//! provider caches keep working.

use nexus_base::id::ToolCallId;
use nexus_llm::{Content, Message, Role};
use serde_json::Value;

/// What a call says when nobody knows how it went.
pub const OUTCOME_UNKNOWN: &str = "interrupted, outcome unknown";

/// One turn's messages in order.
#[derive(Debug, Clone, Default)]
pub struct PastTurn {
    /// Messages, oldest first.
    pub messages: Vec<PastMessage>,
}

/// One message.
#[derive(Debug, Clone)]
pub enum PastMessage {
    /// Words for the model, with the context block that stood before them.
    User {
        /// The block, exactly as sent.
        frame: String,
        /// The words.
        text: String,
    },
    /// The model's reply.
    Assistant {
        /// Its text.
        text: String,
        /// Its calls.
        calls: Vec<PastCall>,
    },
}

/// One call of an earlier reply.
#[derive(Debug, Clone)]
pub struct PastCall {
    /// Our id.
    pub id: ToolCallId,
    /// Id the model gave it.
    pub model_call_id: String,
    /// Tool name.
    pub tool: String,
    /// Arguments.
    pub arguments: Value,
    /// Result and whether it was an error; none when a crash cut the call off.
    pub result: Option<(String, bool)>,
}

impl PastTurn {
    /// Returns everything the model said in this turn, replies separated by a blank line.
    pub fn said(&self) -> String {
        let texts: Vec<&str> = self
            .messages
            .iter()
            .filter_map(|message| match message {
                PastMessage::Assistant { text, .. } if !text.trim().is_empty() => Some(text.as_str()),
                PastMessage::Assistant { .. } | PastMessage::User { .. } => None,
            })
            .collect();
        texts.join("\n\n")
    }

    /// Returns the calls of the last reply that have no result.
    pub fn open_calls(&self) -> Vec<PastCall> {
        match self.messages.last() {
            Some(PastMessage::Assistant { calls, .. }) => {
                calls.iter().filter(|call| call.result.is_none()).cloned().collect()
            }
            Some(PastMessage::User { .. }) | None => Vec::new(),
        }
    }

    /// Returns whether the last reply called this tool and was not refused.
    pub fn last_reply_did(&self, tool: &str) -> bool {
        match self.messages.last() {
            Some(PastMessage::Assistant { calls, .. }) => {
                calls.iter().any(|call| call.tool == tool && matches!(call.result, Some((_, false))))
            }
            Some(PastMessage::User { .. }) | None => false,
        }
    }

    /// Writes down a result.
    pub fn resolve(&mut self, id: &ToolCallId, text: String, is_error: bool) {
        let calls = self.messages.iter_mut().rev().find_map(|message| match message {
            PastMessage::Assistant { calls, .. } => Some(calls),
            PastMessage::User { .. } => None,
        });
        if let Some(call) = calls.into_iter().flatten().find(|call| &call.id == id) {
            call.result = Some((text, is_error));
        }
    }
}

/// Renders turns as a model's conversation.
pub fn to_messages<'a>(turns: impl Iterator<Item = &'a PastTurn>) -> Vec<Message> {
    let mut messages = Vec::new();
    for message in turns.flat_map(|turn| &turn.messages) {
        append(&mut messages, message);
    }
    messages
}

/// Adds one message and, when it made calls, their results. What one speaker says in a row becomes
/// one message, because providers want the speakers to alternate.
pub(crate) fn append(messages: &mut Vec<Message>, message: &PastMessage) {
    match message {
        PastMessage::User { frame, text } => {
            push(messages, Role::User, vec![Content::Text { text: format!("{frame}{text}") }]);
        }
        PastMessage::Assistant { text, calls } => {
            let mut content = Vec::new();
            if !text.trim().is_empty() {
                content.push(Content::Text { text: text.clone() });
            }
            content.extend(calls.iter().map(|call| Content::ToolUse {
                id: call.model_call_id.clone(),
                name: call.tool.clone(),
                input: call.arguments.clone(),
            }));
            if content.is_empty() {
                // An empty reply still ends the person's words; providers refuse an empty message.
                content.push(Content::Text { text: "(no reply)".to_owned() });
            }
            push(messages, Role::Assistant, content);
            if !calls.is_empty() {
                push(messages, Role::User, calls.iter().map(result_of).collect());
            }
        }
    }
}

fn result_of(call: &PastCall) -> Content {
    let (text, is_error) = call.result.clone().unwrap_or_else(|| (OUTCOME_UNKNOWN.to_owned(), true));
    Content::ToolResult { tool_use_id: call.model_call_id.clone(), text, is_error }
}

fn push(messages: &mut Vec<Message>, role: Role, content: Vec<Content>) {
    match messages.last_mut() {
        Some(last) if last.role == role => last.content.extend(content),
        Some(_) | None => messages.push(Message { role, content }),
    }
}
