//! The quiet: work that can wait is done when nobody is waiting for anything else.
//!
//! Thinking about a conversation costs model calls. Done after every message it would double the price of
//! talking and compete with the next answer; done once a conversation has paused it sees the whole of it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use nexus_base::task::Tasks;
use tokio_util::sync::CancellationToken;

/// However busy things are, nothing waits longer than this many times the quiet that is asked for.
const MAX_POSTPONEMENTS: u32 = 20;

/// Knows when something last happened.
pub struct Quiet {
    start: Instant,
    /// Milliseconds after the start.
    last: AtomicU64,
    wanted: Box<dyn Fn() -> Duration + Send + Sync>,
    tasks: Tasks,
    stopping: CancellationToken,
}

impl std::fmt::Debug for Quiet {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Quiet").finish_non_exhaustive()
    }
}

impl Quiet {
    /// Calls it quiet when nothing has happened for as long as `wanted` says.
    pub fn new(wanted: Box<dyn Fn() -> Duration + Send + Sync>) -> Self {
        Self {
            start: Instant::now(),
            last: AtomicU64::new(0),
            wanted,
            tasks: Tasks::default(),
            stopping: CancellationToken::new(),
        }
    }

    /// Notes that something happens.
    pub fn disturb(&self) {
        self.last.store(self.now(), Ordering::Relaxed);
    }

    /// Waits for the quiet; false when the daemon stops first.
    pub async fn wait(&self) -> bool {
        let begun = self.now();
        loop {
            let wanted = milliseconds((self.wanted)());
            let last = self.last.load(Ordering::Relaxed);
            let until = (last + wanted).min(begun + wanted.saturating_mul(u64::from(MAX_POSTPONEMENTS)));
            let left = until.saturating_sub(self.now());
            if left == 0 {
                return !self.stopping.is_cancelled();
            }
            tokio::select! {
                () = tokio::time::sleep(Duration::from_millis(left)) => {}
                () = self.stopping.cancelled() => return false,
            }
        }
    }

    /// Waits this long; false when the daemon stops first.
    pub async fn rest(&self, time: Duration) -> bool {
        tokio::select! {
            () = tokio::time::sleep(time) => true,
            () = self.stopping.cancelled() => false,
        }
    }

    /// Does something beside everything else.
    pub fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        self.tasks.spawn("quiet", work);
    }

    /// Ends the waiting, lets what has begun end within `patience`.
    pub async fn stop(&self, patience: Duration) {
        self.stopping.cancel();
        self.tasks.close();
        if tokio::time::timeout(patience, self.tasks.wait()).await.is_err() {
            tracing::warn!("reflection of an automation cut off at shutdown");
        }
    }

    fn now(&self) -> u64 {
        milliseconds(self.start.elapsed())
    }
}

fn milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[tokio::test]
    async fn a_stop_ends_the_waiting() {
        let quiet = Arc::new(Quiet::new(Box::new(|| Duration::from_secs(3_600))));
        quiet.disturb();
        let waiting = Arc::clone(&quiet);
        let task = tokio::spawn(async move { waiting.wait().await });
        quiet.stop(Duration::from_secs(1)).await;
        assert!(!task.await.unwrap());
    }

    #[tokio::test]
    async fn without_a_wanted_quiet_nothing_waits() {
        let quiet = Quiet::new(Box::new(|| Duration::ZERO));
        quiet.disturb();
        assert!(quiet.wait().await);
    }
}
