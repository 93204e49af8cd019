//! Waiting for a condition with a deadline, instead of for an amount of time.

use std::time::{Duration, Instant};

/// Time between two looks. Short, because every test waits through here.
const BETWEEN_LOOKS: Duration = Duration::from_millis(2);

/// Looks until `look` finds something and returns it.
///
/// # Panics
/// Nothing was found `within` the time; the message names `what`.
pub fn until<T>(what: &str, within: Duration, mut look: impl FnMut() -> Option<T>) -> T {
    let started = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(started.elapsed() < within, "{what}: not within {within:?}");
        std::thread::sleep(BETWEEN_LOOKS);
    }
}
