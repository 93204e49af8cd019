//! What a harness is told about who it is: once, whichever way, and before onboarding a text of its own.

use nexus_testkit::{Run, Workspace};
use serde_json::{Value, json};

const HARNESSES: [&str; 6] = ["claude-code", "codex", "cursor", "opencode", "gemini", "qwen"];
const SOUL: &str = "The soul of a lighthouse.";

fn workspace() -> Workspace {
    Workspace::initialized(env!("CARGO_BIN_EXE_nexus"))
}

fn introduce(workspace: &Workspace) {
    workspace.write("state/agents/nova/IDENTITY.md", "---\nname: Nova\n---\nNova keeps a lighthouse.\n");
    workspace.write("state/agents/nova/SOUL.md", &format!("{SOUL}\n"));
    workspace.write("state/user/IDENTITY.md", "---\nname: Ada\n---\nAda sails at night.\n");
}

fn hook(workspace: &Workspace, harness: &str, folder: &std::path::Path) -> String {
    let payload = json!({"cwd": folder, "session_id": "s"});
    let run = Run::new(&["hook", "session_start", "--harness", harness]).input(payload.to_string());
    workspace.run(&run).ok().stdout
}

/// Everything a harness reads by itself in a folder, imports followed.
fn files(harness: &str, folder: &std::path::Path) -> String {
    let read = |name: &str| std::fs::read_to_string(folder.join(name)).unwrap_or_default();
    let followed = |name: &str| -> String {
        let own = read(name);
        let imported = own.lines().filter_map(|line| line.trim().strip_prefix('@'));
        let imported: Vec<String> = imported.map(|file| read(file.trim_start_matches("./"))).collect();
        format!("{own}\n{}", imported.join("\n"))
    };
    match harness {
        "claude-code" => followed("CLAUDE.md"),
        "gemini" => followed("GEMINI.md"),
        "opencode" => {
            let settings: Value = serde_json::from_str(&read("opencode.json")).unwrap_or_default();
            let named = settings["instructions"].as_array().cloned().unwrap_or_default();
            let named: Vec<String> = named.iter().filter_map(Value::as_str).map(read).collect();
            format!("{}\n{}", read("AGENTS.md"), named.join("\n"))
        }
        _ => read("AGENTS.md"),
    }
}

#[test]
fn w18_before_onboarding_a_harness_gets_an_introduction_of_its_own() {
    let workspace = workspace();
    for harness in HARNESSES {
        let told = hook(&workspace, harness, workspace.root());
        for word in ["agent_send", "dispatch", "`wait`", "worker", "You are already the manager"] {
            assert!(!told.contains(word), "{harness} is told of {word}: {told}");
        }
        for part in ["state/agents/SLUG/IDENTITY.md", "state/user/IDENTITY.md", "nexus credential scan"] {
            assert!(told.contains(part), "{harness} lacks {part}: {told}");
        }
    }
    // The status, which they are told to look at, speaks to them, too.
    let prompt = workspace.nexus(&["status", "--json"]).json()["bootstrap"]["prompt"].to_string();
    assert!(prompt.contains("state/agents/SLUG/SOUL.md") && !prompt.contains("agent_send"), "{prompt}");
    introduce(&workspace);
    for harness in HARNESSES {
        let told = hook(&workspace, harness, workspace.root());
        assert!(!told.contains("First Conversation"), "{harness}: {told}");
    }
}

#[test]
fn w19_identity_reaches_each_harness_once() {
    let workspace = workspace();
    introduce(&workspace);
    let project = workspace.home().join("project");
    std::fs::create_dir(&project).unwrap();
    for folder in [workspace.root(), project.as_path()] {
        for harness in HARNESSES {
            workspace.nexus(&["bindings", "--project", &folder.to_string_lossy(), harness]).ok();
        }
        for harness in HARNESSES {
            let everything = format!("{}\n{}", files(harness, folder), hook(&workspace, harness, folder));
            for text in [SOUL, "Nova keeps a lighthouse.", "Ada sails at night."] {
                let times = everything.matches(text).count();
                assert_eq!(times, 1, "{harness} in {}: {text:?} in {everything}", folder.display());
            }
        }
    }
    // What the files say is out of date: the hook says how it is.
    workspace.write("state/agents/atlas/IDENTITY.md", "---\nname: Atlas\n---\nAtlas carries.\n");
    workspace.edit_config(|config| config["agent"]["id"] = json!("atlas"));
    for harness in HARNESSES {
        let told = hook(&workspace, harness, workspace.root());
        assert!(told.contains("Atlas carries."), "{harness}: {told}");
    }
}
