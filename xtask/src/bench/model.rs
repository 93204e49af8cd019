//! A workspace whose daemon talks to the scripted model server of the testkit.

use std::path::Path;

use anyhow::{Context, Result};
use nexus_testkit::model::{MODEL, ModelServer, Wire};
use serde_json::{Value, json};

use crate::instance::Instance;

/// Makes an onboarded workspace that uses `server`; nothing runs yet.
pub(super) fn instance(binary: &Path, server: &ModelServer) -> Result<Instance> {
    let mut instance = Instance::new(binary)?;
    let wire = Wire::Anthropic;
    instance.set(wire.key_variable(), &wire.key());
    let path = instance.workspace().join("state/config.json");
    let text = std::fs::read_to_string(&path).context("reading the configuration")?;
    let mut config: Value = serde_json::from_str(&text).context("reading the configuration")?;
    config["agent"] = json!({"provider": wire.provider(), "model": MODEL});
    config["providers"][wire.provider()] = json!({"base_url": server.base_url()});
    config["budgets"] = json!({"tokens_per_day": 100_000_000_000_u64, "usd_per_day": 1_000_000});
    write(&path, &format!("{config:#}\n"))?;
    let files = [
        ("state/agents/echo/IDENTITY.md", "---\nname: Echo\nemoji: 🦊\n---\nA fox of few words.\n"),
        ("state/agents/echo/SOUL.md", "Calm, exact, kind.\n"),
        ("state/user/IDENTITY.md", "---\nname: Sam\n---\nSam owns this workspace.\n"),
    ];
    for (name, text) in files {
        let path = instance.workspace().join(name);
        std::fs::create_dir_all(path.parent().context("a file has a folder")?).context("making a folder")?;
        write(&path, text)?;
    }
    Ok(instance)
}

fn write(path: &Path, text: &str) -> Result<()> {
    nexus_base::file::replace(path, text.as_bytes(), 0o600, nexus_base::file::Durability::Crash)
        .with_context(|| format!("writing {}", path.display()))
}
