//! Earlier turns as the ledger keeps them, and their way back into a model's conversation.
//!
//! What was sent once is sent again byte for byte: a prompt only grows at its end, so that
//! provider caches keep working.
//! The texts of a request that many turns share, kept once so that people can read what a model was told.

use std::sync::Arc;

use nexus_base::id::{ToolCallId, TurnId};
use nexus_llm::{Content, Message, Role};
use nexus_protocol::framing::{self, Frame, Kind, key};
use nexus_protocol::tool::ToolSpec;
use nexus_tools::changes::hash_of;
use nexus_tools::ports::LedgerError;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::prompt::SystemPrompt;
use crate::turn::{Agent, TurnInput};

/// What a call says when nobody knows how it went.
pub const OUTCOME_UNKNOWN: &str = "interrupted, outcome unknown";

/// Everything a turn follows on.
#[derive(Debug, Clone, Default)]
pub struct Past {
    /// What stands for the turns before the first one below.
    pub summary: Option<String>,
    /// The last turn the summary stands for.
    pub through: Option<TurnId>,
    /// Results that are sent shortened; they stand shortened in the turns below.
    pub trims: Vec<(ToolCallId, String)>,
    /// Turns, oldest first.
    pub turns: Vec<Arc<PastTurn>>,
}

/// One turn's messages in order.
#[derive(Debug, Clone, Default)]
pub struct PastTurn {
    /// The turn; none for one that is made up.
    pub id: Option<TurnId>,
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
    Assistant { text: String, calls: Vec<PastCall> },
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
    pub arguments: Value,
    /// Result and whether it was an error; none when a crash cut the call off.
    pub result: Option<(String, bool)>,
}

impl Past {
    /// Shortens the result of a call, wherever it is; returns what is sent in its place.
    pub(crate) fn shorten_result(
        &mut self,
        current: &mut PastTurn,
        id: &ToolCallId,
        shorten: impl Fn(&str) -> String,
    ) -> Option<String> {
        let turn = self.turns.iter_mut().find(|turn| turn.has_call(id));
        let turn = match turn {
            Some(turn) => Arc::make_mut(turn),
            None => current,
        };
        let (text, _) = turn.call_mut(id)?.result.as_mut()?;
        *text = shorten(text);
        Some(text.clone())
    }
}

impl PastTurn {
    /// Returns about how many bytes the turn has in a request.
    pub fn bytes(&self) -> usize {
        let size = |message: &PastMessage| match message {
            PastMessage::User { frame, text } => frame.len() + text.len(),
            PastMessage::Assistant { text, calls } => {
                text.len()
                    + calls
                        .iter()
                        .map(|call| {
                            call.tool.len()
                                + call.arguments.to_string().len()
                                + call.result.as_ref().map_or(0, |(text, _)| text.len())
                        })
                        .sum::<usize>()
            }
        };
        self.messages.iter().map(size).sum()
    }

    fn has_call(&self, id: &ToolCallId) -> bool {
        self.messages.iter().any(|message| match message {
            PastMessage::Assistant { calls, .. } => calls.iter().any(|call| call.id == *id),
            PastMessage::User { .. } => false,
        })
    }

    fn call_mut(&mut self, id: &ToolCallId) -> Option<&mut PastCall> {
        self.messages.iter_mut().find_map(|message| match message {
            PastMessage::Assistant { calls, .. } => calls.iter_mut().find(|call| call.id == *id),
            PastMessage::User { .. } => None,
        })
    }

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

/// Returns what a model reads in place of turns that are no longer sent.
pub(crate) fn summary_text(summary: &str) -> String {
    let frame = Frame::new(Kind::System).with(
        key::NOTE,
        "the following is a summary of the earlier conversation, which is no longer shown in full",
    );
    framing::join(&frame.render(), summary)
}

/// Renders the past and the turn that runs as a model's conversation.
pub fn to_messages(past: &Past, current: &PastTurn) -> Vec<Message> {
    let mut messages = Vec::new();
    if let Some(summary) = &past.summary {
        push(&mut messages, Role::User, vec![Content::Text { text: summary_text(summary) }]);
    }
    let turns = past.turns.iter().map(AsRef::as_ref).chain([current]);
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
            push(messages, Role::User, vec![Content::Text { text: framing::join(frame, text) }]);
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

/// One part of what was sent, with its words.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SentPart {
    /// `tools` or `system`.
    pub section: String,
    pub name: String,
    /// Its words, without secrets.
    pub text: String,
}

impl Agent {
    /// Keeps the system prompt and the tools of a turn unless they are kept already; returns their id.
    pub(crate) async fn keep_sent(
        &self,
        prompt: &SystemPrompt,
        tools: &[ToolSpec],
        input: &TurnInput<'_>,
    ) -> Result<String, LedgerError> {
        let names: Vec<&str> = tools.iter().map(|tool| tool.name.as_str()).collect();
        let id = hash_of(format!("{}\0{}", prompt.hash, names.join(",")).as_bytes());
        if self.parts.prompts.is_kept(&id) {
            return Ok(id);
        }
        let redact = |text: &str| self.parts.toolbox.redact(text);
        let mut parts: Vec<SentPart> = tools
            .iter()
            .map(|tool| SentPart {
                section: "tools".to_owned(),
                name: tool.name.clone(),
                text: redact(&format!("{}\n{}", tool.description, tool.input_schema)),
            })
            .collect();
        let mut rest: &str = &prompt.text;
        for part in &prompt.parts {
            let (text, after) = rest.split_at_checked(part.bytes).unwrap_or((rest, ""));
            let (section, name) = ("system".to_owned(), part.name.clone());
            parts.push(SentPart { section, name, text: redact(text) });
            rest = after;
        }
        // Texts only: they can always be written as JSON.
        input.ledger.record_prompt(&id, &serde_json::to_string(&parts).unwrap_or_default()).await?;
        self.parts.prompts.note_kept(&id);
        Ok(id)
    }
}
