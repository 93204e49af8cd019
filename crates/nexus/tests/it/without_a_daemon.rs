//! Commands while no daemon runs: what works, and what says how to start one.

use nexus_testkit::{Run, Workspace};

fn workspace() -> Workspace {
    Workspace::initialized(env!("CARGO_BIN_EXE_nexus"))
}

#[test]
fn what_needs_a_daemon_says_so_and_exits_three() {
    let workspace = workspace();
    for arguments in [&["stop"][..], &["chat", "-m", "Hello"], &["chat"], &["config", "reload"]] {
        let finished = workspace.nexus(arguments);
        assert_eq!(finished.code(), Some(3), "{arguments:?}: {finished:?}");
        let lines: Vec<&str> = finished.stderr.lines().collect();
        assert!(
            lines.len() == 2
                && lines[0].starts_with("error: no daemon is running")
                && lines[1].contains("nexus up"),
            "{arguments:?}: {lines:?}"
        );
    }
}

#[test]
fn a_missing_workspace_says_how_to_make_one() {
    let workspace = Workspace::new(env!("CARGO_BIN_EXE_nexus"));
    for arguments in [&["stop"][..], &["trace"], &["sessions"], &["chat", "-m", "x"], &["credential", "list"]]
    {
        let finished = workspace.nexus(arguments);
        assert_eq!(finished.code(), Some(3), "{arguments:?}: {finished:?}");
        assert!(finished.stderr.contains("nexus init"), "{arguments:?}: {finished:?}");
    }
}

#[test]
fn status_reports_a_workspace_that_sleeps() {
    let workspace = workspace();
    let status = workspace.nexus(&["status", "--json"]).json();
    assert_eq!(status["runtime"]["running"], false, "{status}");
    assert_eq!(status["onboarded"], false);
    assert_eq!(status["bootstrap"]["needed"], true);
    assert!(workspace.nexus(&["status"]).ok().stdout.contains("not running"));
    // The settings alone say which model it will be.
    assert_eq!(status["model"], "nexus/guide", "{status}");
    workspace.edit_config(|config| {
        config["agent"]["model"] = serde_json::json!("ollama/llama3.2");
    });
    assert_eq!(workspace.nexus(&["status", "--json"]).json()["model"], "ollama/llama3.2");
    assert!(workspace.nexus(&["status"]).ok().stdout.contains("ollama/llama3.2, once the daemon is running"));
}

#[test]
fn listings_are_empty_and_not_an_error() {
    let workspace = workspace();
    assert_eq!(workspace.nexus(&["sessions", "--json"]).json()["sessions"], serde_json::json!([]));
    assert_eq!(workspace.nexus(&["trace", "--list", "--json"]).json()["requests"], serde_json::json!([]));
    assert_eq!(workspace.nexus(&["trace"]).code(), Some(3));
    assert_eq!(workspace.nexus(&["trace", "01NOSUCHREQUEST"]).code(), Some(3));
    assert_eq!(
        workspace.nexus(&["credential", "list", "--json"]).json()["credentials"],
        serde_json::json!([])
    );
}

#[test]
fn a_scan_masks_what_it_finds_and_imports_only_when_told() {
    let workspace = workspace();
    let key = format!("sk-ant-{}", "a1b2".repeat(8));
    let scan =
        |arguments: &[&str]| workspace.run(&Run::new(arguments).variable("ANTHROPIC_API_KEY", key.clone()));
    let found = scan(&["credential", "scan", "--json"]).json();
    assert_eq!(found["findings"][0]["service"], "anthropic");
    assert_eq!(found["imported"], serde_json::json!([]));
    // Nobody to ask: an import without --yes is refused.
    assert_eq!(scan(&["credential", "scan", "--import"]).code(), Some(2));
    let imported = scan(&["credential", "scan", "--import", "--yes"]).ok().stdout;
    assert!(imported.contains("imported anthropic/"), "{imported}");
    assert!(!imported.contains(&key));
    let listed = workspace.nexus(&["credential", "list"]).ok().stdout;
    assert!(listed.contains("ANTHROPIC_API_KEY") && !listed.contains(&key), "{listed}");
}

#[test]
fn the_memory_takes_and_gives() {
    let workspace = workspace();
    let fact = "Ada drinks her coffee black";
    let kept = workspace.nexus(&["memory", "add", fact, "--json"]).json();
    let found = workspace.nexus(&["memory", "recall", "coffee", "--json"]).json();
    assert_eq!(
        (&found["facts"][0]["id"], &found["facts"][0]["text"]),
        (&kept["id"], &fact.into()),
        "{found}"
    );
    assert_eq!(
        workspace.nexus(&["memory", "recall", "zeppelin", "--json"]).json()["facts"],
        serde_json::json!([])
    );
    assert_eq!(workspace.nexus(&["memory", "add", " "]).code(), Some(2));
}

#[test]
fn inside_a_tool_call_nothing_runs_here() {
    let workspace = workspace();
    let run = Run::new(&["config", "list"]).variable("NEXUS_RUN_FD", "99");
    let finished = workspace.run(&run);
    assert_eq!((finished.code(), finished.stdout.as_str()), (Some(1), ""));
    assert!(finished.stderr.contains("tool call"), "{finished:?}");
}
