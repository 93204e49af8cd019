//! Nexus workspaces inside governed ones: made, run, protected while they run.

use std::fs;

use nexus_testkit::Workspace;

use crate::kernel_serving::Serving;

#[test]
fn a_workspace_with_init_runs_and_is_protected_while_it_does() {
    let workspace = Workspace::new(env!("CARGO_BIN_EXE_nexus"));
    let path = workspace.home().join(".nexus/run/house");
    workspace.nexus(&["kernel", "ws", "create", "house", "--init"]).ok();
    assert!(path.join("manifest.json").is_file());
    assert!(path.join("state/config.json").is_file());
    assert!(path.join("AGENTS.md").is_file());

    let start = ["start", "--ws", "house", "--port", "0"];
    let mut daemon = Serving::command(&workspace, &start, None, "listening on ");
    let refused = workspace.nexus(&["ws", "destroy", "house", "--arming", "--role", "operator"]);
    assert_eq!(refused.code(), Some(1), "{refused:?}");
    assert!(refused.stderr.contains("code 500: workspace_in_use"), "{refused:?}");
    assert!(path.join("state/config.json").is_file());

    let stopped =
        workspace.nexus(&["ws", "destroy", "house", "--arming", "--role", "operator", "--stop"]).ok();
    assert_eq!(stopped.stdout, "destroyed house\n");
    assert!(!path.exists());
    assert!(daemon.wait().success());
}

#[test]
fn start_names_what_is_missing() {
    let workspace = Workspace::new(env!("CARGO_BIN_EXE_nexus"));
    let missing = workspace.nexus(&["start", "--ws", "nowhere"]);
    assert_eq!(missing.code(), Some(3), "{missing:?}");
    assert!(missing.stderr.contains("nexus kernel ws create nowhere --init"), "{missing:?}");
    let illegal = workspace.nexus(&["start", "--ws", "../etc"]);
    assert_eq!(illegal.code(), Some(2), "{illegal:?}");
    // A workspace without anything inside is not one that could run.
    workspace.nexus(&["ws", "create", "plain"]).ok();
    let plain = workspace.nexus(&["start", "--ws", "plain"]);
    assert_eq!(plain.code(), Some(3), "{plain:?}");
}

#[test]
fn a_failed_init_leaves_nothing() {
    let workspace = Workspace::new(env!("CARGO_BIN_EXE_nexus"));
    let run_dir = workspace.home().join(".nexus/run");
    workspace.nexus(&["ws", "list"]).ok();
    // Trust is recorded outside the workspace; a file where that folder should be makes init fail.
    let state = workspace.home().join(".local/state");
    fs::remove_dir_all(&state).expect("an empty folder");
    fs::File::create(&state).expect("a file");
    let refused = workspace.nexus(&["ws", "create", "house", "--init"]);
    assert!(refused.stderr.contains("code 500: workspace_init_failed"), "{refused:?}");
    assert!(!run_dir.join("house").exists());
    let log = fs::read_to_string(run_dir.join("kernel/kernel.log")).expect("the kernel's log");
    assert!(log.contains(r#""reason":"workspace_init_failed""#), "{log}");
}
