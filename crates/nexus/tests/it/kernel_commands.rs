//! `nexus kernel …` as a person types it: with a server and without one.

use std::fs;

use nexus_testkit::{Run, Workspace};
use serde_json::json;

use crate::kernel_serving::Serving;

fn workspace() -> Workspace {
    Workspace::new(env!("CARGO_BIN_EXE_nexus"))
}

fn run_dir(workspace: &Workspace) -> std::path::PathBuf {
    workspace.home().join(".nexus/run")
}

/// The lines of the runbook, in their order.
fn the_life_of_a_workspace(workspace: &Workspace) {
    let created = workspace.nexus(&["kernel", "ws", "create", "testws"]).ok();
    assert_eq!(created.stdout, "created testws\n");
    let manifest = fs::read_to_string(run_dir(workspace).join("testws/manifest.json")).expect("a manifest");
    let manifest: serde_json::Value = serde_json::from_str(&manifest).expect("JSON");
    assert_eq!((&manifest["ws_id"], &manifest["owner_role"]), (&json!("testws"), &json!("operator")));
    assert_eq!(
        workspace.nexus(&["kernel", "ws", "create", "testws"]).ok().stdout,
        "testws already exists; nothing changed\n"
    );
    assert_eq!(workspace.nexus(&["ws", "list"]).ok().stdout, "testws\n");
    let refused = workspace.nexus(&["kernel", "ws", "destroy", "testws"]);
    assert_eq!(refused.code(), Some(1), "{refused:?}");
    assert_eq!(
        refused.stderr,
        "error: refused with code 202: role_required\nhint: confirm it with --arming --role operator\n"
    );
    let unarmed = workspace.nexus(&["kernel", "ws", "destroy", "testws", "--role", "operator"]);
    assert!(unarmed.stderr.starts_with("error: refused with code 201: arming_required"), "{unarmed:?}");
    let lowly = workspace.nexus(&["kernel", "ws", "destroy", "testws", "--arming"]);
    assert!(lowly.stderr.starts_with("error: refused with code 202: role_required"), "{lowly:?}");
    assert!(run_dir(workspace).join("testws").is_dir());
    let destroyed =
        workspace.nexus(&["kernel", "ws", "destroy", "testws", "--arming", "--role", "operator"]).ok();
    assert_eq!(destroyed.stdout, "destroyed testws\n");
    assert!(!run_dir(workspace).join("testws").exists());
    let again =
        workspace.nexus(&["ws", "destroy", "testws", "--arming", "--role", "operator", "--json"]).json();
    assert_eq!(
        again,
        json!({ "status": "ok", "ws_id": "testws", "destroyed": false, "note": "already_absent" })
    );
    assert_eq!(
        workspace.nexus(&["ws", "list", "--json"]).json(),
        json!({ "status": "ok", "count": 0, "workspaces": [] })
    );
}

#[test]
fn workspaces_live_and_die_without_a_server() {
    let workspace = workspace();
    the_life_of_a_workspace(&workspace);
    let log = fs::read_to_string(run_dir(&workspace).join("kernel/kernel.log")).expect("the kernel's log");
    assert!(log.contains(r#""decision":"REJECT","code":202"#), "{log}");
}

#[test]
fn workspaces_live_and_die_with_a_server() {
    let workspace = workspace();
    let serving = Serving::start(&workspace, &["--quiet"], None);
    the_life_of_a_workspace(&workspace);
    drop(serving);
    the_life_of_a_workspace(&workspace);
}

#[test]
fn bad_ids_are_refused_with_advice_and_make_nothing() {
    let workspace = workspace();
    for (id, reason) in [("../x", "bad_ws_id"), ("a b", "bad_ws_id"), ("engine", "reserved_ws_id")] {
        let refused = workspace.nexus(&["kernel", "ws", "create", "--", id]);
        assert_eq!(refused.code(), Some(1), "{refused:?}");
        assert!(refused.stderr.contains(&format!("refused with code 102: {reason}\nhint: ")), "{refused:?}");
    }
    let mut names: Vec<_> = fs::read_dir(run_dir(&workspace))
        .expect("the run folder")
        .map(|entry| entry.expect("an entry").file_name())
        .collect();
    names.sort();
    assert_eq!(names, ["kernel", "root"]);
}

#[test]
fn a_role_that_is_given_is_the_role_that_is_used() {
    let workspace = workspace();
    let refused = workspace.nexus(&["ws", "create", "x", "--role", "user"]);
    assert!(refused.stderr.contains("202: role_required"), "{refused:?}");
    workspace.nexus(&["ws", "create", "x", "--role", "system"]).ok();
}

#[test]
fn ping_and_status_need_a_server() {
    let workspace = workspace();
    for arguments in [&["kernel", "ping"][..], &["kernel", "ping", "--root"], &["kernel", "status"]] {
        let finished = workspace.nexus(arguments);
        assert_eq!(finished.code(), Some(3), "{finished:?}");
        assert!(finished.stderr.contains("hint: nexus kernel serve"), "{finished:?}");
    }
    let serving = Serving::start(&workspace, &["--quiet"], None);
    assert_eq!(workspace.nexus(&["kernel", "ping"]).ok().stdout, "pong\n");
    assert_eq!(workspace.nexus(&["kernel", "ping", "--root", "--json"]).json(), json!({ "status": "pong" }));
    let status = workspace.nexus(&["kernel", "status", "--json"]).json();
    assert_eq!((&status["pid"], &status["workspaces"]), (&json!(serving.id()), &json!(0)), "{status}");
}

#[test]
fn root_alone_answers_for_itself_only() {
    let workspace = workspace();
    let _root = Serving::start(&workspace, &["--root-only", "--quiet"], None);
    assert_eq!(workspace.nexus(&["kernel", "ping", "--root"]).ok().stdout, "pong\n");
    let refused = workspace.nexus(&["kernel", "ping"]);
    assert!(refused.stderr.contains("code 500: kernel_connect_failed"), "{refused:?}");
    let kernel = Serving::start(&workspace, &["--kernel-only", "--quiet"], None);
    assert_eq!(workspace.nexus(&["kernel", "ping"]).ok().stdout, "pong\n");
    drop(kernel);
}

#[test]
fn a_kernel_alone_is_used_by_commands() {
    let workspace = workspace();
    let _kernel = Serving::start(&workspace, &["--kernel-only", "--quiet"], None);
    workspace.nexus(&["ws", "create", "through"]).ok();
    assert_eq!(workspace.nexus(&["ws", "list"]).ok().stdout, "through\n");
}

#[test]
fn the_run_folder_can_be_named() {
    let workspace = workspace();
    let other = workspace.home().join("other");
    let flag = other.to_string_lossy().into_owned();
    workspace.nexus(&["kernel", "ws", "create", "here", "--run-dir", &flag]).ok();
    assert!(other.join("here/manifest.json").is_file());
    let listed = workspace.run(&Run::new(&["ws", "list"]).variable("NEXUS_RUN_DIR", flag));
    assert_eq!(listed.ok().stdout, "here\n");
    assert!(!run_dir(&workspace).exists());
    let long = workspace.home().join("x".repeat(100));
    let refused = workspace.nexus(&["ws", "list", "--run-dir", &long.to_string_lossy()]);
    assert!(refused.stderr.contains("hint: set NEXUS_RUN_DIR to a shorter path"), "{refused:?}");
}

#[test]
fn a_second_server_is_told_who_serves() {
    let workspace = workspace();
    let serving = Serving::start(&workspace, &["--quiet"], None);
    let refused = workspace.nexus(&["kernel", "serve"]);
    assert_eq!(refused.code(), Some(1));
    assert!(
        refused.stderr.contains(&format!("is already being served by process {}", serving.id())),
        "{refused:?}"
    );
}

#[test]
fn decisions_are_repeated_on_stderr_unless_quiet() {
    let workspace = workspace();
    let serving = Serving::start(&workspace, &[], None);
    workspace.nexus(&["ws", "create", "told"]).ok();
    let said = serving.stop();
    for needed in
        [r#""plane":"root""#, r#""decision":"FORWARD""#, r#""decision":"ATTEMPT""#, r#""decision":"OK""#]
    {
        assert!(said.contains(needed), "{said}");
    }
}

#[test]
fn commands_at_once_take_turns() {
    let workspace = workspace();
    std::thread::scope(|scope| {
        for number in 0..8 {
            let workspace = &workspace;
            scope.spawn(move || workspace.nexus(&["ws", "create", &format!("turn-{number}")]).ok());
        }
    });
    assert_eq!(workspace.nexus(&["ws", "list"]).ok().stdout.lines().count(), 8);
}

#[test]
fn torture_prints_a_verdict_per_case() {
    let workspace = workspace();
    let finished = workspace.nexus(&["kernel", "torture", "--only", "link", "--repeat", "2"]).ok();
    let lines: Vec<&str> = finished.stdout.lines().collect();
    let (last, verdicts) = lines.split_last().expect("lines");
    assert_eq!(verdicts.len(), 6, "{lines:?}");
    assert!(verdicts.iter().all(|line| line.starts_with("PASS  ")), "{lines:?}");
    assert!(last.starts_with("6 passed, 0 failed in "), "{last}");
    let none = workspace.nexus(&["kernel", "torture", "--only", "no such case"]);
    assert_eq!(none.code(), Some(1), "{none:?}");
}
