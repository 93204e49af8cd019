//! Many conversations at once with a model that takes its time.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use nexus_testkit::model::{ModelServer, Reply};
use tokio::runtime::Runtime;

use super::{Options, model};
use crate::conversation::message;
use crate::measure::{Report, Samples, Verdict, show};

/// Conversations at once.
const SESSIONS: usize = 200;
/// Messages in each of them, one after the other.
const ROUNDS: usize = 3;
/// What the model takes for an answer.
const MODEL_TAKES: Duration = Duration::from_millis(200);
/// Between two arrivals before the clock counts.
const ARRIVE_EVERY: Duration = Duration::from_millis(5);
/// Longest any message may take before the run is given up.
const PATIENCE: Duration = Duration::from_secs(60);
/// Bars of the design.
const P95: Duration = Duration::from_millis(600);
const MEGABYTES: u64 = 200;

/// Measures messages of many sessions at once, from sending to the reply being readable.
pub(crate) fn measure(binary: &Path, _options: &Options, tokio: &Runtime, report: &mut Report) -> Result<()> {
    println!("{SESSIONS} sessions at once …");
    let server = ModelServer::start();
    server.answer(|_| {
        std::thread::sleep(MODEL_TAKES);
        Some(Reply::text("An answer of a few words.").pieces(5))
    });
    let mut instance = model::instance(binary, &server)?;
    instance.start()?;
    let before = instance.processor_time()?;
    let (samples, highest) = tokio.block_on(async {
        let mut tasks = tokio::task::JoinSet::new();
        let together = Arc::new(tokio::sync::Barrier::new(SESSIONS));
        for number in 0..SESSIONS {
            // One client each, as people have: it keeps its connection.
            let (client, together) = (instance.client()?, Arc::clone(&together));
            tasks.spawn(async move {
                let session = format!("dm:bench-{number}");
                let mut times = Vec::with_capacity(ROUNDS);
                // Connections are made a few at a time, as people come; everything after that at once.
                tokio::time::sleep(ARRIVE_EVERY * u32::try_from(number).unwrap_or(0)).await;
                let first = client.send(message("hello", Some(&session))).await.context("sending hello")?;
                client.wait(&first.request_id, PATIENCE).await.context("waiting for the first reply")?;
                together.wait().await;
                for round in 0..ROUNDS {
                    let started = Instant::now();
                    let words = format!("message {round} of session {number}");
                    let accepted =
                        client.send(message(&words, Some(&session))).await.context("sending a message")?;
                    let waited =
                        client.wait(&accepted.request_id, PATIENCE).await.context("waiting for a reply")?;
                    ensure!(waited.quiescent, "no rest after {PATIENCE:?}");
                    let reply = waited.replies.last().context("no reply")?;
                    ensure!(reply.text == "An answer of a few words.", "not the answer: {}", reply.text);
                    times.push(started.elapsed());
                }
                anyhow::Ok(times)
            });
        }
        let mut samples = Samples::default();
        let mut highest = 0;
        while let Some(ended) = tasks.join_next().await {
            for time in ended.context("a session of the bench broke")?? {
                samples.push(time);
            }
            highest = highest.max(instance.resident_kilobytes()?);
        }
        anyhow::Ok((samples, highest))
    })?;
    let p95 = samples.percentile(95);
    report.row(
        &format!("{SESSIONS} sessions at once, model takes {}", show(MODEL_TAKES)),
        "p95 ≤ 600 ms, no error",
        format!(
            "p50 {}  p95 {}  p99 {}  (n={})",
            show(samples.p50()),
            show(p95),
            show(samples.p99()),
            samples.count()
        ),
        Verdict::of(p95 <= P95),
    );
    let messages = u32::try_from(SESSIONS * (ROUNDS + 1))?;
    let each = (instance.processor_time()? - before) / messages;
    report.row("  processor time a message takes", "–", show(each), Verdict::Note);
    report.row(
        "  highest memory meanwhile",
        "≤ 200 MB",
        format!("{:.1} MB", highest as f64 / 1024.0),
        Verdict::of(highest <= MEGABYTES * 1024),
    );
    instance.stop()?;
    Ok(())
}
