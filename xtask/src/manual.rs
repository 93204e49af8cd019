//! Writes manual pages, one per command, from the tree that the program itself describes.

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
    let mut written = 0;
    pages(&tree, "nexus", &folder, &mut written)?;
    println!("docs/man: {written} pages");
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

fn pages(tree: &Value, name: &str, folder: &Path, written: &mut usize) -> Result<()> {
    let mut page = Vec::new();
    clap_mangen::Man::new(command(tree, name)).source("nexus").manual("Nexus").date("").render(&mut page)?;
    let file = folder.join(format!("{}.1", name.replace(' ', "-")));
    replace(&file, &page, 0o644, Durability::Crash)?;
    *written += 1;
    for below in list(tree, "commands") {
        pages(below, &format!("{name} {}", text(below, "name")), folder, written)?;
    }
    Ok(())
}

/// Rebuilds as much of a command as its page shows.
fn command(tree: &Value, name: &str) -> clap::Command {
    let mut built = clap::Command::new(kept(&name.replace(' ', "-")))
        .bin_name(name.to_owned())
        .about(text(tree, "about"))
        .disable_help_subcommand(true);
    if let Some(after) = tree["afterHelp"].as_str() {
        built = built.after_help(kept(after));
    }
    for (position, argument) in list(tree, "arguments").iter().enumerate() {
        built = built.arg(rebuilt(argument, position + 1));
    }
    for below in list(tree, "commands") {
        built = built.subcommand(clap::Command::new(text(below, "name")).about(text(below, "about")));
    }
    built
}

fn rebuilt(argument: &Value, position: usize) -> clap::Arg {
    let mut built = clap::Arg::new(text(argument, "id")).help(text(argument, "help"));
    let words = |key: &str| -> Vec<&'static str> {
        list(argument, key).iter().filter_map(Value::as_str).map(kept).collect()
    };
    let (values, choices) = (words("values"), words("choices"));
    let short = argument["short"].as_str().and_then(|text| text.chars().next());
    let long = argument["long"].as_str().map(kept);
    let is_option = short.is_some() || long.is_some();
    built = built.required(argument["required"].as_bool().unwrap_or_default());
    if let Some(short) = short {
        built = built.short(short);
    }
    if let Some(long) = long {
        built = built.long(long);
    }
    if !is_option {
        built = built.index(position);
    }
    if values.is_empty() {
        return built.action(clap::ArgAction::SetTrue);
    }
    built = built.action(clap::ArgAction::Set).value_names(values);
    if choices.is_empty() { built } else { built.value_parser(choices) }
}

fn list<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    value[key].as_array().map(Vec::as_slice).unwrap_or_default()
}

fn text(value: &Value, key: &str) -> &'static str {
    kept(value[key].as_str().unwrap_or_default())
}

/// Gives a text that lives as long as the program; clap wants that, and this program ends at once.
fn kept(text: &str) -> &'static str {
    Box::leak(text.to_owned().into_boxed_str())
}
