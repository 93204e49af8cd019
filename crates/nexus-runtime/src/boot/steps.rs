//! What each boot step costs.

use std::time::Instant;

use nexus_protocol::status::BootStep;

use super::StartError;

/// Times boot steps.
#[derive(Debug, Default)]
pub(super) struct Steps {
    pub(super) done: Vec<BootStep>,
}

impl Steps {
    pub(super) fn step<T>(
        &mut self,
        name: &str,
        work: impl FnOnce() -> Result<T, StartError>,
    ) -> Result<T, StartError> {
        let clock = Instant::now();
        let result = work()?;
        self.done(name, clock, "ok".to_owned());
        Ok(result)
    }

    pub(super) fn done(&mut self, name: &str, clock: Instant, note: String) {
        let duration_us = u64::try_from(clock.elapsed().as_micros()).unwrap_or(u64::MAX);
        self.done.push(BootStep { step: name.to_owned(), duration_us, note });
    }
}
