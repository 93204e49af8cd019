//! The one way to find things again: candidates by words and by meaning, brought to one scale and
//! added up with fixed weights, the reasons kept with each.
//!
//! The weights were chosen by hand as round figures in the middle of a plateau over conversations
//! of two people; each can be halved or doubled without much change.

mod facts;
mod turns;

use std::collections::HashMap;

use nexus_store::embeddings::VectorKind;
use nexus_store::events::TurnFilter;
use nexus_store::memory::{FactFilter, SharedFacts};

use crate::answer::{ItemId, RecallAnswer, Recalled};
use crate::dates::NamedTime;
use crate::index::WAITED_FOR;
use crate::memory::{Memory, MemoryError};
use crate::query::{Query, words};
use crate::request::{Budget, MAX_LIMIT, RecallRequest, Scope, Viewer};

/// Most speakers whose names are looked for in a question.
const MAX_PARTICIPANTS: u32 = 64;

/// A question on its way through the parts of recall.
#[derive(Debug)]
struct Search {
    query: Query,
    time: NamedTime,
    budget: Budget,
    limit: usize,
    turns: TurnFilter,
    facts: FactFilter,
    /// Whether a named participant may count: some of several people were named.
    favours: bool,
}

impl Memory {
    /// Finds what fits a question, best first, each item with the reasons for its place. An empty
    /// query finds nothing, and neither does a viewer who may see nothing.
    pub async fn recall(&self, request: RecallRequest) -> Result<RecallAnswer, MemoryError> {
        let Some(search) = self.prepare(&request).await? else { return Ok(RecallAnswer::default()) };
        // Both at once: after a rest each of them is read from the disk.
        let (facts, turns) = tokio::try_join!(
            self.ready(VectorKind::Fact, request.scope.facts),
            self.ready(VectorKind::Turn, request.scope.turns),
        )?;
        let not_indexed = facts + turns;
        let mut items = Vec::new();
        let mut linked = HashMap::new();
        if request.scope.facts {
            let found = self.search_facts(&search).await?;
            for fact in &found {
                if let Some(event) = &fact.source_event {
                    let best: &mut f64 = linked.entry(event.clone()).or_default();
                    *best = best.max(fact.score);
                }
            }
            items.extend(found);
        }
        if request.scope.turns {
            items.extend(self.search_turns(&search, &linked).await?);
        }
        let asked = words(&request.query);
        items.retain(|item| match &item.item {
            ItemId::Fact(_) => true,
            // The question itself fits best and answers nothing.
            ItemId::Turn(event) => !request.except.contains(event) && words(&item.text) != asked,
        });
        rank(&mut items);
        items.truncate(search.limit);
        for item in &mut items {
            item.why.coverage = coverage(&search.query.words, &item.text);
        }
        if self.keeps {
            self.facts.count_access_later(items.iter().filter_map(|item| item.fact_id().cloned()).collect());
        }
        Ok(RecallAnswer { items, not_indexed })
    }

    /// Sees to it that the vectors of a kind are there if they are wanted; returns how many are missing.
    async fn ready(&self, kind: VectorKind, is_wanted: bool) -> Result<u64, MemoryError> {
        Ok(if is_wanted { self.index.catch_up(kind, WAITED_FOR).await? } else { 0 })
    }

    /// Finds what is worth telling somebody who asked: facts that are about it, and where there are
    /// none what was said about it, questions left out.
    pub async fn tell(&self, request: RecallRequest) -> Result<Vec<Recalled>, MemoryError> {
        let facts = self.recall(RecallRequest { scope: Scope::FACTS, ..request.clone() }).await?.items;
        let relevant: Vec<Recalled> = facts.iter().filter(|fact| fact.why.is_relevant()).cloned().collect();
        if !relevant.is_empty() {
            return Ok(relevant);
        }
        let mut turns = self.recall(RecallRequest { scope: Scope::TURNS, ..request }).await?.items;
        turns.retain(|turn| turn.why.is_relevant() && !turn.text.trim_end().ends_with('?'));
        Ok(if turns.is_empty() { facts } else { turns })
    }

    async fn prepare(&self, request: &RecallRequest) -> Result<Option<Search>, MemoryError> {
        let narrow = |key: &String| request.conversation.as_ref().is_none_or(|only| only == key);
        // The narrower of the two; a door that was handed out narrow stays so.
        let viewer = match (&self.seen_by, &request.viewer) {
            (Viewer::Owner, asked) => asked,
            (bound, _) => bound,
        };
        let (conversations, shared) = match viewer {
            Viewer::Nobody => return Ok(None),
            Viewer::Owner => (request.conversation.clone().map(|only| vec![only]), None),
            Viewer::Shared { entities, conversations } => {
                let shared = SharedFacts {
                    entities: entities.iter().cloned().collect(),
                    conversations: conversations.iter().cloned().collect(),
                };
                (Some(conversations.iter().filter(|key| narrow(key)).cloned().collect()), Some(shared))
            }
        };
        let turns = TurnFilter {
            conversations,
            after: request.after,
            before: request.before,
            platform: request.platform.clone(),
        };
        // Facts have no speakers, and a turn's own three facts should cost as little as they can.
        let participants = if request.scope.turns { self.participants(&turns).await? } else { Vec::new() };
        let query = Query::of(&request.query, &participants);
        if query.words.is_empty() {
            return Ok(None);
        }
        let facts =
            FactFilter { shared, about: request.about.clone(), after: request.after, before: request.before };
        let favours = !query.named.is_empty() && query.named.len() < participants.len();
        let limit = request.limit.clamp(1, MAX_LIMIT);
        let time = NamedTime::of(&request.query, request.now);
        Ok(Some(Search { query, time, budget: request.budget, limit, turns, facts, favours }))
    }

    /// Returns the people who speak under a name. The owner and Nexus itself speak in every chat with
    /// the assistant; to favour one of them would only favour half of everything.
    async fn participants(&self, filter: &TurnFilter) -> Result<Vec<String>, MemoryError> {
        let mut speakers = self.events.speakers(filter.clone(), MAX_PARTICIPANTS).await?;
        speakers.retain(|sender| {
            sender != nexus_store::identity::OWNER_ID
                && sender != OWN_SENDER
                && sender.contains(char::is_alphabetic)
        });
        Ok(speakers)
    }
}

/// Sender of what Nexus itself says.
pub(crate) const OWN_SENDER: &str = "nexus";

/// Orders items, best first. Of equal ones facts come first, then the newer; the same words are
/// said once.
fn rank(items: &mut Vec<Recalled>) {
    items.sort_by(|left, right| {
        let kind = |item: &Recalled| matches!(item.item, ItemId::Turn(_));
        right
            .score
            .total_cmp(&left.score)
            .then(kind(left).cmp(&kind(right)))
            .then(right.as_of.cmp(&left.as_of))
            .then(left.item.cmp(&right.item))
    });
    let mut seen = std::collections::HashSet::new();
    items.retain(|item| seen.insert((item.speaker.clone(), item.text.clone())));
}

/// Says which share of the question's words a text has, word forms aside.
fn coverage(asked: &[String], text: &str) -> f64 {
    if asked.is_empty() {
        return 0.0;
    }
    let has = words(text);
    let found = asked.iter().filter(|word| has.iter().any(|other| is_same_word(word, other))).count();
    #[expect(clippy::cast_precision_loss, reason = "a handful of words")]
    let share = found as f64 / asked.len() as f64;
    share
}

/// Tells whether two words are forms of one: the same beginning, and endings of a few letters.
fn is_same_word(left: &str, right: &str) -> bool {
    let common = left.chars().zip(right.chars()).take_while(|(one, two)| one == two).count();
    let (left, right) = (left.chars().count(), right.chars().count());
    if common < 4 {
        return left == right && common == left;
    }
    left - common <= 3 && right - common <= 3
}

/// Brings scores between 0 and their highest onto 0 to 1.
fn scaled(scores: impl Iterator<Item = (i64, f64)>) -> HashMap<i64, f64> {
    let scores: Vec<(i64, f64)> = scores.collect();
    let highest = scores.iter().map(|(_, score)| *score).fold(0.0, f64::max);
    let scale = if highest > 0.0 { 1.0 / highest } else { 0.0 };
    scores.into_iter().map(|(row, score)| (row, score * scale)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn coverage_counts_word_forms() {
        let asked = ["sister".to_owned(), "painted".to_owned(), "tea".to_owned()];
        let share = coverage(&asked, "Her sisters paint teapots");
        assert!((share - 2.0 / 3.0).abs() < 1e-9, "{share}");
        assert!(!is_same_word("art", "are"));
        assert!(is_same_word("tea", "tea"));
    }
}
