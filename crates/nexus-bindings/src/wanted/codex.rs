//! Codex: hooks beside the configuration, the MCP server in it, roles as TOML files.

use super::{Content, Wanted, agents, nested_hooks};
use crate::Harness;
use crate::edit::Marker;
use crate::ground::Ground;

/// A model Codex does not know runs `apply_patch` in the shell, so the shell is looked at, too.
const GATED: &str = "Edit|Write|apply_patch|Bash|mcp__nexus__.*";
const OBSERVED: &str = "Edit|Write|apply_patch|Bash";

const SECONDS: Option<u32> = Some(10);

const SERVER: &str = "command = \"nexus\"\nargs = [\"mcp\"]\ndefault_tools_approval_mode = \"approve\"\n";

pub(super) fn wanted(ground: &Ground) -> Vec<Wanted> {
    let sources = Some("startup|resume|clear|compact");
    let hooks = nested_hooks(Harness::Codex, sources, (GATED, OBSERVED), SECONDS);
    let server = Content::Table { path: &["mcp_servers", "nexus"], body: SERVER.to_owned() };
    let mut all = vec![
        Wanted::json(".codex/hooks.json", hooks),
        Wanted { file: ".codex/config.toml".into(), content: server },
    ];
    all.extend(agents::each(ground).into_iter().map(|(agent, denied)| {
        let quoted = |text: &str| serde_json::Value::String(text.to_owned()).to_string();
        let mut text =
            format!("name = {}\ndescription = {}\n", quoted(&agent.file_name()), quoted(agent.description()));
        if denied.files {
            text.push_str("sandbox_mode = \"read-only\"\n");
        }
        // A basic string with escapes: JSON's escapes are TOML's.
        text.push_str(&format!("developer_instructions = {}\n", quoted(agent.body())));
        Wanted::whole(format!(".codex/agents/{}.toml", agent.file_name()), text, Marker::Hash)
    }));
    all
}
