//! Keeps the vectors in step with the rows: loaded when somebody asks, brought up to date by what was
//! stored since, made again when another asset makes them, and let go when nobody asks for a while.

use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{PoisonError, RwLock};
use std::time::Duration;

use nexus_base::clock::Timestamp;
use nexus_store::embeddings::{StoredVector, VectorKind};
use nexus_store::{Embeddings, Events, StoreError};

use crate::vectors::{RowInfo, Scan, Seen, Vectors, speaker_number};
use nexus_embedder::{Asset, Vector, embed};

/// Rows made in one go while catching up.
const BATCH: u32 = 512;
/// Rows that a question waits for. The rest is found by words until the background has caught up.
pub(crate) const WAITED_FOR: u64 = 256;

/// Vectors of turns and facts.
#[derive(Debug)]
pub(crate) struct Index {
    asset: Option<Asset>,
    model: String,
    turns: Shelf,
    facts: Shelf,
    events: Events,
    memory: nexus_store::Memory,
    embeddings: Embeddings,
    /// Whether what is made is stored; not beside a daemon, which stores it itself.
    keeps: bool,
}

#[derive(Debug)]
struct Shelf {
    kind: VectorKind,
    loaded: RwLock<Option<Loaded>>,
    /// One at a time brings it up to date; the others wait for the same rows.
    turnstile: tokio::sync::Mutex<()>,
    used: AtomicI64,
}

#[derive(Debug, Default)]
struct Loaded {
    vectors: Vectors,
    through: i64,
}

/// One row on its way into the index.
struct Fresh {
    info: RowInfo,
    text: String,
}

impl Index {
    pub(crate) fn new(store: &nexus_store::Store, keeps: bool) -> Self {
        let asset = Asset::shipped().inspect_err(|error| tracing::error!(%error, "no embedder")).ok();
        Self {
            model: asset.map(|asset| asset.model()).unwrap_or_default(),
            asset,
            turns: Shelf::new(VectorKind::Turn),
            facts: Shelf::new(VectorKind::Fact),
            events: store.events().clone(),
            memory: store.memory().clone(),
            embeddings: store.embeddings().clone(),
            keeps,
        }
    }

    /// Returns the vector of a text; none when it says nothing, or without an embedder.
    pub(crate) fn embed(&self, text: &str) -> Option<Vector> {
        embed(self.asset.as_ref()?, text)
    }

    /// Loads a kind if needed and makes at most `limit` of its missing vectors; returns how many rows
    /// are still missing.
    pub(crate) async fn catch_up(&self, kind: VectorKind, limit: u64) -> Result<u64, StoreError> {
        if self.asset.is_none() {
            return Ok(0);
        }
        let shelf = self.shelf(kind);
        shelf.used.store(Timestamp::now().as_millis(), Ordering::Relaxed);
        let _one_at_a_time = shelf.turnstile.lock().await;
        let mut through = match shelf.through() {
            Some(through) => through,
            None => self.load(shelf).await?,
        };
        let last = self.last_row(kind).await?;
        let mut left = limit;
        while through < last && left > 0 {
            let count = u32::try_from(left).map_or(BATCH, |left| left.min(BATCH));
            let fresh = self.rows_after(kind, through, count).await?;
            let Some(newest) = fresh.last().map(|fresh| fresh.info.row) else {
                through = last;
                break;
            };
            left = left.saturating_sub(fresh.len() as u64);
            through = newest;
            let made: Vec<(RowInfo, Vector)> = fresh
                .into_iter()
                .filter_map(|fresh| self.embed(&fresh.text).map(|vector| (fresh.info, vector)))
                .collect();
            if self.keeps {
                self.embeddings.append_later(kind, &self.model, made.iter().map(stored).collect(), through);
            }
            shelf.append(&made, through);
            tracing::debug!(kind = kind.as_str(), through, last, "vectors made");
        }
        Ok(u64::try_from(last - through).unwrap_or(0))
    }

    /// Returns how many rows of a kind have no vector yet, without loading anything.
    pub(crate) async fn missing(&self, kind: VectorKind) -> Result<u64, StoreError> {
        let set = self.embeddings.vector_set(kind).await?.filter(|set| set.model == self.model);
        let through = self.shelf(kind).through().or(set.map(|set| set.through)).unwrap_or(0);
        Ok(u64::try_from(self.last_row(kind).await? - through).unwrap_or(0))
    }

    /// Compares a vector with all that may be seen.
    pub(crate) fn scan(&self, kind: VectorKind, query: &Vector, seen: &Seen, count: usize) -> Scan {
        let loaded = self.shelf(kind).loaded.read().unwrap_or_else(PoisonError::into_inner);
        loaded.as_ref().map(|loaded| loaded.vectors.scan(query, seen, count)).unwrap_or_default()
    }

    /// Forgets a row's vector, in memory and on disk.
    pub(crate) async fn forget(&self, kind: VectorKind, row: i64) -> Result<(), StoreError> {
        let shelf = self.shelf(kind);
        let _nobody_appends = shelf.turnstile.lock().await;
        if let Some(loaded) = shelf.loaded.write().unwrap_or_else(PoisonError::into_inner).as_mut() {
            loaded.vectors.forget(row);
        }
        self.embeddings.remove(kind, row).await?;
        Ok(())
    }

    /// Lets go of what nobody has asked for during `idle`; returns whether anything is still held.
    pub(crate) fn rest(&self, idle: Duration) -> bool {
        let now = Timestamp::now();
        let mut holds = false;
        for shelf in [&self.turns, &self.facts] {
            let mut loaded = shelf.loaded.write().unwrap_or_else(PoisonError::into_inner);
            if now.since(Timestamp(shelf.used.load(Ordering::Relaxed))) >= idle {
                *loaded = None;
            }
            holds |= loaded.is_some();
        }
        holds
    }

    /// Tells whether both kinds are held.
    pub(crate) fn is_loaded(&self) -> bool {
        [&self.turns, &self.facts].iter().all(|shelf| shelf.through().is_some())
    }

    /// Returns the name of what makes the vectors.
    pub(crate) fn model(&self) -> &str {
        &self.model
    }

    async fn load(&self, shelf: &Shelf) -> Result<i64, StoreError> {
        let set = self.embeddings.vector_set(shelf.kind).await?;
        let mut loaded = Loaded::default();
        if let Some(set) = set.filter(|set| set.model == self.model) {
            loaded.vectors = self
                .embeddings
                .visit(shelf.kind, |vectors: &mut Vectors, view| vectors.put_stored(view))
                .await?;
            // Rows of which nothing could be made have no vector, so `through` may be ahead of the last.
            loaded.through = set.through;
        }
        let through = loaded.through;
        *shelf.loaded.write().unwrap_or_else(PoisonError::into_inner) = Some(loaded);
        Ok(through)
    }

    async fn last_row(&self, kind: VectorKind) -> Result<i64, StoreError> {
        match kind {
            VectorKind::Turn => self.events.last_turn().await,
            VectorKind::Fact => self.memory.last_fact().await,
        }
    }

    async fn rows_after(&self, kind: VectorKind, row: i64, count: u32) -> Result<Vec<Fresh>, StoreError> {
        Ok(match kind {
            VectorKind::Turn => {
                let turns = self.events.turns_after(row, count).await?;
                let fresh = turns.into_iter().map(|turn| Fresh {
                    info: RowInfo {
                        row: turn.row,
                        audience: turn.conversation,
                        at: turn.said_at.as_millis(),
                        speaker: speaker_number(&turn.sender_id),
                    },
                    text: turn.content,
                });
                fresh.collect()
            }
            VectorKind::Fact => {
                let facts = self.memory.facts_after(row, count).await?;
                let fresh = facts.into_iter().map(|fact| Fresh {
                    info: RowInfo { row: fact.row, audience: 0, at: fact.as_of, speaker: 0 },
                    text: fact.text,
                });
                fresh.collect()
            }
        })
    }

    const fn shelf(&self, kind: VectorKind) -> &Shelf {
        match kind {
            VectorKind::Turn => &self.turns,
            VectorKind::Fact => &self.facts,
        }
    }
}

impl Shelf {
    fn new(kind: VectorKind) -> Self {
        Self {
            kind,
            loaded: RwLock::new(None),
            turnstile: tokio::sync::Mutex::new(()),
            used: AtomicI64::new(0),
        }
    }

    fn through(&self) -> Option<i64> {
        let loaded = self.loaded.read().unwrap_or_else(PoisonError::into_inner);
        loaded.as_ref().map(|loaded| loaded.through)
    }

    fn append(&self, made: &[(RowInfo, Vector)], through: i64) {
        let mut loaded = self.loaded.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(loaded) = loaded.as_mut() {
            for (info, vector) in made {
                loaded.vectors.put(*info, vector);
            }
            loaded.through = through;
        }
    }
}

fn stored((info, vector): &(RowInfo, Vector)) -> StoredVector {
    let RowInfo { row, audience, at, speaker } = *info;
    StoredVector { row, audience, at, speaker, bytes: vector.to_bytes() }
}
