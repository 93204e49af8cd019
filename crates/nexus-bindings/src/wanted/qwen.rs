//! Qwen Code: reads `AGENTS.md` by itself; hooks and the MCP server in the settings.

use serde_json::json;

use super::{Wanted, agents, group};
use crate::Harness;
use crate::edit::JsonEdit;
use crate::ground::Ground;

const GATED: &str = "edit|write_file|replace|notebook_edit|run_shell_command|mcp__nexus__.*";
const OBSERVED: &str = "edit|write_file|replace|notebook_edit|read_file";

const MILLISECONDS: Option<u32> = Some(10_000);

pub(super) fn wanted(ground: &Ground) -> Vec<Wanted> {
    let hook = |event: &str, matcher: Option<&str>, ours: &str| {
        JsonEdit::hook(event, group(matcher, ours, Harness::Qwen, MILLISECONDS))
    };
    let settings = vec![
        hook("SessionStart", None, "session_start"),
        hook("UserPromptSubmit", None, "user_message"),
        hook("SubagentStart", None, "subagent_spawn"),
        hook("SubagentStop", None, "subagent_complete"),
        hook("PreToolUse", Some(GATED), "pre_tool_use"),
        hook("PostToolUse", Some(OBSERVED), "post_tool_use"),
        hook("PreCompact", None, "context_compact"),
        hook("Stop", None, "turn_end"),
        hook("SessionEnd", None, "session_end"),
        JsonEdit::member(
            &["mcpServers"],
            "nexus",
            json!({"command": "nexus", "args": ["mcp"], "trust": true}),
        ),
    ];
    let mut all = vec![Wanted::json(".qwen/settings.json", settings)];
    all.extend(agents::markdown(ground, ".qwen/agents", |agent, _| {
        vec![("name", agent.file_name()), ("description", agent.description().to_owned())]
    }));
    all
}
