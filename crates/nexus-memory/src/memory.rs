//! `remember`, `forget`, and the state behind `recall`.

use std::sync::Arc;
use std::time::Duration;

use nexus_base::clock::Timestamp;
use nexus_base::id::{EventId, FactId};
use nexus_identity::{DataLevel, Principal};
use nexus_store::StoreError;
use nexus_store::embeddings::VectorKind;
use nexus_store::memory::{Fact, MemoryCounts, NewFact};

use crate::answer::{Explanation, ItemId, Recalled};
use crate::fact::{MAX_FACT_LEN, Provenance, tidy};
use crate::index::Index;
use crate::request::{MAX_LIMIT, Viewer};
use crate::vectors::{Scan, Seen};
use nexus_embedder::Vector;

/// Why memory did not do what was asked.
#[derive(Debug, thiserror::Error)]
pub enum MemoryError {
    /// There is nothing to remember.
    #[error("a fact needs at least one word")]
    Empty,
    /// A fact is a sentence, not a document.
    #[error("a fact of {length} bytes is longer than {MAX_FACT_LEN}")]
    TooLong { length: usize },
    /// There is no such fact or event.
    #[error("there is no fact and no event {id}")]
    Unknown {
        /// What was asked for.
        id: String,
    },
    /// Somebody still works on it.
    #[error("event {event} is still being processed")]
    Busy { event: EventId },
    /// A file beside the databases could not be read or written.
    #[error("searching the files beside the databases")]
    Files {
        /// Why.
        source: std::io::Error,
    },
    /// The search was cut off, because the program ends.
    #[error("the search was interrupted")]
    Interrupted,
    /// The database did not work.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl MemoryError {
    /// Returns advice for the person.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Empty => Some("give the fact as one full sentence".to_owned()),
            Self::TooLong { .. } => {
                Some("split it into sentences, or keep it in a file and remember its path".to_owned())
            }
            Self::Unknown { .. } => {
                Some("`nexus memory recall` shows what is stored; --json includes ids".to_owned())
            }
            Self::Busy { .. } => Some("wait until it is answered, then try again".to_owned()),
            Self::Interrupted | Self::Files { .. } => None,
            Self::Store(error) => error.hint(),
        }
    }
}

/// How many vectors there are, and what makes them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VectorCounts {
    pub facts: u64,
    pub turns: u64,
    /// Name of what makes them.
    pub model: String,
}

/// Memory; cheap to clone.
#[derive(Debug, Clone)]
pub struct Memory {
    pub(crate) store: nexus_store::Store,
    pub(crate) facts: nexus_store::Memory,
    pub(crate) events: nexus_store::Events,
    pub(crate) identity: nexus_store::Identity,
    pub(crate) index: Arc<Index>,
    pub(crate) keeps: bool,
    /// The most that this door shows, whoever asks.
    pub(crate) seen_by: Viewer,
}

impl Memory {
    /// Opens memory over a store that may be written.
    pub fn new(store: &nexus_store::Store) -> Self {
        Self::over(store, true)
    }

    /// Opens memory over a store that is only read: nothing is counted, and vectors that are missing
    /// are made for this process alone.
    pub fn read_only(store: &nexus_store::Store) -> Self {
        Self::over(store, false)
    }

    fn over(store: &nexus_store::Store, keeps: bool) -> Self {
        Self {
            store: store.clone(),
            facts: store.memory().clone(),
            events: store.events().clone(),
            identity: store.identity().clone(),
            index: Arc::new(Index::new(store, keeps)),
            keeps,
            seen_by: Viewer::Owner,
        }
    }

    /// Returns a door to the same memory that shows no more than `viewer` may see, whatever is asked.
    #[must_use]
    pub fn seen_by(&self, viewer: Viewer) -> Self {
        Self { seen_by: viewer, ..self.clone() }
    }

    /// Keeps a fact. The same sentence is kept once and keeps the provenance it had first.
    pub async fn remember(
        &self,
        text: &str,
        source_event: Option<EventId>,
        provenance: Provenance,
    ) -> Result<FactId, MemoryError> {
        // Checked before tidying, so that no amount of blanks gets a book past the limit of time.
        if text.len() > MAX_FACT_LEN {
            return Err(MemoryError::TooLong { length: text.len() });
        }
        let text = tidy(text);
        if !text.chars().any(char::is_alphanumeric) {
            return Err(MemoryError::Empty);
        }
        let fact = NewFact {
            text,
            context: None,
            as_of: Timestamp::now(),
            source_event_id: source_event,
            metadata: provenance.to_metadata(),
            entity_ids: Vec::new(),
            conversation: None,
        };
        Ok(self.facts.add_fact(fact).await?)
    }

    /// Returns the facts learnt last, newest first.
    pub async fn recent(&self, limit: usize) -> Result<Vec<Recalled>, MemoryError> {
        let limit = limit.clamp(1, MAX_LIMIT);
        Ok(ranked(self.facts.recent_facts(u32::try_from(limit).unwrap_or(u32::MAX)).await?))
    }

    /// Removes a fact for good, with its vector and its place in the index; returns whether it was there.
    pub async fn forget(&self, id: FactId) -> Result<bool, MemoryError> {
        let Some(row) = self.facts.forget(id).await? else { return Ok(false) };
        self.index.forget(VectorKind::Fact, row).await?;
        Ok(true)
    }

    /// Makes vectors that are missing, at most `limit` of each kind; returns how many rows still have
    /// none. A question makes a few itself; the rest is for a quiet moment.
    pub async fn catch_up(&self, limit: u64) -> Result<u64, MemoryError> {
        let facts = self.index.catch_up(VectorKind::Fact, limit).await?;
        Ok(facts + self.index.catch_up(VectorKind::Turn, limit).await?)
    }

    /// Tells whether the vectors are at hand, so that a question need not wait for them.
    pub fn is_warm(&self) -> bool {
        self.index.is_loaded()
    }

    /// Loads the vectors before anybody asks.
    pub async fn warm_up(&self) -> Result<(), MemoryError> {
        tokio::try_join!(self.index.catch_up(VectorKind::Fact, 0), self.index.catch_up(VectorKind::Turn, 0))?;
        Ok(())
    }

    /// Returns how many rows have no vector yet, without loading any.
    pub async fn not_indexed(&self) -> Result<u64, MemoryError> {
        Ok(self.index.missing(VectorKind::Fact).await? + self.index.missing(VectorKind::Turn).await?)
    }

    /// Returns how somebody's request sees memory: the owner everything, others what policy shares
    /// with them, which is what carries one of their tags.
    pub async fn viewer_of(
        &self,
        principal: &Principal,
        data: DataLevel,
        conversation: Option<&str>,
    ) -> Result<Viewer, MemoryError> {
        let mut viewer = Viewer::of(principal, data, conversation);
        if let Viewer::Shared { entities, .. } = &mut viewer
            && data > DataLevel::Minimal
            && !principal.tags().is_empty()
        {
            let mut tagged = self.identity.entities_tagged(principal.tags().to_vec()).await?;
            // What is known of the owner is not shared by a tag.
            tagged.retain(|entity| entity.as_str() != nexus_store::identity::OWNER_ID);
            entities.extend(tagged);
        }
        Ok(viewer)
    }

    /// Counts the vectors on disk.
    pub async fn vector_counts(&self) -> Result<VectorCounts, MemoryError> {
        let embeddings = self.store.embeddings();
        Ok(VectorCounts {
            facts: embeddings.count(VectorKind::Fact).await?,
            turns: embeddings.count(VectorKind::Turn).await?,
            model: self.index.model().to_owned(),
        })
    }

    /// Lets go of vectors that nobody has asked for during `idle`; returns whether some are still held.
    pub fn rest(&self, idle: Duration) -> bool {
        self.index.rest(idle)
    }

    /// Compares a vector with all that may be seen, beside the async runtime: at a hundred thousand
    /// rows that takes milliseconds.
    pub(crate) async fn scan(
        &self,
        kind: VectorKind,
        vector: Vector,
        seen: Seen,
        count: usize,
    ) -> Result<Scan, MemoryError> {
        let index = Arc::clone(&self.index);
        let scanned = tokio::task::spawn_blocking(move || index.scan(kind, &vector, &seen, count)).await;
        scanned.map_err(|_| MemoryError::Interrupted)
    }

    /// Tells whether any fact was ever kept, at no cost however many there are.
    pub async fn has_facts(&self) -> Result<bool, MemoryError> {
        Ok(self.facts.last_fact().await? > 0)
    }

    /// Counts what memory holds.
    pub async fn counts(&self) -> Result<MemoryCounts, MemoryError> {
        Ok(self.facts.counts().await?)
    }
}

// Only the order of keyword matches means something: the figures behind it depend on what else is
// stored. The reciprocal of the place says no more than the order does.
fn ranked(facts: Vec<Fact>) -> Vec<Recalled> {
    let mut place = 0.0;
    facts
        .into_iter()
        .map(|fact| {
            place += 1.0;
            Recalled {
                item: ItemId::Fact(fact.id),
                text: fact.text,
                as_of: fact.as_of,
                speaker: None,
                score: 1.0 / place,
                why: Explanation { keyword: 1.0 / place, ..Explanation::default() },
                provenance: Provenance::from_metadata(&fact.metadata),
                source_event: fact.source_event_id,
                entity_ids: fact.entity_ids,
            }
        })
        .collect()
}
