//! A credential is tested where it is used. What a shell cannot see, or sees otherwise, changes nothing for
//! a daemon that works.

use nexus_testkit::model::{ModelServer, Reply, Wire};
use nexus_testkit::{Daemon, DaemonOptions, Finished, Run, Workspace};
use serde_json::{Value, json};

const VARIABLE: &str = "MY_MODEL_KEY";

/// A workspace whose model's key is in a variable that `workspace`'s own shells do not have.
fn workspace(server: &ModelServer, wire: Wire) -> Workspace {
    server.otherwise(Reply::text("Here I am."));
    let mut workspace = Workspace::initialized(env!("CARGO_BIN_EXE_nexus"));
    server.configure(&mut workspace, wire);
    let service = wire.provider();
    let folder = workspace.path(&format!("state/credentials/{service}"));
    if folder.exists() {
        std::fs::remove_dir_all(folder).unwrap();
    }
    for name in ["ANTHROPIC_API_KEY", "OPENAI_API_KEY"] {
        workspace.set_variable(name, "");
    }
    workspace.nexus(&["credential", "add", service, "--account", "mine", "--env", VARIABLE]).ok();
    workspace
}

fn with_key(key: &str) -> DaemonOptions {
    DaemonOptions::default().variable(VARIABLE, key)
}

fn say(daemon: &Daemon) -> String {
    let accepted = daemon.post("/api/chat", &json!({ "message": "hello" })).json();
    let request = accepted["requestId"].as_str().unwrap_or_else(|| panic!("{accepted}"));
    let waited = daemon.get(&format!("/api/chat/wait?request={request}&timeoutMs=60000")).json();
    waited["replies"].as_array().unwrap().last().map_or("", |line| line["text"].as_str().unwrap()).to_owned()
}

fn status(workspace: &Workspace) -> Value {
    workspace.nexus(&["credential", "list", "--json"]).json()["credentials"][0].clone()
}

fn outcome(finished: &Finished) -> (String, String) {
    let report: Value = serde_json::from_str(&finished.stdout).unwrap_or_else(|_| panic!("{finished:?}"));
    let one = &report["credentials"][0];
    (one["outcome"].as_str().unwrap().to_owned(), one["reason"].as_str().unwrap_or_default().to_owned())
}

#[test]
fn w7_no_command_in_another_shell_breaks_a_working_daemon() {
    for wire in Wire::BOTH {
        let server = ModelServer::start();
        let workspace = workspace(&server, wire);
        let daemon = Daemon::start(&workspace, &with_key(&wire.key()));
        assert_eq!(say(&daemon), "Here I am.", "{}", daemon.log());
        for arguments in [
            &["credential", "verify", "--json"][..],
            &["doctor"],
            &["doctor", "--fix"],
            &["credential", "sync"],
        ] {
            // The variable is not there, empty, or another one.
            for run in [
                Run::new(arguments),
                Run::new(arguments).variable(VARIABLE, ""),
                Run::new(arguments).variable(VARIABLE, "not-the-key"),
            ] {
                let finished = workspace.run(&run);
                assert!(!finished.stdout.contains("is not set"), "{arguments:?}: {finished:?}");
                assert_ne!(status(&workspace)["status"], "broken", "{arguments:?}: {}", status(&workspace));
                assert_eq!(say(&daemon), "Here I am.", "after {arguments:?}");
            }
        }
        daemon.stop();
    }
}

#[test]
fn w7_without_a_daemon_nothing_is_known_and_nothing_is_written() {
    let server = ModelServer::start();
    let workspace = workspace(&server, Wire::Anthropic);
    let before = status(&workspace);
    let (outcome, reason) = outcome(&workspace.nexus(&["credential", "verify", "--json"]));
    assert_eq!(outcome, "not_visible", "{reason}");
    assert!(reason.contains("not visible from here: variable MY_MODEL_KEY is not set"), "{reason}");
    let doctor = workspace.nexus(&["doctor"]);
    assert!(doctor.stdout.contains("not visible from here"), "{doctor:?}");
    let wrong = Run::new(&["credential", "verify", "--json"]).variable(VARIABLE, "not-the-key");
    workspace.run(&wrong);
    assert_eq!(status(&workspace), before);
    let daemon = Daemon::start(&workspace, &with_key(&Wire::Anthropic.key()));
    assert_eq!(say(&daemon), "Here I am.", "{}", daemon.log());
}

#[test]
fn w7_a_shell_that_has_the_variable_does_not_speak_for_a_daemon_without_it() {
    let server = ModelServer::start();
    let workspace = workspace(&server, Wire::OpenAi);
    let daemon = Daemon::start(&workspace, &DaemonOptions::default());
    let told = say(&daemon);
    assert!(told.contains("variable MY_MODEL_KEY is not set"), "{told}");
    let verify = Run::new(&["credential", "verify", "--json"]).variable(VARIABLE, Wire::OpenAi.key());
    let finished = workspace.run(&verify);
    assert_eq!(outcome(&finished).0, "no_secret", "{finished:?}");
    let one = status(&workspace);
    assert_eq!((&one["status"], &one["observedBy"]), (&json!("broken"), &json!("daemon")), "{one}");
    let told = say(&daemon);
    assert!(told.contains("restart the daemon with it set"), "it says what to do: {told}");
    daemon.stop();
    // Put right, it works at once.
    let daemon = Daemon::start(&workspace, &with_key(&Wire::OpenAi.key()));
    assert_eq!(say(&daemon), "Here I am.", "{}", daemon.log());
}

#[test]
fn w7_a_secret_that_appears_is_used_by_the_running_daemon() {
    let server = ModelServer::start();
    let workspace = workspace(&server, Wire::Anthropic);
    workspace.nexus(&["credential", "remove", "anthropic/mine"]).ok();
    let key = workspace.home().join("key.txt");
    let command = format!("cat {}", key.display());
    workspace.nexus(&["credential", "add", "anthropic", "--account", "mine", "--command", &command]).ok();
    let daemon = Daemon::start(&workspace, &DaemonOptions::default());
    assert_ne!(say(&daemon), "Here I am.");
    let text = Wire::Anthropic.key();
    nexus_base::file::replace(&key, text.as_bytes(), 0o600, nexus_base::file::Durability::Crash).unwrap();
    assert_eq!(say(&daemon), "Here I am.", "{}", daemon.log());
}
