//! Writes the configuration reference from the schema of `state/config.json`.

mod page;

use anyhow::{Context, Result};
use nexus_base::file::{Durability, replace};

use crate::command::root;

/// Writes `docs/configuration.md`; a test of the program fails when the page and the schema differ.
pub(crate) fn write() -> Result<()> {
    let schema = serde_json::from_str(&nexus_workspace::config::schema()).context("reading the schema")?;
    let path = root().join("docs/configuration.md");
    replace(&path, page::page(&schema).as_bytes(), 0o644, Durability::Crash)?;
    println!("docs/configuration.md");
    Ok(())
}
