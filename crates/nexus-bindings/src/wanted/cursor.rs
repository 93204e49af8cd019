//! Cursor: flat hook entries that call the program itself, the MCP server, roles as subagents.

use serde_json::{Value, json};

use super::{Wanted, agents, command};
use crate::Harness;
use crate::edit::JsonEdit;
use crate::ground::Ground;

const GATED: &str = "Write|Delete|Shell|MCP:.*";
const OBSERVED: &str = "Write|Delete|Read";

pub(super) fn wanted(ground: &Ground) -> Vec<Wanted> {
    let hook = |event: &str, matcher: Option<&str>, ours: &str| {
        let mut entry = json!({"command": command(ours, Harness::Cursor), "timeout": 10});
        if let Some(matcher) = matcher {
            entry["matcher"] = Value::String(matcher.to_owned());
        }
        JsonEdit::hook(event, entry)
    };
    let hooks = vec![
        JsonEdit::member(&[], "version", json!(1)),
        hook("sessionStart", None, "session_start"),
        hook("beforeSubmitPrompt", None, "user_message"),
        hook("subagentStart", None, "subagent_spawn"),
        hook("subagentStop", None, "subagent_complete"),
        hook("preToolUse", Some(GATED), "pre_tool_use"),
        hook("postToolUse", Some(OBSERVED), "post_tool_use"),
        hook("preCompact", None, "context_compact"),
        hook("stop", None, "turn_end"),
        hook("sessionEnd", None, "session_end"),
    ];
    let server = json!({"command": "nexus", "args": ["mcp"]});
    let mut all = vec![
        Wanted::json(".cursor/hooks.json", hooks),
        Wanted::json(".cursor/mcp.json", vec![JsonEdit::member(&["mcpServers"], "nexus", server)]),
    ];
    all.extend(agents::markdown(ground, ".cursor/agents", |agent, denied| {
        vec![
            ("name", agent.file_name()),
            ("description", agent.description().to_owned()),
            ("readonly", denied.files.to_string()),
        ]
    }));
    all
}
