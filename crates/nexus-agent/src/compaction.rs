//! Making a conversation shorter without forgetting silently: the oldest turns become a summary, the
//! longest results their head and tail. The ledger keeps everything; what is decided here is stored,
//! can be looked at and taken back.
//!
//! Rules and identity stand in the system prompt, which is never touched.

mod asked;
mod extract;
mod summary;

use std::sync::Arc;

pub(crate) use nexus_base::conversation::CompactionCause as Cause;
use nexus_base::id::{CompactionId, ToolCallId, TurnId};
use nexus_llm::{Model, Usage};
use tokio_util::sync::CancellationToken;

use crate::estimate::Calibration;
use crate::history::{Past, PastMessage, PastTurn, summary_text};
use nexus_tools::Artifacts;

pub use self::asked::{AskedToCompact, Shortened};
use self::extract::head_and_tail;

/// Turns at the end that are always sent whole.
const KEPT_TURNS: usize = 3;
/// Results shorter than this are never shortened, in bytes.
const MIN_RESULT_LEN: usize = 4_000;
/// Said of what was left out when it is kept nowhere else.
const IN_THE_LEDGER: &str = "the full text is in the ledger";
/// Tokens kept free for the reply and for the results of its calls.
const RESERVE: u64 = 16_000;
/// Shares of the room at which a conversation is compacted, to which, and to which after a refusal.
const FULL: u64 = 85;
const ROOMY: u64 = 60;
const AFTER_OVERFLOW: u64 = 40;

/// How much of a conversation a model can be sent.
#[derive(Debug, Clone)]
pub struct Window {
    /// Most tokens of a request and its reply; none when there is no model that counts.
    pub limit: Option<u64>,
    /// Most earlier turns that are sent whole.
    pub turns: usize,
    /// Bytes per token as this model counts them.
    pub calibration: Arc<Calibration>,
}

impl Default for Window {
    fn default() -> Self {
        Self { limit: None, turns: 200, calibration: Arc::default() }
    }
}

impl Window {
    /// Returns the tokens a request may have.
    fn room(&self) -> Option<u64> {
        // A tiny local model gives half of its window away rather than all of it.
        self.limit.map(|limit| limit.saturating_sub(RESERVE).max(limit / 2))
    }

    /// Says whether a request of so many bytes and so many earlier turns has to become shorter.
    pub(crate) fn wants(&self, bytes: usize, turns: usize) -> Option<Cause> {
        if self.room().is_some_and(|room| self.calibration.tokens(bytes) > room * FULL / 100) {
            return Some(Cause::ContextLimit);
        }
        (turns > self.turns.max(KEPT_TURNS * 2)).then_some(Cause::Length)
    }

    /// Returns how many bytes a request may have after it was compacted for this reason.
    fn target(&self, cause: Cause, bytes: usize) -> usize {
        let share = |share: u64| match self.room() {
            Some(room) => self.calibration.bytes(room * share / 100),
            None => bytes / 100 * usize::try_from(share).unwrap_or(100),
        };
        match cause {
            Cause::ContextLimit => share(ROOMY),
            Cause::Overflow => share(AFTER_OVERFLOW).min(bytes / 2),
            Cause::Length => usize::MAX,
            // As short as it gets: whoever asks wants the room.
            Cause::Asked | Cause::Reset => 0,
        }
    }
}

/// What was decided, for the ledger.
#[derive(Debug, Clone)]
pub struct Compacted {
    pub id: CompactionId,
    /// The last turn that the summary stands for.
    pub through: Option<TurnId>,
    /// How many turns were summed up this time.
    pub turns: usize,
    /// What is sent in place of them and of everything before.
    pub summary: Option<String>,
    /// Results that are sent shortened, those of earlier compactions included.
    pub trims: Vec<(ToolCallId, String)>,
    /// Why.
    pub cause: Cause,
    /// Who wrote the summary.
    pub author: String,
    /// Estimated tokens before and after.
    pub tokens: (u64, u64),
    /// What writing it cost.
    pub usage: Usage,
}

/// What a compaction works on.
pub(crate) struct Work<'a> {
    pub(crate) window: &'a Window,
    pub(crate) model: &'a Arc<dyn Model>,
    /// Bytes of the request as it is, with system prompt and tools.
    pub(crate) bytes: usize,
    pub(crate) cause: Cause,
    /// Where the whole of a shortened result is kept.
    pub(crate) artifacts: Option<&'a Artifacts>,
    pub(crate) cancel: &'a CancellationToken,
}

/// Makes the past and the turn that runs shorter. None when nothing can be left out.
pub(crate) async fn compact(work: &Work<'_>, past: &mut Past, current: &mut PastTurn) -> Option<Compacted> {
    let target = work.window.target(work.cause, work.bytes);
    let summed_up = choose(work, past, target);
    let mut bytes = work.bytes;
    let mut author = None;
    let mut usage = Usage::default();
    if summed_up > 0 {
        let rest = past.turns.split_off(summed_up);
        let old = std::mem::replace(&mut past.turns, rest);
        let written = summary::write(work, past.summary.as_deref(), &old).await;
        let freed: usize = old.iter().map(|turn| turn.bytes()).sum::<usize>()
            + past.summary.as_ref().map_or(0, |text| summary_text(text).len());
        bytes = bytes.saturating_sub(freed) + summary_text(&written.text).len();
        usage = written.usage;
        author = Some(written.author);
        past.through = old.last().and_then(|turn| turn.id.clone()).or(past.through.take());
        past.summary = Some(written.text);
    }
    let mut trimmed = 0;
    if bytes > target {
        trimmed = trim_results(work, past, current, &mut bytes, target);
    }
    if summed_up == 0 && trimmed == 0 {
        return None;
    }
    let tokens = |bytes| work.window.calibration.tokens(bytes);
    Some(Compacted {
        id: CompactionId::generate(),
        through: past.through.clone(),
        turns: summed_up,
        summary: past.summary.clone(),
        trims: past.trims.clone(),
        cause: work.cause,
        author: author.unwrap_or_else(|| "head and tail".to_owned()),
        tokens: (tokens(work.bytes), tokens(bytes)),
        usage,
    })
}

/// Returns how many of the oldest turns have to go.
fn choose(work: &Work<'_>, past: &Past, target: usize) -> usize {
    let most = past.turns.len().saturating_sub(KEPT_TURNS);
    if work.cause == Cause::Length {
        return past.turns.len().saturating_sub(work.window.turns.max(KEPT_TURNS * 2) / 2).min(most);
    }
    let mut left = work.bytes + summary::ALLOWANCE;
    let mut chosen = 0;
    for turn in &past.turns[..most] {
        if left <= target {
            break;
        }
        left = left.saturating_sub(turn.bytes());
        chosen += 1;
    }
    chosen
}

/// Shortens the longest results until the request fits; returns how many.
fn trim_results(
    work: &Work<'_>,
    past: &mut Past,
    current: &mut PastTurn,
    bytes: &mut usize,
    target: usize,
) -> usize {
    let mut candidates: Vec<(usize, ToolCallId)> = past
        .turns
        .iter()
        .map(AsRef::as_ref)
        .chain([&*current])
        .flat_map(|turn| &turn.messages)
        .filter_map(|message| match message {
            PastMessage::Assistant { calls, .. } => Some(calls),
            PastMessage::User { .. } => None,
        })
        .flatten()
        .filter_map(|call| call.result.as_ref().map(|(text, _)| (text.len(), call.id.clone())))
        .filter(|(length, _)| *length >= MIN_RESULT_LEN)
        .collect();
    candidates.sort_by_key(|(length, _)| std::cmp::Reverse(*length));
    let mut trimmed = 0;
    for (length, id) in candidates {
        if *bytes <= target {
            break;
        }
        let shortened = past.shorten_result(current, &id, |text| {
            head_and_tail(text, MIN_RESULT_LEN / 2, &whereabouts(work.artifacts, text))
        });
        let Some(text) = shortened else { continue };
        *bytes = bytes.saturating_sub(length.saturating_sub(text.len()));
        past.trims.retain(|(known, _)| *known != id);
        past.trims.push((id, text));
        trimmed += 1;
    }
    trimmed
}

/// Says where the whole of a result is, keeping it there if it is not yet.
fn whereabouts(artifacts: Option<&Artifacts>, text: &str) -> String {
    let known = text.find(Artifacts::SCHEME).and_then(|start| {
        let id = text[start + Artifacts::SCHEME.len()..]
            .split(|character: char| !character.is_ascii_alphanumeric())
            .next()?;
        (id.len() == Artifacts::ID_LENGTH).then(|| id.to_owned())
    });
    let Some(artifacts) = artifacts else { return IN_THE_LEDGER.to_owned() };
    // Whose words an old result holds is not known any more, so nobody vouches for them.
    match known.map_or_else(|| artifacts.keep(text, true), Ok) {
        Ok(id) => format!("the full result is {}{id}; read it with offset and limit", Artifacts::SCHEME),
        Err(error) => {
            tracing::warn!(%error, "the full text of a shortened result could not be kept");
            IN_THE_LEDGER.to_owned()
        }
    }
}

#[cfg(test)]
mod tests;
