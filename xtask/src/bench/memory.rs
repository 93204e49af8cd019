//! Memory on one core: recall among ten and a hundred thousand facts, the embedder, what a fact takes.
//! Facts are made of words of the embedder's vocabulary, common ones often and rare ones seldom, so
//! that indexes are as full as real ones.

mod reader;

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use nexus_base::clock::Timestamp;
use nexus_embedder::{Asset, embed};
use nexus_memory::{Memory, RecallRequest, Scope};
use nexus_store::events::NewEvent;
use nexus_store::memory::NewFact;
use nexus_store::{OpenMode, Store};
use nexus_workspace::Layout;
use serde_json::json;

use crate::measure::{Report, Samples, Verdict, show};
use crate::random::Random;

use super::millis;

/// Facts stored in one go.
const BATCH: usize = 256;
/// Questions asked of each store.
const QUESTIONS: usize = 200;
/// Facts a second that have to be taken in.
const INGEST_BAR: u128 = 2_000;

pub(super) fn run() -> Result<()> {
    super::built_for_speed("memory", measure)
}

/// Measures everything on one core.
fn measure(report: &mut Report) -> Result<()> {
    let mut core = rustix::thread::CpuSet::new();
    core.set(0);
    rustix::thread::sched_setaffinity(None, &core).context("staying on one core")?;
    let tokio = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let words = words()?;
    embedder(&words, report)?;
    tokio.block_on(receive(&words, report))?;
    for (count, bar) in [(10_000, 5), (100_000, 20)] {
        tokio.block_on(recall(count, bar, &words, report))?;
    }
    Ok(())
}

fn embedder(words: &[String], report: &mut Report) -> Result<()> {
    let asset = Asset::shipped().context("opening the embedder")?;
    let mut random = Random::new(7);
    let mut samples = Samples::default();
    for _ in 0..2_000 {
        let text = sentence(words, &mut random, 8);
        let clock = Instant::now();
        std::hint::black_box(embed(&asset, &text));
        samples.push(clock.elapsed());
    }
    report.times("embedding a question of eight words", "≤ 1 ms", &samples, millis(1));
    Ok(())
}

/// What a message costs on its way in, its place in the index included, without the disk's sync.
async fn receive(words: &[String], report: &mut Report) -> Result<()> {
    let folder = tempfile::tempdir()?;
    Store::create(folder.path())?;
    let store = Store::open(folder.path(), OpenMode::ReadWrite)?;
    let mut random = Random::new(3);
    let mut samples = Samples::default();
    for number in 0..2_000 {
        let text = sentence(words, &mut random, 20);
        let mut event = NewEvent::message("bench", &number.to_string(), "owner", &text);
        event.container_id = Some("dm".to_owned());
        let clock = Instant::now();
        store.events().insert_outbound(event).await?;
        samples.push(clock.elapsed());
    }
    report.times("storing and indexing a message of twenty words", "–", &samples, None);
    store.close().await;
    Ok(())
}

async fn recall(count: usize, bar: u64, words: &[String], report: &mut Report) -> Result<()> {
    let folder = tempfile::tempdir()?;
    let layout = Layout::new(folder.path());
    std::fs::create_dir_all(layout.automation_workspaces())?;
    Store::create(&layout.data())?;
    let store = Store::open(&layout.data(), OpenMode::ReadWrite)?;
    let memory = Memory::new(&store);
    let mut random = Random::new(u64::try_from(count)?);
    let clock = Instant::now();
    let mut asked = Vec::new();
    for start in (0..count).step_by(BATCH) {
        let facts: Vec<NewFact> = (start..(start + BATCH).min(count))
            .map(|number| {
                let text = format!("{} {number}.", sentence(words, &mut random, 12));
                NewFact {
                    text,
                    context: None,
                    as_of: Timestamp::now(),
                    source_event_id: None,
                    metadata: json!({"provenance": "owner"}),
                    entity_ids: Vec::new(),
                    conversation: None,
                }
            })
            .collect();
        if let Some(fact) = facts.first() {
            asked.push(fact.text.split(' ').take(7).collect::<Vec<_>>().join(" "));
        }
        store.memory().add_facts(facts).await?;
        memory.catch_up(u64::MAX).await?;
    }
    store.flush().await?;
    let taken = clock.elapsed();
    let rate = u128::try_from(count)? * 1_000 / taken.as_millis().max(1);
    report.row(
        &format!("taking in {count} facts with vectors"),
        &format!("≥ {INGEST_BAR}/s"),
        format!("{rate}/s"),
        Verdict::of(rate >= INGEST_BAR),
    );
    let mut samples = Samples::default();
    for question in asked.iter().cycle().take(QUESTIONS) {
        let request = RecallRequest::new(question.clone()).limit(10).scope(Scope::FACTS);
        let clock = Instant::now();
        let answer = memory.recall(request).await?;
        samples.push(clock.elapsed());
        anyhow::ensure!(!answer.items.is_empty(), "{question}: nothing found");
    }
    report.times(&format!("recall among {count} facts"), &format!("≤ {bar} ms"), &samples, millis(bar));
    memory.rest(Duration::ZERO);
    let clock = Instant::now();
    memory.recall(RecallRequest::new("first question after a rest").scope(Scope::FACTS)).await?;
    report.row("the same, vectors not loaded yet", "–", show(clock.elapsed()), Verdict::of(true));
    store.close().await;
    let mut bytes = 0;
    for file in ["memory.db", "embeddings.db"] {
        bytes += std::fs::metadata(layout.data().join(file))?.len();
    }
    let each = bytes / u64::try_from(count)?;
    report.row(&format!("bytes a fact takes, {count} facts"), "–", each.to_string(), Verdict::of(true));
    if count >= reader::MANY {
        reader::measure(&layout, &asked, report).await?;
    }
    Ok(())
}

/// Returns whole words of the vocabulary, in the order it lists them: common ones first.
fn words() -> Result<Vec<String>> {
    let asset = Asset::shipped().context("opening the embedder")?;
    let entries = (1_997..u16::try_from(asset.len())?).filter_map(|number| asset.entry(number));
    let words = entries.filter_map(|entry| std::str::from_utf8(entry).ok());
    Ok(words
        .filter(|word| word.len() > 2 && word.bytes().all(|byte| byte.is_ascii_lowercase()))
        .map(str::to_owned)
        .collect())
}

/// Returns words as people choose them: the second word half as often as the first, and so on.
fn sentence(words: &[String], random: &mut Random, length: usize) -> String {
    let bits = u64::try_from(words.len()).unwrap_or(1).ilog2();
    let chosen = (0..length).map(|_| {
        let level = random.below(u64::from(bits));
        let place = (1 << level) + random.below(1 << level);
        words[usize::try_from(place).unwrap_or(0) % words.len()].as_str()
    });
    chosen.collect::<Vec<_>>().join(" ")
}
