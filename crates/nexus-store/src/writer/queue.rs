//! The jobs waiting for one writer, in the order they were handed in.
//! One job for the writer, whatever type of result its waiter expects.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rusqlite::Connection;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::Sync;
use crate::error::StoreError;

/// Jobs with a waiter that may stand in the queue; further ones wait before they are queued.
const AWAITED_LIMIT: usize = 1024;
/// Jobs in all at which a job without a waiter is refused.
const TOTAL_LIMIT: usize = 16_384;
/// How long jobs without a waiter stand before they are written: those of one message come within a
/// few milliseconds of each other and share a commit then. The first job with a waiter ends the wait.
const LINGER: Duration = Duration::from_millis(5);

/// What the writer does next.
pub(super) enum Next {
    /// Commit these.
    Jobs(Vec<Job>),
    /// Nothing came for as long as the writer wanted to wait.
    Quiet,
    /// The store is closing and the queue is empty.
    Closed,
}

/// Why a job was not queued.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refused {
    /// The store is closing.
    Closed,
    /// Too many jobs wait.
    Full,
}

/// A bounded queue with one consumer.
pub(crate) struct Queue {
    waiting: Mutex<Waiting>,
    changed: Condvar,
    awaited: Arc<Semaphore>,
}

struct Waiting {
    jobs: VecDeque<(Job, Option<OwnedSemaphorePermit>)>,
    /// Whether somebody waits for one of them.
    is_awaited: bool,
    closed: bool,
}

/// Whether somebody waits for a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Awaited {
    Yes,
    No,
}

impl Queue {
    pub(crate) fn new() -> Self {
        Self {
            waiting: Mutex::new(Waiting { jobs: VecDeque::new(), is_awaited: false, closed: false }),
            changed: Condvar::new(),
            awaited: Arc::new(Semaphore::new(AWAITED_LIMIT)),
        }
    }

    /// Queues a job whose caller awaits it, as soon as there is room.
    pub(crate) async fn push(&self, job: Job) -> Result<(), Refused> {
        // The semaphore is never closed, so an error here cannot happen and only means "no permit".
        let permit = Arc::clone(&self.awaited).acquire_owned().await.ok();
        self.add(job, permit, Awaited::Yes)
    }

    /// Queues a job whose caller blocks on it; each thread has at most one, so no further bound is needed.
    pub(crate) fn push_blocking(&self, job: Job) -> Result<(), Refused> {
        self.add(job, None, Awaited::Yes)
    }

    /// Queues a job nobody waits for, or refuses it when the queue is full.
    pub(crate) fn push_later(&self, job: Job) -> Result<(), Refused> {
        self.add(job, None, Awaited::No)
    }

    /// Lets the writer end once it has done what is queued.
    pub(crate) fn close(&self) {
        self.lock().closed = true;
        self.changed.notify_one();
    }

    /// Takes the jobs of the next commit. With `patience`, waits no longer than that for the first one.
    pub(super) fn next(&self, limit: usize, patience: Option<Duration>) -> Next {
        let mut waiting = self.lock();
        while waiting.jobs.is_empty() {
            if waiting.closed {
                return Next::Closed;
            }
            waiting = match patience {
                None => self.changed.wait(waiting).unwrap_or_else(PoisonError::into_inner),
                Some(patience) => {
                    let (guard, timeout) =
                        self.changed.wait_timeout(waiting, patience).unwrap_or_else(PoisonError::into_inner);
                    if timeout.timed_out() && guard.jobs.is_empty() && !guard.closed {
                        return Next::Quiet;
                    }
                    guard
                }
            };
        }
        let linger =
            |waiting: &mut Waiting| !waiting.is_awaited && !waiting.closed && waiting.jobs.len() < limit;
        let (mut waiting, _) =
            self.changed.wait_timeout_while(waiting, LINGER, linger).unwrap_or_else(PoisonError::into_inner);
        let count = waiting.jobs.len().min(limit);
        let jobs = waiting.jobs.drain(..count).map(|(job, _permit)| job).collect();
        // Jobs left behind by the limit may be awaited ones, so the next call does not linger for them.
        if waiting.jobs.is_empty() {
            waiting.is_awaited = false;
        }
        Next::Jobs(jobs)
    }

    fn add(&self, job: Job, permit: Option<OwnedSemaphorePermit>, awaited: Awaited) -> Result<(), Refused> {
        let wakes = {
            let mut waiting = self.lock();
            if waiting.closed {
                return Err(Refused::Closed);
            }
            if awaited == Awaited::No && waiting.jobs.len() >= TOTAL_LIMIT {
                return Err(Refused::Full);
            }
            waiting.jobs.push_back((job, permit));
            waiting.is_awaited |= awaited == Awaited::Yes;
            // The writer sleeps or lingers; one more job that nobody waits for tells it nothing new.
            awaited == Awaited::Yes || waiting.jobs.len() == 1
        };
        if wakes {
            self.changed.notify_one();
        }
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        // Nothing that can panic runs under this lock, so a poisoned one is still whole.
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl std::fmt::Debug for Queue {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Queue").field("waiting", &self.lock().jobs.len()).finish_non_exhaustive()
    }
}

/// One waiting job, whatever its type of result.
pub(crate) struct Job {
    pub(super) sync: Sync,
    pub(super) work: Box<dyn Work>,
}

pub(super) trait Work: Send {
    /// Runs inside the batch's transaction; the error is a copy, the waiter gets the original.
    fn run(&mut self, connection: &Connection) -> Result<(), StoreError>;
    /// Tells the waiter how it ended, given how the commit went.
    fn finish(self: Box<Self>, committed: Result<(), StoreError>);
}

struct Task<T, F, R> {
    job: Option<F>,
    result: Option<Result<T, StoreError>>,
    tell: R,
}

impl<T, F, R> Work for Task<T, F, R>
where
    T: Send,
    F: FnOnce(&Connection) -> Result<T, StoreError> + Send,
    R: FnOnce(Result<T, StoreError>) + Send,
{
    fn run(&mut self, connection: &Connection) -> Result<(), StoreError> {
        let Some(job) = self.job.take() else { return Ok(()) };
        // The savepoint around us is rolled back after a panic, so no half-made state is seen.
        let result = catch_unwind(AssertUnwindSafe(|| job(connection)))
            .unwrap_or_else(|_| Err(StoreError::Panicked { path: PathBuf::new() }));
        let outcome = result.as_ref().map(|_| ()).map_err(StoreError::clone);
        self.result = Some(result);
        outcome
    }

    fn finish(self: Box<Self>, committed: Result<(), StoreError>) {
        let never_ran = || Err(StoreError::Closed { path: PathBuf::new() });
        let result = match committed {
            Ok(()) => self.result.unwrap_or_else(never_ran),
            // A job that failed by itself keeps its own reason.
            Err(lost) => self.result.unwrap_or_else(never_ran).and(Err(lost)),
        };
        (self.tell)(result);
    }
}

impl Job {
    /// Wraps a closure so that its result reaches `tell` after the commit. A panic inside becomes an error.
    pub(crate) fn new<T, F, R>(sync: Sync, job: F, tell: R) -> Self
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> Result<T, StoreError> + Send + 'static,
        R: FnOnce(Result<T, StoreError>) + Send + 'static,
    {
        Self { sync, work: Box::new(Task { job: Some(job), result: None, tell }) }
    }
}
