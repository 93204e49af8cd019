//! What is running now: one entry per session that has a task, with the means to end its turn.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use nexus_base::id::{QueueItemId, SessionLabel, TurnId};
use tokio_util::sync::CancellationToken;

/// Why a running turn is ended early.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Cause {
    /// A newer message interrupts it.
    Interrupted,
    /// The person asked.
    Aborted,
    /// Its parent or the person cancelled the worker.
    Cancelled { reason: String },
    /// It took too long.
    TimedOut,
    /// The daemon stops; the turn stays pending and is resumed at the next start.
    Stopping,
}

/// A turn in progress.
#[derive(Debug)]
struct Run {
    turn: TurnId,
    items: Vec<QueueItemId>,
    cancel: CancellationToken,
    cause: Option<Cause>,
}

/// What came in while a session was about to begin a turn: whether it concerns that turn is known
/// only when the claim is.
#[derive(Debug, Default)]
struct Early {
    interrupting: Vec<QueueItemId>,
    cancelled: Vec<(TurnId, String)>,
    aborted: bool,
}

#[derive(Debug)]
enum Phase {
    /// Looks for work.
    Looking(Early),
    /// Takes a turn.
    Running(Run),
    /// Writes a turn's end; too late to change it.
    Ending,
}

#[derive(Debug)]
struct Entry {
    phase: Phase,
    /// Something was admitted while the task was looking elsewhere.
    again: bool,
}

/// Every session with a task.
#[derive(Debug, Default)]
pub(crate) struct LiveSessions {
    entries: Mutex<HashMap<SessionLabel, Entry>>,
}

impl LiveSessions {
    /// Notes that a session has work; true when the caller must start its task.
    pub(crate) fn wake(&self, label: &SessionLabel) -> bool {
        let mut entries = self.lock();
        if let Some(entry) = entries.get_mut(label) {
            entry.again = true;
            return false;
        }
        entries.insert(label.clone(), Entry { phase: Phase::Looking(Early::default()), again: false });
        true
    }

    /// Notes that a session's task found nothing to do; true when it may end.
    pub(crate) fn may_end(&self, label: &SessionLabel) -> bool {
        let mut entries = self.lock();
        match entries.get_mut(label) {
            Some(entry) if entry.again => {
                entry.again = false;
                false
            }
            Some(_) | None => {
                entries.remove(label);
                true
            }
        }
    }

    /// Forgets a session whose task ends for good.
    pub(crate) fn remove(&self, label: &SessionLabel) {
        self.lock().remove(label);
    }

    /// Notes that a session is about to look for work.
    pub(crate) fn look(&self, label: &SessionLabel) {
        if let Some(entry) = self.lock().get_mut(label)
            && !matches!(entry.phase, Phase::Looking(_))
        {
            entry.phase = Phase::Looking(Early::default());
        }
    }

    /// Notes that a turn begins; its token is cancelled at once when somebody ended it meanwhile.
    pub(crate) fn begin(
        &self,
        label: &SessionLabel,
        turn: TurnId,
        items: Vec<QueueItemId>,
        cancel: CancellationToken,
    ) {
        let mut entries = self.lock();
        let Some(entry) = entries.get_mut(label) else { return };
        let early = match std::mem::replace(&mut entry.phase, Phase::Ending) {
            Phase::Looking(early) => early,
            Phase::Running(_) | Phase::Ending => Early::default(),
        };
        let mut run = Run { turn, items, cancel, cause: None };
        if let Some((_, reason)) = early.cancelled.into_iter().find(|(turn, _)| *turn == run.turn) {
            end(&mut run, Cause::Cancelled { reason });
        }
        if early.aborted {
            end(&mut run, Cause::Aborted);
        }
        if early.interrupting.iter().any(|item| !run.items.contains(item)) {
            end(&mut run, Cause::Interrupted);
        }
        entry.phase = Phase::Running(run);
    }

    /// Notes that the turn ended; returns why, when it was ended early.
    pub(crate) fn finish(&self, label: &SessionLabel) -> Option<Cause> {
        let mut entries = self.lock();
        match std::mem::replace(&mut entries.get_mut(label)?.phase, Phase::Ending) {
            Phase::Running(run) => run.cause,
            Phase::Looking(_) | Phase::Ending => None,
        }
    }

    /// Ends the running turn for an interrupting item, unless the turn already answers it.
    pub(crate) fn interrupt(&self, label: &SessionLabel, item: &QueueItemId) {
        match self.lock().get_mut(label).map(|entry| &mut entry.phase) {
            Some(Phase::Running(run)) if run.items.contains(item) => {}
            Some(Phase::Running(run)) => end(run, Cause::Interrupted),
            Some(Phase::Looking(early)) => early.interrupting.push(item.clone()),
            // The next claim takes the item.
            Some(Phase::Ending) | None => {}
        }
    }

    /// Ends the turn that runs or is about to; false when there is none.
    pub(crate) fn abort(&self, label: &SessionLabel) -> bool {
        match self.lock().get_mut(label).map(|entry| &mut entry.phase) {
            Some(Phase::Running(run)) => end(run, Cause::Aborted),
            Some(Phase::Looking(early)) => early.aborted = true,
            Some(Phase::Ending) | None => return false,
        }
        true
    }

    /// Ends one turn of a worker and no other.
    pub(crate) fn cancel(&self, label: &SessionLabel, turn: &TurnId, reason: &str) {
        let reason = reason.to_owned();
        match self.lock().get_mut(label).map(|entry| &mut entry.phase) {
            Some(Phase::Running(run)) if run.turn == *turn => end(run, Cause::Cancelled { reason }),
            Some(Phase::Looking(early)) => early.cancelled.push((turn.clone(), reason)),
            Some(Phase::Running(_) | Phase::Ending) | None => {}
        }
    }

    /// Ends a turn whose time is up.
    pub(crate) fn time_out(&self, label: &SessionLabel) {
        if let Some(Phase::Running(run)) = self.lock().get_mut(label).map(|entry| &mut entry.phase) {
            end(run, Cause::TimedOut);
        }
    }

    /// Ends every running turn.
    pub(crate) fn end_all(&self, cause: &Cause) {
        for entry in self.lock().values_mut() {
            if let Phase::Running(run) = &mut entry.phase {
                end(run, cause.clone());
            }
        }
    }

    /// Returns whether a turn is running in this session.
    pub(crate) fn is_running(&self, label: &SessionLabel) -> bool {
        self.lock().get(label).is_some_and(|entry| matches!(entry.phase, Phase::Running(_)))
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<SessionLabel, Entry>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The first cause stands: a later one only finds the turn already ending.
fn end(run: &mut Run, cause: Cause) {
    run.cause.get_or_insert(cause);
    run.cancel.cancel();
}

#[cfg(test)]
mod tests {
    use super::*;

    fn label() -> SessionLabel {
        SessionLabel::new("dm:owner")
    }

    fn begin(live: &LiveSessions, turn: &str, item: &str) -> CancellationToken {
        let cancel = CancellationToken::new();
        live.begin(&label(), TurnId::new(turn), vec![QueueItemId::new(item)], cancel.clone());
        cancel
    }

    #[test]
    fn an_interrupt_spares_the_turn_that_already_answers_it() {
        let live = LiveSessions::default();
        assert!(live.wake(&label()));
        let cancel = begin(&live, "t", "one");
        live.interrupt(&label(), &QueueItemId::new("one"));
        assert!(!cancel.is_cancelled());
        live.interrupt(&label(), &QueueItemId::new("two"));
        assert!(cancel.is_cancelled());
        assert_eq!(live.finish(&label()), Some(Cause::Interrupted));
    }

    #[test]
    fn an_interrupt_between_claim_and_run_is_not_lost_whatever_the_order() {
        for order in [["one", "two"], ["two", "one"]] {
            let live = LiveSessions::default();
            live.wake(&label());
            for item in order {
                live.interrupt(&label(), &QueueItemId::new(item));
            }
            assert!(begin(&live, "t", "one").is_cancelled());
        }
    }

    #[test]
    fn a_cancellation_between_claim_and_run_ends_that_turn_and_no_other() {
        let live = LiveSessions::default();
        live.wake(&label());
        live.cancel(&label(), &TurnId::new("t1"), "enough");
        assert!(begin(&live, "t1", "one").is_cancelled());
        assert_eq!(live.finish(&label()), Some(Cause::Cancelled { reason: "enough".to_owned() }));
        // Too late for the turn that is being written, and none of the next one's business.
        live.cancel(&label(), &TurnId::new("t1"), "enough");
        live.look(&label());
        live.cancel(&label(), &TurnId::new("t1"), "enough");
        assert!(!begin(&live, "t2", "two").is_cancelled());
    }

    #[test]
    fn an_abort_between_claim_and_run_is_not_lost_and_spares_the_turn_after() {
        let live = LiveSessions::default();
        assert!(!live.abort(&label()));
        live.wake(&label());
        assert!(live.abort(&label()));
        assert!(begin(&live, "t1", "one").is_cancelled());
        live.finish(&label());
        assert!(!live.abort(&label()));
        live.look(&label());
        assert!(!begin(&live, "t2", "two").is_cancelled());
    }

    #[test]
    fn work_admitted_while_the_task_looks_elsewhere_keeps_it_alive() {
        let live = LiveSessions::default();
        assert!(live.wake(&label()));
        assert!(!live.wake(&label()));
        assert!(!live.may_end(&label()));
        assert!(live.may_end(&label()));
        assert!(live.wake(&label()));
    }
}
