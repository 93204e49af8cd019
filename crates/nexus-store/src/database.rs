//! One open database as the typed queries see it: ordered writes, reads beside them, and the edge
//! where errors learn which file they are about.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use rusqlite::Connection;

use crate::error::StoreError;
use crate::open::Source;
use crate::readers::{Beside, Readers};
use crate::writer::{self, Job, Queue, Refused, Sync, WriterFigures, WriterState};

/// A database of the store. Clones share it.
#[derive(Debug, Clone)]
pub struct Database {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    source: Source,
    readers: Arc<Readers>,
    writer: Option<WriterHandle>,
    failed_later: Arc<AtomicU64>,
}

#[derive(Debug)]
struct WriterHandle {
    queue: Arc<Queue>,
    state: Arc<WriterState>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Database {
    /// Opens for reading and writing; brings the schema up to date.
    pub(crate) fn open(source: Source) -> Result<Self, StoreError> {
        let queue = Arc::new(Queue::new());
        let state = Arc::new(WriterState::default());
        let thread = writer::start(source.clone(), Arc::clone(&queue), Arc::clone(&state))?;
        let readers = Arc::new(Readers::new(source.clone(), Beside::OwnWriter));
        let writer = WriterHandle { queue, state, thread: Mutex::new(Some(thread)) };
        Ok(Self::assemble(source, readers, Some(writer)))
    }

    /// Opens for reading only, beside whoever else uses the file.
    pub(crate) fn open_read_only(source: Source) -> Result<Self, StoreError> {
        let readers = Arc::new(Readers::new(source.clone(), Beside::OtherProcess));
        readers.warm()?;
        Ok(Self::assemble(source, readers, None))
    }

    /// Stands for a database that nobody needs: every query is refused as if it had been closed.
    pub(crate) fn unopened(source: Source) -> Self {
        let readers = Arc::new(Readers::new(source.clone(), Beside::OtherProcess));
        readers.close();
        Self::assemble(source, readers, None)
    }

    fn assemble(source: Source, readers: Arc<Readers>, writer: Option<WriterHandle>) -> Self {
        Self { inner: Arc::new(Inner { source, readers, writer, failed_later: Arc::default() }) }
    }

    /// Runs `job` in the writer's next transaction and waits for the commit.
    pub(crate) async fn write<T, F>(&self, sync: Sync, job: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> Result<T, StoreError> + Send + 'static,
    {
        let (sender, receiver) = tokio::sync::oneshot::channel();
        let job = Job::new(sync, job, move |result| {
            // A caller that stopped waiting gets no answer; its rows are written all the same.
            let _ = sender.send(result);
        });
        self.queue()?.push(job).await.map_err(|refused| self.refused(refused))?;
        receiver.await.unwrap_or_else(|_| Err(self.closed())).map_err(|error| error.at(self.path()))
    }

    /// Queues `job` behind everything queued before and does not wait. A failure is logged and counted.
    pub(crate) fn write_later<F>(&self, job: F)
    where
        F: FnOnce(&Connection) -> Result<(), StoreError> + Send + 'static,
    {
        let failures = Arc::clone(&self.inner.failed_later);
        let source = self.inner.source.clone();
        let tell = move |result: Result<(), StoreError>| {
            if let Err(error) = result {
                count_failure(&failures, source.name, &error.at(&source.path));
            }
        };
        let queued = self.queue().and_then(|queue| {
            queue.push_later(Job::new(Sync::Normal, job, tell)).map_err(|refused| self.refused(refused))
        });
        if let Err(error) = queued {
            count_failure(&self.inner.failed_later, self.inner.source.name, &error);
        }
    }

    /// Waits until everything queued so far is committed.
    pub(crate) async fn flush(&self) -> Result<(), StoreError> {
        self.write(Sync::Normal, |_| Ok(())).await
    }

    /// Runs `job` on a read connection, without blocking the async runtime. All its statements see one state.
    pub(crate) async fn read<T, F>(&self, job: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> Result<T, StoreError> + Send + 'static,
    {
        self.inner.readers.run(job).await
    }

    /// Like [`Database::read`], for jobs that look up a few rows by their keys and nothing more.
    pub(crate) async fn look<T, F>(&self, job: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> Result<T, StoreError> + Send + 'static,
    {
        self.inner.readers.look(job).await
    }

    /// Like [`Database::write`], for callers outside an async runtime.
    pub(crate) fn write_blocking<T, F>(&self, sync: Sync, job: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> Result<T, StoreError> + Send + 'static,
    {
        let (sender, receiver) = std::sync::mpsc::sync_channel(1);
        let job = Job::new(sync, job, move |result| {
            // The receiver below waits for exactly this message.
            let _ = sender.send(result);
        });
        self.queue()?.push_blocking(job).map_err(|refused| self.refused(refused))?;
        receiver.recv().unwrap_or_else(|_| Err(self.closed())).map_err(|error| error.at(self.path()))
    }

    /// Like [`Database::read`], on the calling thread.
    pub(crate) fn read_blocking<T, F>(&self, job: F) -> Result<T, StoreError>
    where
        F: FnOnce(&Connection) -> Result<T, StoreError>,
    {
        self.inner.readers.run_here(job)
    }

    /// Returns the database's file.
    pub fn path(&self) -> &Path {
        &self.inner.source.path
    }

    /// Returns how many unawaited writes did not work since the database was opened.
    pub fn failed_later(&self) -> u64 {
        self.inner.failed_later.load(Ordering::Relaxed)
    }

    /// Returns what the writer did since the database was opened.
    pub fn figures(&self) -> WriterFigures {
        let state = self.inner.writer.as_ref().map(|writer| &writer.state);
        state.map_or_else(WriterFigures::default, |state| state.figures())
    }

    /// Says what is wrong at this moment, if anything, without touching the database.
    pub(crate) fn trouble(&self) -> Option<StoreError> {
        if !self.path().is_file() {
            return Some(StoreError::Missing { path: self.path().to_owned() });
        }
        let writer = self.inner.writer.as_ref()?;
        let ended = writer
            .thread
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .as_ref()
            .is_none_or(JoinHandle::is_finished);
        if ended { Some(self.closed()) } else { writer.state.last_failure() }
    }

    /// Writes what is queued, brings the log back into the file and closes it. Later calls are refused.
    pub(crate) fn close_blocking(&self) {
        self.inner.readers.close();
        let Some(writer) = &self.inner.writer else { return };
        writer.queue.close();
        let thread = writer.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread
            && thread.join().is_err()
        {
            tracing::error!(database = self.inner.source.name, "database writer panicked");
        }
    }

    fn queue(&self) -> Result<&Queue, StoreError> {
        match &self.inner.writer {
            Some(writer) => Ok(&writer.queue),
            None => Err(StoreError::ReadOnly { path: self.path().to_owned() }),
        }
    }

    fn refused(&self, refused: Refused) -> StoreError {
        match refused {
            Refused::Closed => self.closed(),
            Refused::Full => StoreError::QueueFull { path: self.path().to_owned() },
        }
    }

    fn closed(&self) -> StoreError {
        StoreError::Closed { path: self.path().to_owned() }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        // Whoever forgot to close still gets every queued row written, unless the process ends first.
        if let Some(writer) = &self.writer {
            writer.queue.close();
        }
    }
}

fn count_failure(failures: &AtomicU64, database: &str, error: &StoreError) {
    failures.fetch_add(1, Ordering::Relaxed);
    let cause = std::error::Error::source(error).map(ToString::to_string);
    tracing::error!(database, %error, cause, "unawaited write lost");
}
