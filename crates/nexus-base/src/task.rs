//! Work beside other work. A task has a name, keeps the span it was started in, so that its log lines are found by the
//! request they belong to, and is counted, so that a stop can wait for it.

use std::future::Future;

use tokio::task::{JoinError, JoinHandle};
use tokio_util::task::TaskTracker;
use tokio_util::task::task_tracker::TaskTrackerToken;
use tracing::{Instrument as _, Span};

/// Tasks that are waited for together; cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct Tasks(TaskTracker);

impl Tasks {
    /// Starts a task below the current span.
    pub fn spawn<Work>(&self, name: &'static str, work: Work) -> JoinHandle<Work::Output>
    where
        Work: Future<Output: Send + 'static> + Send + 'static,
    {
        self.0.spawn(work.instrument(named(name)))
    }

    /// Starts a task in a span of its own, for what outlives the work that led to it.
    pub fn spawn_in<Work>(&self, span: Span, work: Work) -> JoinHandle<Work::Output>
    where
        Work: Future<Output: Send + 'static> + Send + 'static,
    {
        self.0.spawn(work.instrument(span))
    }

    /// Counts something as a task that is run elsewhere, until the token is dropped.
    pub fn token(&self) -> TaskTrackerToken {
        self.0.token()
    }

    /// Says that no more is to come; [`Tasks::wait`] ends once the last one has.
    pub fn close(&self) {
        self.0.close();
    }

    pub async fn wait(&self) {
        self.0.wait().await;
    }

    /// Returns how many run.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Starts a task below the current span, for a caller that waits for it or ends it.
pub fn spawn<Work>(name: &'static str, work: Work) -> JoinHandle<Work::Output>
where
    Work: Future<Output: Send + 'static> + Send + 'static,
{
    tokio::spawn(work.instrument(named(name)))
}

/// Runs what blocks, such as reading files, on a thread that may wait.
///
/// # Errors
/// It panicked, or the program ends.
pub async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, JoinError> {
    let span = Span::current();
    tokio::task::spawn_blocking(move || span.in_scope(work)).await
}

// At the level of errors, so that no level of the log leaves lines without their request.
fn named(name: &'static str) -> Span {
    tracing::error_span!("task", task = name)
}
