//! Makes a database that is not there yet, so that a kill at any instant leaves a whole one or none.

use std::io;
use std::path::Path;

use nexus_base::{failpoint, file};
use rusqlite::OpenFlags;

use super::{Prepared, Source, from_io, open, set_wal, sidecar};
use crate::error::StoreError;
use crate::migrate;

/// What a database is called while it is being made, after its name.
const STAGED: &str = ".new";

/// Builds the database under another name and then gives it its own, so that a file with the right
/// name is always a whole one and an empty or partial one is never taken for "not made yet".
pub(super) fn create(source: &Source) -> Result<Prepared, StoreError> {
    let place = format!("store.create.{}", source.name);
    let staged = Source { path: sidecar(&source.path, STAGED), ..source.clone() };
    let built = build(&staged).and_then(|()| {
        failpoint::hit(&place);
        publish(&staged.path, &source.path)
    });
    if built.is_ok() {
        failpoint::hit(&place);
    }
    let removed = remove_staged(&source.path);
    // Errors about the staged file are about the real one, as far as anybody outside is concerned.
    built.and_then(|made| removed.map(|()| made)).map_err(|error| match error {
        StoreError::DiskFull { .. } => StoreError::DiskFull { path: source.path.clone() },
        StoreError::Unwritable { source: cause, .. } => {
            StoreError::Unwritable { path: source.path.clone(), source: cause }
        }
        other => other,
    })
}

fn build(staged: &Source) -> Result<(), StoreError> {
    file::create_new(&staged.path, 0o600).map_err(|error| from_io(&staged.path, &error.source))?;
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = staged.edge(open(&staged.path, flags))?;
    // A half-built file is thrown away, so nothing has to survive before the one sync below.
    staged.edge(connection.execute_batch("PRAGMA journal_mode = MEMORY; PRAGMA synchronous = OFF"))?;
    migrate::migrate(&connection, &staged.path, staged.name, staged.migrations)?;
    staged.edge(set_wal(&connection))?;
    staged.edge(connection.close().map_err(|(_, error)| error))?;
    let synced = file::open_read(&staged.path).map_err(|error| error.source).and_then(|file| file.sync_all());
    synced.map_err(|error| from_io(&staged.path, &error))
}

/// Gives the built file its name unless somebody else made one in the meantime.
fn publish(staged: &Path, path: &Path) -> Result<Prepared, StoreError> {
    match file::hard_link(staged, path) {
        Ok(()) => Ok(Prepared::Created),
        Err(error) if error.source.kind() == io::ErrorKind::AlreadyExists => Ok(Prepared::AlreadyThere),
        // Some file systems have no hard links; the workspace lock then keeps others away.
        Err(_) => {
            file::rename(staged, path).map_err(|error| from_io(path, &error.source))?;
            Ok(Prepared::Created)
        }
    }
}

/// Removes what is left of a making that did not come to its end.
pub(super) fn remove_staged(path: &Path) -> Result<(), StoreError> {
    let staged = sidecar(path, STAGED);
    for suffix in ["", "-wal", "-shm", "-journal"] {
        file::remove(&sidecar(&staged, suffix)).map_err(|error| from_io(path, &error.source))?;
    }
    Ok(())
}
