//! The way of one message through the code, read off a daemon that traces itself.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use nexus_base::file::{Durability, replace};
use nexus_testkit::model::{ModelServer, Reply, Wire};
use nexus_testkit::{Daemon, DaemonOptions, Workspace};
use serde_json::{Value, json};

use crate::command::{self, Profile};

/// The most files, and the most changes of crate, that a message may cost its reader.
const MAX_FILES: usize = 45;
const MAX_CHANGES: usize = 15;
/// The crate that stages reach down to and come back from; a reader may leave it closed.
const STORE: &str = "nexus-store";
/// Crates that are at work on a message before it has a request.
const TAKE_IN: [&str; 5] =
    ["nexus_server", "nexus_operations", "nexus_runtime", "nexus_pipeline", "nexus_store"];
/// The line before the block in ARCHITECTURE.md.
const MARK: &str = "<!-- written by `cargo xtask walk --write`; a test compares the names -->\n";

/// How to walk.
///
/// A daemon is started with its log at `trace`, and sent one message that a scripted model answers with one call of
/// `read` and one reply. What is counted are the trace and debug events of that message, in the order in which they are
/// written: each stage, each durable step and each hand-over to another crate has one. Helpers that say nothing (ids,
/// clocks, the redactor, rows) are not counted. A change of crate is one between two files that are passed for the first
/// time one after the other.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Program to ask instead of a fresh debug build.
    #[arg(long)]
    binary: Option<PathBuf>,
    /// Write the list into ARCHITECTURE.md.
    #[arg(long)]
    write: bool,
}

/// One file, where it was first passed.
struct Passed {
    file: String,
    message: String,
}

impl Passed {
    fn package(&self) -> &str {
        self.file.split('/').nth(1).unwrap_or_default()
    }
}

pub(crate) fn run(options: &Options) -> Result<()> {
    let binary = command::nexus(options.binary.as_deref(), Profile::Debug)?;
    let passed = walk(binary)?;
    let mut shown = String::new();
    for one in &passed {
        writeln!(shown, "{:<58}{}", one.file, one.message)?;
    }
    let packages: BTreeSet<&str> = passed.iter().map(Passed::package).collect();
    let all = changes(passed.iter().map(Passed::package));
    let above = changes(passed.iter().map(Passed::package).filter(|package| *package != STORE));
    writeln!(
        shown,
        "\n{} files in {} crates; {above} changes of crate, {all} with those down to the store and back",
        passed.len(),
        packages.len(),
    )?;
    print!("{shown}");
    if options.write {
        let path = command::root().join("ARCHITECTURE.md");
        let text = std::fs::read_to_string(&path).context("reading ARCHITECTURE.md")?;
        let (before, rest) = text.split_once(MARK).context("ARCHITECTURE.md has no mark for the walk")?;
        let block = rest.strip_prefix("```\n").context("the mark has no block behind it")?;
        let (_, after) = block.split_once("```\n").context("the block has no end")?;
        let text = format!("{before}{MARK}```\n{shown}```\n{after}");
        replace(&path, text.as_bytes(), 0o644, Durability::Crash).context("writing ARCHITECTURE.md")?;
    }
    ensure!(passed.len() <= MAX_FILES, "more than {MAX_FILES} files");
    ensure!(above <= MAX_CHANGES, "more than {MAX_CHANGES} changes of crate");
    Ok(())
}

/// Has one conversation of one message and reads what the daemon traced of it.
fn walk(binary: PathBuf) -> Result<Vec<Passed>> {
    let server = ModelServer::start();
    server.script([Reply::calls("read", &json!({"path": "note.txt"})), Reply::text("It says hello.")]);
    let mut workspace = Workspace::initialized(binary);
    server.configure(&mut workspace, Wire::Anthropic);
    workspace.write("state/agents/ada/IDENTITY.md", "---\nname: Ada\n---\nAda helps.\n");
    workspace.write("state/agents/ada/SOUL.md", "Kind and exact.\n");
    workspace.write("state/user/IDENTITY.md", "---\nname: Tim\n---\nTim owns it.\n");
    workspace.write("home/note.txt", "hello\n");
    workspace.edit_config(|config| config["logging"]["level"] = json!("trace"));
    let daemon = Daemon::start(&workspace, &DaemonOptions::default());
    let before = workspace.file("state/logs/nex.log").len();
    let body = json!({"message": "what does my note say?", "session": "chat:walk"});
    let accepted = daemon.post("/api/chat", &body).json();
    let request = accepted["requestId"].as_str().context("the message was not accepted")?.to_owned();
    let waited = daemon.get(&format!("/api/chat/wait?request={request}&timeoutMs=60000")).json();
    ensure!(waited["quiescent"] == true, "no rest: {waited}");
    daemon.stop();
    let log = workspace.file("state/logs/nex.log");
    let lines = log[before..].lines().filter_map(|line| serde_json::from_str(line).ok());
    let mut is_stored = false;
    Ok(first_passes(lines.filter(|line| belongs(line, &request, &mut is_stored))))
}

/// Tells whether a line is this message's. It has its request from the moment it is stored; before that, whatever takes
/// messages in is at work on this one, because there is no other.
fn belongs(line: &Value, request: &str, is_stored: &mut bool) -> bool {
    if line["request"].is_string() || line["session"].is_string() {
        let is = |name: &str, wanted: &str| line[name].as_str().is_none_or(|found| found == wanted);
        return is("request", request) && is("session", "chat:walk");
    }
    let target = line["target"].as_str().unwrap_or_default();
    let takes_in = TAKE_IN.iter().any(|package| target.starts_with(package)) && !*is_stored;
    *is_stored |= takes_in && target.starts_with("nexus_store");
    takes_in
}

fn first_passes(lines: impl Iterator<Item = Value>) -> Vec<Passed> {
    let mut passed: Vec<Passed> = Vec::new();
    for line in lines {
        let Some(file) = line["at"].as_str().and_then(|at| at.rsplit_once(':')).map(|(file, _)| file) else {
            continue;
        };
        if file.starts_with("crates/") && passed.iter().all(|known| known.file != file) {
            let message = line["msg"].as_str().unwrap_or_default().to_owned();
            passed.push(Passed { file: file.to_owned(), message });
        }
    }
    passed
}

fn changes<'a>(packages: impl Iterator<Item = &'a str>) -> usize {
    let packages: Vec<&str> = packages.collect();
    packages.windows(2).filter(|pair| pair[0] != pair[1]).count()
}
