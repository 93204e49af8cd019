//! The six databases together: made, opened, asked for their health and closed as one.

use std::path::Path;
use std::thread;

use crate::agents::Agents;
use crate::database::Database;
use crate::embeddings::Embeddings;
use crate::error::StoreError;
use crate::events::Events;
use crate::identity::Identity;
use crate::memory::Memory;
use crate::open::{self, Prepared, Source};
use crate::runtime::Runtime;
use crate::schema::DatabaseName;
use crate::writer::WriterFigures;

/// What the caller means to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OpenMode {
    /// Write; the caller holds the workspace lock.
    ReadWrite,
    /// Only read, beside whoever holds the lock.
    ReadOnly,
}

/// How one database is doing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DatabaseHealth {
    pub name: DatabaseName,
    /// What is wrong; none when all is well.
    pub trouble: Option<StoreError>,
    /// Unawaited writes that were lost since it was opened.
    pub failed_later: u64,
    /// What its writer did since then.
    pub figures: WriterFigures,
}

/// The open store. Clones share it.
#[derive(Debug, Clone)]
pub struct Store {
    databases: [Database; 6],
    events: Events,
    agents: Agents,
    identity: Identity,
    memory: Memory,
    embeddings: Embeddings,
    runtime: Runtime,
}

impl Store {
    /// Makes missing files and brings older ones up to date; files that are current are not touched,
    /// and nothing stays open. The caller holds the workspace lock.
    ///
    /// # Errors
    /// The first database, in the order of [`DatabaseName::ALL`], that could not be prepared.
    pub fn create(data_dir: &Path) -> Result<Vec<(DatabaseName, Prepared)>, StoreError> {
        nexus_base::file::create_folder(data_dir, 0o700)
            .map_err(|error| open::from_io(&error.path, &error.source))?;
        let prepared = in_parallel(data_dir, |_, source| open::prepare(&source))?;
        if prepared.contains(&Prepared::Created) {
            std::fs::File::open(data_dir)
                .and_then(|folder| folder.sync_all())
                .map_err(|error| open::from_io(data_dir, &error))?;
        }
        Ok(DatabaseName::ALL.into_iter().zip(prepared).collect())
    }

    /// Opens the six databases in parallel; for writing, brings them up to date.
    ///
    /// # Errors
    /// The first database, in the order of [`DatabaseName::ALL`], that could not be opened.
    pub fn open(data_dir: &Path, mode: OpenMode) -> Result<Self, StoreError> {
        Self::open_only(data_dir, mode, &DatabaseName::ALL)
    }

    /// Like [`Store::open`] for some of the databases; the others refuse every query.
    ///
    /// # Errors
    /// The first of them that could not be opened.
    pub fn open_only(data_dir: &Path, mode: OpenMode, names: &[DatabaseName]) -> Result<Self, StoreError> {
        let databases = in_parallel(data_dir, |name, source| match mode {
            _ if !names.contains(&name) => Ok(Database::unopened(source)),
            OpenMode::ReadWrite => Database::open(source),
            OpenMode::ReadOnly => Database::open_read_only(source),
        })?;
        let [events, agents, identity, memory, embeddings, runtime] = databases.clone();
        Ok(Self {
            databases,
            events: Events::new(events),
            agents: Agents::new(agents),
            identity: Identity::new(identity),
            memory: Memory::new(memory),
            embeddings: Embeddings::new(embeddings),
            runtime: Runtime::new(runtime),
        })
    }

    /// What arrived and what was said.
    pub fn events(&self) -> &Events {
        &self.events
    }

    /// Sessions, turns, queue and outbox.
    pub fn agents(&self) -> &Agents {
        &self.agents
    }

    /// People, contacts and access decisions.
    pub fn identity(&self) -> &Identity {
        &self.identity
    }

    /// Facts.
    pub fn memory(&self) -> &Memory {
        &self.memory
    }

    /// Vectors.
    pub fn embeddings(&self) -> &Embeddings {
        &self.embeddings
    }

    /// Traces, automations, boots, usage.
    pub fn runtime(&self) -> &Runtime {
        &self.runtime
    }

    /// Says how each database is doing, without touching the disk beyond a look at the file names.
    pub fn health(&self) -> Vec<DatabaseHealth> {
        self.each()
            .map(|(name, database)| DatabaseHealth {
                name,
                trouble: database.trouble(),
                failed_later: database.failed_later(),
                figures: database.figures(),
            })
            .collect()
    }

    /// Waits until everything queued so far is committed in all six.
    ///
    /// # Errors
    /// The first database whose queue could not be written.
    pub async fn flush(&self) -> Result<(), StoreError> {
        for (_, database) in self.each() {
            database.flush().await?;
        }
        Ok(())
    }

    /// Writes what is queued, checkpoints and closes. Every clone is closed with it.
    pub async fn close(&self) {
        let store = self.clone();
        if tokio::task::spawn_blocking(move || store.close_blocking()).await.is_err() {
            tracing::error!("closing the store panicked");
        }
    }

    /// Like [`Store::close`], for callers outside an async runtime.
    pub fn close_blocking(&self) {
        thread::scope(|scope| {
            for (_, database) in self.each() {
                scope.spawn(|| database.close_blocking());
            }
        });
    }

    pub(crate) fn databases(&self) -> &[Database; 6] {
        &self.databases
    }

    pub(crate) fn events_database(&self) -> &Database {
        &self.databases[0]
    }

    pub(crate) fn agents_database(&self) -> &Database {
        &self.databases[1]
    }

    pub(crate) fn identity_database(&self) -> &Database {
        &self.databases[2]
    }

    pub(crate) fn memory_database(&self) -> &Database {
        &self.databases[3]
    }

    pub(crate) fn embeddings_database(&self) -> &Database {
        &self.databases[4]
    }

    pub(crate) fn runtime_database(&self) -> &Database {
        &self.databases[5]
    }

    fn each(&self) -> impl Iterator<Item = (DatabaseName, &Database)> {
        DatabaseName::ALL.into_iter().zip(&self.databases)
    }
}

/// Does the same for all six on a thread each: what takes time is the disk, not the processor.
fn in_parallel<T: Send>(
    data_dir: &Path,
    action: impl Fn(DatabaseName, Source) -> Result<T, StoreError> + Send + std::marker::Sync,
) -> Result<[T; 6], StoreError> {
    let action = &action;
    let run = |name: DatabaseName| {
        let source = Source::new(name.file_in(data_dir), name.as_str(), name.migrations());
        move || action(name, source)
    };
    let outcomes = thread::scope(|scope| {
        let threads = DatabaseName::ALL.map(|name| (name, scope.spawn(run(name))));
        threads.map(|(name, thread)| {
            thread.join().unwrap_or_else(|_| Err(StoreError::Panicked { path: name.file_in(data_dir) }))
        })
    });
    let [events, agents, identity, memory, embeddings, runtime] = outcomes;
    Ok([events?, agents?, identity?, memory?, embeddings?, runtime?])
}
