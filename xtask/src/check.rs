//! Everything a change has to pass, CI's steps first.

use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::command::{cargo, root, run};

/// Runs every check; stops at the first that does not pass.
pub(crate) fn run_all() -> Result<()> {
    let before = changes()?;
    cargo(&["fmt", "--all", "--check"])?;
    cargo(&["clippy", "--workspace", "--all-targets", "--locked", "--", "-D", "warnings"])?;
    cargo(&["test", "--workspace", "--locked"])?;
    cargo(&["doc", "--workspace", "--no-deps", "--document-private-items", "--locked"])?;
    if has_cargo_deny() {
        run("cargo", &["deny", "check"])?;
    } else {
        println!("\n==> cargo deny check\n    skipped: cargo-deny is not installed");
    }
    // Generators run inside the tests; whatever they rewrote was not committed as they write it.
    let after = changes()?;
    ensure!(before == after, "the checks changed files:\n{after}");
    println!("\nall checks passed");
    Ok(())
}

fn has_cargo_deny() -> bool {
    Command::new("cargo").args(["deny", "--version"]).output().is_ok_and(|output| output.status.success())
}

fn changes() -> Result<String> {
    let output = Command::new("git")
        .args(["status", "--porcelain"])
        .current_dir(root())
        .output()
        .context("asking git for changed files")?;
    ensure!(output.status.success(), "git status: {}", String::from_utf8_lossy(&output.stderr));
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
