//! `nexus doctor` names what is wrong in each part, says what to do, and mends what it may.

use std::os::unix::fs::PermissionsExt;

use nexus_testkit::{Daemon, DaemonOptions, Workspace};
use serde_json::Value;

fn conditions(report: &Value, part: &str) -> Vec<String> {
    let checks = report["checks"].as_array().unwrap();
    checks
        .iter()
        .filter(|check| check["part"] == part)
        .map(|check| check["condition"].as_str().unwrap().to_owned())
        .collect()
}

fn report(workspace: &Workspace, arguments: &[&str]) -> (Value, Option<i32>) {
    let finished = workspace.nexus(&[&["doctor", "--json"], arguments].concat());
    (serde_json::from_str(&finished.stdout).expect("JSON"), finished.code())
}

#[test]
fn a_fresh_workspace_is_well_with_and_without_a_daemon() {
    let workspace = Workspace::initialized(env!("CARGO_BIN_EXE_nexus"));
    let (fresh, code) = report(&workspace, &[]);
    assert_eq!((&fresh["healthy"], code), (&true.into(), Some(0)), "{fresh}");
    for part in
        ["folders", "rights", "templates", "config", "daemon", "databases", "disk", "trust", "credentials"]
    {
        assert_eq!(conditions(&fresh, part), ["fine"], "{part}: {fresh}");
    }
    let daemon = Daemon::start(&workspace, &DaemonOptions::default());
    let (running, code) = report(&workspace, &[]);
    assert_eq!(code, Some(0), "{running}");
    assert!(running.to_string().contains(&daemon.pid().to_string()), "{running}");
}

#[test]
fn what_is_wrong_is_named_and_what_can_be_is_mended() {
    let workspace = Workspace::initialized(env!("CARGO_BIN_EXE_nexus"));
    workspace.nexus(&["credential", "add", "openai", "--env", "NOT_SET_ANYWHERE"]).ok();
    std::fs::remove_dir_all(workspace.path("state/user")).unwrap();
    std::fs::remove_file(workspace.path("AGENTS.md")).unwrap();
    std::fs::remove_file(workspace.path("state/data/memory.db")).unwrap();
    let config = workspace.path("state/config.json");
    std::fs::set_permissions(&config, std::fs::Permissions::from_mode(0o644)).unwrap();
    std::fs::set_permissions(workspace.path("state"), std::fs::Permissions::from_mode(0o755)).unwrap();
    let (found, code) = report(&workspace, &[]);
    assert_eq!(code, Some(1), "{found}");
    assert_eq!(conditions(&found, "folders"), ["broken"]);
    assert_eq!(conditions(&found, "rights"), ["broken"]);
    assert_eq!(conditions(&found, "databases"), ["broken", "fine"]);
    assert_eq!(conditions(&found, "credentials"), ["warning"]);
    let checks = found["checks"].as_array().unwrap();
    let silent: Vec<&Value> =
        checks.iter().filter(|check| check["condition"] != "fine" && check["hint"].is_null()).collect();
    assert!(silent.is_empty(), "every finding says what to do: {silent:?}");

    let (mended, code) = report(&workspace, &["--fix"]);
    assert_eq!(code, Some(0), "{mended}");
    assert_eq!(conditions(&mended, "rights"), ["fixed"], "whoever mends says so: {mended}");
    assert_eq!(std::fs::metadata(&config).unwrap().permissions().mode() & 0o777, 0o600);
    assert!(workspace.path("AGENTS.md").is_file());
    let (after, code) = report(&workspace, &[]);
    assert_eq!(code, Some(0), "{after}");
    assert_eq!(conditions(&after, "databases"), ["fine"]);
}

#[test]
fn damage_and_a_broken_configuration_are_told_apart() {
    let workspace = Workspace::initialized(env!("CARGO_BIN_EXE_nexus"));
    workspace.write("state/config.json", "{ nope");
    let path = workspace.path("state/data/events.db");
    let mut bytes = std::fs::read(&path).unwrap();
    for page in (4096..bytes.len()).step_by(4096) {
        bytes[page..page + 16].fill(0xff);
    }
    nexus_base::file::replace(&path, &bytes, 0o600, nexus_base::file::Durability::Crash).unwrap();
    let (found, code) = report(&workspace, &["--fix"]);
    assert_eq!(code, Some(1), "{found}");
    assert_eq!(conditions(&found, "config"), ["broken"], "{found}");
    assert!(conditions(&found, "databases").contains(&"broken".to_owned()), "{found}");
}
