//! What each harness has to find in a folder: which files, and what in them.

mod agents;
mod harnesses;

use std::path::PathBuf;

use serde_json::{Value, json};

use crate::edit::{JsonEdit, Marker};
use crate::ground::Ground;
use crate::{BindingError, Harness};

/// One file and what it has to hold.
#[derive(Debug)]
pub(crate) struct Wanted {
    /// Relative to the folder that is bound.
    pub(crate) file: PathBuf,
    pub(crate) content: Content,
}

/// What a file has to hold.
#[derive(Debug)]
pub(crate) enum Content {
    /// Entries in a JSON file.
    Json(Vec<JsonEdit>),
    /// A table in a TOML file.
    Table { path: &'static [&'static str], body: String },
    /// A block in a prose file.
    Block(String),
    /// The whole file.
    Whole { text: String, marker: Marker },
}

impl Wanted {
    fn json(file: &str, edits: Vec<JsonEdit>) -> Self {
        Self { file: file.into(), content: Content::Json(edits) }
    }

    fn block(file: &str, text: String) -> Self {
        Self { file: file.into(), content: Content::Block(text) }
    }

    fn whole(file: impl Into<PathBuf>, text: String, marker: Marker) -> Self {
        Self { file: file.into(), content: Content::Whole { text, marker } }
    }
}

/// Returns everything a harness has to find.
pub(crate) fn wanted(harness: Harness, ground: &Ground) -> Result<Vec<Wanted>, BindingError> {
    let mut all = vec![Wanted::block("AGENTS.md", ground.agents_block())];
    all.extend(match harness {
        Harness::ClaudeCode => harnesses::claude_code(ground),
        Harness::Codex => harnesses::codex(ground),
        Harness::Cursor => harnesses::cursor(ground),
        Harness::OpenCode => harnesses::opencode(ground),
        Harness::Gemini => harnesses::gemini(ground),
        Harness::Qwen => harnesses::qwen(ground),
    });
    all.extend(agents::skills(harness, ground)?);
    Ok(all)
}

/// A hook group in the form that Claude Code, Codex, Gemini and Qwen share.
fn group(matcher: Option<&str>, event: &str, harness: Harness, timeout: Option<u32>) -> Value {
    let mut hook = json!({"type": "command", "command": command(event, harness)});
    if let Some(timeout) = timeout {
        hook["timeout"] = json!(timeout);
    }
    match matcher {
        Some(matcher) => json!({"matcher": matcher, "hooks": [hook]}),
        None => json!({"hooks": [hook]}),
    }
}

/// The hooks of a harness that took over Claude Code's events. `sources` are the beginnings of a session
/// that count; compaction must be among them, because it drops what a hook said before.
fn nested_hooks(
    harness: Harness,
    sources: Option<&str>,
    (gated, observed): (&str, &str),
    timeout: Option<u32>,
) -> Vec<JsonEdit> {
    [
        ("SessionStart", sources, "session_start"),
        ("UserPromptSubmit", None, "user_message"),
        ("SubagentStart", None, "subagent_spawn"),
        ("SubagentStop", None, "subagent_complete"),
        ("PreToolUse", Some(gated), "pre_tool_use"),
        ("PostToolUse", Some(observed), "post_tool_use"),
        ("PreCompact", None, "context_compact"),
        ("Stop", None, "turn_end"),
        ("SessionEnd", None, "session_end"),
    ]
    .into_iter()
    .map(|(event, matcher, ours)| JsonEdit::hook(event, group(matcher, ours, harness, timeout)))
    .collect()
}

fn command(event: &str, harness: Harness) -> String {
    format!("nexus hook {event} --harness {harness}")
}
