//! A compaction that somebody asked for, between two turns.

use nexus_llm::Conversation;
use tokio_util::sync::CancellationToken;

use super::{Cause, Compacted, KEPT_TURNS, Work, compact};
use crate::budget::Meter;
use crate::channel::Channel;
use crate::estimate::request_bytes;
use crate::history::{Past, PastTurn, to_messages};
use crate::ports::{Hooks, Spending};
use crate::prompt::Location;
use crate::turn::Agent;
use nexus_tools::ports::{LedgerError, TurnFacts};

/// What a compaction by hand begins with.
pub struct AskedToCompact<'a> {
    /// The conversation.
    pub past: Past,
    /// The session's last turn, for those who stand around it.
    pub facts: TurnFacts,
    /// Where costs are counted.
    pub spending: &'a dyn Spending,
    /// Who is told, and may add something to the summary.
    pub hooks: &'a dyn Hooks,
    /// Ends it early; then nothing is changed.
    pub cancel: CancellationToken,
}

impl std::fmt::Debug for AskedToCompact<'_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("AskedToCompact").field("facts", &self.facts).finish_non_exhaustive()
    }
}

/// What came of it.
#[derive(Debug)]
pub enum Shortened {
    /// This is to be kept; until then nothing has changed.
    To(Box<Compacted>),
    /// There is nothing to leave out.
    Nothing,
    /// It was ended early.
    Stopped,
    /// It may not be done now.
    Refused {
        /// Why, for the person.
        reason: String,
    },
}

impl Agent {
    /// Makes a conversation as short as it gets without touching its last turns.
    ///
    /// # Errors
    /// What it cost could not be written down.
    pub async fn compact(&self, asked: AskedToCompact<'_>) -> Result<Shortened, LedgerError> {
        let AskedToCompact { mut past, facts, spending, hooks, cancel } = asked;
        let parts = &self.parts;
        if parts.window.limit.is_some() && past.turns.len() > KEPT_TURNS {
            let mut meter = Meter::new(parts.limits, &PastTurn::default());
            meter.spent = spending.so_far().await?;
            // It is no part of the run that came before it; the day's limits hold for everything.
            meter.spent.run_tokens = 0;
            if let Err(reason) = meter.begin_step() {
                return Ok(Shortened::Refused { reason });
            }
        }
        let channel = Channel::of(&facts.session, None);
        let prompt = parts.prompts.assemble(
            &parts.layout,
            &parts.settings,
            facts.role,
            Location { session: &facts.session, channel: channel.as_ref() },
            &parts.assignment,
        );
        let prompt = match prompt {
            Ok(prompt) => prompt,
            Err(error) => {
                let cause = std::error::Error::source(&error).map(ToString::to_string).unwrap_or_default();
                return Ok(Shortened::Refused { reason: format!("{error}: {cause}") });
            }
        };
        let mut current = PastTurn::default();
        let request = Conversation {
            system: std::sync::Arc::clone(&prompt.text),
            messages: to_messages(&past, &current),
            tools: parts.toolbox.specs(),
            max_tokens: 1,
        };
        let work = Work {
            window: &parts.window,
            model: &parts.model,
            bytes: request_bytes(&request),
            cause: Cause::Asked,
            artifacts: parts.toolbox.kept_results(),
            cancel: &cancel,
        };
        let compacted = compact(&work, &mut past, &mut current).await;
        let Some(mut compacted) = compacted else { return Ok(Shortened::Nothing) };
        if compacted.usage.total() > 0 {
            spending.add(&parts.model.name(), &compacted.usage).await?;
        }
        if cancel.is_cancelled() {
            return Ok(Shortened::Stopped);
        }
        for piece in hooks.compacted(&facts).await {
            if let Some(summary) = &mut compacted.summary {
                summary.push_str(&piece.with_its_source());
            }
        }
        Ok(Shortened::To(Box::new(compacted)))
    }
}
