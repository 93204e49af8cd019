//! The conversation in README.md, as the program really has it. A test of the binary compares it.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::Path;
use std::process::Stdio;

use anyhow::{Context, Result, ensure};
use nexus_base::file::{Durability, replace};

use crate::command::{self, Profile};
use crate::instance::Instance;

/// What is said in it.
const SAID: [&str; 5] = [
    "Hello",
    "I am Ada",
    "Call yourself Pixel, be brief and friendly",
    "remember that the spare key is under the fig tree",
    "what do you know about the spare key?",
];
/// The line before the block.
const MARK: &str = "<!-- written by `cargo xtask transcript`, compared by a test -->\n";

/// Has the conversation and writes it down.
pub(crate) fn write(binary: Option<&Path>) -> Result<()> {
    let binary = command::nexus(binary, Profile::Release)?;
    let instance = Instance::bare(&binary)?;
    let mut child = instance
        .nexus(["up", "--port", "0"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .context("starting nexus up")?;
    let input: String = SAID.iter().map(|line| format!("{line}\n")).collect();
    child.stdin.take().context("nexus up has an input")?.write_all(input.as_bytes()).context("talking")?;
    let output = child.wait_with_output().context("listening")?;
    ensure!(output.status.success(), "nexus up ended with {}", output.status);

    let mut block = format!("{MARK}```text\n$ printf '");
    for line in SAID {
        // Writing to a String cannot fail.
        let _ = write!(block, "{line}\\n");
    }
    block.push_str("' | nexus up --workspace demo\n");
    block.push_str(&String::from_utf8_lossy(&output.stdout));
    block.push_str("```\n");

    let path = command::root().join("README.md");
    let readme = std::fs::read_to_string(&path).context("reading README.md")?;
    let start = readme.find(MARK).context("README.md has no place for the transcript")?;
    let body = start + MARK.len();
    let fence = readme[body..].find("\n```\n").map_or(body, |length| body + length + 5);
    let written = format!("{}{block}{}", &readme[..start], &readme[fence..]);
    replace(&path, written.as_bytes(), 0o644, Durability::Crash).context("writing README.md")?;
    println!("README.md has {} lines of conversation", block.lines().count());
    Ok(())
}
