//! The door of the sessions room: admit, abort, wait, recover, drain.

use std::sync::Arc;
use std::time::Duration;

use nexus_base::id::{BootId, QueueItemId, RequestId, SessionLabel};
use nexus_store::StoreError;
use nexus_store::agents::{Admitted, Agents, ItemMode, NewItem, NewSession, Overflow};
use tokio::sync::{Semaphore, broadcast};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::engine::{Engine, Observer};
use crate::live::{Cause, LiveSessions};
use crate::runner;

/// Tree changes a waiter may lag behind before it looks for itself.
const CHANGE_DEPTH: usize = 1024;
/// How often a waiter looks for itself even when it hears nothing.
const WAITER_RECHECK: Duration = Duration::from_secs(1);

/// Limits of the sessions room.
#[derive(Debug, Clone, Copy)]
pub struct BrokerLimits {
    /// Messages that may wait in one session.
    pub queue_cap: usize,
    /// What one more does.
    pub overflow: Overflow,
    /// How long a result waits for its siblings.
    pub debounce: Duration,
    /// How deep workers may send workers.
    pub worker_depth: u32,
    /// Workers that run at the same time.
    pub concurrent_workers: usize,
    /// Longest manager turn.
    pub turn_timeout: Duration,
    /// Longest worker turn.
    pub worker_timeout: Duration,
}

/// What a broker is made of.
#[derive(Clone)]
pub struct BrokerParts {
    /// The ledger.
    pub agents: Agents,
    /// This life of the daemon.
    pub boot: BootId,
    /// Puts agents together.
    pub engine: Arc<dyn Engine>,
    /// Is told what happens.
    pub observer: Arc<dyn Observer>,
    /// Limits.
    pub limits: BrokerLimits,
}

impl std::fmt::Debug for BrokerParts {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("BrokerParts").field("boot", &self.boot).finish_non_exhaustive()
    }
}

/// Runs sessions; cheap to clone.
#[derive(Debug, Clone)]
pub struct Broker {
    pub(crate) shared: Arc<Shared>,
}

#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) parts: BrokerParts,
    pub(crate) live: LiveSessions,
    pub(crate) worker_slots: Arc<Semaphore>,
    pub(crate) tasks: TaskTracker,
    pub(crate) stopping: CancellationToken,
    changes: broadcast::Sender<RequestId>,
}

/// What waiting for a tree found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Quiescence {
    /// Nothing is queued, running or undelivered.
    Reached,
    /// The time was up first.
    TimedOut,
    /// No item of this request was ever admitted.
    Unknown,
}

impl Broker {
    /// Makes a broker; nothing runs until something is admitted or [`Broker::recover`] is called.
    pub fn new(parts: BrokerParts) -> Self {
        let (changes, _) = broadcast::channel(CHANGE_DEPTH);
        let worker_slots = Arc::new(Semaphore::new(parts.limits.concurrent_workers.max(1)));
        Self {
            shared: Arc::new(Shared {
                parts,
                live: LiveSessions::default(),
                worker_slots,
                tasks: TaskTracker::new(),
                stopping: CancellationToken::new(),
                changes,
            }),
        }
    }

    /// Puts an item into its session's queue, once, and sees to it that it is taken (S3).
    ///
    /// # Errors
    /// The database cannot be written.
    pub async fn admit(&self, session: NewSession, item: NewItem) -> Result<Admitted, StoreError> {
        let limits = &self.shared.parts.limits;
        let (label, id, mode) = (session.label.clone(), item.id.clone(), item.mode);
        let admitted =
            self.shared.parts.agents.admit(session, item, limits.queue_cap, limits.overflow).await?;
        match admitted {
            Admitted::Queued => self.take_up(&label, &id, mode),
            Admitted::QueuedInPlaceOfAnother => {
                self.take_up(&label, &id, mode);
                self.catch_up();
            }
            Admitted::Refused => self.catch_up(),
            Admitted::AlreadyThere => {}
        }
        Ok(admitted)
    }

    /// Goes on with everything an earlier life of the daemon left: undelivered lines, unfinished
    /// turns, waiting items, unprojected ends.
    ///
    /// # Errors
    /// The database cannot be read.
    pub async fn recover(&self) -> Result<usize, StoreError> {
        let undelivered = runner::deliver_undelivered(&self.shared).await?;
        let unprojected = runner::project_unprojected(&self.shared).await?;
        let sessions = self.shared.parts.agents.sessions_with_work().await?;
        for label in &sessions {
            self.shared.wake(label);
        }
        Ok(undelivered + unprojected + sessions.len())
    }

    /// Ends a session's running turn, keeping what was said; false when none is running.
    pub fn abort(&self, label: &SessionLabel) -> bool {
        self.shared.live.end(label, Cause::Aborted)
    }

    /// Cancels a session's unfinished workers; returns how many.
    ///
    /// # Errors
    /// The database cannot be written.
    pub async fn cancel_workers(&self, label: &SessionLabel, reason: &str) -> Result<usize, StoreError> {
        let workers = self.shared.parts.agents.workers_of(label).await?;
        let mut count = 0;
        for worker in workers.iter().filter(|worker| crate::dispatch::is_unfinished(worker)) {
            crate::dispatch::cancel(&self.shared, &worker.label, reason).await?;
            count += 1;
        }
        Ok(count)
    }

    /// Returns whether a turn is running in this session.
    pub fn is_running(&self, label: &SessionLabel) -> bool {
        self.shared.live.is_running(label)
    }

    /// Waits until nothing of a request's tree is queued, running or undelivered.
    ///
    /// # Errors
    /// The database cannot be read.
    pub async fn wait_quiescent(
        &self,
        request: &RequestId,
        timeout: Duration,
    ) -> Result<Quiescence, StoreError> {
        let deadline = tokio::time::Instant::now() + timeout;
        let mut changes = self.shared.changes.subscribe();
        loop {
            match self.shared.parts.agents.is_quiescent(request).await? {
                Some(true) => return Ok(Quiescence::Reached),
                None => return Ok(Quiescence::Unknown),
                Some(false) => {}
            }
            let root =
                self.shared.parts.agents.item_of_request(request).await?.map(|item| item.new.root_request_id);
            let recheck = tokio::time::Instant::now() + WAITER_RECHECK;
            loop {
                tokio::select! {
                    changed = changes.recv() => match changed {
                        Ok(changed) if Some(&changed) != root.as_ref() => {}
                        Ok(_) | Err(_) => break,
                    },
                    () = tokio::time::sleep_until(recheck.min(deadline)) => break,
                }
            }
            if tokio::time::Instant::now() >= deadline {
                return Ok(Quiescence::TimedOut);
            }
        }
    }

    /// Takes no new work, lets running turns end until `patience` is over, then leaves the rest
    /// pending for the next start.
    pub async fn drain(&self, patience: Duration) {
        self.shared.stopping.cancel();
        self.shared.tasks.close();
        if tokio::time::timeout(patience, self.shared.tasks.wait()).await.is_err() {
            self.shared.live.end_all(&Cause::Stopping);
            // Ended turns only have to notice; whatever does not is cut off with the process.
            let _ = tokio::time::timeout(Duration::from_secs(5), self.shared.tasks.wait()).await;
        }
    }

    fn take_up(&self, label: &SessionLabel, item: &QueueItemId, mode: ItemMode) {
        if mode == ItemMode::Interrupt {
            self.shared.live.interrupt(label, item);
        }
        self.shared.wake(label);
    }

    /// Delivers and tells what ended without a turn: refusals and shortened messages.
    fn catch_up(&self) {
        let shared = Arc::clone(&self.shared);
        self.shared.tasks.spawn(async move {
            let caught_up = async {
                runner::deliver_undelivered(&shared).await?;
                runner::project_unprojected(&shared).await
            };
            if let Err(error) = caught_up.await {
                tracing::warn!(%error, "a refusal could not be delivered; the next start will");
            }
        });
    }
}

impl Shared {
    /// Sees to it that a session's task runs.
    pub(crate) fn wake(self: &Arc<Self>, label: &SessionLabel) {
        if self.stopping.is_cancelled() || !self.live.wake(label) {
            return;
        }
        let shared = Arc::clone(self);
        let label = label.clone();
        self.tasks.spawn(async move { runner::run_session(shared, label).await });
    }

    /// Wakes a session for a worker's result: at once when no sibling is out, otherwise after the
    /// debounce, so that a fan-out costs one turn and not one for each worker.
    pub(crate) async fn wake_for_result(self: &Arc<Self>, label: &SessionLabel) {
        let outstanding = self.parts.agents.outstanding_workers(label).await.unwrap_or(0);
        if outstanding == 0 {
            self.wake(label);
            return;
        }
        let shared = Arc::clone(self);
        let label = label.clone();
        self.tasks.spawn(async move {
            tokio::select! {
                () = tokio::time::sleep(shared.parts.limits.debounce) => shared.wake(&label),
                () = shared.stopping.cancelled() => {}
            }
        });
    }

    /// Tells waiters that something in a tree changed.
    pub(crate) fn changed(&self, root: &RequestId) {
        // Nobody waiting is no error.
        let _ = self.changes.send(root.clone());
    }
}
