//! A loss of power takes each database back by itself; the two that decide bring the others into line.

use std::path::Path;

use nexus_testkit::{Daemon, DaemonOptions, Workspace};
use serde_json::{Value, json};

fn workspace() -> Workspace {
    Workspace::initialized(env!("CARGO_BIN_EXE_nexus"))
}

fn start(workspace: &Workspace) -> Daemon {
    Daemon::start(workspace, &DaemonOptions::default())
}

/// Says something; returns its request.
fn say(daemon: &Daemon, text: &str) -> String {
    let accepted = daemon.post("/api/chat", &json!({"message": text})).json();
    accepted["requestId"].as_str().unwrap_or_else(|| panic!("{accepted}")).to_owned()
}

fn wait(daemon: &Daemon, request: &str) -> Value {
    let waited = daemon.get(&format!("/api/chat/wait?request={request}&timeoutMs=30000")).json();
    assert_eq!(waited["quiescent"], true, "{waited}");
    waited
}

/// Everything of one database, as `name: bytes`.
fn copy(data: &Path, database: &str) -> Vec<(String, Option<Vec<u8>>)> {
    ["", "-wal", "-shm"]
        .iter()
        .map(|end| {
            let name = format!("{database}.db{end}");
            let bytes = std::fs::read(data.join(&name)).ok();
            (name, bytes)
        })
        .collect()
}

fn put_back(data: &Path, files: &[(String, Option<Vec<u8>>)]) {
    for (name, bytes) in files {
        match bytes {
            Some(bytes) => std::fs::File::create(data.join(name))
                .and_then(|mut file| std::io::Write::write_all(&mut file, bytes))
                .unwrap(),
            None => drop(std::fs::remove_file(data.join(name))),
        }
    }
}

/// Returns what the trace says about a request.
fn status_of(daemon: &Daemon, request: &str) -> String {
    let view = daemon.get(&format!("/api/requests/{request}")).json();
    view["status"].as_str().map_or_else(|| view.to_string(), str::to_owned)
}

#[test]
fn a_trace_that_was_lost_is_there_again() {
    let workspace = workspace();
    let data = workspace.path("state/data");
    start(&workspace).stop();
    let before = copy(&data, "runtime");
    let daemon = start(&workspace);
    let request = say(&daemon, "hello");
    let said = wait(&daemon, &request);
    daemon.stop();
    put_back(&data, &before);

    let daemon = start(&workspace);
    assert_eq!(status_of(&daemon, &request), "completed");
    assert_eq!(wait(&daemon, &request), said);
    daemon.stop();
}

#[test]
fn a_message_that_was_turned_away_is_not_forgotten_with_its_trace() {
    let workspace = workspace();
    workspace.edit_config(|config| {
        config["acl"] = json!({"policies": [{"name": "nobody", "effect": "deny", "match": {"principal": {"is_user": true}}}]});
    });
    let data = workspace.path("state/data");
    start(&workspace).stop();
    let before = copy(&data, "runtime");
    let daemon = start(&workspace);
    let request = say(&daemon, "hello");
    wait(&daemon, &request);
    assert_eq!(status_of(&daemon, &request), "denied");
    daemon.stop();
    put_back(&data, &before);

    let daemon = start(&workspace);
    assert_eq!(status_of(&daemon, &request), "denied");
    daemon.stop();
}

#[test]
fn a_promise_that_seems_open_again_is_not_kept_twice() {
    let workspace = workspace();
    let data = workspace.path("state/data");
    let dying = Daemon::start(&workspace, &DaemonOptions::dying_at("s8.before_project"));
    let request = say(&dying, "hello");
    dying.wait_for_end(std::time::Duration::from_secs(20));
    let before = copy(&data, "events");
    let daemon = start(&workspace);
    let said = wait(&daemon, &request);
    let history = daemon.get("/api/chat/history?limit=50").json();
    daemon.stop();
    put_back(&data, &before);

    let daemon = start(&workspace);
    assert_eq!(wait(&daemon, &request), said);
    assert_eq!(status_of(&daemon, &request), "completed");
    assert_eq!(daemon.get("/api/chat/history?limit=50").json(), history);
    daemon.stop();
}
