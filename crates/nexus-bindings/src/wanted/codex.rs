//! Codex: hooks beside the configuration, the MCP server in it, roles as TOML files.

use super::{Content, Wanted, agents, group};
use crate::Harness;
use crate::edit::{JsonEdit, Marker};
use crate::ground::Ground;

/// A model Codex does not know runs `apply_patch` in the shell, so the shell is looked at, too.
const GATED: &str = "Edit|Write|apply_patch|Bash|mcp__nexus__.*";
const OBSERVED: &str = "Edit|Write|apply_patch|Bash";

const SECONDS: Option<u32> = Some(10);

const SERVER: &str = "command = \"nexus\"\nargs = [\"mcp\"]\ndefault_tools_approval_mode = \"approve\"\n";

pub(super) fn wanted(ground: &Ground) -> Vec<Wanted> {
    let hook = |event: &str, matcher: Option<&str>, ours: &str| {
        JsonEdit::hook(event, group(matcher, ours, Harness::Codex, SECONDS))
    };
    let hooks = vec![
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
