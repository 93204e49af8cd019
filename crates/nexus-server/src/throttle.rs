//! Wrong tokens are answered ever more slowly; the right one never passes through here.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// What the first wrong token costs.
const FIRST: Duration = Duration::from_millis(100);
/// What no wrong token costs more than. With the few connections strangers may hold, this bounds
/// guessing to a few dozen tries a second, against at least 128 bits.
const MAX_COUNT: Duration = Duration::from_secs(2);
/// Quiet time after which the count begins anew.
const FORGIVEN_AFTER: Duration = Duration::from_secs(60);

/// Counts wrong tokens.
#[derive(Debug, Default)]
pub(crate) struct Throttle {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    failures: u32,
    last: Option<Instant>,
}

impl Throttle {
    /// Counts one more wrong token and returns how long its answer has to wait. Says so in the log
    /// for the first, second, fourth, eighth, …: a guesser must not fill the disk.
    ///
    /// The wait is per answer, not per address: every client of a loopback server has the same
    /// address, and a shared lock-out would be a way to keep the owner out.
    pub(crate) fn penalty(&self, now: Instant) -> Duration {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.last.is_some_and(|last| now.saturating_duration_since(last) >= FORGIVEN_AFTER) {
            state.failures = 0;
        }
        state.last = Some(now);
        let penalty = FIRST.saturating_mul(1 << state.failures.min(8)).min(MAX_COUNT);
        state.failures = state.failures.saturating_add(1);
        if state.failures.is_power_of_two() {
            tracing::warn!(wrong_tokens = state.failures, "wrong token presented");
        }
        penalty
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_wait_doubles_to_a_bound_and_is_forgiven() {
        let throttle = Throttle::default();
        let start = Instant::now();
        let waits: Vec<u128> = (0..7).map(|_| throttle.penalty(start).as_millis()).collect();
        assert_eq!(waits, [100, 200, 400, 800, 1600, 2000, 2000]);
        assert_eq!(throttle.penalty(start + Duration::from_secs(59)), MAX_COUNT);
        assert_eq!(throttle.penalty(start + Duration::from_secs(59) + FORGIVEN_AFTER), FIRST);
    }
}
