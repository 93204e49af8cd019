//! Claude Code: `CLAUDE.md` imports, hooks in the shared settings, the grant for our tools in the
//! private ones, the MCP server, roles as subagents.

use serde_json::json;

use super::{Wanted, agents, nested_hooks};
use crate::Harness;
use crate::edit::JsonEdit;
use crate::ground::Ground;

/// Tools that change files, and the shell, which may.
const GATED: &str = "Edit|MultiEdit|Write|NotebookEdit|Bash|mcp__nexus__.*";
/// Tools whose use is observed: edits for who touched what, reads for memory files.
const OBSERVED: &str = "Edit|MultiEdit|Write|NotebookEdit|Read";

const SECONDS: Option<u32> = Some(10);

pub(super) fn wanted(ground: &Ground) -> Vec<Wanted> {
    let sources = Some("startup|resume|clear|compact");
    let settings = nested_hooks(Harness::ClaudeCode, sources, (GATED, OBSERVED), SECONDS);
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
