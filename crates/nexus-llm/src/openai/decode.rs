//! The chunks of a Chat Completions stream, put together to a reply. Servers differ; see each comment.

use std::collections::BTreeSet;

use nexus_protocol::sse::Frame;
use serde_json::Value;

use crate::client::{Decode, arguments, broken_off};
use crate::refusal::{self, Who};
use crate::{Content, Conversation, ModelError, ModelEvent, ModelReply, ReplySink, StopReason, Usage};

/// Most calls of one reply.
const MAX_CALLS: usize = 256;
/// Longest reply, everything together.
const MAX_REPLY_LEN: usize = 16 * 1024 * 1024;
/// About so many bytes make a token, when the server does not count.
const BYTES_PER_TOKEN: usize = 4;

/// A reply in the making.
#[derive(Debug)]
pub(crate) struct Decoder {
    text: String,
    thinking: String,
    calls: Vec<Call>,
    stop: Option<StopReason>,
    usage: Option<Usage>,
    asked_bytes: usize,
    complete: bool,
}

#[derive(Debug, Default)]
struct Call {
    index: Option<u64>,
    id: String,
    name: String,
    json: String,
}

impl Decode for Decoder {
    fn take(&mut self, event: &Frame, sink: ReplySink<'_>, who: &Who) -> Result<bool, ModelError> {
        let data = event.data.trim();
        if data.is_empty() {
            return Ok(false);
        }
        if data == "[DONE]" {
            self.complete = true;
            return Ok(true);
        }
        let chunk: Value =
            serde_json::from_str(data).map_err(|_| broken_off(who, "an event is not valid JSON"))?;
        if let Some(error) = chunk.get("error").filter(|error| !error.is_null()) {
            return Err(refusal::of_event(error, who));
        }
        self.count(&chunk["usage"]);
        let choice = &chunk["choices"][0];
        // A server that does not stream sends one whole message.
        let delta = choice.get("delta").or_else(|| choice.get("message")).unwrap_or(&Value::Null);
        self.think(delta, sink);
        self.speak(delta, sink);
        for call in delta["tool_calls"].as_array().into_iter().flatten() {
            self.call(call, who)?;
        }
        if let Some(word) = choice["finish_reason"].as_str() {
            self.stop = Some(stop(word));
        }
        if self.length() > MAX_REPLY_LEN {
            return Err(broken_off(who, "the reply is too long"));
        }
        Ok(false)
    }

    fn finish(self, who: &Who) -> Result<ModelReply, ModelError> {
        if self.stop.is_none() && !self.complete {
            return Err(broken_off(who, "the stream ended before the reply did"));
        }
        let usage = self.usage.unwrap_or_else(|| Usage {
            input: tokens(self.asked_bytes),
            output: tokens(self.length()),
            ..Usage::default()
        });
        let mut content = Vec::new();
        if !self.thinking.is_empty() {
            content.push(Content::Thinking { text: self.thinking, signature: None });
        }
        if !self.text.is_empty() {
            content.push(Content::Text { text: self.text });
        }
        let mut stop = self.stop.unwrap_or(StopReason::EndTurn);
        // Some servers say "stop" although they call.
        if !self.calls.is_empty() && stop == StopReason::EndTurn {
            stop = StopReason::ToolUse;
        }
        let mut known = BTreeSet::new();
        for call in self.calls {
            // Ids may be missing or the same for all; results must find their call.
            let id = if call.id.is_empty() || !known.insert(call.id.clone()) {
                format!("call_{}", nexus_base::id::new_ulid())
            } else {
                call.id
            };
            content.push(Content::ToolUse { id, name: call.name, input: arguments(&call.json) });
        }
        Ok(ModelReply { content, stop, usage, model: None })
    }
}

impl Decoder {
    pub(crate) fn new(conversation: &Conversation) -> Self {
        let message = |message: &crate::Message| -> usize {
            message
                .content
                .iter()
                .map(|part| match part {
                    Content::Text { text }
                    | Content::Thinking { text, .. }
                    | Content::ToolResult { text, .. } => text.len(),
                    Content::ToolUse { name, input, .. } => name.len() + input.to_string().len(),
                })
                .sum()
        };
        let asked: usize = conversation.messages.iter().map(message).sum();
        Self {
            text: String::new(),
            thinking: String::new(),
            calls: Vec::new(),
            stop: None,
            usage: None,
            asked_bytes: conversation.system.len() + asked,
            complete: false,
        }
    }

    fn speak(&mut self, delta: &Value, sink: ReplySink<'_>) {
        let mut say = |piece: &str| {
            if !piece.is_empty() {
                self.text.push_str(piece);
                sink(ModelEvent::TextDelta(piece.to_owned()));
            }
        };
        match &delta["content"] {
            Value::String(piece) => say(piece),
            // Some send parts, as in requests.
            Value::Array(parts) => {
                parts.iter().filter_map(|part| part["text"].as_str()).for_each(say);
            }
            _ => {}
        }
    }

    fn think(&mut self, delta: &Value, sink: ReplySink<'_>) {
        let piece = delta["reasoning_content"].as_str().or_else(|| delta["reasoning"].as_str());
        if let Some(piece) = piece.filter(|piece| !piece.is_empty()) {
            self.thinking.push_str(piece);
            sink(ModelEvent::ThinkingDelta(piece.to_owned()));
        }
    }

    fn call(&mut self, piece: &Value, who: &Who) -> Result<(), ModelError> {
        let index = piece["index"].as_u64();
        let id = piece["id"].as_str().unwrap_or_default();
        let name = piece["function"]["name"].as_str().unwrap_or_default();
        let at = self.place(index, id, name);
        if at == self.calls.len() {
            if at >= MAX_CALLS {
                return Err(broken_off(who, "the reply has too many calls"));
            }
            self.calls.push(Call { index, ..Call::default() });
        }
        let Some(call) = self.calls.get_mut(at) else { return Ok(()) };
        if call.id.is_empty() {
            id.clone_into(&mut call.id);
        }
        if call.name.is_empty() {
            name.clone_into(&mut call.name);
        }
        match &piece["function"]["arguments"] {
            Value::String(more) => call.json.push_str(more),
            // Some send them as an object.
            whole @ Value::Object(_) => call.json = whole.to_string(),
            _ => {}
        }
        Ok(())
    }

    /// Finds the call a piece belongs to; one past the end for a new one.
    fn place(&self, index: Option<u64>, id: &str, name: &str) -> usize {
        let end = self.calls.len();
        // Some give every call the index 0; another id or a second name begins another call.
        let other = |call: &Call| {
            (!id.is_empty() && !call.id.is_empty() && call.id != id)
                || (id.is_empty() && !name.is_empty() && !call.name.is_empty() && !call.json.is_empty())
        };
        match index {
            Some(_) => {
                let found = self.calls.iter().rposition(|call| call.index == index);
                found.filter(|at| !self.calls.get(*at).is_some_and(other)).unwrap_or(end)
            }
            None => match self.calls.last() {
                Some(last) if !other(last) => end - 1,
                Some(_) | None => end,
            },
        }
    }

    fn count(&mut self, usage: &Value) {
        let Some(prompt) = usage["prompt_tokens"].as_u64() else { return };
        let cached = usage["prompt_tokens_details"]["cached_tokens"]
            .as_u64()
            .or_else(|| usage["prompt_cache_hit_tokens"].as_u64())
            .unwrap_or(0)
            .min(prompt);
        self.usage = Some(Usage {
            input: prompt - cached,
            output: usage["completion_tokens"].as_u64().unwrap_or(0),
            cache_read: cached,
            cache_write: 0,
            reasoning: usage["completion_tokens_details"]["reasoning_tokens"].as_u64().unwrap_or(0),
        });
    }

    fn length(&self) -> usize {
        let calls: usize = self.calls.iter().map(|call| call.name.len() + call.json.len()).sum();
        self.text.len() + self.thinking.len() + calls
    }
}

fn tokens(bytes: usize) -> u64 {
    u64::try_from(bytes / BYTES_PER_TOKEN).unwrap_or(u64::MAX)
}

fn stop(word: &str) -> StopReason {
    match word {
        "tool_calls" | "function_call" => StopReason::ToolUse,
        "length" => StopReason::MaxTokens,
        "content_filter" => StopReason::Refusal,
        _ => StopReason::EndTurn,
    }
}
