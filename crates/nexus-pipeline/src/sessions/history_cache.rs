//! What a session's next turn follows on: from the ledger, or from memory when it was there a moment
//! ago. Memory is only a copy: whatever ends otherwise than well is read anew.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use nexus_agent::history::{Past, PastTurn};
use nexus_base::id::{SessionLabel, TurnId};
use nexus_store::StoreError;
use nexus_store::agents::{Agents, ClaimedTurn};

use crate::sessions::convert::past_of;

/// Most bytes of conversations kept in memory, all sessions together.
const MAX_BYTES: usize = 4 * 1024 * 1024;
/// Sessions in which automations work for themselves.
const AUTOMATIONS: &str = "meeseeks:";
/// What a kept turn costs beside its texts, in bytes.
const OVERHEAD: usize = 256;

/// Tells whether a session's turns know nothing of each other.
pub(crate) fn is_forgetful(label: &SessionLabel) -> bool {
    label.as_str().starts_with(AUTOMATIONS)
}

#[derive(Debug)]
struct Kept {
    head: TurnId,
    past: Past,
    bytes: usize,
    used: u64,
}

/// The conversations of sessions that spoke lately.
#[derive(Debug, Default)]
pub(crate) struct HistoryCaches {
    kept: Mutex<(u64, HashMap<SessionLabel, Kept>)>,
}

impl HistoryCaches {
    /// Returns what a claimed turn follows on.
    pub(crate) async fn of(&self, agents: &Agents, claimed: &ClaimedTurn) -> Result<Past, StoreError> {
        let Some(parent) = &claimed.turn.parent else { return Ok(Past::default()) };
        // What an automation does for itself is one thing at a time; its folder is what it remembers by.
        if is_forgetful(&claimed.session.label) {
            return Ok(Past::default());
        }
        if let Some(kept) = self.lock().1.get(&claimed.session.label)
            && kept.head == *parent
        {
            return Ok(kept.past.clone());
        }
        Ok(past_of(&agents.past(&claimed.session.label, parent).await?))
    }

    /// Keeps what the turn after `turn` will follow on.
    pub(crate) fn keep(&self, session: &SessionLabel, mut past: Past, turn: PastTurn) {
        let Some(head) = turn.id.clone() else { return };
        past.turns.push(Arc::new(turn));
        let bytes = past.turns.iter().map(|turn| turn.bytes() + OVERHEAD).sum::<usize>()
            + past.summary.as_ref().map_or(0, String::len);
        let mut guard = self.lock();
        let (clock, kept) = &mut *guard;
        *clock += 1;
        let used = *clock;
        kept.insert(session.clone(), Kept { head, past, bytes, used });
        while kept.values().map(|kept| kept.bytes).sum::<usize>() > MAX_BYTES {
            let oldest = kept.iter().min_by_key(|(_, kept)| kept.used).map(|(label, _)| label.clone());
            match oldest {
                Some(oldest) => drop(kept.remove(&oldest)),
                None => break,
            }
        }
    }

    /// Forgets a session's conversation; the ledger is asked next time.
    pub(crate) fn forget(&self, session: &SessionLabel) {
        self.lock().1.remove(session);
    }

    fn lock(&self) -> MutexGuard<'_, (u64, HashMap<SessionLabel, Kept>)> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use nexus_agent::history::PastMessage;

    use super::*;

    fn turn(id: &str, bytes: usize) -> PastTurn {
        let words = PastMessage::User { frame: String::new(), text: "x".repeat(bytes) };
        PastTurn { id: Some(TurnId::new(id)), messages: vec![words] }
    }

    #[test]
    fn the_longest_unused_conversation_goes_first_and_all_stay_within_bounds() {
        let pasts = HistoryCaches::default();
        let label = |name: &str| SessionLabel::new(format!("dm:{name}"));
        pasts.keep(&label("a"), Past::default(), turn("a1", MAX_BYTES / 2));
        pasts.keep(&label("b"), Past::default(), turn("b1", MAX_BYTES / 3));
        pasts.keep(&label("c"), Past::default(), turn("c1", MAX_BYTES / 2));
        let held = |name: &str| pasts.lock().1.contains_key(&label(name));
        assert!(!held("a") && held("b") && held("c"));
        pasts.keep(&label("d"), Past::default(), turn("d1", MAX_BYTES + 1));
        assert!(!held("d"), "a conversation larger than everything is not kept at all");
        pasts.forget(&label("c"));
        assert!(!held("c"));
    }
}
