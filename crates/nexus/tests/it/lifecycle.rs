//! From `init` to a working assistant, block by block: what must hold after each step.

use std::path::Path;
use std::time::Duration;

use nexus_store::{OpenMode, Store};
use nexus_testkit::{Daemon, DaemonOptions, Workspace, http, until};
use rustix::process::Signal;
use serde_json::{Value, json};

const SOON: Duration = Duration::from_secs(30);

fn workspace() -> Workspace {
    Workspace::initialized(env!("CARGO_BIN_EXE_nexus"))
}

fn store(workspace: &Workspace) -> Store {
    Store::open(&workspace.path("state/data"), OpenMode::ReadOnly).unwrap()
}

/// Says something and waits until nothing of it is left to do; returns the accepted answer and the wait's.
fn say(daemon: &Daemon, message: &str) -> (Value, Value) {
    say_as(daemon, &json!({"message": message}))
}

fn say_as(daemon: &Daemon, body: &Value) -> (Value, Value) {
    let accepted = daemon.post("/api/chat", body);
    assert_eq!(accepted.status, 200, "{}", accepted.body);
    let accepted = accepted.json();
    let request = accepted["requestId"].as_str().unwrap();
    let waited = daemon.get(&format!("/api/chat/wait?request={request}&timeoutMs=60000")).json();
    assert_eq!(waited["quiescent"], true, "{waited}");
    (accepted, waited)
}

fn onboard(daemon: &Daemon) {
    for line in nexus_testkit::witness::ONBOARDING {
        say(daemon, line);
    }
}

fn automation_names(workspace: &Workspace) -> Vec<String> {
    let store = store(workspace);
    let rows = store.runtime().list_automations_blocking().unwrap();
    rows.into_iter().map(|row| row.definition.name).collect()
}

#[test]
fn after_start_everything_a_conversation_needs_is_there() {
    let mut workspace = workspace();
    let key = format!("sk-ant-{}", "b7".repeat(20));
    workspace.set_variable("ANTHROPIC_API_KEY", &key);
    let daemon = Daemon::start(&workspace, &DaemonOptions::default());
    let health = daemon.get("/health");
    assert_eq!(health.status, 200);
    let report = health.json();
    let steps: Vec<&str> =
        report["boot"].as_array().unwrap().iter().map(|step| step["step"].as_str().unwrap()).collect();
    assert_eq!(
        steps,
        [
            "lock",
            "config",
            "databases",
            "credentials",
            "owner",
            "automations",
            "server",
            "adapters",
            "hooks",
            "recovery"
        ]
    );
    assert!(report["ledgers"].as_object().unwrap().values().all(|state| state == "ok"), "{report}");

    let owner = store(&workspace).identity().owner_blocking().unwrap().expect("the owner is seeded");
    assert_eq!(
        (owner.id.as_str(), owner.name.as_str(), owner.kind.as_str()),
        ("entity-owner", "Owner", "person")
    );
    let mut names = automation_names(&workspace);
    names.sort();
    assert_eq!(names, ["boot-md", "command-logger", "memory-reader", "memory-writer"]);
    for folder in ["memory-reader", "memory-writer"] {
        for file in ["ROLE.md", "SKILLS.md", "PATTERNS.md", "ERRORS.md", "skills/memory/SCHEMA.md"] {
            assert!(
                !workspace.file(&format!("state/workspace/{folder}/{file}")).is_empty(),
                "{folder}/{file}"
            );
        }
    }
    // A provider's variable became a pointer; its value is nowhere under the workspace.
    let pointer = workspace.json("state/credentials/anthropic/env%3AANTHROPIC_API_KEY.json");
    assert_eq!(pointer["credentials"][0]["storage"]["var"], "ANTHROPIC_API_KEY", "{pointer}");
    daemon.stop();
    assert_eq!(files_with(workspace.root(), &key), Vec::<String>::new());
}

#[test]
fn a_restart_duplicates_nothing_and_keeps_a_choice() {
    let workspace = workspace();
    let daemon = Daemon::start(&workspace, &DaemonOptions::default());
    say(&daemon, "Hello");
    let before = daemon.get("/api/chat/history").json();
    daemon.stop();
    let rows = automation_names(&workspace).len();

    let daemon = Daemon::start(&workspace, &DaemonOptions::default());
    assert_eq!(daemon.get("/api/chat/history").json(), before);
    assert_eq!(automation_names(&workspace).len(), rows);
    assert_eq!(store(&workspace).identity().list_entities_blocking(100).unwrap().len(), 1);
    daemon.stop();
}

#[test]
fn after_onboarding_a_turn_goes_through_a_worker_and_comes_back() {
    let workspace = workspace();
    let daemon = Daemon::start(&workspace, &DaemonOptions::default());
    onboard(&daemon);
    let (accepted, waited) = say(&daemon, "run `echo from the worker > made.txt; cat made.txt`");
    let replies: Vec<&str> =
        waited["replies"].as_array().unwrap().iter().map(|line| line["text"].as_str().unwrap()).collect();
    assert!(replies.last().unwrap().contains("from the worker"), "{replies:?}");
    assert_eq!(workspace.file("home/made.txt"), "from the worker\n");

    let trace = daemon.get(&format!("/api/requests/{}", accepted["requestId"].as_str().unwrap())).json();
    let dispatch = &trace["toolCalls"][0];
    assert_eq!(
        (dispatch["tool"].as_str(), dispatch["status"].as_str()),
        (Some("agent_send"), Some("completed"))
    );
    let children = trace["children"].as_array().unwrap();
    let kinds: Vec<&str> = children.iter().map(|child| child["eventType"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["task", "worker_result"], "{trace}");
    assert_eq!(dispatch["spawnedSession"], children[0]["session"], "{trace}");
    let call: Value = serde_json::from_str(dispatch["result"].as_str().unwrap()).unwrap();
    let dispatch_id = call["dispatch_id"].as_str().unwrap();
    assert!(children[1]["eventId"].as_str().unwrap().ends_with(dispatch_id), "{trace}");
    let stages: Vec<&str> =
        trace["stages"].as_array().unwrap().iter().map(|stage| stage["stage"].as_str().unwrap()).collect();
    assert_eq!(
        stages,
        [
            "receiveEvent",
            "resolveIdentity",
            "resolveAccess",
            "runAutomations",
            "assembleContext",
            "runAgent",
            "deliverResponse",
            "finalize"
        ]
    );
    daemon.stop();
}

#[test]
fn the_same_key_runs_once_and_another_body_is_refused() {
    let workspace = workspace();
    let daemon = Daemon::start(&workspace, &DaemonOptions::default());
    let body = json!({"message": "Hello", "idempotencyKey": "key-1"});
    let (first, waited) = say_as(&daemon, &body);
    let (second, waited_again) = say_as(&daemon, &body);
    assert_eq!((first["duplicate"].as_bool(), second["duplicate"].as_bool()), (Some(false), Some(true)));
    assert_eq!(first["requestId"], second["requestId"]);
    assert_eq!(waited["replies"], waited_again["replies"]);
    let other = daemon.post("/api/chat", &json!({"message": "Something else", "idempotencyKey": "key-1"}));
    assert_eq!((other.status, other.json()["error"]["code"].clone()), (400, json!("INVALID_REQUEST")));
    let history = daemon.get("/api/chat/history").json();
    let said = history["lines"].as_array().unwrap().iter().filter(|line| line["speaker"] == "user").count();
    assert_eq!(said, 1, "{history}");
    daemon.stop();
}

#[test]
fn bad_messages_are_refused_with_a_reason_and_the_next_one_is_served() {
    let workspace = workspace();
    let daemon = Daemon::start(&workspace, &DaemonOptions::default());
    let long = "x".repeat(300 * 1024);
    for (body, code, naming) in [
        (json!({"message": "  "}), 400, "empty"),
        (json!({"message": long}), 400, "bytes"),
        (json!({"message": "hi", "session": "no colon"}), 400, "session label"),
        (json!({"message": "hi", "session": "worker:01"}), 403, "run by the daemon"),
        (json!({"message": "hi", "idempotencyKey": ""}), 400, "idempotencyKey"),
        (json!({"message": "hi", "surprise": 1}), 400, "surprise"),
    ] {
        let answer = daemon.post("/api/chat", &body);
        assert_eq!(answer.status, code, "{}", answer.body);
        assert!(answer.body.contains(naming), "{} lacks {naming}", answer.body);
    }
    assert_eq!(daemon.get("/api/chat/history?session=chat:nobody").status, 404);
    assert_eq!(daemon.get("/api/requests/01NOSUCHREQUEST").status, 404);
    say(&daemon, "Hello");
    daemon.stop();
}

#[test]
fn a_hangup_rereads_the_configuration_and_keeps_the_old_one_when_it_is_bad() {
    let workspace = workspace();
    let daemon = Daemon::start(&workspace, &DaemonOptions::default());
    let opens = |token: &str| http::get(daemon.port(), "/metrics", Some(token)).unwrap().status == 200;
    let mut config = workspace.json("state/config.json");
    let renewed = "5a".repeat(32);
    config["runtime"]["auth"]["token"] = json!(renewed);
    workspace.write("state/config.json", &config.to_string());
    assert!(opens(daemon.token()) && !opens(&renewed), "a file alone changes nothing");
    daemon.signal(Signal::HUP);
    until("the new token opens", SOON, || opens(&renewed).then_some(()));
    assert!(!opens(daemon.token()), "the old token still opens");
    workspace.write("state/config.json", "{ not json");
    daemon.signal(Signal::HUP);
    until("the refusal is logged", SOON, || daemon.log().contains("keeping the old one").then_some(()));
    assert!(opens(&renewed), "the configuration before the bad one is no longer in force");
    daemon.stop();
}

#[test]
fn a_bad_optional_section_starts_degraded_and_says_so() {
    let workspace = workspace();
    let mut config = workspace.json("state/config.json");
    config["queue"] = json!({"mode": "sideways"});
    workspace.write("state/config.json", &config.to_string());
    let daemon = Daemon::start(&workspace, &DaemonOptions::default());
    let report = daemon.get("/health").json();
    assert_eq!(report["status"], "degraded", "{report}");
    assert!(report["warnings"].to_string().contains("queue.mode"), "{report}");
    say(&daemon, "Hello");
    daemon.stop();
}

#[test]
fn starts_that_never_become_ready_are_held_back() {
    let workspace = workspace();
    for _ in 0..4 {
        let failure = Daemon::try_start(&workspace, &DaemonOptions::dying_at("seed.owner"));
        assert!(failure.is_err(), "the failpoint did not end the start");
    }
    let daemon = Daemon::start(&workspace, &DaemonOptions::default());
    let held_back = || workspace.file("state/logs/nex.log").matches("never became ready").count();
    let before = held_back();
    assert!(before > 0, "{}", daemon.log());
    daemon.stop();
    let daemon = Daemon::start(&workspace, &DaemonOptions::default());
    assert_eq!(held_back(), before, "a start that became ready sets it back");
    daemon.stop();
}

fn files_with(folder: &Path, needle: &str) -> Vec<String> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap().flatten() {
        let path = entry.path();
        if path.is_dir() {
            found.extend(files_with(&path, needle));
        } else {
            let content = std::fs::read(&path).unwrap_or_default();
            if content.windows(needle.len()).any(|window| window == needle.as_bytes()) {
                found.push(path.display().to_string());
            }
        }
    }
    found
}
