//! The only place that opens SQLite files: settings, file modes, and the check that a file is ours.
//! Which steps a schema needs is `migrate`'s business; who writes when is `writer`'s.

mod create;

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};

use crate::error::{Cause, StoreError};
use crate::migrate::{self, Migration, SchemaState};

/// How long a statement waits for somebody else's lock.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);
/// Page cache of a writer and of a reader, in KiB. Our rows are small and the system caches pages too.
const WRITER_CACHE_KIB: i64 = 1024;
const READER_CACHE_KIB: i64 = 512;
/// Prepared statements a connection keeps.
const STATEMENT_CACHE: usize = 64;
/// Length to which a log that grew beyond it is cut back when it starts anew.
const WAL_KEPT_BYTES: i64 = 16 * 1024 * 1024;

/// A database file and what belongs into it.
#[derive(Debug, Clone)]
pub(crate) struct Source {
    pub(crate) path: PathBuf,
    /// Name used in failpoints, threads and reports.
    pub(crate) name: &'static str,
    pub(crate) migrations: &'static [Migration],
    pub(crate) busy_timeout: Duration,
}

impl Source {
    pub(crate) fn new(path: PathBuf, name: &'static str, migrations: &'static [Migration]) -> Self {
        // SQLite would take a relative path starting with `file:` for a URI.
        let path = std::path::absolute(&path).unwrap_or(path);
        Self { path, name, migrations, busy_timeout: BUSY_TIMEOUT }
    }

    pub(crate) fn edge<T>(&self, result: rusqlite::Result<T>) -> Result<T, StoreError> {
        result.map_err(|error| StoreError::from(error).at(&self.path))
    }
}

/// What [`prepare`] did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Prepared {
    /// The file was made.
    Created,
    /// The file was there and was brought up to date from this version.
    Migrated {
        /// Schema version before.
        from: u32,
    },
    /// The file was there and up to date; not a byte was written.
    AlreadyThere,
}

/// Opens the one connection that writes, bringing the schema up to date first.
pub(crate) fn open_writer(source: &Source) -> Result<Connection, StoreError> {
    check_file(&source.path)?;
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = source.edge(open(&source.path, flags))?;
    source.edge(connection.busy_timeout(source.busy_timeout))?;
    // SQLite falls back to reading when the file is write-protected; better to know it now.
    if source.edge(connection.is_readonly("main"))? {
        let source_error = Cause::new("the file is write-protected");
        return Err(StoreError::Unwritable { path: source.path.clone(), source: source_error });
    }
    // Nothing below may write before we know that the file is ours.
    let state = migrate::inspect(&connection, &source.path, source.migrations)?;
    match state {
        SchemaState::Empty => return Err(StoreError::Foreign { path: source.path.clone() }),
        SchemaState::Current => source.edge(configure_writer(&connection))?,
        SchemaState::Behind(_) => {
            source.edge(configure_writer(&connection))?;
            migrate::migrate(&connection, &source.path, source.name, source.migrations)?;
        }
    }
    Ok(connection)
}

/// Opens one more connection for reading, beside the writer of this process.
pub(crate) fn open_reader(source: &Source) -> Result<Connection, StoreError> {
    check_file(&source.path)?;
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = source.edge(open(&source.path, flags))?;
    source.edge(configure_reader(&connection, source.busy_timeout))?;
    Ok(connection)
}

/// Opens a connection that only takes the write lock for a moment and writes nothing.
pub(crate) fn open_locker(source: &Source) -> Result<Connection, StoreError> {
    check_file(&source.path)?;
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = source.edge(open(&source.path, flags))?;
    source.edge(connection.busy_timeout(source.busy_timeout))?;
    Ok(connection)
}

/// Opens the file that a copy is written to.
pub(crate) fn open_copy(path: &Path) -> Result<Connection, StoreError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    open(path, flags).map_err(|error| StoreError::from(error).at(path))
}

/// Opens a connection for reading from a process that does not hold the workspace: beside a running
/// daemon, after a crash, or when nobody uses the file.
pub(crate) fn open_outside_reader(source: &Source) -> Result<(Connection, SchemaState), StoreError> {
    check_file(&source.path)?;
    let readable = |error| match error {
        StoreError::Unwritable { path, source } => StoreError::Unreadable { path, source },
        other => other,
    };
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let in_use = sidecar(&source.path, "-wal").exists() || sidecar(&source.path, "-shm").exists();
    let opened = if in_use {
        open(&source.path, flags)
    } else {
        // A reader that takes part in the log would leave an empty log and index behind, since only
        // a writer may clear them away. With no log the file is complete and can be read as it is.
        open(&immutable_uri(&source.path), flags | OpenFlags::SQLITE_OPEN_URI)
    };
    let connection = source.edge(opened).map_err(readable)?;
    source.edge(configure_reader(&connection, source.busy_timeout)).map_err(readable)?;
    let state = migrate::inspect(&connection, &source.path, source.migrations).map_err(readable)?;
    Ok((connection, state))
}

/// Opens for reading and insists on the schema this program knows.
pub(crate) fn open_outside_reader_current(source: &Source) -> Result<Connection, StoreError> {
    let (connection, state) = open_outside_reader(source)?;
    match state {
        SchemaState::Current => Ok(connection),
        SchemaState::Behind(found) => Err(StoreError::OlderSchema {
            path: source.path.clone(),
            found,
            known: u32::try_from(source.migrations.len()).unwrap_or(u32::MAX),
        }),
        SchemaState::Empty => Err(StoreError::Foreign { path: source.path.clone() }),
    }
}

/// Makes the file if it is missing, brings an older one up to date, leaves a current one alone.
pub(crate) fn prepare(source: &Source) -> Result<Prepared, StoreError> {
    // Left-overs of a making that was killed, before or after the file got its name.
    create::remove_staged(&source.path)?;
    match check_file(&source.path) {
        Err(StoreError::Missing { .. }) => create::create(source),
        Err(other) => Err(other),
        Ok(()) => {
            let (reader, state) = open_outside_reader(source)?;
            drop(reader);
            match state {
                SchemaState::Current => Ok(Prepared::AlreadyThere),
                SchemaState::Empty => Err(StoreError::Foreign { path: source.path.clone() }),
                SchemaState::Behind(from) => {
                    let writer = open_writer(source)?;
                    source.edge(checkpoint(&writer, Checkpoint::Truncate))?;
                    source.edge(writer.close().map_err(|(_, error)| error))?;
                    Ok(Prepared::Migrated { from })
                }
            }
        }
    }
}

/// Opens an empty database that is nowhere on disk.
pub(crate) fn in_memory() -> rusqlite::Result<Connection> {
    Connection::open_in_memory()
}

/// How thoroughly the log is brought back into the database file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Checkpoint {
    /// As much as possible without waiting for anybody.
    Passive,
    /// All of it, leaving an empty log.
    Truncate,
}

/// Brings the log back into the file; returns how many frames the log still holds.
pub(crate) fn checkpoint(connection: &Connection, kind: Checkpoint) -> rusqlite::Result<i64> {
    let sql = match kind {
        Checkpoint::Passive => "PRAGMA wal_checkpoint(PASSIVE)",
        Checkpoint::Truncate => "PRAGMA wal_checkpoint(TRUNCATE)",
    };
    let (in_log, done): (i64, i64) = connection.query_row(sql, [], |row| Ok((row.get(1)?, row.get(2)?)))?;
    Ok((in_log - done).max(0))
}

#[expect(clippy::disallowed_methods, reason = "this module is the one place that opens SQLite files")]
fn open(path: &Path, flags: OpenFlags) -> rusqlite::Result<Connection> {
    Connection::open_with_flags(path, flags)
}

fn configure_writer(connection: &Connection) -> rusqlite::Result<()> {
    set_wal(connection)?;
    keep_plans(connection)?;
    connection.execute_batch(&format!(
        "PRAGMA synchronous = NORMAL; PRAGMA foreign_keys = ON; PRAGMA temp_store = MEMORY;
         PRAGMA cache_size = -{WRITER_CACHE_KIB}; PRAGMA wal_autocheckpoint = 0;
         PRAGMA journal_size_limit = {WAL_KEPT_BYTES}"
    ))?;
    connection.set_prepared_statement_cache_capacity(STATEMENT_CACHE);
    Ok(())
}

fn configure_reader(connection: &Connection, busy_timeout: Duration) -> rusqlite::Result<()> {
    connection.busy_timeout(busy_timeout)?;
    keep_plans(connection)?;
    connection.execute_batch(&format!(
        "PRAGMA query_only = ON; PRAGMA temp_store = MEMORY; PRAGMA cache_size = -{READER_CACHE_KIB}"
    ))?;
    connection.set_prepared_statement_cache_capacity(STATEMENT_CACHE);
    Ok(())
}

/// Lets a statement keep the plan it was prepared with. Otherwise SQLite prepares it anew whenever a value is
/// bound that might have led to another plan, which for our statements is every time.
fn keep_plans(connection: &Connection) -> rusqlite::Result<()> {
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true).map(drop)
}

fn set_wal(connection: &Connection) -> rusqlite::Result<()> {
    connection.query_row("PRAGMA journal_mode = WAL", [], |_| Ok(()))
}

fn check_file(path: &Path) -> Result<(), StoreError> {
    match fs::metadata(path) {
        Ok(found) if !found.is_file() => Err(StoreError::NotADatabase { path: path.to_owned() }),
        Ok(found) if found.len() == 0 => Err(StoreError::Damaged {
            path: path.to_owned(),
            source: Cause::new("the file is empty, and nexus never leaves one empty"),
        }),
        Ok(_) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            Err(StoreError::Missing { path: path.to_owned() })
        }
        Err(error) => Err(StoreError::Unreadable { path: path.to_owned(), source: Cause::new(error) }),
    }
}

pub(crate) fn from_io(path: &Path, error: &io::Error) -> StoreError {
    let path = path.to_owned();
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => StoreError::DiskFull { path },
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem | io::ErrorKind::NotFound => {
            StoreError::Unwritable { path, source: Cause::new(error) }
        }
        // Error kinds belong to the standard library and grow; the rest is plain input/output.
        _ => StoreError::Io { path, source: Cause::new(error) },
    }
}

/// Returns the path of a file that SQLite or we keep beside the database.
pub(crate) fn sidecar(path: &Path, suffix: &str) -> PathBuf {
    let mut name = OsString::from(path.as_os_str());
    name.push(suffix);
    PathBuf::from(name)
}

fn immutable_uri(path: &Path) -> PathBuf {
    let mut uri = b"file:".to_vec();
    for &byte in path.as_os_str().as_bytes() {
        match byte {
            b'%' | b'?' | b'#' => uri.extend_from_slice(format!("%{byte:02X}").as_bytes()),
            _ => uri.push(byte),
        }
    }
    uri.extend_from_slice(b"?immutable=1");
    PathBuf::from(OsString::from_vec(uri))
}

#[cfg(test)]
mod tests;
