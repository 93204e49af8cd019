//! Our own share of a turn: the guide answers without delay, so what is left is ours.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use tokio::runtime::Runtime;

use super::{Options, millis};
use crate::conversation::{PLAIN, onboard, plain_turn};
use crate::instance::Instance;
use crate::measure::{Report, Samples, Verdict, show};

/// Turns before the clock counts.
const WARM_UP: usize = 20;
/// Turns of a conversation that has only begun.
const EARLY: usize = 50;
/// Turns whose syncs are counted.
const TRACED: usize = 50;

/// Measures plain turns and the one-shot command.
pub(crate) fn measure(binary: &Path, options: &Options, tokio: &Runtime, report: &mut Report) -> Result<()> {
    println!("plain turns …");
    let mut instance = Instance::new(binary)?;
    instance.start()?;
    let client = instance.client()?;
    let (acknowledged, answered, early, stages, processor) = tokio.block_on(async {
        onboard(&client).await?;
        let mut events = client.events(None, None).await.context("opening the event stream")?;
        let mut acknowledged = Samples::default();
        let mut answered = Samples::default();
        let mut requests = Vec::new();
        let mut early = Samples::default();
        let mut before = Duration::ZERO;
        for round in 0..WARM_UP + options.turns {
            if round == WARM_UP {
                before = instance.processor_time()?;
            }
            let times = plain_turn(&client, &mut events).await?;
            if round >= WARM_UP {
                acknowledged.push(times.acknowledged);
                answered.push(times.answered);
                if round < WARM_UP + EARLY {
                    early.push(times.answered);
                }
                requests.push(times.request);
            }
        }
        let turns = u32::try_from(options.turns.max(1))?;
        let processor = (instance.processor_time()? - before) / turns;
        let mut stages: BTreeMap<(usize, String), Samples> = BTreeMap::new();
        for request in requests.iter().rev().take(100) {
            let view = client.request(request).await.context("reading a trace")?;
            for (order, stage) in view.stages.into_iter().enumerate() {
                let samples = stages.entry((order + 1, stage.stage)).or_default();
                samples.push(Duration::from_micros(stage.duration_us));
            }
        }
        anyhow::Ok((acknowledged, answered, early, stages, processor))
    })?;
    report.times("message → acknowledged", "–", &acknowledged, None);
    report.times("message → reply readable", "≤ 15 ms, p99 ≤ 40 ms", &answered, millis(15));
    report.times("  the first of them, short history", "–", &early, None);
    if answered.p99() > Duration::from_millis(40) {
        report.row("  its p99", "≤ 40 ms", show(answered.p99()), Verdict::Missed);
    }
    report.row("  processor time a turn takes", "–", show(processor), Verdict::Note);
    for ((order, stage), samples) in &stages {
        report.times(&format!("  stage {order}: {stage}"), "–", samples, None);
    }

    println!("one-shot chats …");
    let mut one_shot = Samples::default();
    for _ in 0..options.rounds {
        let mut command = instance.nexus(["chat", "-m", PLAIN]);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        let started = Instant::now();
        let status = command.status().context("starting nexus chat")?;
        one_shot.push(started.elapsed());
        ensure!(status.success(), "nexus chat ended with {status}");
    }
    report.times("nexus chat -m, daemon runs", "≤ 45 ms", &one_shot, millis(45));
    instance.stop()?;
    count_syncs(binary, tokio, report)
}

/// Counts the syncs of a plain turn, all threads included, where strace is there to see them.
fn count_syncs(binary: &Path, tokio: &Runtime, report: &mut Report) -> Result<()> {
    let available =
        Command::new("strace").arg("--version").output().is_ok_and(|output| output.status.success());
    if !available {
        report.row("syncs per plain turn", "≤ 2 awaited", "no strace here".to_owned(), Verdict::Note);
        return Ok(());
    }
    println!("counting syncs …");
    let mut instance = Instance::new(binary)?;
    let trace = instance.log().with_extension("strace");
    let trace_text = trace.to_string_lossy().into_owned();
    instance.start_through(Some(&[
        "strace",
        "-D",
        "-f",
        "-qq",
        "-e",
        "trace=fsync,fdatasync",
        "-o",
        &trace_text,
    ]))?;
    let client = instance.client()?;
    let count = || -> Result<usize> {
        Ok(std::fs::read_to_string(&trace)
            .context("reading strace's output")?
            .lines()
            .filter(is_sync)
            .count())
    };
    tokio.block_on(onboard(&client))?;
    let mut events = tokio.block_on(client.events(None, None)).context("opening the event stream")?;
    let before = count()?;
    for _ in 0..TRACED {
        tokio.block_on(plain_turn(&client, &mut events))?;
    }
    let each = (count()? - before) as f64 / TRACED as f64;
    instance.stop()?;
    report.row(
        "syncs per plain turn (strace)",
        "≤ 2 awaited",
        format!("{each:.2}, checkpoints included"),
        // A checkpoint syncs now and then beside the turns and nobody waits for it; a third sync in
        // every turn would show as a whole one more.
        Verdict::of(each < 2.5),
    );
    Ok(())
}

fn is_sync(line: &&str) -> bool {
    (line.contains("fsync(") || line.contains("fdatasync(")) && !line.contains("resumed")
}
