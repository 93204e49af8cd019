//! Vectors of what the other databases hold: `embeddings.db`. Everything in it can be computed again.

use nexus_base::clock::Timestamp;
use nexus_base::id::new_ulid;
use rusqlite::{OptionalExtension, params};

use crate::database::Database;
use crate::error::StoreError;
use crate::words::words;
use crate::writer::Sync;

words! {
    /// What a vector stands for.
    TargetType {
        /// A fact in `memory.db`.
        Fact = "fact",
        /// An observation.
        Observation = "observation",
        /// An entity in `identity.db`.
        Entity = "entity",
        /// An episode in `memory.db`.
        Episode = "episode",
        /// A mental model.
        MentalModel = "mental_model",
        /// An event in `events.db`.
        Event = "event",
    }
}

/// One stored vector.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Embedding {
    /// Kind of the thing it stands for.
    pub target_type: TargetType,
    /// Id of that thing.
    pub target_id: String,
    /// Model and version that made it.
    pub model: String,
    /// Numbers in it.
    pub dimension: u32,
    /// The numbers, in the model's own layout.
    pub bytes: Vec<u8>,
    /// Hash of the text it was made from.
    pub content_hash: Option<String>,
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

    /// Stores a vector in place of an older one for the same thing and model.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub async fn put(&self, embedding: Embedding) -> Result<(), StoreError> {
        self.database
            .write(Sync::Normal, move |connection| {
                connection
                    .prepare_cached(
                        "INSERT INTO embeddings
                            (id, target_type, target_id, model, dimension, embedding, content_hash, created_at)
                         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)
                         ON CONFLICT (target_type, target_id, model) DO UPDATE SET
                            dimension = excluded.dimension, embedding = excluded.embedding,
                            content_hash = excluded.content_hash, created_at = excluded.created_at",
                    )?
                    .execute(params![
                        new_ulid(),
                        embedding.target_type,
                        embedding.target_id,
                        embedding.model,
                        embedding.dimension,
                        embedding.bytes,
                        embedding.content_hash,
                        Timestamp::now().as_millis(),
                    ])?;
                Ok(())
            })
            .await
    }

    /// Returns the vector of one thing.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub async fn get(
        &self,
        target_type: TargetType,
        target_id: &str,
        model: &str,
    ) -> Result<Option<Embedding>, StoreError> {
        let (target_id, model) = (target_id.to_owned(), model.to_owned());
        self.database
            .read(move |connection| {
                let mut statement = connection.prepare_cached(
                    "SELECT target_type, target_id, model, dimension, embedding, content_hash
                     FROM embeddings WHERE target_type = ?1 AND target_id = ?2 AND model = ?3",
                )?;
                let found = statement
                    .query_row(params![target_type, target_id, model], |row| {
                        Ok(Embedding {
                            target_type: row.get(0)?,
                            target_id: row.get(1)?,
                            model: row.get(2)?,
                            dimension: row.get(3)?,
                            bytes: row.get(4)?,
                            content_hash: row.get(5)?,
                        })
                    })
                    .optional()?;
                Ok(found)
            })
            .await
    }
}
