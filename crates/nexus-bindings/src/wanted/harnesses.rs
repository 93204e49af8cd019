//! What each harness in particular has to find.

use serde_json::{Value, json};

use super::{Content, Wanted, agents, command, group, nested_hooks};
use crate::Harness;
use crate::edit::{JsonEdit, Marker};
use crate::ground::Ground;

/// Claude Code: `CLAUDE.md` imports, hooks in the shared settings, the grant for our tools in the private ones,
/// the MCP server, roles as subagents.
pub(super) fn claude_code(ground: &Ground) -> Vec<Wanted> {
    /// Tools that change files, and the shell, which may.
    const GATED: &str = "Edit|MultiEdit|Write|NotebookEdit|Bash|mcp__nexus__.*";
    /// Tools whose use is observed: edits for who touched what, reads for memory files.
    const OBSERVED: &str = "Edit|MultiEdit|Write|NotebookEdit|Read";
    const SECONDS: Option<u32> = Some(10);
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

/// Codex: hooks beside the configuration, the MCP server in it, roles as TOML files.
pub(super) fn codex(ground: &Ground) -> Vec<Wanted> {
    /// A model Codex does not know runs `apply_patch` in the shell, so the shell is looked at, too.
    const GATED: &str = "Edit|Write|apply_patch|Bash|mcp__nexus__.*";
    const OBSERVED: &str = "Edit|Write|apply_patch|Bash";
    const SECONDS: Option<u32> = Some(10);
    const SERVER: &str = "command = \"nexus\"\nargs = [\"mcp\"]\ndefault_tools_approval_mode = \"approve\"\n";
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

/// Cursor: flat hook entries that call the program itself, the MCP server, roles as subagents.
pub(super) fn cursor(ground: &Ground) -> Vec<Wanted> {
    const GATED: &str = "Write|Delete|Shell|MCP:.*";
    const OBSERVED: &str = "Write|Delete|Read";
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

/// OpenCode: a plugin that hands its events to `nexus hook`, identity files among the instructions, the MCP
/// server, roles as subagents.
pub(super) fn opencode(ground: &Ground) -> Vec<Wanted> {
    const PLUGIN: &str = include_str!("../../assets/opencode.js");
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

/// Gemini CLI: `GEMINI.md` imports, hooks and the MCP server in the settings. Timeouts there are in
/// milliseconds. `PreCompress` is left out: it runs before every model call and cannot say anything.
pub(super) fn gemini(ground: &Ground) -> Vec<Wanted> {
    const GATED: &str = "write_file|replace|edit|run_shell_command|mcp_nexus_.*";
    const OBSERVED: &str = "write_file|replace|edit|read_file";
    const SPAWN: &str = "invoke_agent";
    const MILLISECONDS: Option<u32> = Some(10_000);
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

/// Qwen Code: reads `AGENTS.md` by itself; hooks and the MCP server in the settings.
pub(super) fn qwen(ground: &Ground) -> Vec<Wanted> {
    const GATED: &str = "edit|write_file|replace|notebook_edit|run_shell_command|mcp__nexus__.*";
    const OBSERVED: &str = "edit|write_file|replace|notebook_edit|read_file";
    const MILLISECONDS: Option<u32> = Some(10_000);
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
