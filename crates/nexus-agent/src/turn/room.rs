//! Asking the model: within what it takes, and within what may be spent.

use std::sync::{Mutex, PoisonError};

use nexus_llm::{Conversation, ModelError, ModelEvent, ModelReply};

use super::{Agent, TurnInput};
use crate::budget::Meter;
use crate::compaction::{self, Cause, Work};
use crate::context::ContextRecord;
use crate::estimate::{counted, reply_bytes, request_bytes};
use crate::history::to_messages;
use crate::ports::Progress;
use nexus_tools::ports::LedgerError;

/// A model call that gave no reply.
pub(super) struct NoReply {
    pub(super) error: ModelError,
    /// What had been said before.
    pub(super) partial: String,
}

impl Agent {
    /// Asks the model once, makes room first when there is little, and once more when the provider says
    /// that the conversation is too long.
    pub(super) async fn ask(
        &self,
        conversation: &mut Conversation,
        input: &mut TurnInput<'_>,
        meter: &mut Meter,
        record: &mut ContextRecord,
    ) -> Result<Result<ModelReply, NoReply>, LedgerError> {
        let mut bytes = request_bytes(conversation);
        if let Some(cause) = self.parts.window.wants(bytes, input.past.turns.len())
            && self.make_room(cause, bytes, conversation, input, meter, record).await?
        {
            bytes = request_bytes(conversation);
        }
        if record.total_bytes == 0 {
            record.total_bytes = bytes;
        }
        let mut first = self.reply(input, conversation).await;
        if let Err(NoReply { error: ModelError::ContextTooLong, partial }) = &first
            && partial.is_empty()
        {
            if let Some(limit) = self.parts.window.limit {
                self.parts.window.calibration.learn_at_least(bytes, limit);
            }
            if self.make_room(Cause::Overflow, bytes, conversation, input, meter, record).await? {
                bytes = request_bytes(conversation);
                first = self.reply(input, conversation).await;
            }
        }
        // Models of our own cost nothing and take what they are given.
        let is_own = self.parts.window.limit.is_none();
        let calibration = &self.parts.window.calibration;
        match &first {
            Ok(reply) => {
                let counted = counted(reply.usage, bytes, reply_bytes(&reply.content), calibration);
                let usage = if is_own { reply.usage } else { counted };
                if usage == reply.usage {
                    calibration.learn(bytes, usage.input + usage.cache_read + usage.cache_write);
                }
                meter.model.clone_from(&reply.model);
                self.pay(&usage, input, meter).await?;
            }
            // What broke off was paid for as far as it came.
            Err(NoReply { partial, .. }) if !partial.is_empty() && !is_own => {
                let usage = counted(nexus_llm::Usage::default(), bytes, partial.len(), calibration);
                self.pay(&usage, input, meter).await?;
            }
            Err(_) => {}
        }
        Ok(first)
    }

    /// Counts what a call cost, in the turn and in the ledger of costs.
    async fn pay(
        &self,
        usage: &nexus_llm::Usage,
        input: &TurnInput<'_>,
        meter: &mut Meter,
    ) -> Result<(), LedgerError> {
        meter.usage.add(usage);
        let model = meter.model.clone().unwrap_or_else(|| self.parts.model.name());
        meter.spent = input.spending.add(&model, usage).await?;
        // What costs nothing is not counted before anybody's eyes either.
        if meter.spent.run_tokens > 0 {
            (input.progress)(Progress::Used { usage: &meter.usage });
        }
        Ok(())
    }

    /// Compacts; returns whether anything became shorter.
    async fn make_room(
        &self,
        cause: Cause,
        bytes: usize,
        conversation: &mut Conversation,
        input: &mut TurnInput<'_>,
        meter: &mut Meter,
        record: &mut ContextRecord,
    ) -> Result<bool, LedgerError> {
        let work = Work {
            window: &self.parts.window,
            model: &self.parts.model,
            bytes,
            cause,
            artifacts: self.parts.toolbox.kept_results(),
            cancel: &input.cancel,
        };
        let compacted = compaction::compact(&work, &mut input.past, &mut input.current).await;
        let Some(mut compacted) = compacted else { return Ok(false) };
        for piece in input.hooks.compacted(&input.facts).await {
            // Kept with the summary, so that a restart tells the same.
            if let Some(summary) = &mut input.past.summary {
                summary.push_str(&piece.with_its_source());
                compacted.summary = Some(summary.clone());
            }
        }
        input.ledger.record_compaction(&compacted).await?;
        if compacted.usage.total() > 0 {
            self.pay(&compacted.usage, input, meter).await?;
        }
        (input.progress)(Progress::Compacted { compacted: &compacted });
        record.compactions.push(compacted.id.to_string());
        conversation.messages = to_messages(&input.past, &input.current);
        Ok(true)
    }

    async fn reply(&self, input: &TurnInput<'_>, conversation: &Conversation) -> Result<ModelReply, NoReply> {
        let partial = Mutex::new(String::new());
        let sink = |event: ModelEvent| match event {
            ModelEvent::TextDelta(text) => {
                partial.lock().unwrap_or_else(PoisonError::into_inner).push_str(&text);
                (input.progress)(Progress::Text(&text));
            }
            ModelEvent::ThinkingDelta(_) => {}
        };
        let reply = self.parts.model.reply(conversation, &sink, &input.cancel).await;
        reply.map_err(|error| NoReply {
            error,
            partial: partial.into_inner().unwrap_or_else(PoisonError::into_inner),
        })
    }
}
