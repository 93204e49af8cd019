//! A project whose files are damaged: hooks and conversations tell of it, do what does not need the file, and let no
//! call past a gate that cannot read what it decides by.

use std::path::{Path, PathBuf};

use nexus_base::file::{Durability, replace};
use nexus_testkit::{Daemon, DaemonOptions, Finished, Run, Workspace};
use serde_json::{Value, json};

const DAMAGED: &str = "{oops";

/// A workspace and a project beside it.
fn project() -> (Workspace, PathBuf) {
    let workspace = Workspace::initialized(env!("CARGO_BIN_EXE_nexus"));
    let root = workspace.home().join("shop");
    std::fs::create_dir_all(&root).unwrap();
    let root = root.canonicalize().unwrap();
    workspace.nexus(&["project", "--project", root.to_str().unwrap(), "init"]).ok();
    (workspace, root)
}

fn put(root: &Path, path: &str, text: &str) {
    let path = root.join(".nexus").join(path);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    replace(&path, text.as_bytes(), 0o644, Durability::Crash).unwrap();
}

fn hook(workspace: &Workspace, event: &str, payload: &Value, more: &[&str]) -> Finished {
    let arguments = [&["hook", event, "--harness", "claude-code"], more].concat();
    workspace.run(&Run::new(&arguments).input(payload.to_string())).ok()
}

/// Returns what the agent is told.
fn told(answer: &Finished) -> String {
    let answer: Value = serde_json::from_str(&answer.stdout).unwrap_or_else(|_| panic!("{}", answer.stdout));
    answer["hookSpecificOutput"]["additionalContext"].as_str().unwrap_or_default().to_owned()
}

fn is_refused(answer: &Finished) -> bool {
    answer.stdout.contains("\"permissionDecision\":\"deny\"")
}

#[test]
fn damaged_tasks_are_told_and_everything_else_still_happens() {
    let (workspace, root) = project();
    put(&root, "state/tasks.json", DAMAGED);
    let damage = "tasks.json is damaged at line 1, column 2";
    let start = told(&hook(&workspace, "session_start", &json!({ "cwd": root }), &[]));
    assert!(start.starts_with("# Nexus Session Bootstrap") && start.contains(damage), "{start}");
    assert!(start.contains("repairs the file or moves it away"), "{start}");

    let say =
        |words: &str| told(&hook(&workspace, "user_message", &json!({ "cwd": root, "prompt": words }), &[]));
    let kept = say("[m] alpha beta gamma");
    assert!(kept.contains("Carried out for the person: kept in") && kept.contains(damage), "{kept}");
    let planned = say("[plan] the shed");
    assert!(planned.contains("nx-plan") && planned.contains(damage), "{planned}");
    let decided = say("[d] green");
    assert!(decided.contains("Could not be carried out for the person: [d] records"), "{decided}");
    assert!(!decided.contains("Carried out for the person: not done"), "{decided}");
    let compact = hook(&workspace, "context_compact", &json!({ "cwd": root }), &[]).stdout;
    assert!(compact.contains("Active skill: nx-plan") && compact.contains(damage), "{compact}");

    let tracker = root.join(".nexus/state/claude-code/agent-tracker.json");
    assert!(tracker.exists());
    hook(&workspace, "session_end", &json!({ "cwd": root }), &[]);
    assert!(!tracker.exists(), "a session's own files go with it");
    assert_eq!(std::fs::read_to_string(root.join(".nexus/state/tasks.json")).unwrap(), DAMAGED);

    // A project that cannot be used at all leaves the workspace's part of the bootstrap.
    std::fs::remove_dir_all(root.join(".nexus/state")).unwrap();
    std::os::unix::fs::symlink("/", root.join(".nexus/state")).unwrap();
    let start = told(&hook(&workspace, "session_start", &json!({ "cwd": root }), &[]));
    assert!(
        start.starts_with("# Nexus Session Bootstrap") && start.contains("not a plain folder"),
        "{start}"
    );
}

#[test]
fn a_gate_that_cannot_read_its_facts_is_shut() {
    let (workspace, root) = project();
    let write = json!({ "cwd": root, "tool_name": "Write", "tool_input": { "file_path": "a.txt" } });
    let mut instance = write.clone();
    instance["agent_id"] = json!("w1");
    put(&root, "state/claude-code/agent-tracker.json", DAMAGED);
    let refused = hook(&workspace, "pre_tool_use", &instance, &[]);
    assert!(
        is_refused(&refused) && refused.stdout.contains("agent-tracker.json is damaged"),
        "{}",
        refused.stdout
    );
    let read =
        json!({ "cwd": root, "agent_id": "w1", "tool_name": "Read", "tool_input": { "file_path": "a.txt" } });
    assert_eq!(hook(&workspace, "pre_tool_use", &read, &["--fail-closed"]).stdout, "");
    put(&root, "state/claude-code/agent-tracker.json", "[]");
    put(&root, "state/tasks.json", DAMAGED);
    for call in [&write, &instance] {
        let refused = hook(&workspace, "pre_tool_use", call, &[]);
        assert!(
            is_refused(&refused) && refused.stdout.contains("tasks.json is damaged"),
            "{}",
            refused.stdout
        );
        assert!(refused.stdout.contains("Do not try again"), "{}", refused.stdout);
    }
    let note = json!({ "cwd": root, "tool_name": "Write", "tool_input": { "file_path": root.join(".nexus/memory/a.md") } });
    assert_eq!(hook(&workspace, "pre_tool_use", &note, &[]).stdout, "", "notes need no task");
    put(&root, "state/tasks.json", r#"{"goal": "", "decisions": [], "tasks": []}"#);
    assert_eq!(hook(&workspace, "pre_tool_use", &write, &[]).stdout, "");
}

#[test]
fn what_cannot_be_understood_passes_in_silence_unless_doubt_refuses() {
    let workspace = Workspace::initialized(env!("CARGO_BIN_EXE_nexus"));
    let run = |arguments: &[&str], input: &str| workspace.run(&Run::new(arguments).input(input));
    let deny = ["\"deny\"", "could not be checked"];
    for harness in ["claude-code", "codex", "gemini", "qwen", "cursor", "opencode"] {
        for input in ["garbage", "", "[]", "{}"] {
            let gate = ["hook", "pre_tool_use", "--harness", harness];
            let open = run(&gate, input).ok().stdout;
            assert_eq!(open, "", "{harness} {input}");
            let shut = run(&[&gate[..], &["--fail-closed"]].concat(), input).ok().stdout;
            assert!(deny.iter().all(|word| shut.contains(word)), "{harness} {input}: {shut}");
            serde_json::from_str::<Value>(&shut).unwrap();
        }
        let other = run(&["hook", "user_message", "--harness", harness, "--fail-closed"], "garbage").ok();
        assert_eq!(other.stdout, "", "{harness}");
    }
    // Settings that a newer version wrote: harnesses take an exit code of 2 for a refusal.
    for arguments in [
        &["hook", "nope", "--harness", "claude-code"][..],
        &["hook", "pre_tool_use", "--harness", "newer"],
        &["hook", "pre_tool_use", "--harness", "codex", "--newer-flag"],
        &["--workspace", "/nowhere", "hook", "nope", "--harness", "codex", "--fail-closed"],
        &["hook"],
    ] {
        let finished = run(arguments, "{}").ok();
        assert_eq!(finished.stdout, "", "{arguments:?}");
        assert!(!finished.stderr.is_empty(), "{arguments:?}");
    }
    for (harness, shape) in [("newer", "permissionDecision"), ("cursor", "\"permission\"")] {
        let arguments = ["hook", "pre_tool_use", "--fail-closed", "--newer", "--harness", harness];
        let shut = run(&arguments, "{}").ok().stdout;
        assert!(shut.contains(shape) && shut.contains("deny"), "{harness}: {shut}");
    }
    assert_eq!(run(&["project", "hook"], "").code(), Some(2), "other commands still say so");
}

#[test]
fn a_conversation_tells_of_damage_beside_what_it_does() {
    let (workspace, root) = project();
    let daemon = Daemon::start(&workspace, &DaemonOptions::default());
    put(&root, "state/tasks.json", DAMAGED);
    let chat = |words: &str| {
        workspace.nexus(&["chat", "--project", root.to_str().unwrap(), "-m", words]).ok().stdout
    };
    let kept = chat("[m] alpha beta gamma");
    assert!(kept.contains("tasks.json is damaged at line 1, column 2"), "{kept}");
    assert!(kept.contains("Kept in the new file"), "{kept}");
    let decided = chat("[d] x");
    assert!(
        decided.contains("tasks.json is damaged") && decided.contains("Not done: [d] records"),
        "{decided}"
    );
    // A tag is no answer to the guide's question who it is to be.
    let identity = workspace.nexus(&["identity", "--json"]).ok().stdout;
    assert!(!identity.contains("\"x\""), "{identity}");
    daemon.stop();
}

#[test]
fn what_was_kept_beside_a_cycle_goes_with_it() {
    let (workspace, root) = project();
    let folder = root.to_str().unwrap();
    for name in ["plan", "tasks"] {
        put(&root, &format!("state/nexus/{name}.extension.json"), r#"{"extends": "x"}"#);
    }
    put(&root, "state/tasks.json", r#"{"goal": "", "decisions": [], "tasks": []}"#);
    workspace.nexus(&["project", "--project", folder, "close"]).ok();
    for name in ["plan", "tasks"] {
        assert!(!root.join(format!(".nexus/state/nexus/{name}.extension.json")).exists(), "{name}");
    }
    assert!(!root.join(".nexus/state/nexus/agent-tracker.json").exists());
}
