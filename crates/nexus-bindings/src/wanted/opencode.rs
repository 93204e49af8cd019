//! OpenCode: a plugin that hands its events to `nexus hook`, identity files among the instructions,
//! the MCP server, roles as subagents.

use serde_json::json;

use super::{Wanted, agents};
use crate::edit::{JsonEdit, Marker};
use crate::ground::Ground;

const PLUGIN: &str = include_str!("../../assets/opencode.js");

pub(super) fn wanted(ground: &Ground) -> Vec<Wanted> {
    let mut edits: Vec<JsonEdit> =
        ground.identity_files().iter().map(|file| JsonEdit::text(&["instructions"], file)).collect();
    let server = json!({"type": "local", "command": ["nexus", "mcp"], "enabled": true});
    edits.push(JsonEdit::member(&["mcp"], "nexus", server));
    let file = if ground.root().join("opencode.jsonc").exists() { "opencode.jsonc" } else { "opencode.json" };
    let mut all = vec![
        Wanted::json(file, edits),
        Wanted::whole(".opencode/plugin/nexus.js", PLUGIN.to_owned(), Marker::Slashes),
    ];
    all.extend(agents::markdown(ground, ".opencode/agent", |agent, denied| {
        let mut front =
            vec![("description", agent.description().to_owned()), ("mode", "subagent".to_owned())];
        let mut permissions = Vec::new();
        if denied.files {
            permissions.push("\n  edit: deny");
        }
        if denied.shell {
            permissions.push("\n  bash: deny");
        }
        if !permissions.is_empty() {
            front.push(("permission", permissions.concat()));
        }
        front
    }));
    all
}
