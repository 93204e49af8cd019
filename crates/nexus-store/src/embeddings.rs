//! Vectors of what the other databases hold: `embeddings.db`. Everything in it can be computed again,
//! and is when another model makes the vectors.

mod chunks;

use rusqlite::{Connection, OptionalExtension, params};

use crate::database::Database;
use crate::error::StoreError;
use crate::words::{count, words};
use crate::writer::Sync;

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
    /// Number of the conversation, for turns.
    pub audience: i64,
    /// When it was said or so, in Unix milliseconds.
    pub at: i64,
    /// Hash of who said it; 0 for nobody.
    pub speaker: u32,
    /// The numbers, in the model's own layout.
    pub bytes: Vec<u8>,
}

/// A stored vector while it is looked at.
#[derive(Debug, Clone, Copy)]
pub struct VectorView<'a> {
    /// Row of what it stands for.
    pub row: i64,
    /// Number of the conversation, for turns.
    pub audience: i64,
    /// When it was said or so, in Unix milliseconds.
    pub at: i64,
    /// Hash of who said it; 0 for nobody.
    pub speaker: u32,
    /// The numbers, in the model's own layout.
    pub bytes: &'a [u8],
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
    pub async fn vector_set(&self, kind: VectorKind) -> Result<Option<VectorSet>, StoreError> {
        self.database.read(move |connection| set(connection, kind)).await
    }

    /// Stores vectors made with `model` and notes that all rows up to `through` have been looked at.
    /// Vectors of another model are removed with it: they cannot be compared.
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

    /// Hands every vector of a kind to `visit`, in the order of rows; returns what `visit` made.
    pub async fn visit<T: Default + Send + 'static>(
        &self,
        kind: VectorKind,
        visit: impl Fn(&mut T, VectorView<'_>) + Send + 'static,
    ) -> Result<T, StoreError> {
        self.database
            .read(move |connection| {
                let mut made = T::default();
                chunks::visit(connection, kind, &mut |view| visit(&mut made, view))?;
                let mut statement = connection.prepare_cached(
                    "SELECT row, audience, at, speaker, vector FROM vectors WHERE kind = ?1 ORDER BY row",
                )?;
                let mut rows = statement.query(params![kind])?;
                while let Some(row) = rows.next()? {
                    let bytes = row.get_ref(4)?.as_blob().unwrap_or_default();
                    let view = VectorView {
                        row: row.get(0)?,
                        audience: row.get(1)?,
                        at: row.get(2)?,
                        speaker: row.get(3)?,
                        bytes,
                    };
                    visit(&mut made, view);
                }
                Ok(made)
            })
            .await
    }

    /// Removes the vector of one row; returns whether there was one.
    pub async fn remove(&self, kind: VectorKind, row: i64) -> Result<bool, StoreError> {
        self.database.write(Sync::Normal, move |connection| remove(connection, kind, row)).await
    }

    pub async fn count(&self, kind: VectorKind) -> Result<u64, StoreError> {
        self.database
            .read(move |connection| {
                let sql = "SELECT (SELECT count(*) FROM vectors WHERE kind = ?1)
                    + (SELECT coalesce(sum(live), 0) FROM vector_chunks WHERE kind = ?1)";
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

/// Removes the vector of one row, wherever it stands; returns whether there was one.
pub(crate) fn remove(connection: &Connection, kind: VectorKind, row: i64) -> Result<bool, StoreError> {
    let removed = connection
        .prepare_cached("DELETE FROM vectors WHERE kind = ?1 AND row = ?2")?
        .execute(params![kind, row])?;
    Ok(removed == 1 || chunks::wipe(connection, kind, row)?)
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
        for sql in ["DELETE FROM vectors WHERE kind = ?1", "DELETE FROM vector_chunks WHERE kind = ?1"] {
            connection.prepare_cached(sql)?.execute(params![kind])?;
        }
        connection
            .prepare_cached("UPDATE vector_sets SET loose = 0 WHERE kind = ?1")?
            .execute(params![kind])?;
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
    // What stands in a run already was made by somebody who caught up at the same time.
    let behind = chunks::last_row(connection, kind)?;
    let fresh: Vec<&StoredVector> = vectors.iter().filter(|vector| vector.row > behind).collect();
    let loose = chunks::loose(connection, kind)?;
    let single = if loose == 0 { chunks::put_whole(connection, kind, &fresh)? } else { fresh.as_slice() };
    let mut statement = connection.prepare_cached(
        "INSERT INTO vectors (kind, row, audience, at, speaker, vector) VALUES (?1, ?2, ?3, ?4, ?5, ?6)
         ON CONFLICT (kind, row) DO UPDATE SET audience = excluded.audience, at = excluded.at,
            speaker = excluded.speaker, vector = excluded.vector",
    )?;
    for vector in single {
        let StoredVector { row, audience, at, speaker, bytes } = vector;
        statement.execute(params![kind, row, audience, at, speaker, bytes])?;
    }
    chunks::grown(connection, kind, loose, single.len())
}
