//! The circuit breaker: an automation that keeps failing is left alone for a while.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use nexus_base::clock::Timestamp;
use nexus_store::runtime::{Automation, CircuitState};

/// Failures in a row after which an automation is left alone.
const TOLERATED_ERRORS: u64 = 5;
/// How long it is left alone before one more try.
const REST: Duration = Duration::from_secs(5 * 60);

/// One automation's breaker.
#[derive(Debug)]
pub(crate) struct Breaker(Mutex<State>);

#[derive(Debug, Clone, Copy)]
struct State {
    circuit: CircuitState,
    errors: u64,
    opened: Option<Timestamp>,
    /// The one trial of a half-open breaker is under way.
    trying: bool,
}

/// A change worth keeping in the automation's row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Change {
    pub(crate) circuit: CircuitState,
    pub(crate) opened: Option<Timestamp>,
}

impl Breaker {
    /// Takes up where the row says an earlier life of the daemon was.
    pub(crate) fn of(automation: &Automation) -> Self {
        Self(Mutex::new(State {
            circuit: match automation.circuit_state {
                // The trial that the row remembers ended with the daemon that made it.
                CircuitState::HalfOpen => CircuitState::Open,
                other => other,
            },
            errors: automation.consecutive_errors,
            opened: automation.circuit_opened_at,
            trying: false,
        }))
    }

    /// Asks whether a run may begin; every yes must be followed by [`Breaker::ended`].
    pub(crate) fn admit(&self, now: Timestamp) -> bool {
        let mut state = self.lock();
        match state.circuit {
            CircuitState::Closed => true,
            // A moment ahead of us means that the clock was set back: try, rather than rest for who knows how long.
            CircuitState::Open
                if state.opened.is_some_and(|opened| opened <= now && now.since(opened) < REST) =>
            {
                false
            }
            CircuitState::Open | CircuitState::HalfOpen if state.trying => false,
            CircuitState::Open | CircuitState::HalfOpen => {
                state.circuit = CircuitState::HalfOpen;
                state.trying = true;
                true
            }
        }
    }

    /// Notes how a run ended; returns what changed.
    pub(crate) fn ended(&self, well: bool, now: Timestamp) -> Option<Change> {
        let mut state = self.lock();
        let before = state.circuit;
        state.trying = false;
        if well {
            *state = State { circuit: CircuitState::Closed, errors: 0, opened: None, trying: false };
        } else {
            state.errors += 1;
            if before == CircuitState::HalfOpen || state.errors >= TOLERATED_ERRORS {
                state.circuit = CircuitState::Open;
                state.opened = Some(now);
            }
        }
        let reopened = before == CircuitState::HalfOpen && state.circuit == CircuitState::Open;
        (before != state.circuit || reopened)
            .then_some(Change { circuit: state.circuit, opened: state.opened })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: i64 = 1_700_000_000_000;

    fn breaker() -> Breaker {
        Breaker(Mutex::new(State { circuit: CircuitState::Closed, errors: 0, opened: None, trying: false }))
    }

    fn at(seconds: i64) -> Timestamp {
        Timestamp(START + seconds * 1_000)
    }

    fn fail(breaker: &Breaker, second: i64) -> Option<Change> {
        assert!(breaker.admit(at(second)), "second {second}");
        breaker.ended(false, at(second))
    }

    #[test]
    fn five_errors_open_it_and_a_good_run_between_starts_the_count_again() {
        let breaker = breaker();
        for second in 0..4 {
            assert_eq!(fail(&breaker, second), None);
        }
        assert!(breaker.admit(at(4)));
        assert_eq!(breaker.ended(true, at(4)), None);
        for second in 5..9 {
            assert_eq!(fail(&breaker, second), None);
        }
        assert_eq!(fail(&breaker, 9), Some(Change { circuit: CircuitState::Open, opened: Some(at(9)) }));
        assert!(!breaker.admit(at(9 + 299)));
    }

    #[test]
    fn after_a_rest_one_trial_decides() {
        let breaker = breaker();
        for _ in 0..5 {
            fail(&breaker, 0);
        }
        assert!(breaker.admit(at(300)));
        assert!(!breaker.admit(at(300)), "one trial at a time");
        assert_eq!(
            breaker.ended(false, at(301)),
            Some(Change { circuit: CircuitState::Open, opened: Some(at(301)) })
        );
        assert!(!breaker.admit(at(600)), "the rest begins again");
        assert!(breaker.admit(at(601)));
        assert_eq!(
            breaker.ended(true, at(602)),
            Some(Change { circuit: CircuitState::Closed, opened: None })
        );
        assert!(breaker.admit(at(602)) && breaker.admit(at(602)));
    }
}
