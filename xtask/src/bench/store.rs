//! The six databases alone: creating, opening, writing and reading them, and how commits are grouped.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use nexus_base::clock::Timestamp;
use nexus_base::id::{EventId, RequestId};
use nexus_store::events::NewEvent;
use nexus_store::runtime::NewRequest;
use nexus_store::{OpenMode, Store};

use crate::disk;
use crate::measure::{Report, Samples, Verdict, show};

/// How often a store is opened and closed.
const OPENINGS: usize = 50;
/// Rows stored before the second measurement of opening.
const ROWS: usize = 10_000;
/// What a message says.
const TEXT: &str = "some words that a person would write";

pub(super) fn run() -> Result<()> {
    super::built_for_speed("store", measure)
}

fn measure(report: &mut Report) -> Result<()> {
    let tokio = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let folder = tempfile::tempdir().context("making a folder")?;
    report.times("the disk: write 4 KiB, fdatasync", "–", &disk::sync_cost(folder.path(), 200)?, None);
    let data = folder.path().join("data");
    let (created, made) = timed(|| Store::create(&data));
    made?;
    report.row("create six databases", "–", show(created), Verdict::Note);
    opening(&data, "fresh", report)?;

    let store = Store::open(&data, OpenMode::ReadWrite)?;
    tokio.block_on(fill(&store))?;
    tokio.block_on(store.close());
    opening(&data, "10k events and requests", report)?;

    let store = Store::open(&data, OpenMode::ReadWrite)?;
    tokio.block_on(one_by_one(&store, report))?;
    for senders in [10, 200] {
        tokio.block_on(grouped(&store, senders, report))?;
    }
    tokio.block_on(store.close());
    Ok(())
}

fn timed<T>(action: impl FnOnce() -> T) -> (Duration, T) {
    let started = Instant::now();
    let value = action();
    (started.elapsed(), value)
}

fn opening(data: &Path, state: &str, report: &mut Report) -> Result<()> {
    for (mode, name) in [(OpenMode::ReadWrite, "open"), (OpenMode::ReadOnly, "open for reading")] {
        let mut opened = Samples::default();
        for _ in 0..OPENINGS {
            let (took, store) = timed(|| Store::open(data, mode));
            store?.close_blocking();
            opened.push(took);
        }
        report.times(&format!("{name}, {state}"), "–", &opened, None);
    }
    Ok(())
}

async fn fill(store: &Store) -> Result<()> {
    for number in 0..ROWS {
        store.events().insert_outbound(NewEvent::message("cli", &number.to_string(), "me", TEXT)).await?;
        store.runtime().request_started_later(NewRequest {
            id: RequestId::generate(),
            parent_request_id: None,
            root_request_id: RequestId::generate(),
            event_id: EventId::new(number.to_string()),
            event_type: "message".to_owned(),
            event_source: "cli".to_owned(),
            stage: "finalize".to_owned(),
            session_key: None,
            started_at: Timestamp::now(),
        });
        if number % 1_000 == 0 {
            store.flush().await?;
        }
    }
    Ok(store.flush().await?)
}

async fn one_by_one(store: &Store, report: &mut Report) -> Result<()> {
    let (mut written, mut read, mut synced) = (Samples::default(), Samples::default(), Samples::default());
    for number in 0..500 {
        let started = Instant::now();
        store.runtime().kv_set(&format!("key {}", number % 50), "value").await?;
        written.push(started.elapsed());
        let started = Instant::now();
        store.runtime().kv_get("key 7").await?;
        read.push(started.elapsed());
    }
    for number in 0..300 {
        let event = NewEvent::message("bench", &number.to_string(), "me", TEXT);
        let started = Instant::now();
        store.events().receive(event, RequestId::generate(), "hash".to_owned()).await?;
        synced.push(started.elapsed());
    }
    report.times("write one row", "–", &written, None);
    report.times("read one row", "–", &read, None);
    report.times("receive a message, synced", "–", &synced, None);
    Ok(())
}

async fn grouped(store: &Store, senders: usize, report: &mut Report) -> Result<()> {
    let commits = |store: &Store| store.health().first().map(|health| health.figures).unwrap_or_default();
    let (before, started) = (commits(store), Instant::now());
    let rounds = 2_000 / senders;
    let mut tasks = tokio::task::JoinSet::new();
    for sender in 0..senders {
        let store = store.clone();
        tasks.spawn(async move {
            for round in 0..rounds {
                let event = NewEvent::message("group", &format!("{senders}-{sender}-{round}"), "me", TEXT);
                store.events().receive(event, RequestId::generate(), "hash".to_owned()).await?;
            }
            anyhow::Ok(())
        });
    }
    while let Some(ended) = tasks.join_next().await {
        ended??;
    }
    let (took, after) = (started.elapsed(), commits(store));
    let measured = format!(
        "{} a second, {} commits for {} jobs",
        (senders * rounds) as u128 * 1_000_000 / took.as_micros().max(1),
        after.synced_commits - before.synced_commits,
        after.jobs - before.jobs
    );
    report.row(&format!("receive with {senders} senders"), "–", measured, Verdict::Note);
    Ok(())
}
