//! Real harnesses against a scripted model on loopback: does what we bind reach the model, do our
//! tools work there, does the gate hold, does context come back after compaction.
//!
//! Opt-in, because it installs the harnesses from the npm registry into `target/harnesses`.

mod case;
mod model;
mod wire;

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

use crate::command::{Profile, nexus, root};

/// What was tried last, and is installed.
const PACKAGES: [(&str, &str); 5] = [
    ("claude-code", "@anthropic-ai/claude-code@2.1.325"),
    ("codex", "@openai/codex@0.166.0"),
    ("opencode", "opencode-ai@1.18.33"),
    ("gemini", "@google/gemini-cli@0.61.0"),
    ("qwen", "@qwen-code/qwen-code@0.24.4"),
];

/// Arguments of `harness-e2e`.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Which: claude-code, codex, cursor, opencode, gemini, qwen [default: all].
    names: Vec<String>,
    /// Program to bind instead of a fresh debug build.
    #[arg(long)]
    binary: Option<PathBuf>,
    /// Folder with `node_modules` to use instead of installing.
    #[arg(long)]
    tools: Option<PathBuf>,
}

/// Runs the scenario of each harness and prints one line for each.
pub(crate) fn run(options: &Options) -> Result<()> {
    let binary = nexus(options.binary.as_deref(), Profile::Debug)?;
    let all = ["claude-code", "codex", "cursor", "opencode", "gemini", "qwen"];
    let wanted = |name: &&str| options.names.is_empty() || options.names.iter().any(|one| one == name);
    for name in &options.names {
        ensure!(all.contains(&name.as_str()), "there is no harness {name:?}; use one of {}", all.join(", "));
    }
    let tools = match &options.tools {
        Some(folder) => folder.canonicalize().with_context(|| format!("looking for {}", folder.display()))?,
        None => root().join("target/harnesses"),
    };
    let mut failed = Vec::new();
    for name in all.iter().filter(|name| wanted(name)) {
        let outcome = if *name == "cursor" {
            case::cursor(&binary)
        } else {
            install(&tools, name, options.tools.is_some()).and_then(|version| {
                println!("{name}: {version}");
                case::play(name, &binary, &tools)
            })
        };
        match outcome {
            Ok(seen) => println!("ok    {name}: {}", seen.join(", ")),
            Err(error) => {
                println!("FAIL  {name}: {error:#}");
                failed.push(*name);
            }
        }
    }
    if !failed.is_empty() {
        bail!("{} of the harnesses failed: {}", failed.len(), failed.join(", "));
    }
    Ok(())
}

/// Installs a harness unless it is there; returns its version.
fn install(tools: &Path, name: &str, given: bool) -> Result<String> {
    let (_, package) = PACKAGES.iter().find(|(known, _)| *known == name).context("no package is known")?;
    let program = tools.join("node_modules/.bin").join(case::program(name));
    if !program.exists() {
        ensure!(!given, "{} is not there", program.display());
        std::fs::create_dir_all(tools).context("making a folder for the harnesses")?;
        let status = Command::new("npm")
            .args(["install", "--no-audit", "--no-fund", "--prefix"])
            .arg(tools)
            .arg(package)
            .status()
            .context("starting npm")?;
        ensure!(status.success(), "npm install {package} ended with {status}");
    }
    Ok(package.rsplit('@').next().unwrap_or(package).to_owned())
}
