//! Connections for reading beside the writer: few, opened on first use, given back after each job.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use rusqlite::Connection;
use tokio::sync::Semaphore;

use crate::error::StoreError;
use crate::open::{self, Source};

/// Most connections open for reading one database.
const LIMIT: usize = 3;

/// Where new connections come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Beside {
    /// The writer of this process keeps the file.
    OwnWriter,
    /// Another process may.
    OtherProcess,
}

/// The pool of one database.
#[derive(Debug)]
pub(crate) struct Readers {
    source: Source,
    beside: Beside,
    idle: Mutex<Idle>,
    permits: Semaphore,
}

#[derive(Debug, Default)]
struct Idle {
    connections: Vec<Connection>,
    closed: bool,
}

impl Readers {
    pub(crate) fn new(source: Source, beside: Beside) -> Self {
        Self { source, beside, idle: Mutex::default(), permits: Semaphore::new(LIMIT) }
    }

    /// Opens the first connection now, so that an unreadable file is noticed.
    pub(crate) fn warm(&self) -> Result<(), StoreError> {
        let connection = self.open()?;
        self.give_back(connection);
        Ok(())
    }

    /// Runs a job on a blocking thread.
    pub(crate) async fn run<T, F>(self: &Arc<Self>, job: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> Result<T, StoreError> + Send + 'static,
    {
        // Waiting happens here and not on the blocking thread: two hundred readers must not become
        // two hundred threads.
        let permit = self.permits.acquire().await;
        let readers = Arc::clone(self);
        let ran = tokio::task::spawn_blocking(move || readers.run_here(job)).await;
        drop(permit);
        ran.unwrap_or_else(|_| Err(StoreError::Panicked { path: self.source.path.clone() }))
    }

    /// Runs a small job where it is: looking up a few rows by their keys takes less than waking a thread
    /// for it. Goes to a blocking thread when every connection is taken.
    pub(crate) async fn look<T, F>(self: &Arc<Self>, job: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> Result<T, StoreError> + Send + 'static,
    {
        match self.permits.try_acquire() {
            Ok(_permit) => self.run_here(job),
            Err(_) => self.run(job).await,
        }
    }

    /// Runs a job on the calling thread, for callers without an async runtime.
    pub(crate) fn run_here<T, F>(&self, job: F) -> Result<T, StoreError>
    where
        F: FnOnce(&Connection) -> Result<T, StoreError>,
    {
        let connection = match self.take()? {
            Some(connection) => connection,
            None => self.open()?,
        };
        let result = catch_unwind(AssertUnwindSafe(|| snapshot(&connection, job)))
            .unwrap_or_else(|_| Err(StoreError::Panicked { path: PathBuf::new() }));
        // One that is still inside a transaction, after a panic or an error of the disk, is not used again.
        if connection.is_autocommit() {
            self.give_back(connection);
        }
        result.map_err(|error| error.at(&self.source.path))
    }

    /// Closes the connections and refuses further jobs.
    pub(crate) fn close(&self) {
        let mut idle = self.lock();
        idle.closed = true;
        idle.connections.clear();
    }

    fn open(&self) -> Result<Connection, StoreError> {
        match self.beside {
            Beside::OwnWriter => open::open_reader(&self.source),
            Beside::OtherProcess => open::open_outside_reader_current(&self.source),
        }
    }

    fn take(&self) -> Result<Option<Connection>, StoreError> {
        let mut idle = self.lock();
        if idle.closed {
            return Err(StoreError::Closed { path: self.source.path.clone() });
        }
        Ok(idle.connections.pop())
    }

    fn give_back(&self, connection: Connection) {
        let mut idle = self.lock();
        if !idle.closed && idle.connections.len() < LIMIT {
            idle.connections.push(connection);
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Idle> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Runs a job so that all its statements see the same state, whatever is committed meanwhile.
fn snapshot<T>(
    connection: &Connection,
    job: impl FnOnce(&Connection) -> Result<T, StoreError>,
) -> Result<T, StoreError> {
    connection.prepare_cached("BEGIN")?.execute([])?;
    let result = job(connection);
    connection.prepare_cached("COMMIT")?.execute([])?;
    result
}
