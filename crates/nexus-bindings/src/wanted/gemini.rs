//! Gemini CLI: `GEMINI.md` imports, hooks and the MCP server in the settings. Timeouts there are in
//! milliseconds. `PreCompress` is left out: it runs before every model call and cannot say anything.

use serde_json::json;

use super::{Wanted, agents, group};
use crate::Harness;
use crate::edit::JsonEdit;
use crate::ground::Ground;

const GATED: &str = "write_file|replace|edit|run_shell_command|mcp_nexus_.*";
const OBSERVED: &str = "write_file|replace|edit|read_file";
const SPAWN: &str = "invoke_agent";

const MILLISECONDS: Option<u32> = Some(10_000);

pub(super) fn wanted(ground: &Ground) -> Vec<Wanted> {
    let hook = |event: &str, matcher: Option<&str>, ours: &str| {
        JsonEdit::hook(event, group(matcher, ours, Harness::Gemini, MILLISECONDS))
    };
    let settings = vec![
        hook("SessionStart", None, "session_start"),
        hook("BeforeAgent", None, "user_message"),
        hook("BeforeTool", Some(GATED), "pre_tool_use"),
        hook("BeforeTool", Some(SPAWN), "subagent_spawn"),
        hook("AfterTool", Some(OBSERVED), "post_tool_use"),
        hook("AfterTool", Some(SPAWN), "subagent_complete"),
        hook("SessionEnd", None, "session_end"),
        JsonEdit::member(
            &["mcpServers"],
            "nexus",
            json!({"command": "nexus", "args": ["mcp"], "trust": true}),
        ),
    ];
    let mut all = vec![
        Wanted::block("GEMINI.md", ground.import_block("@./")),
        Wanted::json(".gemini/settings.json", settings),
    ];
    all.extend(agents::markdown(ground, ".gemini/agents", |agent, _| {
        vec![("name", agent.file_name()), ("description", agent.description().to_owned())]
    }));
    all
}
