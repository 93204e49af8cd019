//! What happened and when: `runtime.db`. Traces, automations, boots, usage and small settings. This
//! file explains and never decides whether something runs, so most of its writes are not awaited.

mod automation_changes;
mod automations;
mod boots;
mod invocations;
mod requests;
mod usage;

use nexus_base::clock::Timestamp;
use rusqlite::{Connection, OptionalExtension, params};

pub use self::automation_changes::Registered;
pub use self::automations::{Automation, AutomationMode, AutomationStatus, CircuitState, NewAutomation};
pub use self::boots::{Boot, BootEnd};
pub use self::invocations::{Invocation, InvocationEnd, InvocationOutcome, NewInvocation};
pub use self::requests::{NewRequest, Request, RequestStatus, RequestUpdate, StageTiming};
pub use self::usage::{NewUsage, SessionUsage, UsageSum};
use crate::database::Database;
use crate::error::StoreError;
use crate::words::count;
use crate::writer::Sync;

/// Most rows one listing returns.
const LISTING_LIMIT: u32 = 1000;

/// Typed queries on `runtime.db`.
#[derive(Debug, Clone)]
pub struct Runtime {
    database: Database,
}

/// How many rows of each kind there are, for `status`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RuntimeCounts {
    /// Requests in all.
    pub requests: u64,
    /// Requests that have not ended.
    pub processing: u64,
    /// Automations in all.
    pub automations: u64,
    /// Automations that may run.
    pub active_automations: u64,
    /// Runs of automations.
    pub invocations: u64,
}

impl Runtime {
    pub(crate) fn new(database: Database) -> Self {
        Self { database }
    }

    /// Returns the value stored under a key.
    pub async fn kv_get(&self, key: &str) -> Result<Option<String>, StoreError> {
        let key = key.to_owned();
        self.database
            .look(move |connection| {
                let mut statement = connection.prepare_cached("SELECT value FROM kv WHERE key = ?1")?;
                Ok(statement.query_row([key], |row| row.get(0)).optional()?)
            })
            .await
    }

    /// Stores a value under a key.
    pub async fn kv_set(&self, key: &str, value: &str) -> Result<(), StoreError> {
        let (key, value) = (key.to_owned(), value.to_owned());
        self.database
            .write(Sync::Normal, move |connection| {
                connection
                    .prepare_cached(
                        "INSERT INTO kv (key, value, updated_at) VALUES (?1, ?2, ?3) ON CONFLICT (key)
                         DO UPDATE SET value = excluded.value, updated_at = excluded.updated_at",
                    )?
                    .execute(params![key, value, Timestamp::now().as_millis()])?;
                Ok(())
            })
            .await
    }

    /// Counts rows for `status`.
    pub async fn counts(&self) -> Result<RuntimeCounts, StoreError> {
        self.database.read(counts).await
    }

    /// Like [`Runtime::counts`], for callers outside an async runtime.
    pub fn counts_blocking(&self) -> Result<RuntimeCounts, StoreError> {
        self.database.read_blocking(counts)
    }

    /// Waits until everything queued so far is committed.
    pub async fn flush(&self) -> Result<(), StoreError> {
        self.database.flush().await
    }
}

fn counts(connection: &Connection) -> Result<RuntimeCounts, StoreError> {
    Ok(connection.query_row(
        "SELECT (SELECT count(*) FROM nexus_requests),
                (SELECT count(*) FROM nexus_requests WHERE status = 'processing'),
                (SELECT count(*) FROM automations),
                (SELECT count(*) FROM automations WHERE status = 'active'),
                (SELECT count(*) FROM hook_invocations)",
        [],
        |row| {
            Ok(RuntimeCounts {
                requests: count(row, 0)?,
                processing: count(row, 1)?,
                automations: count(row, 2)?,
                active_automations: count(row, 3)?,
                invocations: count(row, 4)?,
            })
        },
    )?)
}
