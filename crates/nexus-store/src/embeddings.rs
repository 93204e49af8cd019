//! Vectors of what the other databases hold: `embeddings.db`. Everything in it can be computed again,
//! and is when another model makes the vectors.

use rusqlite::{Connection, OptionalExtension, params};

use crate::database::Database;
use crate::error::StoreError;
use crate::words::{count, words};
use crate::writer::Sync;

/// Most rows one call hands out.
const MOST_ROWS: u32 = 8192;

words! {
    /// What a vector stands for.
    VectorKind {
        /// A fact in `memory.db`.
        Fact = "fact",
        /// A turn in `events.db`.
        Turn = "turn",
    }
}

/// What the vectors of one kind were made with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VectorSet {
    /// Model and version.
    pub model: String,
    /// Rows up to here have been looked at.
    pub through: i64,
}

/// One stored vector.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredVector {
    /// Row of what it stands for.
    pub row: i64,
    /// The numbers, in the model's own layout.
    pub bytes: Vec<u8>,
}

/// Typed queries on `embeddings.db`.
#[derive(Debug, Clone)]
pub struct Embeddings {
    database: Database,
}

impl Embeddings {
    pub(crate) fn new(database: Database) -> Self {
        Self { database }
    }

    /// Returns what the vectors of a kind were made with; none before the first.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub async fn vector_set(&self, kind: VectorKind) -> Result<Option<VectorSet>, StoreError> {
        self.database.read(move |connection| set(connection, kind)).await
    }

    /// Stores vectors made with `model` and notes that all rows up to `through` have been looked at.
    /// Vectors of another model are removed with it: they cannot be compared.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub async fn append(
        &self,
        kind: VectorKind,
        model: &str,
        vectors: Vec<StoredVector>,
        through: i64,
    ) -> Result<(), StoreError> {
        let model = model.to_owned();
        self.database
            .write(Sync::Normal, move |connection| append(connection, kind, &model, &vectors, through))
            .await
    }

    /// Like [`Embeddings::append`], ordered with the other writes but not awaited: what is lost is made again.
    pub fn append_later(&self, kind: VectorKind, model: &str, vectors: Vec<StoredVector>, through: i64) {
        let model = model.to_owned();
        self.database.write_later(move |connection| append(connection, kind, &model, &vectors, through));
    }

    /// Returns vectors after a row, in the order of rows.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub async fn vectors(
        &self,
        kind: VectorKind,
        after: i64,
        limit: u32,
    ) -> Result<Vec<StoredVector>, StoreError> {
        self.database
            .read(move |connection| {
                let mut statement = connection.prepare_cached(
                    "SELECT row, vector FROM vectors WHERE kind = ?1 AND row > ?2 ORDER BY row LIMIT ?3",
                )?;
                let rows = statement.query_map(params![kind, after, limit.min(MOST_ROWS)], |row| {
                    Ok(StoredVector { row: row.get(0)?, bytes: row.get(1)? })
                })?;
                Ok(rows.collect::<rusqlite::Result<_>>()?)
            })
            .await
    }

    /// Removes the vector of one row; returns whether there was one.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub async fn remove(&self, kind: VectorKind, row: i64) -> Result<bool, StoreError> {
        self.database
            .write(Sync::Normal, move |connection| {
                let removed = connection
                    .prepare_cached("DELETE FROM vectors WHERE kind = ?1 AND row = ?2")?
                    .execute(params![kind, row])?;
                Ok(removed == 1)
            })
            .await
    }

    /// Counts the vectors of a kind.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub async fn count(&self, kind: VectorKind) -> Result<u64, StoreError> {
        self.database
            .read(move |connection| {
                let sql = "SELECT count(*) FROM vectors WHERE kind = ?1";
                Ok(connection.query_row(sql, params![kind], |row| count(row, 0))?)
            })
            .await
    }
}

fn set(connection: &Connection, kind: VectorKind) -> Result<Option<VectorSet>, StoreError> {
    let mut statement =
        connection.prepare_cached("SELECT model, through FROM vector_sets WHERE kind = ?1")?;
    let found = statement
        .query_row(params![kind], |row| Ok(VectorSet { model: row.get(0)?, through: row.get(1)? }))
        .optional()?;
    Ok(found)
}

fn append(
    connection: &Connection,
    kind: VectorKind,
    model: &str,
    vectors: &[StoredVector],
    through: i64,
) -> Result<(), StoreError> {
    let before = set(connection, kind)?;
    if before.as_ref().is_some_and(|set| set.model != model) {
        connection.prepare_cached("DELETE FROM vectors WHERE kind = ?1")?.execute(params![kind])?;
    }
    // Two readers that caught up at the same time must not take the mark back.
    let through = match before {
        Some(set) if set.model == model => set.through.max(through),
        Some(_) | None => through,
    };
    connection
        .prepare_cached(
            "INSERT INTO vector_sets (kind, model, through) VALUES (?1, ?2, ?3)
             ON CONFLICT (kind) DO UPDATE SET model = excluded.model, through = excluded.through",
        )?
        .execute(params![kind, model, through])?;
    let mut statement = connection.prepare_cached(
        "INSERT INTO vectors (kind, row, vector) VALUES (?1, ?2, ?3)
         ON CONFLICT (kind, row) DO UPDATE SET vector = excluded.vector",
    )?;
    for vector in vectors {
        statement.execute(params![kind, vector.row, vector.bytes])?;
    }
    Ok(())
}
