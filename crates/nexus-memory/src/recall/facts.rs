//! Facts: their words, their meaning, their time, and what caused or followed them.

use std::collections::{HashMap, HashSet};

use nexus_base::clock::Timestamp;
use nexus_store::embeddings::VectorKind;
use nexus_store::memory::{FactFilter, FactRow};

use super::{Search, scaled};
use crate::answer::{Explanation, ItemId, Recalled};
use crate::fact::Provenance;
use crate::memory::{Memory, MemoryError};
use crate::request::Budget;
use crate::vectors::{Scan, Seen};

/// What each reason weighs; a fact has no stretch, no neighbours and no speaker.
const KEYWORD: f64 = 0.55;
const DENSE: f64 = 0.45;
const DATE: f64 = 0.3;
const LINKED: f64 = 0.2;

/// Similarity from which on a fact is worth telling without a word in common.
const NEAR: f32 = 0.35;
/// Facts by words and by meaning that are ranked.
const CANDIDATES: (u32, usize) = (150, 100);
/// Best facts whose causes and effects are looked at with a high budget.
const SEEDS: usize = 5;

impl Memory {
    pub(super) async fn search_facts(&self, search: &Search) -> Result<Vec<Recalled>, MemoryError> {
        let scan = self.scan_facts(search).await?;
        let mut keyword = HashMap::new();
        if search.budget > Budget::Low || scan.nearest.is_empty() {
            let words = search.query.words.iter().chain(&search.query.named).cloned().collect();
            let limit = CANDIDATES.0.max(u32::try_from(search.limit).unwrap_or(u32::MAX));
            let hits = self.facts.find_facts(words, search.facts.clone(), limit).await?;
            keyword = scaled(hits.into_iter().map(|hit| (hit.row, hit.score)));
        }
        let mut rows: Vec<i64> = keyword.keys().copied().collect();
        rows.extend(scan.near(NEAR));
        let mut found = self.judged(search, rows, &keyword, &scan, &HashMap::new()).await?;
        if search.budget == Budget::High && !found.is_empty() {
            found.sort_by(|left, right| right.1.score.total_cmp(&left.1.score));
            let seeds = found.iter().take(SEEDS).map(|(row, _)| *row).collect();
            let known: HashSet<i64> = found.iter().map(|(row, _)| *row).collect();
            let links: HashMap<i64, f64> = self.facts.causes_and_effects(seeds).await?.into_iter().collect();
            let more = links.keys().copied().filter(|row| !known.contains(row)).collect();
            found.extend(self.judged(search, more, &keyword, &scan, &links).await?);
        }
        Ok(found.into_iter().map(|(_, fact)| fact).collect())
    }

    async fn scan_facts(&self, search: &Search) -> Result<Scan, MemoryError> {
        // Whom a fact is about matters, unlike who says it: names stay in.
        let meaning = [search.query.meaning.as_str(), &search.query.named.join(" ")].join(" ");
        let Some(vector) = self.index.embed(&meaning) else { return Ok(Scan::default()) };
        let narrowed = search.facts.shared.is_some() || search.facts.about.is_some();
        let rows = if narrowed {
            let filter = FactFilter { after: None, before: None, ..search.facts.clone() };
            Some(self.facts.visible_rows(filter).await?)
        } else {
            None
        };
        let seen = Seen {
            audiences: None,
            rows,
            after: search.facts.after.map(Timestamp::as_millis),
            before: search.facts.before.map(Timestamp::as_millis),
            favoured: Vec::new(),
        };
        self.scan(VectorKind::Fact, vector, seen, CANDIDATES.1).await
    }

    async fn judged(
        &self,
        search: &Search,
        mut rows: Vec<i64>,
        keyword: &HashMap<i64, f64>,
        scan: &Scan,
        links: &HashMap<i64, f64>,
    ) -> Result<Vec<(i64, Recalled)>, MemoryError> {
        rows.sort_unstable();
        rows.dedup();
        // Asked through the filter once more: what a stale vector lets through, the rows do not.
        let facts = self.facts.facts_by_row(rows, search.facts.clone()).await?;
        Ok(facts.into_iter().map(|fact| (fact.row, judge(search, fact, keyword, scan, links))).collect())
    }
}

fn judge(
    search: &Search,
    FactRow { row, fact }: FactRow,
    keyword: &HashMap<i64, f64>,
    scan: &Scan,
    links: &HashMap<i64, f64>,
) -> Recalled {
    let keyword = keyword.get(&row).copied().unwrap_or(0.0);
    let dense = scan.standing(row);
    let date = search.time.fit(fact.as_of);
    let linked = links.get(&row).copied().unwrap_or(0.0);
    let highest = if search.time.is_empty() { KEYWORD + DENSE } else { KEYWORD + DENSE + DATE };
    let sum = KEYWORD * keyword + DENSE * dense + DATE * date + LINKED * linked;
    Recalled {
        item: ItemId::Fact(fact.id),
        text: fact.text,
        as_of: fact.as_of,
        speaker: None,
        score: (sum / highest).clamp(0.0, 1.0),
        why: Explanation {
            keyword,
            dense,
            similarity: scan.similarity(row).map_or(0.0, f64::from),
            date,
            linked,
            ..Explanation::default()
        },
        provenance: Provenance::from_metadata(&fact.metadata),
        source_event: fact.source_event_id,
        entity_ids: fact.entity_ids,
    }
}
