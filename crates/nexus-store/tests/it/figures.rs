//! What opening, writing and reading cost here. Run by hand:
//! `cargo test -p nexus-store --test it figures -- --ignored --nocapture`.

use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};

use nexus_base::clock::Timestamp;
use nexus_base::id::{EventId, RequestId};
use nexus_store::events::NewEvent;
use nexus_store::runtime::NewRequest;
use nexus_store::{OpenMode, Store};

use crate::support::Made;

fn shown(name: &str, mut times: Vec<Duration>) -> String {
    times.sort();
    let at = |share: usize| times[(times.len() - 1) * share / 100];
    format!("{name:<44} p50 {:>9.1?}  p99 {:>9.1?}  n {}\n", at(50), at(99), times.len())
}

fn timed<T>(action: impl FnOnce() -> T) -> (Duration, T) {
    let start = Instant::now();
    let value = action();
    (start.elapsed(), value)
}

fn open_and_close(folder: &Path, mode: OpenMode) -> (Vec<Duration>, Vec<Duration>) {
    (0..50)
        .map(|_| {
            let (opening, store) = timed(|| Store::open(folder, mode).unwrap());
            let (closing, ()) = timed(|| store.close_blocking());
            (opening, closing)
        })
        .unzip()
}

fn resident_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap_or("0");
    line.trim().trim_end_matches(" kB").parse().unwrap_or(0)
}

fn raw_syncs(folder: &Path) -> Vec<Duration> {
    let mut file = std::fs::File::create(folder.join("raw")).unwrap();
    (0..200)
        .map(|_| {
            file.write_all(&[7; 4096]).unwrap();
            timed(|| file.sync_data().unwrap()).0
        })
        .collect()
}

async fn fill(store: &Store, rows: usize) {
    for number in 0..rows {
        let event =
            NewEvent::message("cli", &number.to_string(), "me", "some words that a person would write");
        store.events().insert_outbound_later(event);
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
        if number % 1000 == 0 {
            store.flush().await.unwrap();
        }
    }
    store.flush().await.unwrap();
}

#[test]
#[ignore = "prints figures, checks nothing"]
fn figures() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let making = tempfile::tempdir().unwrap();
    let (made_in, _) = timed(|| Store::create(&making.path().join("data")).unwrap());
    let mut report = format!("making six databases {made_in:.1?}\n");
    let made = Made::new();
    report += &shown("raw write of 4 KiB + fdatasync", raw_syncs(made.path()));
    let before = resident_kib();
    let store = made.open();
    report +=
        &format!("resident memory of an open, idle store: {} KiB\n", resident_kib().saturating_sub(before));
    store.close_blocking();
    let (opening, closing) = open_and_close(made.path(), OpenMode::ReadWrite);
    report += &shown("open, fresh", opening);
    report += &shown("close, nothing written", closing);
    report += &shown("open for reading only", open_and_close(made.path(), OpenMode::ReadOnly).0);
    let checks = (0..50).map(|_| timed(|| Store::create(made.path()).unwrap()).0).collect();
    report += &shown("making again (check only)", checks);

    let store = made.open();
    runtime.block_on(fill(&store, 10_000));
    runtime.block_on(store.close());
    let (opening, _) = open_and_close(made.path(), OpenMode::ReadWrite);
    report += &shown("open, 10k events and 10k requests", opening);

    let store = made.open();
    let (mut normal, mut full, mut reads) = (Vec::new(), Vec::new(), Vec::new());
    runtime.block_on(async {
        for number in 0..500 {
            let start = Instant::now();
            store.runtime().kv_set(&format!("key {}", number % 50), "value").await.unwrap();
            normal.push(start.elapsed());
            let start = Instant::now();
            store.runtime().kv_get("key 7").await.unwrap();
            reads.push(start.elapsed());
        }
        for number in 0..300 {
            let event =
                NewEvent::message("bench", &number.to_string(), "me", "some words that a person would write");
            let start = Instant::now();
            store.events().receive(event, RequestId::generate(), "hash".to_owned()).await.unwrap();
            full.push(start.elapsed());
        }
    });
    report += &shown("write, Normal (kv_set)", normal);
    report += &shown("point read (kv_get)", reads);
    report += &shown("write, Full (receive: event, inbox, index)", full);
    for waiters in [10, 200] {
        report += &runtime.block_on(group(&store, waiters));
    }
    runtime.block_on(store.close());
    println!("{report}");
}

async fn group(store: &Store, waiters: usize) -> String {
    let before = store.health()[0].figures;
    let start = Instant::now();
    let rounds = 2000 / waiters;
    let tasks: Vec<_> = (0..waiters)
        .map(|waiter| {
            let store = store.clone();
            tokio::spawn(async move {
                for round in 0..rounds {
                    let id = format!("{waiters}-{waiter}-{round}");
                    let event = NewEvent::message("group", &id, "me", "some words that a person would write");
                    store.events().receive(event, RequestId::generate(), "hash".to_owned()).await.unwrap();
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    let took = start.elapsed();
    let after = store.health()[0].figures;
    let per_second = (waiters * rounds) as f64 / took.as_secs_f64();
    format!(
        "{waiters} senders, Full: {per_second:.0} receives a second, {} commits for {} jobs\n",
        after.synced_commits - before.synced_commits,
        after.jobs - before.jobs
    )
}
