//! Claude Code: `CLAUDE.md` imports, hooks in the shared settings, the grant for our tools in the
//! private ones, the MCP server, roles as subagents.

use serde_json::json;

use super::{Wanted, agents, group};
use crate::Harness;
use crate::edit::JsonEdit;
use crate::ground::Ground;

/// Tools that change files, and the shell, which may.
const GATED: &str = "Edit|MultiEdit|Write|NotebookEdit|Bash|mcp__nexus__.*";
/// Tools whose use is observed: edits for who touched what, reads for memory files.
const OBSERVED: &str = "Edit|MultiEdit|Write|NotebookEdit|Read";

const SECONDS: Option<u32> = Some(10);

pub(super) fn wanted(ground: &Ground) -> Vec<Wanted> {
    let hook = |event: &str, matcher: Option<&str>, ours: &str| {
        JsonEdit::hook(event, group(matcher, ours, Harness::ClaudeCode, SECONDS))
    };
    let settings = vec![
        // Compaction drops what a hook said before; only another SessionStart brings it back.
        hook("SessionStart", Some("startup|resume|clear|compact"), "session_start"),
        hook("UserPromptSubmit", None, "user_message"),
        hook("SubagentStart", None, "subagent_spawn"),
        hook("SubagentStop", None, "subagent_complete"),
        hook("PreToolUse", Some(GATED), "pre_tool_use"),
        hook("PostToolUse", Some(OBSERVED), "post_tool_use"),
        hook("PreCompact", None, "context_compact"),
        hook("Stop", None, "turn_end"),
        hook("SessionEnd", None, "session_end"),
    ];
    let server = json!({"command": "nexus", "args": ["mcp"], "alwaysLoad": true});
    let mut all = vec![
        Wanted::block("CLAUDE.md", ground.import_block("@")),
        Wanted::json(".claude/settings.json", settings),
        Wanted::json(
            ".claude/settings.local.json",
            vec![JsonEdit::text(&["permissions", "allow"], "mcp__nexus")],
        ),
        Wanted::json(".mcp.json", vec![JsonEdit::member(&["mcpServers"], "nexus", server)]),
    ];
    all.extend(agents::markdown(ground, ".claude/agents", |agent, denied| {
        let mut front = vec![("name", agent.file_name()), ("description", agent.description().to_owned())];
        let mut tools = denied.tools("mcp__nexus__");
        if denied.files {
            tools.extend(["Edit", "MultiEdit", "Write", "NotebookEdit"].map(str::to_owned));
        }
        if denied.shell {
            tools.push("Bash".to_owned());
        }
        front.push(("disallowedTools", tools.join(", ")));
        front
    }));
    all
}
