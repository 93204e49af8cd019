//! Qwen Code: reads `AGENTS.md` by itself; hooks and the MCP server in the settings.

use serde_json::json;

use super::{Wanted, agents, nested_hooks};
use crate::Harness;
use crate::edit::JsonEdit;
use crate::ground::Ground;

const GATED: &str = "edit|write_file|replace|notebook_edit|run_shell_command|mcp__nexus__.*";
const OBSERVED: &str = "edit|write_file|replace|notebook_edit|read_file";

const MILLISECONDS: Option<u32> = Some(10_000);

pub(super) fn wanted(ground: &Ground) -> Vec<Wanted> {
    let mut settings = nested_hooks(Harness::Qwen, None, (GATED, OBSERVED), MILLISECONDS);
    settings.push(JsonEdit::member(
        &["mcpServers"],
        "nexus",
        json!({"command": "nexus", "args": ["mcp"], "trust": true}),
    ));
    let mut all = vec![Wanted::json(".qwen/settings.json", settings)];
    all.extend(agents::markdown(ground, ".qwen/agents", |agent, _| {
        vec![("name", agent.file_name()), ("description", agent.description().to_owned())]
    }));
    all
}
