//! A place where a reply waits until the test lets it go on.

use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

/// Clones are the same gate. Closed until opened, then open for good.
#[derive(Debug, Clone, Default)]
pub struct Gate {
    shared: Arc<(Mutex<State>, Condvar)>,
}

#[derive(Debug, Default)]
struct State {
    open: bool,
    reached: usize,
}

impl Gate {
    /// Makes a closed gate.
    pub fn new() -> Self {
        Self::default()
    }

    /// Lets everybody through.
    pub fn open(&self) {
        self.shared.0.lock().unwrap().open = true;
        self.shared.1.notify_all();
    }

    /// Waits until a reply stands at the gate.
    ///
    /// # Panics
    /// None does within 30 seconds.
    pub fn wait_reached(&self) {
        self.wait_reached_by(1);
    }

    /// Waits until so many replies have come to the gate.
    ///
    /// # Panics
    /// They do not within 30 seconds.
    pub fn wait_reached_by(&self, count: usize) {
        let guard = self.shared.0.lock().unwrap();
        let within = Duration::from_secs(30);
        let (state, timeout) =
            self.shared.1.wait_timeout_while(guard, within, |state| state.reached < count).unwrap();
        assert!(!timeout.timed_out(), "{} of {count} replies reached the gate", state.reached);
    }

    pub(crate) fn arrive(&self) {
        self.shared.0.lock().unwrap().reached += 1;
        self.shared.1.notify_all();
    }

    /// Waits a moment; tells whether the gate is open.
    pub(crate) fn is_open_after(&self, moment: Duration) -> bool {
        let guard = self.shared.0.lock().unwrap();
        self.shared.1.wait_timeout_while(guard, moment, |state| !state.open).unwrap().0.open
    }
}
