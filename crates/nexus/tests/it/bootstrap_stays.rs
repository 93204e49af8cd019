//! BOOTSTRAP.md is the template of every persona: no agent removes or changes it, and it comes back.

use nexus_testkit::model::{Asked, ModelServer, Reply, Wire};
use nexus_testkit::{Daemon, DaemonOptions, Workspace};
use serde_json::{Value, json};

use crate::scripted::Scripted;

const BINARY: &str = env!("CARGO_BIN_EXE_nexus");
const BOOTSTRAP: &str = "state/agents/BOOTSTRAP.md";

/// Ways to get rid of it, by file tools and by a command.
fn attempts() -> Value {
    let command = |command: &str| json!(["bash", {"command": command}]);
    json!([
        ["write", {"path": BOOTSTRAP, "content": "gone"}],
        ["edit", {"path": BOOTSTRAP, "old": "Onboarding", "new": "Nothing"}],
        ["write", {"path": "state/agents/./x/../BOOTSTRAP.md", "content": "gone"}],
        command("rm -f ../state/agents/BOOTSTRAP.md"),
        command("echo gone > ../state/agents/BOOTSTRAP.md"),
        command("mv ../state/agents/BOOTSTRAP.md ../state/agents/old.md"),
        command("mv ../state/agents ../state/other"),
        command("ln -f ../AGENTS.md ../state/agents/BOOTSTRAP.md"),
    ])
}

#[test]
fn w2_no_agent_removes_or_changes_it_before_or_after_onboarding() {
    for onboarded in [false, true] {
        let scripted = Scripted::start(|workspace| {
            if !onboarded {
                std::fs::remove_dir_all(workspace.path("state/agents/ada")).unwrap();
                std::fs::remove_file(workspace.path("state/user/IDENTITY.md")).unwrap();
            }
        });
        let before = scripted.workspace.file(BOOTSTRAP);
        let own_hands: Vec<Value> = attempts().as_array().unwrap()[..3].to_vec();
        for done in [scripted.work(&attempts()), scripted.manage(&json!(own_hands))] {
            assert!(scripted.workspace.path(BOOTSTRAP).exists(), "onboarded {onboarded}: {done:?}");
            assert_eq!(scripted.workspace.file(BOOTSTRAP), before, "onboarded {onboarded}: {done:?}");
            assert!(done.results.len() >= own_hands.len(), "{done:?}");
        }
        scripted.daemon.stop();
    }
}

#[test]
fn w2_it_comes_back_at_the_start_and_is_told_meanwhile() {
    let server = ModelServer::start();
    server.otherwise(Reply::text("Hello."));
    let mut workspace = Workspace::initialized(BINARY);
    server.configure(&mut workspace, Wire::Anthropic);
    let text = workspace.file(BOOTSTRAP);
    std::fs::remove_file(workspace.path(BOOTSTRAP)).unwrap();
    let daemon = Daemon::start(&workspace, &DaemonOptions::default());
    assert_eq!(workspace.file(BOOTSTRAP), text);
    daemon.stop();

    workspace.write(BOOTSTRAP, "");
    let daemon = Daemon::start(&workspace, &DaemonOptions::default());
    assert_eq!(workspace.file(BOOTSTRAP), text, "an empty one says nothing");
    std::fs::remove_file(workspace.path(BOOTSTRAP)).unwrap();
    let accepted = daemon.post("/api/chat", &json!({"message": "Hello"})).json();
    let request = accepted["requestId"].as_str().unwrap();
    daemon.get(&format!("/api/chat/wait?request={request}&timeoutMs=60000"));
    let manager = server.asked().into_iter().find(|asked: &Asked| asked.has_tool("wait")).unwrap();
    assert!(manager.system().contains("## Onboarding\n"), "{}", manager.system());
    daemon.stop();

    workspace.write(BOOTSTRAP, "the owner's own words");
    let daemon = Daemon::start(&workspace, &DaemonOptions::default());
    assert_eq!(workspace.file(BOOTSTRAP), "the owner's own words");
    daemon.stop();
}
