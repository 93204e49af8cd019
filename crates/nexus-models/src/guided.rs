//! The guide in the place of a model: it answers, and where a credential waits for the owner's yes it says
//! so once per conversation and takes the answer.

use async_trait::async_trait;
use nexus_guide::Guide;
use nexus_llm::{
    Content, Conversation, Message, Model, ModelError, ModelEvent, ModelName, ModelReply, ReplySink, Role,
    StopReason, Usage,
};
use nexus_protocol::framing;
use nexus_protocol::models::ModelQuestion;
use tokio_util::sync::CancellationToken;

use crate::Models;

/// How the note begins that stands below the guide's own words. What follows it is not the guide's.
const NOTE: &str = "\n\n—\nI am the offline guide, not a language model.";
/// How notes begin, also those that older builds stored in a conversation.
const NOTE_START: &str = "\n\n—\nI am the offline guide";

/// The guide, with a question to the owner if there is one.
#[derive(Debug)]
pub(crate) struct Guided {
    guide: Guide,
    asks: Option<(ModelQuestion, Models)>,
}

/// What the owner said about the question.
#[derive(Debug, PartialEq, Eq)]
enum Said {
    Yes,
    No,
    SomethingElse,
}

impl Guided {
    pub(crate) fn new(asks: Option<(ModelQuestion, Models)>) -> Self {
        Self { guide: Guide::new(), asks }
    }

    pub(crate) fn alone() -> Self {
        Self::new(None)
    }
}

#[async_trait]
impl Model for Guided {
    fn name(&self) -> ModelName {
        self.guide.name()
    }

    async fn reply(
        &self,
        conversation: &Conversation,
        sink: ReplySink<'_>,
        cancel: &CancellationToken,
    ) -> Result<ModelReply, ModelError> {
        let Some((question, models)) = &self.asks else {
            return self.guide.reply(&without_notes(conversation), sink, cancel).await;
        };
        match said(conversation, question) {
            Said::Yes => {
                self.answered(models, question, true).await?;
                return models.chosen(false).reply(conversation, sink, cancel).await;
            }
            Said::No => {
                self.answered(models, question, false).await?;
                let text = format!(
                    "Understood: {} will not be used, and I will not ask again. `nexus models allow {}` changes that.",
                    question.provider, question.provider
                );
                return Ok(only(text, sink));
            }
            Said::SomethingElse => {}
        }
        let mut reply = self.guide.reply(&without_notes(conversation), sink, cancel).await?;
        if reply.stop == StopReason::EndTurn && !was_asked(conversation) {
            let note = note(question);
            sink(ModelEvent::TextDelta(note.clone()));
            match reply.content.iter_mut().rev().find_map(text_of) {
                Some(text) => text.push_str(&note),
                None => reply.content.push(Content::Text { text: note }),
            }
        }
        Ok(reply)
    }
}

impl Guided {
    async fn answered(
        &self,
        models: &Models,
        question: &ModelQuestion,
        agrees: bool,
    ) -> Result<(), ModelError> {
        let kept = models.answer(&question.provider, Some(&question.account), agrees).await;
        kept.map(drop).map_err(|error| ModelError::Unavailable {
            provider: "nexus".to_owned(),
            reason: format!("the answer could not be saved: {error}"),
            retry_after: None,
        })
    }
}

/// A model that waits until it is known which one answers.
#[derive(Debug)]
pub(crate) struct PendingModel {
    pub(crate) models: Models,
    pub(crate) asks: bool,
    pub(crate) name: ModelName,
}

#[async_trait]
impl Model for PendingModel {
    fn name(&self) -> ModelName {
        self.name.clone()
    }

    async fn reply(
        &self,
        conversation: &Conversation,
        sink: ReplySink<'_>,
        cancel: &CancellationToken,
    ) -> Result<ModelReply, ModelError> {
        tokio::select! {
            () = self.models.looked() => {}
            () = cancel.cancelled() => return Err(ModelError::Cancelled),
        }
        self.models.chosen(self.asks).reply(conversation, sink, cancel).await
    }
}

fn note(question: &ModelQuestion) -> String {
    let provider = &question.provider;
    format!(
        "{NOTE} {} Say “use {provider}” and it will answer from now on; say “not {provider}” and I will not ask \
         again. (Or run `nexus models allow {provider}`.)",
        question.text
    )
}

fn only(text: String, sink: ReplySink<'_>) -> ModelReply {
    sink(ModelEvent::TextDelta(text.clone()));
    ModelReply {
        content: vec![Content::Text { text }],
        stop: StopReason::EndTurn,
        usage: Usage::default(),
        model: None,
    }
}

/// Reads the owner's last words as an answer. The words are exact on purpose: a plain yes belongs to
/// whatever the guide asked last.
fn said(conversation: &Conversation, question: &ModelQuestion) -> Said {
    let Some(Content::Text { text }) =
        conversation.messages.last().and_then(|message| message.content.last())
    else {
        return Said::SomethingElse;
    };
    let (_, words) = framing::split(text);
    let words: String = words
        .to_lowercase()
        .chars()
        .map(|character| if character.is_alphanumeric() || character == '-' { character } else { ' ' })
        .collect();
    let words: Vec<&str> = words.split_whitespace().filter(|word| *word != "please").collect();
    match words.as_slice() {
        ["use", named] | ["yes", "use", named] | ["yes", named] if *named == question.provider => Said::Yes,
        ["not", named] | ["no", named] | ["don", "t", "use", named] if *named == question.provider => {
            Said::No
        }
        _ => Said::SomethingElse,
    }
}

fn was_asked(conversation: &Conversation) -> bool {
    conversation
        .messages
        .iter()
        .any(|message| message.role == Role::Assistant && message.text().contains(NOTE_START))
}

/// Returns the conversation as the guide led it: it reads its own words again, and the note is not its.
fn without_notes(conversation: &Conversation) -> Conversation {
    if !was_asked(conversation) {
        return conversation.clone();
    }
    let mut cleaned = conversation.clone();
    for message in cleaned.messages.iter_mut().filter(|message| message.role == Role::Assistant) {
        clean(message);
    }
    cleaned
}

fn clean(message: &mut Message) {
    for text in message.content.iter_mut().filter_map(text_of) {
        if let Some(at) = text.find(NOTE_START) {
            text.truncate(at);
        }
    }
}

fn text_of(content: &mut Content) -> Option<&mut String> {
    match content {
        Content::Text { text } => Some(text),
        Content::Thinking { .. } | Content::ToolUse { .. } | Content::ToolResult { .. } => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn question() -> ModelQuestion {
        ModelQuestion {
            provider: "anthropic".into(),
            account: "env:X".into(),
            model: "anthropic/m".into(),
            text: "Found.".into(),
        }
    }

    fn conversation(messages: Vec<Message>) -> Conversation {
        Conversation { system: "".into(), messages, tools: Vec::new().into(), max_tokens: 1 }
    }

    #[test]
    fn only_exact_words_are_an_answer() {
        let check = |words: &str, expected: Said| {
            assert_eq!(said(&conversation(vec![Message::user(words)]), &question()), expected, "{words}");
        };
        check("use anthropic", Said::Yes);
        check("Yes, use Anthropic!", Said::Yes);
        check("not anthropic", Said::No);
        check("Don't use anthropic.", Said::No);
        check("yes", Said::SomethingElse);
        check("use openai", Said::SomethingElse);
        check("should I use anthropic or not?", Said::SomethingElse);
    }

    #[test]
    fn the_guide_never_reads_the_note() {
        let said = format!("Hello.{}", note(&question()));
        let with = conversation(vec![Message::user("hi"), Message::assistant(said), Message::user("Ada")]);
        assert!(was_asked(&with));
        let cleaned = without_notes(&with);
        assert_eq!(cleaned.messages[1].text(), "Hello.");
        assert_eq!(cleaned.messages[2], with.messages[2]);
    }
}
