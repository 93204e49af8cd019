//! The numbers of the design, each beside its bar and the disk's own speed.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};
use clap::{Args, Subcommand};

use crate::command::{self, Profile};
use crate::disk;
use crate::measure::{Report, show};

mod bash;
mod memory;
mod model;
mod sessions;
mod start;
mod store;
mod stream;
mod turn;

/// What to measure.
#[derive(Debug, Subcommand)]
pub(crate) enum Bench {
    /// Binary, commands, start and idle memory.
    Start(Options),
    /// Plain turns and the one-shot command.
    Turn(Options),
    /// Two hundred conversations at once with a model that takes 200 ms.
    Sessions(Options),
    /// The provider's first token on its way to the client, and aborts on their way back.
    Stream(Options),
    /// What the sandbox adds to a command.
    Bash(Options),
    /// Recall, the embedder and what a fact takes, on one core.
    Memory,
    /// The six databases alone: opening, writing, reading and grouped commits.
    Store,
    /// Everything.
    All(Options),
}

/// How to measure it.
#[derive(Debug, Clone, Args)]
pub(crate) struct Options {
    /// Program to measure instead of a fresh release build.
    #[arg(long)]
    pub(crate) binary: Option<PathBuf>,
    /// Starts and commands to time.
    #[arg(long, default_value_t = 30)]
    pub(crate) rounds: usize,
    /// Plain turns to time.
    #[arg(long, default_value_t = 400)]
    pub(crate) turns: usize,
    /// Events in the workspace of the second start measurement.
    #[arg(long, default_value_t = 10_000)]
    pub(crate) rows: usize,
}

/// One part of a bench.
type Part = fn(&Path, &Options, &tokio::runtime::Runtime, &mut Report) -> Result<()>;

/// Runs a bench and prints its table.
pub(crate) fn run(bench: &Bench) -> Result<()> {
    let (options, parts): (_, &[Part]) = match bench {
        Bench::Start(options) => (options, &[start::measure]),
        Bench::Turn(options) => (options, &[turn::measure]),
        Bench::Sessions(options) => (options, &[sessions::measure]),
        Bench::Stream(options) => (options, &[stream::measure]),
        Bench::Bash(options) => (options, &[bash::measure]),
        Bench::Memory => return memory::run(),
        Bench::Store => return store::run(),
        Bench::All(options) => {
            (options, &[start::measure, turn::measure, bash::measure, stream::measure, sessions::measure])
        }
    };
    let binary = command::nexus(options.binary.as_deref(), Profile::Release)?;
    let sync = disk::sync_cost(&std::env::temp_dir(), 200)?;
    let mut report = Report::default();
    report.times("the disk: write 4 KiB, fdatasync", "–", &sync, None);
    // One thread drives the clients; the daemon keeps the other core.
    let tokio = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("starting the client's runtime")?;
    for measure in parts {
        measure(&binary, options, &tokio, &mut report)?;
    }
    println!("\n{} cores, fsync p50 {}\n", cores(), show(sync.p50()));
    println!("{}", report.render());
    Ok(())
}

fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Shortens the bars below.
const fn millis(count: u64) -> Option<Duration> {
    Some(Duration::from_millis(count))
}

/// Measures in this process if it was built for speed, else in one that is.
fn built_for_speed(name: &str, measure: impl FnOnce(&mut Report) -> Result<()>) -> Result<()> {
    if cfg!(debug_assertions) {
        return command::cargo(&["run", "--quiet", "--release", "--package", "xtask", "--", "bench", name]);
    }
    let mut report = Report::default();
    measure(&mut report)?;
    println!("{}", report.render());
    Ok(())
}
