//! Writes manual pages, one per command, from the tree that the program itself describes.

mod page;

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use nexus_base::file::{Durability, replace};
use serde_json::Value;

use crate::command::{cargo, root};

/// Writes the pages to `docs/man/`; pages of commands that are gone go too.
pub(crate) fn write(binary: Option<&Path>) -> Result<()> {
    let binary = match binary {
        Some(path) => path.to_owned(),
        None => {
            cargo(&["build", "-p", "nexus"])?;
            root().join("target/debug/nexus")
        }
    };
    let tree = tree_of(&binary)?;
    let folder = root().join("docs/man");
    std::fs::create_dir_all(&folder).with_context(|| format!("making {}", folder.display()))?;
    for page in std::fs::read_dir(&folder)?
        .flatten()
        .filter(|entry| entry.path().extension().is_some_and(|kind| kind == "1"))
    {
        std::fs::remove_file(page.path())?;
    }
    let pages = page::pages(&tree, "nexus")?;
    for (name, text) in &pages {
        replace(&folder.join(name), text, 0o644, Durability::Crash)?;
    }
    println!("docs/man: {} pages", pages.len());
    Ok(())
}

fn tree_of(binary: &PathBuf) -> Result<Value> {
    let output = std::process::Command::new(binary)
        .arg("manual")
        .output()
        .with_context(|| format!("running {}", binary.display()))?;
    ensure!(output.status.success(), "nexus manual: {}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).context("reading the command tree")
}
