//! The reminder that no credentials are known is given with the owner's first message after onboarding, once.

use nexus_testkit::model::{ModelServer, Reply};
use nexus_testkit::{Daemon, DaemonOptions, Workspace};
use serde_json::json;

const BINARY: &str = env!("CARGO_BIN_EXE_nexus");
const NOTE: &str = "note: no credentials are known yet";

/// A workspace that talks to a server on this machine, which needs no key.
fn keyless() -> (ModelServer, Workspace) {
    let server = ModelServer::start();
    server.otherwise(Reply::text("Hello."));
    let workspace = Workspace::initialized(BINARY);
    workspace.edit_config(|config| {
        config["agent"]["model"] = json!("ollama/scripted-1");
        config["providers"]["ollama"]["base_url"] = json!(server.base_url());
    });
    (server, workspace)
}

fn introduce(workspace: &Workspace) {
    workspace.write("state/agents/nova/IDENTITY.md", "---\nname: Nova\n---\nNova helps.\n");
    workspace.write("state/agents/nova/SOUL.md", "Kind and exact.\n");
    workspace.write("state/user/IDENTITY.md", "---\nname: Ada\n---\nAda owns it.\n");
}

fn say(daemon: &Daemon, message: &str) {
    let accepted = daemon.post("/api/chat", &json!({ "message": message })).json();
    let request = accepted["requestId"].as_str().unwrap_or_else(|| panic!("{accepted}"));
    let waited = daemon.get(&format!("/api/chat/wait?request={request}&timeoutMs=60000")).json();
    assert_eq!(waited["quiescent"], true, "{waited}");
}

/// Whether the newest message that the model was sent carries the note.
fn reminded(server: &ModelServer) -> bool {
    server.asked().last().unwrap().last_text().contains(NOTE)
}

#[test]
fn w6_the_reminder_is_given_within_the_run_that_onboarded_and_once() {
    let (server, workspace) = keyless();
    let daemon = Daemon::start(&workspace, &DaemonOptions::default());
    say(&daemon, "before onboarding");
    assert!(!reminded(&server), "nobody is reminded before onboarding");
    introduce(&workspace);
    say(&daemon, "first");
    assert!(reminded(&server), "{}", server.asked().last().unwrap().last_text());
    say(&daemon, "second");
    assert!(!reminded(&server), "a second time");
    daemon.stop();
    let daemon = Daemon::start(&workspace, &DaemonOptions::default());
    say(&daemon, "third");
    assert!(!reminded(&server), "after a restart");
    daemon.stop();
}

#[test]
fn w6_a_start_at_which_nobody_speaks_uses_nothing_up() {
    let (server, workspace) = keyless();
    introduce(&workspace);
    workspace.write("BOOT.md", "Good morning.\n");
    for _ in 0..2 {
        let daemon = Daemon::start(&workspace, &DaemonOptions::default());
        daemon.stop();
    }
    let daemon = Daemon::start(&workspace, &DaemonOptions::default());
    say(&daemon, "hello");
    let all: Vec<String> = server.asked().iter().map(|asked| asked.last_text()).collect();
    let told: Vec<&String> = all.iter().filter(|text| text.contains(NOTE)).collect();
    assert_eq!(told.len(), 1, "{all:?}");
    assert!(told[0].contains("hello"), "the runtime's own words are no place for it: {told:?}");
    daemon.stop();
    // Credentials that came and went make it due again.
    workspace.write("state/credentials/github/env%3AGH.json", CREDENTIAL);
    Daemon::start(&workspace, &DaemonOptions::default()).stop();
    std::fs::remove_dir_all(workspace.path("state/credentials/github")).unwrap();
    let daemon = Daemon::start(&workspace, &DaemonOptions::default());
    say(&daemon, "again");
    assert!(reminded(&server), "{}", server.asked().last().unwrap().last_text());
    daemon.stop();
}

const CREDENTIAL: &str = r#"{"service": "github", "account": "env:GH", "owners": ["user"], "configuredAt": 1,
  "credentials": [{"id": "token", "kind": "token", "storage": {"provider": "env", "var": "GH"}, "configuredAt": 1}]}"#;
