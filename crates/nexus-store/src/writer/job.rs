//! One job for the writer, whatever type of result its waiter expects.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;

use rusqlite::Connection;

use super::Sync;
use crate::error::StoreError;

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
