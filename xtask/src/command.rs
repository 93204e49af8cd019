//! Running cargo and finding what it built.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, ensure};

/// Returns the checkout's root.
pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap_or(Path::new("."))
}

/// Runs cargo in the checkout, showing what it does and how long it took.
pub(crate) fn cargo(arguments: &[&str]) -> Result<()> {
    run("cargo", arguments)
}

/// Runs a program in the checkout, showing what it does and how long it took.
pub(crate) fn run(program: &str, arguments: &[&str]) -> Result<()> {
    println!("\n==> {program} {}", arguments.join(" "));
    let started = Instant::now();
    let status = Command::new(program)
        .args(arguments)
        .current_dir(root())
        .status()
        .with_context(|| format!("starting {program}"))?;
    ensure!(status.success(), "{program} {} ended with {status}", arguments.join(" "));
    println!("    {:.1} s", started.elapsed().as_secs_f64());
    Ok(())
}

/// How the program under test is built.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Profile {
    /// As people run it.
    Release,
    /// With failpoints in it.
    Debug,
}

/// Returns the program under test: the one given, or a fresh build.
pub(crate) fn nexus(given: Option<&Path>, profile: Profile) -> Result<PathBuf> {
    if let Some(path) = given {
        return path.canonicalize().with_context(|| format!("looking for {}", path.display()));
    }
    let (arguments, folder): (&[&str], &str) = match profile {
        Profile::Release => (&["build", "--release", "-p", "nexus"], "release"),
        Profile::Debug => (&["build", "-p", "nexus"], "debug"),
    };
    cargo(arguments)?;
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from);
    Ok(target.join(folder).join("nexus"))
}
