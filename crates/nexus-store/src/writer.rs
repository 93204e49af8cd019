//! The one thread that writes a database: it drains the queue, runs every waiting job in a savepoint
//! of its own, commits once and then wakes the waiters. It also decides when to checkpoint.

mod queue;

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use rusqlite::Connection;

pub(crate) use self::queue::Job;
use self::queue::Next;
pub(crate) use self::queue::{Queue, Refused};
use crate::error::StoreError;
use crate::open::{self, Checkpoint, Source};

/// Most jobs that share one commit; bounds how long the first of them waits for the last.
const BATCH_LIMIT: usize = 256;
/// Frames in the log at which a checkpoint is made even while jobs keep coming (8 MiB).
const BUSY_CHECKPOINT_FRAMES: i64 = 2048;
/// Frames in the log at which a checkpoint is made in a quiet moment (1 MiB). A smaller log stays:
/// after a checkpoint the next commit pays an additional sync to restart the log, and a person who
/// writes once a minute should not pay it every time.
const IDLE_CHECKPOINT_FRAMES: i64 = 256;
/// How long the queue has to be empty before the moment counts as quiet.
const QUIET: Duration = Duration::from_millis(500);

/// What a committed job survives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sync {
    /// The machine losing power: the log is synced before the waiter wakes.
    Full,
    /// The process dying at any instant.
    Normal,
}

/// What a writer did so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct WriterFigures {
    /// Jobs whose changes were committed.
    pub jobs: u64,
    /// Commits made.
    pub commits: u64,
    /// Commits that were synced before anybody was told.
    pub synced_commits: u64,
    /// Frames of the log that the latest of them made safe from a loss of power.
    pub synced_frames: u64,
    /// Checkpoints made while running.
    pub checkpoints: u64,
}

/// What the writer tells about itself without being asked.
#[derive(Debug, Default)]
pub(crate) struct WriterState {
    jobs: AtomicU64,
    commits: AtomicU64,
    synced_commits: AtomicU64,
    synced_frames: AtomicU64,
    checkpoints: AtomicU64,
    last_failure: Mutex<Option<StoreError>>,
}

impl WriterState {
    pub(crate) fn figures(&self) -> WriterFigures {
        WriterFigures {
            jobs: self.jobs.load(Ordering::Relaxed),
            commits: self.commits.load(Ordering::Relaxed),
            synced_commits: self.synced_commits.load(Ordering::Relaxed),
            synced_frames: self.synced_frames.load(Ordering::Relaxed),
            checkpoints: self.checkpoints.load(Ordering::Relaxed),
        }
    }

    /// Why the latest commit did not work; none once a later one did.
    pub(crate) fn last_failure(&self) -> Option<StoreError> {
        self.last_failure.lock().unwrap_or_else(std::sync::PoisonError::into_inner).clone()
    }

    fn note(&self, outcome: Option<StoreError>) {
        *self.last_failure.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = outcome;
    }
}

/// Starts the thread; returns once the database is open and migrated, or says why not.
pub(crate) fn start(
    source: Source,
    queue: Arc<Queue>,
    state: Arc<WriterState>,
) -> Result<JoinHandle<()>, StoreError> {
    let path = source.path.clone();
    let name = format!("db-{}", source.name);
    let (opened_sender, opened) = std::sync::mpsc::sync_channel(1);
    let body = move || {
        let connection = match open::open_writer(&source) {
            Ok(connection) => connection,
            Err(error) => {
                // The opener waits for this one message; if it is gone nobody wants the error.
                let _ = opened_sender.send(Err(error));
                return;
            }
        };
        match Writer::new(source, connection, queue, state) {
            Ok(writer) => {
                let _ = opened_sender.send(Ok(()));
                writer.serve();
            }
            Err(error) => drop(opened_sender.send(Err(error))),
        }
    };
    let thread =
        std::thread::Builder::new().name(name).spawn(body).map_err(|error| open::from_io(&path, &error))?;
    match opened.recv() {
        Ok(Ok(())) => Ok(thread),
        Ok(Err(error)) => Err(error),
        Err(_) => Err(StoreError::Panicked { path }),
    }
}

struct Writer {
    source: Source,
    connection: Connection,
    queue: Arc<Queue>,
    state: Arc<WriterState>,
    sync: Sync,
    frames: Arc<AtomicI64>,
}

impl Writer {
    fn new(
        source: Source,
        mut connection: Connection,
        queue: Arc<Queue>,
        state: Arc<WriterState>,
    ) -> Result<Self, StoreError> {
        let frames = Arc::new(AtomicI64::new(0));
        let seen = Arc::clone(&frames);
        connection
            .wal_hook(Some(move |_: &mut rusqlite::hooks::Wal, pages| {
                seen.store(i64::from(pages), Ordering::Relaxed);
                Ok(())
            }))
            .map_err(|error| StoreError::from(error).at(&source.path))?;
        Ok(Self { source, connection, queue, state, sync: Sync::Normal, frames })
    }

    fn serve(mut self) {
        loop {
            let patience = (self.frames.load(Ordering::Relaxed) >= IDLE_CHECKPOINT_FRAMES).then_some(QUIET);
            match self.queue.next(BATCH_LIMIT, patience) {
                Next::Jobs(jobs) => {
                    self.commit_batch(jobs);
                    if self.frames.load(Ordering::Relaxed) >= BUSY_CHECKPOINT_FRAMES {
                        self.checkpoint();
                    }
                }
                Next::Quiet => self.checkpoint(),
                Next::Closed => break,
            }
        }
        self.finish();
    }

    fn commit_batch(&mut self, jobs: Vec<Job>) {
        let mut waiting = jobs.into_iter();
        // More than one round only if SQLite gave up a whole transaction in the middle of a batch.
        while waiting.len() > 0 {
            let sync = if waiting.as_slice().iter().any(|job| job.sync == Sync::Full) {
                Sync::Full
            } else {
                Sync::Normal
            };
            let mut ran = Vec::with_capacity(waiting.len());
            let outcome = match self.begin(sync) {
                Ok(()) => self.run_jobs(&mut waiting, &mut ran).and_then(|()| self.commit(sync)),
                Err(error) => {
                    // Nothing could even begin; trying job by job would only repeat the wait.
                    ran.extend(waiting.by_ref());
                    Err(error)
                }
            };
            let outcome = outcome.map_err(|error| error.at(&self.source.path));
            if let Err(error) = &outcome {
                tracing::error!(database = self.source.name, %error, "database transaction lost");
                self.rollback();
            }
            self.state.note(outcome.as_ref().err().cloned());
            if outcome.is_ok() {
                self.state.jobs.fetch_add(ran.len() as u64, Ordering::Relaxed);
            }
            for job in ran {
                job.work.finish(outcome.clone());
            }
        }
    }

    fn begin(&mut self, sync: Sync) -> Result<(), StoreError> {
        if sync != self.sync {
            let level = match sync {
                Sync::Full => "FULL",
                Sync::Normal => "NORMAL",
            };
            self.connection.pragma_update(None, "synchronous", level)?;
            self.sync = sync;
        }
        self.statement("BEGIN IMMEDIATE")
    }

    /// Runs the waiting jobs, or as many as it takes until an error makes SQLite drop the transaction.
    fn run_jobs(&self, waiting: &mut std::vec::IntoIter<Job>, ran: &mut Vec<Job>) -> Result<(), StoreError> {
        for mut job in waiting.by_ref() {
            let opened = self.statement("SAVEPOINT job");
            let outcome = opened.and_then(|()| job.work.run(&self.connection));
            ran.push(job);
            match outcome {
                Err(error) if self.connection.is_autocommit() => return Err(error),
                Err(_) => self.statement("ROLLBACK TO job")?,
                Ok(()) => {}
            }
            self.statement("RELEASE job")?;
        }
        Ok(())
    }

    fn commit(&self, sync: Sync) -> Result<(), StoreError> {
        self.statement("COMMIT")?;
        self.state.commits.fetch_add(1, Ordering::Relaxed);
        if sync == Sync::Full {
            let frames = u64::try_from(self.frames.load(Ordering::Relaxed)).unwrap_or(0);
            self.state.synced_frames.store(frames, Ordering::Relaxed);
            self.state.synced_commits.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    }

    fn statement(&self, sql: &str) -> Result<(), StoreError> {
        self.connection.prepare_cached(sql)?.execute([])?;
        Ok(())
    }

    fn rollback(&self) {
        if !self.connection.is_autocommit()
            && let Err(error) = self.connection.execute_batch("ROLLBACK")
        {
            tracing::error!(database = self.source.name, %error, "database rollback failed");
        }
    }

    fn checkpoint(&self) {
        match open::checkpoint(&self.connection, Checkpoint::Passive) {
            Ok(left) => {
                self.state.checkpoints.fetch_add(1, Ordering::Relaxed);
                self.frames.store(left, Ordering::Relaxed);
            }
            Err(error) => {
                // Nothing is lost: the frames stay in the log. Counting from zero puts the next try off.
                tracing::warn!(database = self.source.name, %error, "database checkpoint postponed");
                self.frames.store(0, Ordering::Relaxed);
            }
        }
    }

    fn finish(self) {
        let name = self.source.name;
        if let Err(error) = open::checkpoint(&self.connection, Checkpoint::Truncate) {
            tracing::warn!(database = name, %error, "final database checkpoint left to the next start");
        }
        if let Err((_, error)) = self.connection.close() {
            tracing::warn!(database = name, %error, "closing the database failed");
        }
    }
}

#[cfg(test)]
mod tests;
