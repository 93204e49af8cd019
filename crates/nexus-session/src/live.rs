//! What is running now: one entry per session that has a task, with the means to end its turn.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use nexus_base::id::{QueueItemId, SessionLabel};
use tokio_util::sync::CancellationToken;

/// Why a running turn is ended early.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Cause {
    /// A newer message interrupts it.
    Interrupted,
    /// The person asked.
    Aborted,
    /// Its parent or the person cancelled the worker.
    Cancelled {
        /// What for.
        reason: String,
    },
    /// It took too long.
    TimedOut,
    /// The daemon stops; the turn stays pending and is resumed at the next start.
    Stopping,
}

/// A turn in progress.
#[derive(Debug)]
struct Run {
    items: Vec<QueueItemId>,
    cancel: CancellationToken,
    cause: Option<Cause>,
}

#[derive(Debug, Default)]
struct Entry {
    run: Option<Run>,
    /// Something was admitted while the task was looking elsewhere.
    again: bool,
    /// An interrupting item admitted between a claim and its run.
    interrupting: Option<QueueItemId>,
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
        entries.insert(label.clone(), Entry::default());
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

    /// Notes that a turn begins; its token is cancelled at once when somebody interrupted meanwhile.
    pub(crate) fn begin(&self, label: &SessionLabel, items: Vec<QueueItemId>, cancel: CancellationToken) {
        let mut entries = self.lock();
        let Some(entry) = entries.get_mut(label) else { return };
        let overtaken = entry.interrupting.take().is_some_and(|item| !items.contains(&item));
        let mut run = Run { items, cancel, cause: None };
        if overtaken {
            end(&mut run, Cause::Interrupted);
        }
        entry.run = Some(run);
    }

    /// Notes that the turn ended; returns why, when it was ended early.
    pub(crate) fn finish(&self, label: &SessionLabel) -> Option<Cause> {
        self.lock().get_mut(label)?.run.take()?.cause
    }

    /// Ends the running turn for an interrupting item, unless the turn already answers it.
    pub(crate) fn interrupt(&self, label: &SessionLabel, item: &QueueItemId) {
        let mut entries = self.lock();
        let Some(entry) = entries.get_mut(label) else { return };
        match &mut entry.run {
            Some(run) if run.items.contains(item) => {}
            Some(run) => end(run, Cause::Interrupted),
            None => entry.interrupting = Some(item.clone()),
        }
    }

    /// Ends the running turn; false when none is running.
    pub(crate) fn end(&self, label: &SessionLabel, cause: Cause) -> bool {
        let mut entries = self.lock();
        let Some(run) = entries.get_mut(label).and_then(|entry| entry.run.as_mut()) else { return false };
        end(run, cause);
        true
    }

    /// Ends every running turn.
    pub(crate) fn end_all(&self, cause: &Cause) {
        for entry in self.lock().values_mut() {
            if let Some(run) = &mut entry.run {
                end(run, cause.clone());
            }
        }
    }

    /// Returns whether a turn is running in this session.
    pub(crate) fn is_running(&self, label: &SessionLabel) -> bool {
        self.lock().get(label).is_some_and(|entry| entry.run.is_some())
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

    #[test]
    fn an_interrupt_spares_the_turn_that_already_answers_it() {
        let live = LiveSessions::default();
        assert!(live.wake(&label()));
        let cancel = CancellationToken::new();
        live.begin(&label(), vec![QueueItemId::new("one")], cancel.clone());
        live.interrupt(&label(), &QueueItemId::new("one"));
        assert!(!cancel.is_cancelled());
        live.interrupt(&label(), &QueueItemId::new("two"));
        assert!(cancel.is_cancelled());
        assert_eq!(live.finish(&label()), Some(Cause::Interrupted));
    }

    #[test]
    fn an_interrupt_between_claim_and_run_is_not_lost() {
        let live = LiveSessions::default();
        live.wake(&label());
        live.interrupt(&label(), &QueueItemId::new("two"));
        let cancel = CancellationToken::new();
        live.begin(&label(), vec![QueueItemId::new("one")], cancel.clone());
        assert!(cancel.is_cancelled());
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
