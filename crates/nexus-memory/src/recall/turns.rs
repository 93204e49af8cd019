//! Turns: what was said, with the words before it, the stretch around it, its speaker and its time.

use std::collections::HashMap;

use nexus_base::id::EventId;
use nexus_store::embeddings::VectorKind;
use nexus_store::events::{Direction, Turn};

use super::{OWN_SENDER, Search, scaled};
use crate::answer::{Explanation, ItemId, Recalled};
use crate::fact::Provenance;
use crate::memory::{Memory, MemoryError};
use crate::request::Budget;
use crate::vectors::{Scan, Seen, speaker_number};

/// What each reason weighs.
const KEYWORD: f64 = 0.75;
const DENSE: f64 = 0.3;
const DENSE_BEFORE: f64 = 0.25;
const KEYWORD_AFTER: f64 = 0.2;
const SESSION_KEYWORD: f64 = 0.4;
const SESSION_DENSE: f64 = 0.25;
const SPEAKER: f64 = 0.6;
const DATE: f64 = 0.9;
const LINKED: f64 = 0.5;
const LENGTH: f64 = 0.18;
const QUESTION: f64 = 0.2;

/// Similarity from which on a turn is worth looking at without a word in common.
const NEAR: f32 = 0.2;
/// Letters from which on a turn is long enough to say something.
const TELLING_LENGTH: usize = 200;
/// Nearest turns of a stretch that tell how near the stretch is.
const NEAREST_OF_STRETCH: usize = 3;

impl Memory {
    /// Finds turns. `linked` are events that matching facts were learnt from, with the facts' scores.
    pub(super) async fn search_turns(
        &self,
        search: &Search,
        linked: &HashMap<EventId, f64>,
    ) -> Result<Vec<Recalled>, MemoryError> {
        let (by_words, by_meaning) = match search.budget {
            Budget::Low => (0, 200),
            Budget::Mid => (300, 200),
            Budget::High => (600, 400),
        };
        let scan = self.scan_turns(search, by_meaning).await?;
        let by_words = if scan.nearest.is_empty() { 300 } else { by_words };
        let mut keyword = HashMap::new();
        if by_words > 0 {
            let hits =
                self.events.find_turns(search.query.words.clone(), search.turns.clone(), by_words).await?;
            keyword = scaled(hits.into_iter().map(|hit| (hit.row, hit.score)));
        }
        let mut rows: Vec<i64> = keyword.keys().copied().collect();
        match search.budget {
            Budget::Low | Budget::Mid => rows.extend(scan.near(NEAR)),
            // Whoever looks hard judges for themselves what is near enough.
            Budget::High => rows.extend(&scan.nearest),
        }
        if !linked.is_empty() {
            let sources = self.events.turn_rows(linked.keys().cloned().collect()).await?;
            // A source that the viewer may not see was not compared, and stays out.
            rows.extend(sources.into_iter().filter(|row| scan.similarity(*row).is_some()));
        }
        rows.sort_unstable();
        rows.dedup();
        let turns = self.events.turns(rows).await?;
        let scores = Scores::new(search, &keyword, &scan, &turns);
        Ok(turns.into_iter().map(|turn| scores.judge(turn, linked)).collect())
    }

    async fn scan_turns(&self, search: &Search, count: usize) -> Result<Scan, MemoryError> {
        let Some(vector) = self.index.embed(&search.query.meaning) else { return Ok(Scan::default()) };
        let audiences = match &search.turns.conversations {
            None => None,
            Some(keys) => {
                let mut numbers = self.events.conversation_numbers(keys.clone()).await?;
                numbers.sort_unstable();
                Some(numbers)
            }
        };
        let favoured = if search.favours { search.query.named.as_slice() } else { &[] };
        let seen = Seen {
            audiences,
            rows: None,
            after: search.turns.after.map(nexus_base::clock::Timestamp::as_millis),
            before: search.turns.before.map(nexus_base::clock::Timestamp::as_millis),
            favoured: favoured.iter().map(|name| speaker_number(name)).collect(),
        };
        let mut scan = self.scan(VectorKind::Turn, vector, seen, count).await?;
        if let Some(platform) = &search.turns.platform {
            // Vectors do not know platforms; the few that matter are asked for.
            let turns = self.events.turns_on(scan.nearest.clone(), platform).await?;
            scan.nearest.retain(|row| turns.contains(row));
        }
        Ok(scan)
    }
}

/// The scores of one search, for judging single turns.
struct Scores<'a> {
    search: &'a Search,
    keyword: &'a HashMap<i64, f64>,
    scan: &'a Scan,
    session_keyword: HashMap<i64, f64>,
    session_dense: HashMap<i64, f64>,
}

impl<'a> Scores<'a> {
    fn new(search: &'a Search, keyword: &'a HashMap<i64, f64>, scan: &'a Scan, turns: &[Turn]) -> Self {
        let mut session_keyword: HashMap<i64, f64> = HashMap::new();
        let mut nearness: HashMap<i64, Vec<f64>> = HashMap::new();
        for turn in turns {
            let best = session_keyword.entry(turn.episode).or_default();
            *best = best.max(keyword.get(&turn.row).copied().unwrap_or(0.0));
            nearness.entry(turn.episode).or_default().push(scan.standing(turn.row));
        }
        let nearness = nearness.into_iter().map(|(episode, mut standings)| {
            standings.sort_unstable_by(|left, right| right.total_cmp(left));
            (episode, standings.iter().take(NEAREST_OF_STRETCH).sum())
        });
        let session_dense = scaled(nearness);
        Self { search, keyword, scan, session_keyword, session_dense }
    }

    fn judge(&self, turn: Turn, linked: &HashMap<EventId, f64>) -> Recalled {
        let of = |scores: &HashMap<i64, f64>, key: i64| scores.get(&key).copied().unwrap_or(0.0);
        let keyword = of(self.keyword, turn.row);
        let after = turn.next.map_or(0.0, |next| of(self.keyword, next));
        let dense = self.scan.standing(turn.row);
        let before = turn.previous.map_or(0.0, |previous| self.scan.standing(previous));
        let (session_keyword, session_dense) =
            (of(&self.session_keyword, turn.episode), of(&self.session_dense, turn.episode));
        let is_favoured = self.search.favours
            && self.search.query.named.iter().any(|name| name.eq_ignore_ascii_case(&turn.sender_id));
        let speaker = f64::from(u8::from(is_favoured));
        let date = self.search.time.fit(turn.said_at);
        let from_fact = linked.get(&turn.event_id).copied().unwrap_or(0.0);
        #[expect(clippy::cast_precision_loss, reason = "at most a few hundred letters")]
        let length = turn.content.chars().take(TELLING_LENGTH).count() as f64 / TELLING_LENGTH as f64;
        let question = f64::from(u8::from(turn.content.trim_end().ends_with('?')));
        let penalty = QUESTION * question + LENGTH * (1.0 - length);
        let sum = KEYWORD * keyword
            + KEYWORD_AFTER * after
            + DENSE * dense
            + DENSE_BEFORE * before
            + SESSION_KEYWORD * session_keyword
            + SESSION_DENSE * session_dense
            + SPEAKER * speaker
            + DATE * date
            + LINKED * from_fact
            - penalty;
        let provenance = match turn.direction {
            Direction::Outbound => Provenance::Agent,
            Direction::Inbound if turn.sender_id == nexus_store::identity::OWNER_ID => Provenance::Owner,
            Direction::Inbound | Direction::Observed => Provenance::Untrusted,
        };
        Recalled {
            item: ItemId::Turn(turn.event_id),
            text: turn.content,
            as_of: turn.said_at,
            speaker: Some(speaker_name(&turn.sender_id)),
            score: (sum / self.highest()).clamp(0.0, 1.0),
            why: Explanation {
                keyword,
                dense,
                similarity: self.scan.similarity(turn.row).map_or(0.0, f64::from),
                neighbours: after.max(before),
                session: session_keyword.max(session_dense),
                speaker,
                date,
                linked: from_fact,
                penalty,
                coverage: 0.0,
            },
            provenance,
            source_event: None,
            entity_ids: Vec::new(),
        }
    }

    /// Returns what a turn would get that fits in every way the question allows.
    fn highest(&self) -> f64 {
        let mut highest = KEYWORD + KEYWORD_AFTER + DENSE + DENSE_BEFORE + SESSION_KEYWORD + SESSION_DENSE;
        if self.search.favours {
            highest += SPEAKER;
        }
        if !self.search.time.is_empty() {
            highest += DATE;
        }
        highest
    }
}

fn speaker_name(sender: &str) -> String {
    match sender {
        nexus_store::identity::OWNER_ID => "owner".to_owned(),
        OWN_SENDER => "assistant".to_owned(),
        other => other.to_owned(),
    }
}
