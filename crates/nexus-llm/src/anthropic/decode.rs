//! Anthropic's events, put together to a reply.

use nexus_protocol::sse::Frame;
use serde_json::Value;

use crate::client::{Decode, arguments, broken_off};
use crate::refusal::{self, Who};
use crate::{Content, ModelError, ModelEvent, ModelReply, ReplySink, StopReason, Usage};

/// Most blocks of one reply.
const MAX_BLOCKS: usize = 512;
/// Longest reply, all blocks together.
const MAX_REPLY_LEN: usize = 16 * 1024 * 1024;

/// A reply in the making.
#[derive(Debug, Default)]
pub(crate) struct Decoder {
    blocks: Vec<Block>,
    length: usize,
    stop: Option<StopReason>,
    usage: Usage,
    complete: bool,
}

#[derive(Debug)]
enum Block {
    Text(String),
    Thinking {
        text: String,
        signature: String,
    },
    Redacted(String),
    Call {
        id: String,
        name: String,
        json: String,
        given: Value,
    },
    /// A kind of a later version.
    Unknown,
}

impl Decode for Decoder {
    fn take(&mut self, event: &Frame, sink: ReplySink<'_>, who: &Who) -> Result<bool, ModelError> {
        let data: Value = match serde_json::from_str(&event.data) {
            Ok(data) => data,
            Err(_) if event.data.trim().is_empty() => return Ok(false),
            Err(_) => return Err(broken_off(who, "an event is not valid JSON")),
        };
        match data["type"].as_str().or(event.event.as_deref()).unwrap_or_default() {
            "message_start" => self.count(&data["message"]["usage"]),
            "content_block_start" => self.begin(&data["content_block"], sink, who)?,
            "content_block_delta" => self.grow(&data, sink, who)?,
            "message_delta" => {
                self.count(&data["usage"]);
                if let Some(word) = data["delta"]["stop_reason"].as_str() {
                    self.stop = Some(stop(word));
                }
            }
            "message_stop" => {
                self.complete = true;
                return Ok(true);
            }
            "error" => return Err(refusal::of_event(&data["error"], who)),
            // Pings, ends of blocks, and what later versions bring.
            _ => {}
        }
        Ok(false)
    }

    fn finish(self, who: &Who) -> Result<ModelReply, ModelError> {
        // Some compatible servers leave the last event out; a stop reason is as good.
        let Some(stop) = self.stop.or(self.complete.then_some(StopReason::EndTurn)) else {
            return Err(broken_off(who, "the stream ended before the reply did"));
        };
        let content: Vec<Content> = self.blocks.into_iter().filter_map(Block::content).collect();
        let calls = content.iter().any(|part| matches!(part, Content::ToolUse { .. }));
        let stop = if calls && stop == StopReason::EndTurn { StopReason::ToolUse } else { stop };
        Ok(ModelReply { content, stop, usage: self.usage, model: None })
    }
}

impl Decoder {
    fn begin(&mut self, block: &Value, sink: ReplySink<'_>, who: &Who) -> Result<(), ModelError> {
        if self.blocks.len() >= MAX_BLOCKS {
            return Err(broken_off(who, "the reply has too many blocks"));
        }
        let text = |name: &str| block[name].as_str().unwrap_or_default().to_owned();
        let begun = match block["type"].as_str().unwrap_or_default() {
            "text" => {
                let begun = text("text");
                if !begun.is_empty() {
                    sink(ModelEvent::TextDelta(begun.clone()));
                }
                Block::Text(begun)
            }
            "thinking" => Block::Thinking { text: text("thinking"), signature: text("signature") },
            "redacted_thinking" => Block::Redacted(text("data")),
            "tool_use" => Block::Call {
                id: text("id"),
                name: text("name"),
                json: String::new(),
                given: block["input"].clone(),
            },
            _ => Block::Unknown,
        };
        self.blocks.push(begun);
        Ok(())
    }

    fn grow(&mut self, data: &Value, sink: ReplySink<'_>, who: &Who) -> Result<(), ModelError> {
        let delta = &data["delta"];
        let text = |name: &str| delta[name].as_str().unwrap_or_default();
        let index = data["index"].as_u64().and_then(|index| usize::try_from(index).ok());
        let index = index.unwrap_or(self.blocks.len().saturating_sub(1));
        let Some(block) = self.blocks.get_mut(index) else {
            return Err(broken_off(who, "a delta does not belong to any block"));
        };
        let kind = delta["type"].as_str().unwrap_or_default();
        let piece = match (block, kind) {
            (Block::Text(whole), "text_delta") => {
                let piece = text("text");
                whole.push_str(piece);
                if !piece.is_empty() {
                    sink(ModelEvent::TextDelta(piece.to_owned()));
                }
                piece
            }
            (Block::Thinking { text: whole, .. }, "thinking_delta") => {
                let piece = text("thinking");
                whole.push_str(piece);
                if !piece.is_empty() {
                    sink(ModelEvent::ThinkingDelta(piece.to_owned()));
                }
                piece
            }
            (Block::Thinking { signature, .. }, "signature_delta") => {
                let piece = text("signature");
                signature.push_str(piece);
                piece
            }
            (Block::Call { json, .. }, "input_json_delta") => {
                let piece = text("partial_json");
                json.push_str(piece);
                piece
            }
            // A kind of piece we do not know changes nothing we keep.
            _ => "",
        };
        self.length += piece.len();
        if self.length > MAX_REPLY_LEN {
            return Err(broken_off(who, "the reply is too long"));
        }
        Ok(())
    }

    /// Takes what an event says of the cost; later numbers replace earlier ones.
    fn count(&mut self, usage: &Value) {
        let take = |name: &str, place: &mut u64| {
            if let Some(count) = usage[name].as_u64() {
                *place = count;
            }
        };
        take("input_tokens", &mut self.usage.input);
        take("output_tokens", &mut self.usage.output);
        take("cache_read_input_tokens", &mut self.usage.cache_read);
        take("cache_creation_input_tokens", &mut self.usage.cache_write);
    }
}

impl Block {
    fn content(self) -> Option<Content> {
        match self {
            Self::Text(text) => (!text.is_empty()).then_some(Content::Text { text }),
            Self::Thinking { text, signature } => {
                let signature = (!signature.is_empty()).then_some(signature);
                (!text.is_empty()).then_some(Content::Thinking { text, signature })
            }
            Self::Redacted(data) => Some(Content::Thinking { text: String::new(), signature: Some(data) }),
            Self::Call { id, name, json, given } => {
                let given_whole = json.is_empty() && given.as_object().is_some_and(|map| !map.is_empty());
                let input = if given_whole { given } else { arguments(&json) };
                Some(Content::ToolUse { id, name, input })
            }
            Self::Unknown => None,
        }
    }
}

fn stop(word: &str) -> StopReason {
    match word {
        "tool_use" => StopReason::ToolUse,
        "max_tokens" | "model_context_window_exceeded" => StopReason::MaxTokens,
        "refusal" => StopReason::Refusal,
        // `end_turn`, `stop_sequence`, `pause_turn`, and words of later versions.
        _ => StopReason::EndTurn,
    }
}
