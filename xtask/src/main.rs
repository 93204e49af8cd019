//! `cargo xtask`: checks, benches and soaks. A tool for people who change Nexus; it never ships.
#![expect(clippy::print_stdout, reason = "a command-line tool reports on standard output")]
#![expect(clippy::disallowed_methods, reason = "runs cargo and the program under test")]

use anyhow::Result;
use clap::{Parser, Subcommand};

mod bench;
mod check;
mod command;
mod configuration;
mod conversation;
mod disk;
mod distill;
mod harness;
mod instance;
mod manual;
mod measure;
mod old_workspace;
mod random;
mod schemas;
mod soak;
mod transcript;
mod walk;

/// Checks, benches and soaks of Nexus.
#[derive(Debug, Parser)]
#[command(name = "xtask", version, about)]
struct Arguments {
    #[command(subcommand)]
    task: Task,
}

#[derive(Debug, Subcommand)]
enum Task {
    /// Format check, clippy, tests, documentation, licences, generated files.
    Check,
    /// Writes the JSON Schemas of the wire to `schemas/`.
    Schemas,
    /// Writes the configuration reference to `docs/configuration.md`.
    Configuration,
    /// Writes the manual pages to `docs/man/`.
    Manual {
        /// Program to ask instead of a fresh debug build.
        #[arg(long)]
        binary: Option<std::path::PathBuf>,
    },
    /// Makes the embedder's asset from all-MiniLM-L6-v2.
    DistillEmbedder(distill::Options),
    /// Count how often the embedder's vocabulary is met in a list of words.
    CountTokens(distill::frequency::Options),
    /// Measures and prints the numbers beside their bars.
    #[command(subcommand)]
    Bench(bench::Bench),
    /// Writes a real conversation into README.md.
    Transcript {
        /// Program to talk to instead of a fresh release build.
        #[arg(long)]
        binary: Option<std::path::PathBuf>,
    },
    /// Tries the bindings in the real harnesses against a scripted model; installs them from npm.
    HarnessE2e(harness::Options),
    /// Makes a workspace with an older build and kills it with everything under way, to be kept as a fixture.
    OldWorkspace(old_workspace::Options),
    /// Prints the way of one message through the code: which files it passes, and how often the crate changes.
    Walk(walk::Options),
    /// Runs a loop for as long as it takes to trust it.
    #[command(subcommand)]
    Soak(soak::Soak),
}

fn main() -> Result<()> {
    match Arguments::parse().task {
        Task::Check => check::run_all(),
        Task::Schemas => schemas::write(),
        Task::Configuration => configuration::write(),
        Task::Manual { binary } => manual::write(binary.as_deref()),
        Task::DistillEmbedder(options) => distill::run(&options),
        Task::CountTokens(options) => distill::frequency::run(&options),
        Task::Bench(bench) => bench::run(&bench),
        Task::Transcript { binary } => transcript::write(binary.as_deref()),
        Task::HarnessE2e(options) => harness::run(&options),
        Task::OldWorkspace(options) => old_workspace::write(&options),
        Task::Walk(options) => walk::run(&options),
        Task::Soak(soak) => soak::run(soak),
    }
}
