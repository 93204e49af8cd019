//! Reading the workspace's databases directly, for commands that must work while no daemon runs.
//! Nothing is written and no lock is taken.

use std::time::Duration;

use nexus_base::id::{RequestId, SessionLabel};
use nexus_base::redact::Redactor;
use nexus_protocol::control::CompactionView;
use nexus_protocol::status::SessionView;
use nexus_protocol::trace::{PromptView, RequestSummary, RequestView};
use nexus_runtime::report;
use nexus_store::{OpenMode, Store, StoreError};

use crate::context::Context;
use crate::failure::Failure;

/// Longest wait for a database that somebody else is busy with.
const PATIENCE: Duration = Duration::from_secs(10);

/// The databases, open for reading.
#[derive(Debug)]
pub(crate) struct Reports {
    store: Store,
    redactor: Redactor,
    runtime: tokio::runtime::Runtime,
}

/// Opens the databases of an existing workspace.
pub(crate) fn open(context: &Context) -> Result<Reports, Failure> {
    let layout = context.existing()?;
    let store = Store::open(&layout.data(), OpenMode::ReadOnly)?;
    let redactor = Redactor::new();
    // With unreadable settings the token is unknown, and then it cannot be hidden; the key shapes are.
    if let Ok(loaded) = context.loaded(&layout) {
        redactor.register(loaded.settings.runtime.auth.token.expose());
    }
    Ok(Reports { store, redactor, runtime: super::client_runtime()? })
}

impl Reports {
    /// Returns the newest requests that a person or the runtime began.
    pub(crate) fn recent_requests(&self, limit: usize) -> Result<Vec<RequestSummary>, Failure> {
        self.read(report::recent_requests(&self.store, limit))
    }

    /// Returns a request and everything it led to.
    pub(crate) fn request_view(&self, id: &RequestId) -> Result<Option<RequestView>, Failure> {
        self.read(report::request_view(&self.store, &self.redactor, id))
    }

    /// Returns what a request's model was sent, part by part.
    pub(crate) fn prompt_view(&self, id: &RequestId, words: bool) -> Result<Option<PromptView>, Failure> {
        match words {
            true => self.read(report::prompt_in_full(&self.store, &self.redactor, id)),
            false => self.read(report::prompt_view(&self.store, id)),
        }
    }

    /// Returns what stands for earlier turns, newest first.
    pub(crate) fn compactions(
        &self,
        session: Option<&SessionLabel>,
        limit: usize,
    ) -> Result<Vec<CompactionView>, Failure> {
        self.read(report::compactions(&self.store, session, limit))
    }

    /// Returns the sessions, most recently used first.
    pub(crate) fn sessions(&self, limit: usize) -> Result<Vec<SessionView>, Failure> {
        self.read(report::sessions(&self.store, limit))
    }

    fn read<T>(&self, query: impl Future<Output = Result<T, StoreError>>) -> Result<T, Failure> {
        self.runtime
            .block_on(async { tokio::time::timeout(PATIENCE, query).await })
            .map_err(|_| {
                Failure::new("a database is not answering")
                    .hint("nexus status shows which process holds the workspace")
            })?
            .map_err(Failure::from)
    }
}
