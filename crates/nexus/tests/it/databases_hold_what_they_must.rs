//! The databases have the tables that the workspace is promised, in new workspaces and in those of older builds, and a
//! setting that nobody reads cannot be set.

use nexus_testkit::{Daemon, DaemonOptions, Workspace};

/// Databases, and tables that must be in them.
const TABLES: [(&str, &[&str]); 3] = [
    (
        "identity",
        &["spaces", "containers", "threads", "names", "container_participants", "membership_events"],
    ),
    ("memory", &["analysis_types", "analysis_runs", "facets", "observation_facts", "mental_models"]),
    ("runtime", &["adapter_instances", "import_jobs", "bus_events"]),
];

/// The schema stands in a database's file as it was written.
fn assert_tables(workspace: &Workspace) {
    for (database, tables) in TABLES {
        let mut bytes = Vec::new();
        for end in ["db", "db-wal"] {
            let file = workspace.path(&format!("state/data/{database}.{end}"));
            bytes.extend(std::fs::read(file).unwrap_or_default());
        }
        let text = String::from_utf8_lossy(&bytes);
        for table in tables {
            assert!(text.contains(&format!("CREATE TABLE {table} (")), "{database}.db has no table {table}");
        }
    }
}

#[test]
fn w4_the_directory_analysis_and_adapter_tables_exist() {
    let workspace = Workspace::initialized(env!("CARGO_BIN_EXE_nexus"));
    assert_tables(&workspace);
    let daemon = Daemon::start(&workspace, &DaemonOptions::default());
    assert_eq!(daemon.get("/health").json()["status"], "healthy");
    daemon.stop();
    assert_tables(&workspace);
    workspace.nexus(&["doctor"]).ok();
}

#[test]
fn w4_settings_that_nothing_reads_are_refused() {
    let workspace = Workspace::initialized(env!("CARGO_BIN_EXE_nexus"));
    for (key, value) in [
        ("bus.mode", "persistent"),
        ("bus.retention_days", "3"),
        ("clock.enabled", "true"),
        ("clock.tickIntervalMs", "5000"),
    ] {
        let set = workspace.nexus(&["config", "set", key, value]);
        assert_ne!(set.code(), Some(0), "{key} was accepted: {}", set.stdout);
        assert!(set.stderr.contains(key), "{}", set.stderr);
    }
    let listed = workspace.nexus(&["config", "list"]).ok().stdout;
    assert!(!listed.contains("bus.") && !listed.contains("clock."), "{listed}");
    // One that an older build wrote is said and stops nothing.
    workspace.edit_config(|config| config["bus"] = serde_json::json!({"mode": "persistent"}));
    let daemon = Daemon::start(&workspace, &DaemonOptions::default());
    assert_eq!(daemon.get("/health").status, 200);
    daemon.stop();
}
