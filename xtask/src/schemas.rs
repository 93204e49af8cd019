//! Writes the JSON Schemas of the wire where they are committed.

use std::path::Path;

use anyhow::{Context, Result};
use nexus_base::file::{Durability, replace};

/// Writes every schema; a test of `nexus-protocol` fails when the files and the types differ.
pub(crate) fn write() -> Result<()> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../schemas");
    std::fs::create_dir_all(&folder).with_context(|| format!("making {}", folder.display()))?;
    for (name, schema) in nexus_protocol::schema::all() {
        let text = serde_json::to_string_pretty(&schema)? + "\n";
        replace(&folder.join(&name), text.as_bytes(), 0o644, Durability::Crash)?;
        println!("schemas/{name}");
    }
    Ok(())
}
