//! The offline guide: a deterministic model for a machine without a language model.
//!
//! It plays both roles, manager and worker, behind the same trait as every other model. It keeps
//! nothing between calls: what it says follows from the conversation it is given. It understands
//! a closed list of intents (`intents.json`), leads through onboarding, and says plainly that it
//! is no language model. It starts nothing and touches no file; it only asks for tool calls.

mod answer;
mod command;
mod draft;
mod facts;
mod findings;
mod identity;
mod intent;
mod manager;
mod onboarding;
mod pattern;
mod persona;
mod project;
mod report;
mod scene;
mod story;
mod task;
mod text;
mod words;
mod worker;

use async_trait::async_trait;
use nexus_llm::{Content, Conversation, Model, ModelError, ModelEvent, ModelName, ModelReply, ReplySink};
use tokio_util::sync::CancellationToken;

/// Words handed to the sink at once.
const WORDS_PER_PIECE: usize = 6;

/// The offline guide.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Guide;

impl Guide {
    /// Makes a guide.
    pub const fn new() -> Self {
        Self
    }

    /// Continues a conversation without streaming; the same conversation always gives the same reply.
    pub fn answer(conversation: &Conversation) -> ModelReply {
        let scene = scene::Scene::read(conversation);
        let draft = if scene.is_manager() { manager::reply(&scene) } else { worker::reply(&scene) };
        draft.finish(conversation)
    }
}

#[async_trait]
impl Model for Guide {
    fn name(&self) -> ModelName {
        ModelName { provider: "nexus".to_owned(), model: "guide".to_owned() }
    }

    async fn reply(
        &self,
        conversation: &Conversation,
        sink: ReplySink<'_>,
        cancel: &CancellationToken,
    ) -> Result<ModelReply, ModelError> {
        if cancel.is_cancelled() {
            return Err(ModelError::Cancelled);
        }
        let reply = Self::answer(conversation);
        for part in &reply.content {
            let Content::Text { text } = part else { continue };
            for piece in pieces(text) {
                if cancel.is_cancelled() {
                    return Err(ModelError::Cancelled);
                }
                sink(ModelEvent::TextDelta(piece.to_owned()));
                // Lets a cancel come through between two pieces.
                tokio::task::yield_now().await;
            }
        }
        Ok(reply)
    }
}

/// Cuts a text into groups of words; joined they are the text again.
fn pieces(text: &str) -> Vec<&str> {
    let mut result = Vec::new();
    let mut start = 0;
    let mut end = 0;
    let mut words = 0;
    for chunk in text.split_inclusive(char::is_whitespace) {
        end += chunk.len();
        words += usize::from(!chunk.trim().is_empty());
        if words == WORDS_PER_PIECE {
            result.push(&text[start..end]);
            start = end;
            words = 0;
        }
    }
    if start < text.len() {
        result.push(&text[start..]);
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_join_to_the_text() {
        for text in ["", "one", " a  b\n\nc d e f g h i ", "é".repeat(40).as_str()] {
            assert_eq!(pieces(text).concat(), text);
        }
        assert_eq!(pieces("1 2 3 4 5 6 7 8").len(), 2);
    }
}
