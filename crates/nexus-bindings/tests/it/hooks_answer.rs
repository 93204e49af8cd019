//! Hooks through their door: what comes in from each harness, and what it is answered.

use std::fs;
use std::path::Path;

use nexus_base::clock::Timestamp;
use nexus_bindings::{Clock, Ground, Harness, HookCall, HookEvent, Plan, RecordFolder, Surroundings};
use nexus_project::harness::HarnessId;
use nexus_project::{Project, Tool, call};
use serde_json::{Value, json};

struct Folder {
    folder: tempfile::TempDir,
}

impl Folder {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("project")).unwrap();
        Self { folder }
    }

    fn with_project() -> Self {
        let new = Self::new();
        Project::open(&new.root()).unwrap().start(&HarnessId::ours()).unwrap();
        new
    }

    fn root(&self) -> std::path::PathBuf {
        fs::canonicalize(self.folder.path().join("project")).unwrap()
    }

    fn records(&self) -> RecordFolder {
        RecordFolder::at(self.folder.path().join("records"))
    }

    fn add_task(&self, status: &str) {
        let project = Project::open(&self.root()).unwrap();
        let parameters = json!({"title": "Build it", "context": "as planned", "acceptance": "it runs"});
        call(&project, Tool::TaskAdd, parameters.as_object().unwrap()).unwrap();
        let update = json!({"id": 1, "status": status});
        call(&project, Tool::TaskUpdate, update.as_object().unwrap()).unwrap();
    }

    fn hook(&self, harness: Harness, event: &str, payload: &Value) -> String {
        self.hook_in(harness, event, payload, false)
    }

    fn hook_in(&self, harness: Harness, event: &str, payload: &Value, inside_cursor: bool) -> String {
        let mut payload = payload.clone();
        payload["cwd"] = json!(self.root());
        let event = HookEvent::parse(event).unwrap();
        let hook = HookCall::read(harness, event, &payload.to_string(), Path::new("/")).unwrap();
        let ground = Ground::survey(&hook.bound_folder(), None).unwrap();
        let clock = Clock { now: Timestamp::now(), machine: "linux (x86_64)".into() };
        let records = self.records();
        let around = Surroundings { ground: &ground, records: Some(&records), clock, inside_cursor };
        hook.answer(&around).unwrap().stdout
    }
}

/// A call that writes a file, as each harness words it.
fn edit(harness: Harness) -> Value {
    match harness {
        Harness::ClaudeCode => {
            json!({"tool_name": "Write", "tool_input": {"file_path": "src/main.rs", "content": "x"}})
        }
        Harness::Codex => {
            json!({"tool_name": "Bash", "tool_input": {"command": "apply_patch <<'EOF'\n*** Begin Patch\n*** Add File: src/main.rs\n+x\n*** End Patch\nEOF"}})
        }
        Harness::Cursor => json!({"tool_name": "Write", "tool_input": {"file_path": "src/main.rs"}}),
        Harness::OpenCode => json!({"tool_name": "write", "tool_input": {"filePath": "src/main.rs"}}),
        Harness::Gemini => json!({"tool_name": "write_file", "tool_input": {"file_path": "src/main.rs"}}),
        Harness::Qwen => json!({"tool_name": "write_file", "tool_input": {"file_path": "src/main.rs"}}),
    }
}

/// Where each harness looks for a refusal and its reason.
fn refusal(harness: Harness, answer: &str) -> Option<String> {
    let value: Value = serde_json::from_str(answer).ok()?;
    let reason = match harness {
        Harness::ClaudeCode | Harness::Codex | Harness::Qwen => {
            let output = &value["hookSpecificOutput"];
            (output["permissionDecision"] == "deny").then(|| output["permissionDecisionReason"].clone())
        }
        Harness::Gemini => (value["decision"] == "deny").then(|| value["reason"].clone()),
        Harness::Cursor => (value["permission"] == "deny").then(|| value["agent_message"].clone()),
        Harness::OpenCode => Some(value["deny"].clone()),
    };
    reason?.as_str().map(str::to_owned)
}

#[test]
fn an_unplanned_edit_is_refused_in_every_harness_until_there_is_a_task() {
    for harness in Harness::ALL {
        let folder = Folder::with_project();
        let reason = refusal(harness, &folder.hook(harness, "pre_tool_use", &edit(harness)));
        assert!(reason.as_ref().is_some_and(|reason| reason.contains("task")), "{harness}: {reason:?}");
        folder.add_task("in_progress");
        let answer = folder.hook(harness, "pre_tool_use", &edit(harness));
        assert_eq!(refusal(harness, &answer), None, "{harness}: {answer}");
    }
}

#[test]
fn a_role_is_held_to_its_restrictions() {
    let folder = Folder::with_project();
    folder.add_task("in_progress");
    for (harness, kind) in
        [(Harness::ClaudeCode, "agent_type"), (Harness::Codex, "agent_type"), (Harness::Qwen, "agent_type")]
    {
        let mut call = edit(harness);
        call["agent_id"] = json!("a1");
        call[kind] = json!("nexus-reviewer");
        let reason = refusal(harness, &folder.hook(harness, "pre_tool_use", &call));
        assert!(reason.as_ref().is_some_and(|reason| reason.contains("reviewer")), "{harness}: {reason:?}");
        call[kind] = json!("nexus-engineer");
        let answer = folder.hook(harness, "pre_tool_use", &call);
        assert_eq!(refusal(harness, &answer), None, "{harness}: {answer}");
    }
    let close = json!({"tool_name": "mcp__nexus__task_close", "tool_input": {}, "agent_id": "a1", "agent_type": "nexus-engineer"});
    let reason = refusal(Harness::ClaudeCode, &folder.hook(Harness::ClaudeCode, "pre_tool_use", &close));
    assert!(reason.is_some(), "only Lead closes");
}

#[test]
fn a_session_is_told_who_it_is_and_without_a_project_nothing_is_made() {
    for harness in Harness::ALL {
        let folder = Folder::new();
        let answer = folder.hook(harness, "session_start", &json!({"source": "startup"}));
        assert!(answer.contains("# Nexus Session Bootstrap"), "{harness}: {answer}");
        assert!(answer.chars().count() < 9_000);
        assert!(!folder.root().join(".nexus").exists(), "{harness} made a project");
        assert_eq!(folder.hook(harness, "session_end", &json!({})), "", "{harness}");
    }
}

#[test]
fn words_that_are_not_the_persons_are_not_searched_for_tags() {
    let folder = Folder::with_project();
    let said = |payload: Value| folder.hook(Harness::ClaudeCode, "user_message", &payload);
    assert!(said(json!({"prompt": "[plan] a garden"})).contains("nx-plan"));
    assert!(!said(json!({"prompt": "<task-notification> [plan] x"})).contains("nx-plan in"));
    assert_eq!(
        folder.hook(Harness::Codex, "user_message", &json!({"prompt": "[plan] x", "agent_id": "a1"})),
        ""
    );
    assert_eq!(folder.hook(Harness::Qwen, "user_message", &json!({"prompt": ""})), "");
}

#[test]
fn the_reminder_comes_once_and_never_asks_for_another_turn() {
    let folder = Folder::with_project();
    folder.add_task("completed");
    for harness in [Harness::ClaudeCode, Harness::Codex] {
        let stop = json!({"session_id": "s1", "stop_hook_active": false});
        assert_eq!(
            folder.hook(harness, "turn_end", &json!({"session_id": "s1", "stop_hook_active": true})),
            ""
        );
        let first = folder.hook(harness, "turn_end", &stop);
        assert!(first.contains("systemMessage") && !first.contains("block"), "{first}");
        assert_eq!(folder.hook(harness, "turn_end", &stop), "", "{harness}: once");
    }
}

#[test]
fn an_end_without_a_beginning_is_nothing() {
    let folder = Folder::with_project();
    let stop = json!({"agent_id": "ghost", "agent_type": "nexus-engineer", "last_assistant_message": "done"});
    assert_eq!(folder.hook(Harness::ClaudeCode, "subagent_complete", &stop), "");
    let tracker = folder.root().join(".nexus/state/claude-code/agent-tracker.json");
    assert!(!tracker.exists() || !fs::read_to_string(tracker).unwrap().contains("ghost"));
}

#[test]
fn a_memory_file_that_is_read_is_noted() {
    let folder = Folder::with_project();
    let file = folder.root().join(".nexus/memory/empirical-x.md");
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    fs::write(&file, "# x\n").unwrap();
    let read = json!({"tool_name": "Read", "tool_input": {"file_path": file}});
    folder.hook(Harness::ClaudeCode, "post_tool_use", &read);
    let log = folder.root().join(".nexus/state/claude-code/memory-access.jsonl");
    assert!(fs::read_to_string(log).unwrap().contains("empirical-x.md"));
}

#[test]
fn cursor_running_the_hooks_of_another_is_not_told_twice() {
    let folder = Folder::with_project();
    let ground = Ground::survey(&folder.root(), None).unwrap();
    let start = json!({"source": "startup"});
    Plan::bind(Harness::ClaudeCode, &ground, &folder.records(), false)
        .unwrap()
        .apply(&folder.records())
        .unwrap();
    assert_ne!(folder.hook_in(Harness::ClaudeCode, "session_start", &start, true), "");
    Plan::bind(Harness::Cursor, &ground, &folder.records(), false).unwrap().apply(&folder.records()).unwrap();
    assert_eq!(folder.hook_in(Harness::ClaudeCode, "session_start", &start, true), "");
    assert_ne!(folder.hook_in(Harness::ClaudeCode, "session_start", &start, false), "");
}

#[test]
fn what_is_no_json_is_met_with_silence() {
    let event = HookEvent::parse("pre_tool_use").unwrap();
    for text in ["{", "[]", "null", "\u{0}"] {
        assert!(HookCall::read(Harness::Codex, event, text, Path::new("/tmp")).is_none(), "{text:?}");
    }
    assert!(HookEvent::parse("stop").is_none());
}
