//! From nothing to a daemon that serves: binary size, short commands, start, idle memory.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use tokio::runtime::Runtime;

use super::{Options, millis};
use crate::conversation;
use crate::instance::Instance;
use crate::measure::{Report, Samples, Verdict, show};

/// How long a daemon is left alone before its memory is read.
const SETTLE: Duration = Duration::from_secs(2);

/// Measures everything around the start.
pub(crate) fn measure(binary: &Path, options: &Options, tokio: &Runtime, report: &mut Report) -> Result<()> {
    let bytes = std::fs::metadata(binary).with_context(|| format!("reading {}", binary.display()))?.len();
    let megabytes = bytes as f64 / 1e6;
    report.row("release binary", "≤ 40 MB", format!("{megabytes:.1} MB"), Verdict::of(megabytes <= 40.0));

    println!("short commands …");
    let mut instance = Instance::new(binary)?;
    let version = command(&instance, options.rounds, &["--version"])?;
    report.times("nexus --version", "≤ 8 ms", &version, millis(8));
    let status = command(&instance, options.rounds, &["status", "--json"])?;
    report.times("nexus status --json, no daemon", "≤ 20 ms", &status, millis(20));
    instance.start()?;
    let status = command(&instance, options.rounds, &["status", "--json"])?;
    report.times("nexus status --json, daemon runs", "≤ 20 ms", &status, millis(20));
    instance.stop()?;

    println!("starts of a fresh workspace …");
    let mut first = Samples::default();
    for _ in 0..options.rounds {
        first.push(Instance::new(binary)?.start()?);
    }
    report.times("start → 200, first after init", "≤ 80 ms, aim 38", &first, millis(80));

    let mut steps = BTreeMap::new();
    let mut fresh = Samples::default();
    for _ in 0..options.rounds {
        fresh.push(instance.start()?);
        collect_steps(&instance, tokio, &mut steps)?;
        instance.stop()?;
    }
    report.times("start → 200, fresh workspace", "≤ 80 ms, aim 38", &fresh, millis(80));
    instance.start()?;
    std::thread::sleep(SETTLE);
    resident(&instance, report, "idle memory, empty store", "≤ 40 MB, aim 25", Some(40.0))?;
    instance.stop()?;

    println!("filling a workspace with {} events …", options.rows);
    let mut full = Instance::new(binary)?;
    full.start()?;
    let client = full.client()?;
    tokio.block_on(conversation::onboard(&client))?;
    // Each turn leaves an inbound and an outbound event. A leak would show between the second row
    // and the third; the first has caches and threads still to come.
    let turns = options.rows / 2;
    let mut done = 0;
    for share in [turns / 50, turns / 5, turns] {
        tokio.block_on(conversation::fill(&client, share - done))?;
        done = share;
        std::thread::sleep(SETTLE);
        resident(&full, report, &format!("memory after {done} turns in 16 sessions"), "flat", None)?;
    }
    full.stop()?;

    println!("starts of the full workspace …");
    let mut loaded = Samples::default();
    let mut loaded_steps = BTreeMap::new();
    for _ in 0..options.rounds {
        loaded.push(full.start()?);
        collect_steps(&full, tokio, &mut loaded_steps)?;
        full.stop()?;
    }
    let what = format!("start → 200, {} events", options.rows);
    report.times(&what, "≤ 80 ms, aim 38", &loaded, millis(80));
    // After a kill the write-ahead logs are replayed and every recovery query runs.
    let mut killed = Samples::default();
    for _ in 0..options.rounds {
        full.start()?;
        full.kill()?;
        killed.push(full.start()?);
        full.stop()?;
    }
    report.times("start → 200, same, after kill -9", "≤ 80 ms, aim 38", &killed, millis(80));

    for ((order, step), samples) in &steps {
        let loaded = loaded_steps.get(&(*order, step.clone())).map(Samples::p50).unwrap_or_default();
        let measured = format!("p50 {}  with rows {}", show(samples.p50()), show(loaded));
        report.row(&format!("  boot step {order}: {step}"), "–", measured, Verdict::Note);
    }
    Ok(())
}

fn command(instance: &Instance, rounds: usize, arguments: &[&str]) -> Result<Samples> {
    let mut samples = Samples::default();
    for _ in 0..rounds {
        let mut command = instance.nexus(arguments);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        let started = Instant::now();
        let status = command.status().context("starting nexus")?;
        samples.push(started.elapsed());
        ensure!(status.success(), "nexus {} ended with {status}", arguments.join(" "));
    }
    Ok(samples)
}

type Steps = BTreeMap<(usize, String), Samples>;

fn collect_steps(instance: &Instance, tokio: &Runtime, steps: &mut Steps) -> Result<()> {
    let client = instance.client()?;
    let health = tokio.block_on(client.health()).context("asking for the health report")?;
    for (order, step) in health.boot.into_iter().enumerate() {
        steps.entry((order + 1, step.step)).or_default().push(Duration::from_micros(step.duration_us));
    }
    Ok(())
}

fn resident(
    instance: &Instance,
    report: &mut Report,
    what: &str,
    bar: &str,
    limit: Option<f64>,
) -> Result<()> {
    let megabytes = instance.resident_kilobytes()? as f64 / 1e3;
    let verdict = limit.map_or(Verdict::Note, |limit| Verdict::of(megabytes <= limit));
    report.row(what, bar, format!("{megabytes:.1} MB"), verdict);
    Ok(())
}
