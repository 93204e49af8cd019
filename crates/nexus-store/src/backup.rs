//! Copies of the six databases that belong together, and the look whether a file is whole.
//!
//! The cut is exact: for a moment the write locks of all six are held at once, and each copy is read
//! from the state of that moment. Writers wait for milliseconds; copying then takes as long as it likes.

use std::path::Path;

use nexus_base::file;
use rusqlite::Connection;
use rusqlite::backup::Backup;

use crate::error::{Cause, StoreError};
use crate::open::{self, Source};
use crate::schema::DatabaseName;
use crate::store::Store;

/// Most faults that one look reports.
const MAX_FAULTS: u32 = 10;

/// One copied database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DatabaseCopy {
    pub name: DatabaseName,
    /// Bytes of the copy.
    pub bytes: u64,
}

impl Store {
    /// Copies the six databases in `data_dir` into the folder `target`, as they were at one moment.
    /// Works beside a running daemon and without one. Each copy is looked at before it counts.
    ///
    /// # Errors
    /// A database cannot be read, a copy not written, or a copy is not whole.
    pub fn backup_to(data_dir: &Path, target: &Path) -> Result<Vec<DatabaseCopy>, StoreError> {
        let sources = DatabaseName::ALL
            .map(|name| Source::new(name.file_in(data_dir), name.as_str(), name.migrations()));
        let mut lockers = Vec::new();
        for source in &sources {
            let locker = open::open_locker(source)?;
            source.edge(locker.execute_batch("BEGIN IMMEDIATE"))?;
            lockers.push(locker);
        }
        // Nobody can commit now. A read transaction starts with its first read, hence the question.
        let mut readers = Vec::new();
        for source in &sources {
            let reader = open::open_reader(source)?;
            source.edge(reader.execute_batch("BEGIN"))?;
            source.edge(reader.query_row("SELECT count(*) FROM sqlite_schema", [], |_| Ok(())))?;
            readers.push(reader);
        }
        for (source, locker) in sources.iter().zip(lockers) {
            source.edge(locker.execute_batch("ROLLBACK"))?;
        }
        let mut copies = Vec::new();
        for ((name, source), reader) in DatabaseName::ALL.into_iter().zip(&sources).zip(&readers) {
            copies.push(DatabaseCopy { name, bytes: copy(source, reader, &name.file_in(target))? });
        }
        for name in DatabaseName::ALL {
            let copied = name.file_in(target);
            if let Some(fault) = Self::faults(target, name)?.into_iter().next() {
                return Err(StoreError::Damaged { path: copied, source: Cause::new(fault) });
            }
        }
        Ok(copies)
    }

    /// Looks whether a database is whole: every page, every index, every reference. Reads the whole file.
    ///
    /// # Errors
    /// The file cannot be opened or is not one of ours.
    pub fn faults(data_dir: &Path, name: DatabaseName) -> Result<Vec<String>, StoreError> {
        let source = Source::new(name.file_in(data_dir), name.as_str(), name.migrations());
        let (connection, _) = open::open_outside_reader(&source)?;
        let looked = || {
            let sql = format!("PRAGMA integrity_check({MAX_FAULTS})");
            let mut statement = connection.prepare(&sql)?;
            let found = statement.query_map([], |row| row.get::<_, String>(0))?;
            let mut faults: Vec<String> = found.collect::<rusqlite::Result<_>>()?;
            faults.retain(|line| line != "ok");
            let mut statement = connection.prepare("PRAGMA foreign_key_check")?;
            let mut rows = statement.query([])?;
            if let Some(row) = rows.next()? {
                faults.push(format!("table {} refers to a missing row", row.get::<_, String>(0)?));
            }
            Ok(faults)
        };
        source.edge(looked())
    }
}

fn copy(source: &Source, reader: &Connection, path: &Path) -> Result<u64, StoreError> {
    let failed = |error: std::io::Error| open::from_io(path, &error);
    file::create_new(path, 0o600).map_err(|error| failed(error.source))?;
    let mut target = open::open_copy(path)?;
    {
        let backup = source.edge(Backup::new(reader, &mut target))?;
        // All pages in one step: the reader's state does not change, so there is nobody to let through.
        source.edge(backup.step(-1))?;
    }
    target.close().map_err(|(_, error)| StoreError::from(error).at(path))?;
    let file = file::open_read(path).map_err(|error| failed(error.source))?;
    file.sync_all().map_err(failed)?;
    Ok(file.metadata().map_err(failed)?.len())
}
