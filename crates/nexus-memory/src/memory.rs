//! `remember`, `recall`, `forget`.

use nexus_base::clock::Timestamp;
use nexus_base::id::{EventId, FactId};
use nexus_store::StoreError;
use nexus_store::memory::{Fact, MemoryCounts, NewFact};

use crate::answer::{Explanation, ItemId, RecallAnswer, Recalled};
use crate::fact::{LONGEST_FACT, Provenance, tidy};
use crate::request::{HIGHEST_LIMIT, LONGEST_QUERY, RecallRequest};

/// Why memory did not do what was asked.
#[derive(Debug, thiserror::Error)]
pub enum MemoryError {
    /// There is nothing to remember.
    #[error("a fact needs at least one word")]
    Empty,
    /// A fact is a sentence, not a document.
    #[error("a fact of {length} bytes is longer than {LONGEST_FACT}")]
    TooLong {
        /// Its length.
        length: usize,
    },
    /// The database did not work.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl MemoryError {
    /// Returns advice for the person.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Empty => Some("say what to remember, as one whole sentence".to_owned()),
            Self::TooLong { .. } => {
                Some("split it into sentences, or keep it in a file and remember where it is".to_owned())
            }
            Self::Store(error) => error.hint(),
        }
    }
}

/// Memory; cheap to clone.
#[derive(Debug, Clone)]
pub struct Memory {
    pub(crate) facts: nexus_store::Memory,
    pub(crate) events: nexus_store::Events,
}

impl Memory {
    /// Opens memory over a store.
    pub fn new(store: &nexus_store::Store) -> Self {
        Self { facts: store.memory().clone(), events: store.events().clone() }
    }

    /// Keeps a fact. The same sentence is kept once and keeps the provenance it had first.
    ///
    /// # Errors
    /// See [`MemoryError`].
    pub async fn remember(
        &self,
        text: &str,
        source_event: Option<EventId>,
        provenance: Provenance,
    ) -> Result<FactId, MemoryError> {
        // Checked before tidying, so that no amount of blanks gets a book past the limit of time.
        if text.len() > LONGEST_FACT {
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

    /// Finds what fits a question, best first, each item with the reasons for its place. An empty
    /// query finds nothing.
    ///
    /// # Errors
    /// See [`MemoryError`].
    pub async fn recall(&self, request: RecallRequest) -> Result<RecallAnswer, MemoryError> {
        let query = &request.query[..request.query.floor_char_boundary(LONGEST_QUERY)];
        let limit = request.limit.clamp(1, HIGHEST_LIMIT);
        let found = self.facts.search_facts(query, u32::try_from(limit).unwrap_or(u32::MAX)).await?;
        self.facts.count_access_later(found.iter().map(|fact| fact.id.clone()).collect());
        Ok(RecallAnswer { items: ranked(found), not_indexed: 0 })
    }

    /// Returns the facts learnt last, newest first.
    ///
    /// # Errors
    /// See [`MemoryError`].
    pub async fn recent(&self, limit: usize) -> Result<Vec<Recalled>, MemoryError> {
        let limit = limit.clamp(1, HIGHEST_LIMIT);
        Ok(ranked(self.facts.recent_facts(u32::try_from(limit).unwrap_or(u32::MAX)).await?))
    }

    /// Removes a fact for good; returns whether it was there.
    ///
    /// # Errors
    /// See [`MemoryError`].
    pub async fn forget(&self, id: FactId) -> Result<bool, MemoryError> {
        Ok(self.facts.forget(id).await?.is_some())
    }

    /// Counts what memory holds.
    ///
    /// # Errors
    /// See [`MemoryError`].
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
