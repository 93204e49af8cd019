//! Brings a database to the schema this program knows: numbered steps, one transaction each, with
//! a checksum of every step kept in the file. It never opens files; see `open`.

use std::path::Path;

use nexus_base::clock::Timestamp;
use nexus_base::failpoint;
use rusqlite::{Connection, OptionalExtension, params};
use sha2::{Digest, Sha256};

use crate::error::{Cause, StoreError};

/// One step; its number is its place in the list, counted from 1.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Migration {
    pub(crate) name: &'static str,
    pub(crate) sql: &'static str,
}

const CREATE_VERSION_TABLE: &str = "CREATE TABLE schema_version (
    version INTEGER PRIMARY KEY,
    name TEXT NOT NULL,
    checksum TEXT NOT NULL,
    applied_at INTEGER NOT NULL
) STRICT";

/// How a file's schema relates to the migrations we know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SchemaState {
    /// No table at all.
    Empty,
    /// Some steps are still to be applied; the number applied is given.
    Behind(u32),
    /// Nothing to do.
    Current,
}

/// Compares the file with `known` without writing a byte.
pub(crate) fn inspect(
    connection: &Connection,
    path: &Path,
    known: &[Migration],
) -> Result<SchemaState, StoreError> {
    let edge = |error: rusqlite::Error| StoreError::from(error).at(path);
    let has_versions: Option<i64> = connection
        .query_row(
            "SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = 'schema_version'",
            [],
            |row| row.get(0),
        )
        .optional()
        .map_err(edge)?;
    if has_versions.is_none() {
        let objects: i64 =
            connection.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0)).map_err(edge)?;
        return if objects == 0 {
            Ok(SchemaState::Empty)
        } else {
            Err(StoreError::Foreign { path: path.to_owned() })
        };
    }
    let applied = read_applied(connection).map_err(|error| match StoreError::from(error).at(path) {
        // The table has our name but not our columns.
        StoreError::Statement { path, .. } => StoreError::Foreign { path },
        other => other,
    })?;
    let known_version = version_number(known.len());
    // What both know has to be the same; otherwise the file is not newer but another one.
    for (position, row) in applied.iter().take(known.len()).enumerate() {
        let matches = known.get(position).is_some_and(|migration| {
            row.version == version_number(position + 1)
                && row.name == migration.name
                && row.checksum == checksum(migration.sql)
        });
        if !matches {
            return Err(StoreError::AlteredMigration {
                path: path.to_owned(),
                version: row.version,
                name: row.name.clone(),
            });
        }
    }
    if let Some(newest) = applied.last()
        && newest.version > known_version
    {
        return Err(StoreError::NewerSchema {
            path: path.to_owned(),
            found: newest.version,
            known: known_version,
        });
    }
    if applied.len() == known.len() {
        Ok(SchemaState::Current)
    } else {
        Ok(SchemaState::Behind(version_number(applied.len())))
    }
}

/// Applies what is missing. The caller has made sure with [`inspect`] that the file is ours.
pub(crate) fn migrate(
    connection: &Connection,
    path: &Path,
    database: &str,
    known: &[Migration],
) -> Result<(), StoreError> {
    let applied = match inspect(connection, path, known)? {
        SchemaState::Current => return Ok(()),
        SchemaState::Empty => {
            connection.execute(CREATE_VERSION_TABLE, []).map_err(|error| StoreError::from(error).at(path))?;
            0
        }
        SchemaState::Behind(applied) => applied,
    };
    for (position, migration) in known.iter().enumerate().skip(applied as usize) {
        apply(connection, path, database, version_number(position + 1), migration)?;
    }
    Ok(())
}

fn apply(
    connection: &Connection,
    path: &Path,
    database: &str,
    version: u32,
    migration: &Migration,
) -> Result<(), StoreError> {
    // A step may rebuild a table, which foreign keys would turn into deleted rows; they are off
    // while it runs and checked as a whole before its commit. The pragma is void inside a transaction.
    let outcome = connection
        .pragma_update(None, "foreign_keys", false)
        .and_then(|()| connection.execute_batch("BEGIN IMMEDIATE"))
        .map_err(StoreError::from)
        .and_then(|()| apply_inside(connection, database, version, migration));
    if !connection.is_autocommit() {
        // The transaction's own error is the one to report; without it nothing was changed.
        let _ = connection.execute_batch("ROLLBACK");
    }
    let restored = connection.pragma_update(None, "foreign_keys", true).map_err(StoreError::from);
    outcome.and(restored).map_err(|error| match error.at(path) {
        StoreError::Statement { source, .. } | StoreError::Constraint { source, .. } => {
            StoreError::Migration { path: path.to_owned(), version, name: migration.name.to_owned(), source }
        }
        other => other,
    })
}

fn apply_inside(
    connection: &Connection,
    database: &str,
    version: u32,
    migration: &Migration,
) -> Result<(), StoreError> {
    connection.execute_batch(migration.sql)?;
    connection.execute(
        "INSERT INTO schema_version (version, name, checksum, applied_at) VALUES (?1, ?2, ?3, ?4)",
        params![version, migration.name, checksum(migration.sql), Timestamp::now().as_millis()],
    )?;
    let broken: Option<String> =
        connection.query_row("PRAGMA foreign_key_check", [], |row| row.get(0)).optional()?;
    if let Some(table) = broken {
        let source = Cause::new(format!("rows of {table} refer to missing rows"));
        return Err(StoreError::Constraint { path: Path::new("").to_owned(), source });
    }
    // One name on both sides of the commit: `…@1` dies before it, `…@2` after it.
    let place = format!("store.migrate.{database}.{version}");
    failpoint::hit(&place);
    connection.execute_batch("COMMIT")?;
    failpoint::hit(&place);
    Ok(())
}

struct Applied {
    version: u32,
    name: String,
    checksum: String,
}

fn read_applied(connection: &Connection) -> rusqlite::Result<Vec<Applied>> {
    let mut statement =
        connection.prepare("SELECT version, name, checksum FROM schema_version ORDER BY version")?;
    let rows = statement.query_map([], |row| {
        Ok(Applied { version: row.get(0)?, name: row.get(1)?, checksum: row.get(2)? })
    })?;
    rows.collect()
}

fn checksum(sql: &str) -> String {
    nexus_base::id::to_hex(Sha256::digest(sql.as_bytes()).as_slice())
}

fn version_number(position: usize) -> u32 {
    u32::try_from(position).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests;
