//! `nexus config`: reading, changing, and being told what is wrong.

use nexus_testkit::{Daemon, DaemonOptions, Workspace};

fn workspace() -> Workspace {
    Workspace::initialized(env!("CARGO_BIN_EXE_nexus"))
}

#[test]
fn a_value_can_be_set_read_and_taken_away() {
    let workspace = workspace();
    assert_eq!(workspace.nexus(&["config", "get", "queue.cap"]).ok().stdout, "20\n");
    assert_eq!(workspace.nexus(&["config", "set", "queue.cap", "7"]).ok().stdout, "queue.cap = 7\n");
    let value = workspace.nexus(&["config", "get", "queue.cap", "--json"]).json();
    assert_eq!(value, serde_json::json!({ "key": "queue.cap", "value": 7, "source": "file" }));
    workspace.nexus(&["config", "set", "queue.cap", "null"]).ok();
    assert_eq!(workspace.nexus(&["config", "get", "queue.cap"]).ok().stdout, "20\n");
}

#[test]
fn a_wrong_value_is_refused_with_key_and_remedy_and_the_file_stays() {
    let workspace = workspace();
    let before = workspace.file("state/config.json");
    for (key, value) in
        [("queue.cap", "0"), ("runtime.port", "99999"), ("no.such.key", "1"), ("queue.mode", "wild")]
    {
        let finished = workspace.nexus(&["config", "set", key, value]);
        assert_eq!(finished.code(), Some(1), "{key}: {finished:?}");
        let lines: Vec<&str> = finished.stderr.lines().collect();
        assert!(
            lines.len() == 2 && lines[0].contains(key) && lines[1].starts_with("hint: "),
            "{key}: {lines:?}"
        );
    }
    assert_eq!(workspace.file("state/config.json"), before);
}

#[test]
fn s18_a_key_that_is_there_twice_is_refused() {
    let workspace = workspace();
    let good = workspace.file("state/config.json");
    for twice in [r#"{"queue": {"cap": 5}, "queue": {"cap": 6}}"#, r#"{"queue": {"cap": 5, "c\u0061p": 6}}"#]
    {
        workspace.write("state/config.json", twice);
        for command in
            [&["config", "get", "queue.cap"][..], &["config", "set", "queue.cap", "7"], &["status"]]
        {
            let finished = workspace.nexus(command);
            assert_ne!(finished.code(), Some(0), "{command:?}: {finished:?}");
            assert!(finished.stderr.contains("is there twice"), "{command:?}: {finished:?}");
        }
        assert_eq!(workspace.file("state/config.json"), twice, "nothing is lost");
    }
    workspace.write("state/config.json", &good);
    workspace.nexus(&["config", "get", "queue.cap"]).ok();
}

#[test]
fn the_token_never_shows_and_cannot_be_typed() {
    let workspace = workspace();
    let token = workspace.token();
    for arguments in [
        &["config", "list"][..],
        &["config", "list", "--json"],
        &["config", "get", "runtime.auth.token"],
        &["config", "get", "runtime", "--json"],
        &["config", "get", "runtime.auth"],
    ] {
        let finished = workspace.nexus(arguments).ok();
        assert!(!finished.stdout.contains(&token) && !finished.stderr.contains(&token), "{arguments:?}");
    }
    assert_eq!(workspace.nexus(&["config", "set", "runtime.auth.token", "mine"]).code(), Some(1));
    workspace.nexus(&["config", "rotate-token"]).ok();
    assert_ne!(workspace.token(), token);
    let last_good = workspace.file("state/config.last-good.json");
    assert!(!last_good.contains(&token) && !last_good.contains(&workspace.token()));
}

#[test]
fn a_file_with_a_slip_and_no_token_is_mended_by_what_the_hints_say() {
    let workspace = workspace();
    workspace.write("state/config.json", r#"{"runtime":{"port":"x"}}"#);
    let refused = workspace.nexus(&["config", "list"]);
    assert!(refused.stderr.contains("runtime.port"), "{refused:?}");
    let mended = workspace.nexus(&["config", "set", "runtime.port", "18801"]).ok();
    assert!(mended.stderr.contains("had no token; it has one now"), "{mended:?}");
    assert_eq!(workspace.nexus(&["config", "get", "runtime.port"]).ok().stdout, "18801\n");
    assert!(workspace.token().len() >= 48);
    assert!(workspace.nexus(&["config", "set", "runtime.port", "18802"]).ok().stderr.is_empty());
}

#[test]
fn a_change_under_a_running_daemon_says_what_makes_it_count() {
    let workspace = workspace();
    let daemon = Daemon::start(&workspace, &DaemonOptions::default());
    let port = workspace.nexus(&["config", "set", "runtime.port", "18801"]).ok();
    assert!(
        port.stderr.contains("nexus stop and nexus start") && !port.stderr.contains("reload"),
        "{port:?}"
    );
    let cap = workspace.nexus(&["config", "set", "queue.cap", "7"]).ok();
    assert!(cap.stderr.contains("nexus config reload"), "{cap:?}");
    let told = workspace.nexus(&["config", "set", "runtime.port", "18802", "--json"]).json();
    assert_eq!((&told["reloadNeeded"], &told["restartNeeded"]), (&false.into(), &true.into()), "{told}");
    daemon.stop();
}

#[test]
fn every_key_is_listed_and_a_wrong_one_is_told_from_one_that_is_not_set() {
    let workspace = workspace();
    let table = workspace.nexus(&["config", "list"]).ok().stdout;
    assert!(table.lines().any(|line| line.starts_with("agent.model ") && line.ends_with("unset")), "{table}");
    let listed = workspace.nexus(&["config", "list", "--json"]).json();
    let unset = listed["unset"].as_array().unwrap();
    assert!(unset.contains(&serde_json::json!("agent.model")), "{listed}");
    for value in listed["values"].as_array().unwrap() {
        assert!(!unset.contains(&value["key"]), "{value}");
    }
    let get = |key: &str| workspace.nexus(&["config", "get", key]);
    assert!(get("agent.model").stderr.contains("agent.model is not set"));
    for key in ["nope.x", "runtime.nope"] {
        let told = get(key);
        assert!(told.code() == Some(3) && told.stderr.contains("is not a known key"), "{told:?}");
    }
}

#[test]
fn what_is_not_there_exits_three() {
    let workspace = workspace();
    assert_eq!(workspace.nexus(&["config", "get", "agent.model"]).code(), Some(3));
    assert_eq!(workspace.nexus(&["config", "reload"]).code(), Some(3));
    let elsewhere = workspace.home().join("nowhere");
    assert_eq!(
        workspace.nexus(&["config", "list", "--workspace", elsewhere.to_str().unwrap()]).code(),
        Some(3)
    );
}

#[test]
fn the_schema_is_json() {
    let schema: serde_json::Value =
        serde_json::from_str(&workspace().nexus(&["config", "schema"]).ok().stdout).unwrap();
    assert_eq!(schema["type"], "object");
}

#[test]
fn a_broken_file_is_named_with_its_line() {
    let workspace = workspace();
    workspace.write("state/config.json", "{ \"runtime\": }");
    let finished = workspace.nexus(&["config", "list"]);
    assert_eq!(finished.code(), Some(1));
    assert!(finished.stderr.contains("config.json") && finished.stderr.contains("line 1"), "{finished:?}");
}
