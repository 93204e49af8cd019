//! What memory answers: items, best first, each with the reasons for its place.

use nexus_base::clock::Timestamp;
use nexus_base::id::{EntityId, EventId, FactId};
use serde::Serialize;

use crate::fact::Provenance;

/// What an item is.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(tag = "kind", content = "id", rename_all = "snake_case")]
pub enum ItemId {
    Fact(FactId),
    /// Something that was said.
    Turn(EventId),
}

impl ItemId {
    /// Returns the id as text.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Fact(id) => id.as_str(),
            Self::Turn(id) => id.as_str(),
        }
    }
}

/// Why an item stands where it does: parts of its score, each between 0 and 1 before its weight, and
/// at the end two measures that do not depend on what else is stored.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub struct Explanation {
    /// How well its words match, this turn and the one before.
    pub keyword: f64,
    /// How near its meaning is, between the mean and the nearest of all that was looked at.
    pub dense: f64,
    /// How well the turns beside it match.
    pub neighbours: f64,
    /// How well the stretch of conversation around it matches.
    pub session: f64,
    /// It was said by somebody the question names.
    pub speaker: f64,
    /// It falls into the time the question names.
    pub date: f64,
    /// A matching fact was learnt from it, or it led to or followed from one.
    pub linked: f64,
    /// What it loses for being a question or a few words only.
    pub penalty: f64,
    /// How near its meaning is by itself, whatever else is stored: 1 for the same.
    pub similarity: f64,
    /// Which share of the question's telling words it has, whatever else is stored.
    pub coverage: f64,
}

impl Explanation {
    /// Tells whether the item is about what was asked, and not just the best of what there is.
    pub fn is_relevant(&self) -> bool {
        self.coverage >= 0.5 || self.similarity >= 0.5 || (self.coverage > 0.0 && self.similarity >= 0.35)
    }
}

/// An item that was found.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Recalled {
    #[serde(flatten)]
    pub item: ItemId,
    /// Its words.
    pub text: String,
    /// When it was so, or was said.
    #[serde(rename = "asOf")]
    pub as_of: Timestamp,
    /// Who said it, for turns.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub speaker: Option<String>,
    /// How well it fits: 1 for the best an item could do, downwards.
    pub score: f64,
    pub why: Explanation,
    /// Whose words it is.
    pub provenance: Provenance,
    /// The event a fact was learnt from.
    #[serde(rename = "sourceEvent", skip_serializing_if = "Option::is_none")]
    pub source_event: Option<EventId>,
    /// Whom and what a fact is about.
    #[serde(rename = "entityIds", skip_serializing_if = "Vec::is_empty")]
    pub entity_ids: Vec<EntityId>,
}

impl Recalled {
    /// Returns the fact's id, if it is a fact.
    pub const fn fact_id(&self) -> Option<&FactId> {
        match &self.item {
            ItemId::Fact(id) => Some(id),
            ItemId::Turn(_) => None,
        }
    }

    /// Returns the item as one dated line, as it is put before a model.
    pub fn line(&self) -> String {
        let moment = self.as_of.to_local_rfc3339();
        let day = moment.get(..10).unwrap_or(&moment);
        match (&self.item, &self.speaker) {
            (ItemId::Turn(_), Some(speaker)) => format!("{day} {speaker}: {}", self.text),
            (ItemId::Turn(_) | ItemId::Fact(_), _) => format!("{day}: {}", self.text),
        }
    }
}

/// The answer to one question.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct RecallAnswer {
    /// Items, best first.
    pub items: Vec<Recalled>,
    /// Rows whose meaning is not indexed yet; they can be found by words.
    #[serde(rename = "notIndexed")]
    pub not_indexed: u64,
}

impl RecallAnswer {
    /// Returns the facts among the items.
    pub fn facts(&self) -> impl Iterator<Item = &Recalled> {
        self.items.iter().filter(|item| item.fact_id().is_some())
    }
}
