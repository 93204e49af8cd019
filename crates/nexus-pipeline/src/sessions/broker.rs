//! The way into sessions: admit, abort, wait, recover, drain.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use nexus_base::id::{BootId, CompactionId, QueueItemId, RequestId, SessionLabel};
use nexus_base::task::Tasks;
use nexus_protocol::bus::BusBody;
use nexus_store::StoreError;
use nexus_store::agents::{Admitted, Aftermath, Agents, ItemMode, NewItem, NewSession, Overflow, Undone};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use crate::sessions::engine::{Engine, Observer};
use crate::sessions::history_cache::HistoryCaches;
use crate::sessions::live::{Cause, LiveSessions};
use crate::sessions::shorten::{self, CompactionRequest, Shortening, Wishes};
use crate::sessions::waiters::Waiters;
use crate::sessions::{outbox, runner};
use crate::stages::{self, LeftOver, Work, finalize};

/// How often a waiter looks for itself even when it hears nothing.
const WAITER_RECHECK: Duration = Duration::from_secs(5);

/// Limits of sessions.
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
    /// Workers that one request may lead to, theirs included.
    pub workers_per_request: u32,
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
    pub(crate) tasks: Tasks,
    pub(crate) stopping: CancellationToken,
    pub(crate) waiters: Waiters,
    pub(crate) pasts: HistoryCaches,
    pub(crate) wishes: Wishes,
    /// Sessions whose reports have waited for their siblings long enough.
    ripe: Mutex<HashSet<SessionLabel>>,
    /// Set while nothing may start by itself.
    pub(crate) is_quiet: AtomicBool,
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
        let worker_slots = Arc::new(Semaphore::new(parts.limits.concurrent_workers.max(1)));
        Self {
            shared: Arc::new(Shared {
                parts,
                live: LiveSessions::default(),
                worker_slots,
                tasks: Tasks::default(),
                stopping: CancellationToken::new(),
                waiters: Waiters::default(),
                pasts: HistoryCaches::default(),
                wishes: Wishes::default(),
                ripe: Mutex::default(),
                is_quiet: AtomicBool::new(false),
            }),
        }
    }

    /// Puts an item into its session's queue, once, and sees to it that it is taken (S3).
    ///
    /// # Errors
    /// The database cannot be written.
    pub async fn admit(&self, session: NewSession, item: NewItem) -> Result<Admitted, StoreError> {
        tracing::trace!("its session is woken for it");
        let limits = &self.shared.parts.limits;
        let (label, id, mode) = (session.label.clone(), item.id.clone(), item.mode);
        let admitted =
            self.shared.parts.agents.admit(session, item, limits.queue_cap, limits.overflow).await?;
        match &admitted {
            Admitted::Queued => self.take_up(&label, &id, mode),
            Admitted::QueuedInPlaceOf(other) => {
                self.take_up(&label, &id, mode);
                stages::settle_later(&self.shared, other.item.clone(), other.line.clone());
            }
            Admitted::Refused(own) => {
                stages::settle_later(&self.shared, own.item.clone(), own.line.clone());
            }
            Admitted::AlreadyThere => {}
        }
        Ok(admitted)
    }

    /// Makes a session's conversation shorter because somebody asks for it; after the turn that runs, and
    /// before the next one.
    ///
    /// # Errors
    /// The database cannot be read.
    pub async fn shorten(
        &self,
        label: &SessionLabel,
        request: CompactionRequest,
    ) -> Result<Shortening, StoreError> {
        shorten::ask(&self.shared, label, request).await
    }

    /// Takes a compaction back; the turns it stood for are sent again from the next message on.
    ///
    /// # Errors
    /// The database cannot be written.
    pub async fn undo_compaction(&self, id: &CompactionId) -> Result<Undone, StoreError> {
        let undone = self.shared.parts.agents.undo_compaction(id).await?;
        if let Undone::Done(compaction) = &undone {
            self.shared.pasts.forget(&compaction.new.session);
        }
        Ok(undone)
    }

    /// Keeps a message that an automation has dealt with, and says what it wants said; false when the
    /// message was admitted before.
    ///
    /// # Errors
    /// The database cannot be written.
    pub async fn answer(&self, session: NewSession, item: NewItem, reply: &str) -> Result<bool, StoreError> {
        let answered = self.shared.parts.agents.answer(session, item, reply).await?;
        let is_new = answered.is_some();
        if let Some(done) = answered {
            stages::settle_later(&self.shared, done.item, done.line);
        }
        Ok(is_new)
    }

    /// Says and tells what an earlier life of the daemon still owed; comes before anything runs.
    ///
    /// # Errors
    /// The database cannot be read, or the other files cannot be told.
    pub async fn settle(&self) -> Result<usize, StoreError> {
        Ok(outbox::deliver_undelivered(&self.shared).await?
            + finalize::project_unprojected(&self.shared).await?)
    }

    /// Goes on with every session that has unfinished turns or waiting items; returns how many.
    ///
    /// # Errors
    /// The database cannot be read.
    pub async fn resume(&self) -> Result<usize, StoreError> {
        let sessions = self.shared.parts.agents.sessions_with_work().await?;
        for label in &sessions {
            // Whoever counted the time for their reports ended with the last life.
            self.shared.wake_ripe(label);
        }
        Ok(sessions.len())
    }

    /// Ends what a restored copy brought along half done, visibly and without asking a model: the original
    /// may have finished it. Returns how many turns that were. Comes before anything is resumed.
    ///
    /// # Errors
    /// The ledger cannot be read or written.
    pub async fn end_restored(&self) -> Result<usize, StoreError> {
        let agents = &self.shared.parts.agents;
        if !agents.has_restored_work().await? {
            return Ok(0);
        }
        // A worker's end is its parent's next item; that ends here, too, instead of starting a turn.
        self.shared.is_quiet.store(true, Ordering::Release);
        let ended = self.end_all_work().await;
        self.shared.is_quiet.store(false, Ordering::Release);
        ended
    }

    async fn end_all_work(&self) -> Result<usize, StoreError> {
        let agents = &self.shared.parts.agents;
        let mut ended = 0;
        loop {
            let sessions = agents.sessions_with_work().await?;
            if sessions.is_empty() {
                return Ok(ended);
            }
            for label in &sessions {
                let frame = self.shared.parts.engine.framer(None);
                if let Some(claim) = agents.claim(label, &self.shared.parts.boot, frame).await? {
                    let left_over = Work::LeftOver(claim.into_turn(), LeftOver::Restored);
                    stages::process(&self.shared, left_over).await;
                    ended += 1;
                }
            }
        }
    }

    /// Tells the other files about a request's end once more, for those that have forgotten it;
    /// `None` when it was never admitted, false when it has not ended.
    ///
    /// # Errors
    /// The ledger cannot be read or the other files cannot be told.
    pub async fn tell_again(&self, request: &RequestId) -> Result<Option<bool>, StoreError> {
        let Some(item) = self.shared.parts.agents.item_of_request(request).await? else { return Ok(None) };
        if item.outcome.is_none() {
            return Ok(Some(false));
        }
        let lines = self.shared.parts.agents.lines_of_request(request).await?;
        finalize::project(&self.shared, &item, &lines).await?;
        Ok(Some(true))
    }

    /// Ends a session's running turn, keeping what was said; false when none is running.
    pub fn abort(&self, label: &SessionLabel) -> bool {
        self.shared.live.abort(label)
    }

    /// Cancels a session's unfinished workers; returns how many.
    ///
    /// # Errors
    /// The database cannot be written.
    pub async fn cancel_workers(&self, label: &SessionLabel, reason: &str) -> Result<usize, StoreError> {
        let workers = self.shared.parts.agents.workers_of(label).await?;
        let mut count = 0;
        for worker in workers.iter().filter(|worker| crate::sessions::workers::is_unfinished(worker)) {
            // One that ended meanwhile is none of ours.
            count += usize::from(self.shared.cancel(&worker.label, reason).await? > 0);
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
        let Some((mut root, _)) = self.shared.parts.agents.quiescence(request).await? else {
            return Ok(Quiescence::Unknown);
        };
        loop {
            let mut tree = self.shared.waiters.watch(&root);
            loop {
                match self.shared.parts.agents.quiescence(request).await? {
                    None => return Ok(Quiescence::Unknown),
                    Some((_, true)) => return Ok(Quiescence::Reached),
                    Some((now, false)) if now != root => {
                        // Its tree became part of another one.
                        root = now;
                        break;
                    }
                    Some((_, false)) => {}
                }
                if tokio::time::Instant::now() >= deadline {
                    return Ok(Quiescence::TimedOut);
                }
                let recheck = tokio::time::Instant::now() + WAITER_RECHECK;
                tokio::select! {
                    () = tree.changed() => {}
                    () = tokio::time::sleep_until(recheck.min(deadline)) => {}
                }
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
        // First the task, so that an interrupt always finds an entry to be noted in.
        self.shared.wake(label);
        if mode == ItemMode::Interrupt {
            self.shared.live.interrupt(label, item);
        }
    }
}

impl Shared {
    /// Sees to it that a session's task runs.
    pub(crate) fn wake(self: &Arc<Self>, label: &SessionLabel) {
        let may_start = !self.stopping.is_cancelled() && !self.is_quiet.load(Ordering::Acquire);
        if !may_start || !self.live.wake(label) {
            return;
        }
        let shared = Arc::clone(self);
        let label = label.clone();
        // Not below whatever woke it: it goes on with what others send.
        let span = tracing::error_span!(parent: None, "session", session = %label);
        self.tasks.spawn_in(span, async move { runner::run_session(shared, label).await });
    }

    /// Wakes a session for a worker's result: at once when no sibling is out, otherwise after the
    /// debounce, so that a fan-out costs one turn and not one for each worker.
    pub(crate) async fn wake_for_result(self: &Arc<Self>, label: &SessionLabel) {
        match self.parts.agents.outstanding_workers(label).await {
            Ok(0) => return self.wake(label),
            Ok(_) => {}
            Err(error) => {
                tracing::warn!(session = %label, %error, "running workers could not be counted");
                return self.wake_ripe(label);
            }
        }
        let shared = Arc::clone(self);
        let label = label.clone();
        self.tasks.spawn("debounce", async move {
            if shared.pause(shared.parts.limits.debounce).await {
                shared.wake_ripe(&label);
            }
        });
    }

    /// Wakes a session whose reports wait no longer for their siblings.
    fn wake_ripe(self: &Arc<Self>, label: &SessionLabel) {
        self.ripe.lock().unwrap_or_else(PoisonError::into_inner).insert(label.clone());
        self.wake(label);
    }

    /// Tells whether a session's reports still wait for their siblings. A session that is at work when the
    /// first of them comes in must not take it alone as soon as it looks again.
    pub(crate) async fn waits_for_siblings(&self, label: &SessionLabel) -> Result<bool, StoreError> {
        let is_ripe = self.ripe.lock().unwrap_or_else(PoisonError::into_inner).remove(label);
        Ok(!is_ripe && self.parts.agents.only_some_reports_wait(label).await?)
    }

    /// Cancels a worker and everything below it; returns how many workers that were.
    pub(crate) async fn cancel(
        self: &Arc<Self>,
        label: &SessionLabel,
        reason: &str,
    ) -> Result<usize, StoreError> {
        let aftermath = self.parts.agents.cancel(label, reason).await?;
        let count = aftermath.cancelled;
        self.apply_aftermath(aftermath, reason).await;
        Ok(count)
    }

    /// Does what the end of workers led to: ends their turns, tells of their items, wakes their parents.
    pub(crate) async fn apply_aftermath(self: &Arc<Self>, aftermath: Aftermath, reason: &str) {
        for (label, turn) in &aftermath.running {
            self.live.cancel(label, turn, reason);
        }
        for item in aftermath.ended {
            stages::settle_later(self, item, None);
        }
        for report in &aftermath.reported {
            self.parts.observer.publish(
                &report.root,
                BusBody::WorkerEnded {
                    parent: report.parent.clone(),
                    session: report.worker.clone(),
                    status: report.status.as_str().to_owned(),
                },
            );
        }
        for parent in &aftermath.wake {
            self.wake_for_result(parent).await;
        }
    }

    /// Waits before something is tried again; false when the daemon stops instead.
    pub(crate) async fn pause(&self, pause: Duration) -> bool {
        tokio::select! {
            () = tokio::time::sleep(pause) => true,
            () = self.stopping.cancelled() => false,
        }
    }
}
