//! Loops that `cargo test` runs a few rounds of, at full length.

use std::path::PathBuf;

use anyhow::Result;
use clap::Subcommand;

mod crash;
mod failpoints;
mod gateway;
mod project;

/// What to repeat.
#[derive(Debug, Subcommand)]
pub(crate) enum Soak {
    /// Kills the daemon at random moments of a conversation with workers.
    Crash {
        /// Kills.
        #[arg(long, default_value_t = 200)]
        rounds: usize,
        /// Where the randomness starts; printed, so that a run can be repeated.
        #[arg(long)]
        seed: Option<u64>,
        /// Program to kill instead of a fresh release build.
        #[arg(long)]
        binary: Option<PathBuf>,
    },
    /// Loads the daemon with sockets through a reload, a rotation and a restore.
    Gateway {
        /// Sockets.
        #[arg(long, default_value_t = 200)]
        clients: usize,
        /// Messages of each.
        #[arg(long, default_value_t = 50)]
        messages: usize,
        /// Program to load instead of a fresh release build.
        #[arg(long)]
        binary: Option<PathBuf>,
    },
    /// Has eight processes work on one project at once, then kills some at random moments.
    Project {
        /// Kills.
        #[arg(long, default_value_t = 200)]
        rounds: usize,
        /// Calls of all eight together.
        #[arg(long, default_value_t = 4000)]
        calls: usize,
        /// Where the randomness starts; printed, so that a run can be repeated.
        #[arg(long)]
        seed: Option<u64>,
        /// Program to kill instead of a fresh release build.
        #[arg(long)]
        binary: Option<PathBuf>,
    },
    /// Kills the daemon at every pass of every failpoint of a conversation.
    Failpoints {
        /// Passes of one failpoint to die at, at most.
        #[arg(long, default_value_t = 50)]
        passes: usize,
        /// Debug build to kill instead of a fresh one.
        #[arg(long)]
        binary: Option<PathBuf>,
    },
}

/// Runs a soak; fails when anything was lost, doubled or stuck.
pub(crate) fn run(soak: Soak) -> Result<()> {
    match soak {
        Soak::Crash { rounds, seed, binary } => crash::run(rounds, seed, binary.as_deref()),
        Soak::Gateway { clients, messages, binary } => gateway::run(clients, messages, binary.as_deref()),
        Soak::Project { rounds, calls, seed, binary } => project::run(rounds, calls, seed, binary.as_deref()),
        Soak::Failpoints { passes, binary } => failpoints::run(passes, binary.as_deref()),
    }
}
