//! A backup beside a running daemon, restored elsewhere, talks and says nothing twice.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

use nexus_testkit::{Daemon, DaemonOptions, Run, Workspace, http, witness};
use serde_json::json;

fn restored(workspace: &Workspace, backup: &Path, name: &str) -> String {
    let place = workspace.home().join(name).display().to_string();
    workspace.nexus(&["restore", backup.to_str().unwrap(), "--workspace", &place, "--trust"]).ok();
    place
}

/// A program of the owner's that a restored workspace has to have, with its right to run.
fn register_clock(workspace: &Workspace) {
    workspace.write("automations/clock", "#!/bin/sh\nprintf '{\"enrich\": {\"clock\": \"tick\"}}'\n");
    let path = workspace.path("automations/clock");
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
    let words = ["automation", "register", "clock", "automations/clock", "--hook-point", "runAutomations"];
    workspace.nexus(&[&words[..], &["--blocking", "--yes"]].concat()).ok();
}

#[test]
fn a_restored_workspace_knows_everything_and_talks() {
    let workspace = Workspace::new(env!("CARGO_BIN_EXE_nexus"));
    let conversation =
        format!("{}\nremember that the tea is in the blue tin", witness::ONBOARDING.join("\n"));
    let run = Run::new(&["up", "--port", "0"]).input(conversation).within(Duration::from_secs(120));
    workspace.run(&run).ok();
    let used = workspace.nexus(&["usage", "--json"]).json();
    assert!(used["total"]["turns"].as_u64().unwrap() >= 4, "{used}");
    workspace.write("home/note.txt", "mine");
    workspace.write("MYNOTES.md", "at the root");
    workspace.write("notes/deep/er.md", "below it");
    workspace.write("nexus-backup.json", "a name that is taken");
    std::os::unix::fs::symlink("/etc", workspace.path("notes/elsewhere")).unwrap();
    std::os::unix::fs::symlink("/etc", workspace.path("link")).unwrap();
    register_clock(&workspace);
    let daemon = Daemon::start(&workspace, &DaemonOptions::default());
    let backup = workspace.home().join("backup");
    let report = workspace.nexus(&["backup", backup.to_str().unwrap(), "--json"]).json();
    assert!(report["files"].as_u64().unwrap() > 10, "{report}");
    let skipped: Vec<&str> =
        report["skipped"].as_array().unwrap().iter().map(|line| line.as_str().unwrap()).collect();
    assert_eq!(skipped.len(), 2, "{skipped:?}");
    assert!(skipped[0].contains("nexus-backup.json") && skipped[1].starts_with("link: "), "{skipped:?}");
    let token = workspace.token();
    assert!(!std::fs::read_to_string(backup.join("state/config.json")).unwrap().contains(&token));
    let known = workspace.nexus(&["sessions", "--json"]).json();
    daemon.stop();

    let place = restored(&workspace, &backup, "again");
    let at = ["--workspace", place.as_str()];
    let again = workspace.nexus(&[&["status", "--json"], &at[..]].concat()).json();
    assert_eq!(again["onboarded"], true, "{again}");
    assert_eq!(again["trust"], "trusted");
    assert_eq!(std::fs::read_to_string(Path::new(&place).join("home/note.txt")).unwrap(), "mine");
    for (file, text) in [("MYNOTES.md", "at the root"), ("notes/deep/er.md", "below it")] {
        assert_eq!(std::fs::read_to_string(Path::new(&place).join(file)).unwrap(), text);
    }
    assert_eq!(std::fs::read_link(Path::new(&place).join("notes/elsewhere")).unwrap(), Path::new("/etc"));
    let tested = workspace.nexus(&[&["automation", "test", "clock"], &at[..]].concat()).ok();
    assert!(tested.stdout.contains("tick"), "{tested:?}");
    let config = std::fs::read_to_string(Path::new(&place).join("state/config.json")).unwrap();
    assert!(!config.contains(&token) && !config.contains("[redacted]"), "it has a token of its own");
    let sessions = workspace.nexus(&[&["sessions", "--json"], &at[..]].concat()).json();
    assert_eq!(sessions, known);

    let arguments = [&["up", "--port", "0"], &at[..]].concat();
    let said = workspace.run(&Run::new(&arguments).input("Hello\n").within(Duration::from_secs(60))).ok();
    assert!(said.stdout.contains("Pixel>"), "{said:?}");
    let doctor = workspace.nexus(&[&["doctor"], &at[..]].concat());
    assert_eq!(doctor.code(), Some(0), "{doctor:?}");
}

#[test]
fn a_reply_that_waited_is_kept_back_after_a_restore() {
    let workspace = Workspace::initialized(env!("CARGO_BIN_EXE_nexus"));
    // It dies with the reply written and not yet marked as delivered.
    let daemon = Daemon::start(&workspace, &DaemonOptions::dying_at("s6.committed"));
    daemon.post("/api/chat", &json!({ "message": "Hello" }));
    daemon.wait_for_end(Duration::from_secs(30));
    let backup = workspace.home().join("backup");
    workspace.nexus(&["backup", backup.to_str().unwrap()]).ok();
    let place = workspace.home().join("again").display().to_string();
    let arguments = ["restore", backup.to_str().unwrap(), "--workspace", &place, "--json"];
    let report = workspace.nexus(&arguments).json();
    assert_eq!(report["heldReplies"], 1, "{report}");
    assert_eq!(report["trust"], "other_folder", "nobody vouched for it: {report}");
}

#[expect(clippy::disallowed_methods, reason = "plants something behind the store's back, and looks for it")]
fn database(file: &std::path::Path) -> rusqlite::Connection {
    rusqlite::Connection::open(file).unwrap()
}

#[test]
fn s18_a_restored_copy_has_neither_tokens_nor_triggers_of_somebody_s_own() {
    let workspace = Workspace::initialized(env!("CARGO_BIN_EXE_nexus"));
    let daemon = Daemon::start(&workspace, &DaemonOptions::default());
    let made = daemon
        .post("/api/call", &json!({ "method": "tokens.create", "params": { "scopes": ["control.*.read"] } }));
    let token = made.json()["token"].as_str().unwrap().to_owned();
    daemon.stop();
    let triggers = |file: &std::path::Path| -> Vec<String> {
        let connection = database(file);
        let mut statement = connection
            .prepare("SELECT name FROM sqlite_schema WHERE type IN ('trigger', 'view') ORDER BY name")
            .unwrap();
        statement.query_map([], |row| row.get(0)).unwrap().collect::<Result<_, _>>().unwrap()
    };
    let mut ours = Vec::new();
    for name in ["agents", "embeddings", "events", "identity", "memory", "runtime"] {
        let file = workspace.path(&format!("state/data/{name}.db"));
        ours.push((name, triggers(&file)));
        database(&file)
            .execute_batch(
                "CREATE TRIGGER \"own \"\"one\" AFTER INSERT ON schema_version BEGIN DELETE FROM schema_version; END;
                 CREATE VIEW own_view AS SELECT 1;",
            )
            .unwrap();
    }
    assert!(ours.iter().any(|(_, triggers)| !triggers.is_empty()), "there are triggers to keep");
    let backup = workspace.home().join("backup");
    workspace.nexus(&["backup", backup.to_str().unwrap()]).ok();
    let mut copy = Workspace::new(env!("CARGO_BIN_EXE_nexus"));
    copy.set_variable("HOME", workspace.home().display().to_string());
    copy.nexus(&["restore", backup.to_str().unwrap(), "--trust"]).ok();
    for (name, expected) in &ours {
        assert_eq!(&triggers(&copy.path(&format!("state/data/{name}.db"))), expected, "{name}");
    }
    let again = Daemon::start(&copy, &DaemonOptions::default());
    let answer = http::get(again.port(), "/api/requests", Some(&token)).unwrap();
    assert_eq!(answer.status, 401, "{}", answer.body);
    let listed = again.post("/api/call", &json!({ "method": "tokens.list" })).json();
    assert_eq!(listed["tokens"], json!([]), "{listed}");
}

/// A restored copy that runs. Its home lies in the original's folder, which has to live as long.
struct Restored {
    daemon: Daemon,
    copy: Workspace,
    _original: Workspace,
    report: serde_json::Value,
    request: String,
}

/// Makes a copy of a workspace, with its daemon dead at `place` after one message, and starts the copy.
fn copy_of_one_dead_at(place: &str, message: &str) -> Restored {
    let workspace = Workspace::initialized(env!("CARGO_BIN_EXE_nexus"));
    let daemon = Daemon::start(&workspace, &DaemonOptions::dying_at(place));
    // Its answer may die with it.
    let body = json!({ "message": message }).to_string();
    let _ = http::post(daemon.port(), "/api/chat", Some(daemon.token()), &body);
    daemon.wait_for_end(Duration::from_secs(30));
    let backup = workspace.home().join("backup");
    workspace.nexus(&["backup", backup.to_str().unwrap()]).ok();
    let mut copy = Workspace::new(env!("CARGO_BIN_EXE_nexus"));
    copy.set_variable("HOME", workspace.home().display().to_string());
    let report = copy.nexus(&["restore", backup.to_str().unwrap(), "--trust", "--json"]).json();
    let again = Daemon::start(&copy, &DaemonOptions::default());
    let requests = again.get("/api/requests").json();
    let request = requests["requests"][0]["requestId"].as_str().unwrap_or_default().to_owned();
    Restored { daemon: again, copy, _original: workspace, report, request }
}

#[test]
fn a_message_nobody_had_begun_to_answer_waits_for_consent_in_the_copy() {
    // Dead right after the acknowledgement, and with the message in its queue.
    for place in ["s1.acknowledged", "s3.committed"] {
        let Restored { daemon, copy, _original, report, request } = copy_of_one_dead_at(place, "Hello");
        assert_eq!(
            (&report["heldMessages"], &report["endedWork"]),
            (&json!(1), &json!(0)),
            "{place}: {report}"
        );
        let waited = daemon.get(&format!("/api/chat/wait?request={request}&timeoutMs=100")).json();
        assert_eq!(waited["quiescent"], false, "{place}: {waited}");
        let doctor = copy.nexus(&["doctor", "--json"]).json();
        assert!(doctor.to_string().contains("waiting for your consent"), "{doctor}");
        let status = copy.nexus(&["status"]).ok().stdout;
        assert!(
            status.contains("1 waiting for you, 1 of them a message held back after the restore"),
            "{status}"
        );
        let status = copy.nexus(&["status", "--json"]).json();
        assert_eq!(status["approvals"], json!({ "waiting": 1, "heldMessages": 1 }), "{status}");
        assert!(
            copy.nexus(&["approvals", "show", &request])
                .ok()
                .stdout
                .contains("the original may have answered")
        );
        // It holds through a death of the copy, and a new message is answered meanwhile.
        daemon.kill9();
        let daemon = Daemon::start(&copy, &DaemonOptions::default());
        assert!(!copy.nexus(&["chat", "-m", "Hello yourself"]).ok().stdout.is_empty());
        copy.nexus(&["approvals", "approve", &request]).ok();
        assert_eq!(copy.nexus(&["status", "--json"]).json()["approvals"]["waiting"], 0);
        let waited = daemon.get(&format!("/api/chat/wait?request={request}&timeoutMs=30000")).json();
        assert!(waited["quiescent"] == true && waited["replies"] != json!([]), "{place}: {waited}");
    }
}

#[test]
fn work_that_had_begun_is_ended_in_the_copy_and_says_so() {
    let Restored { daemon, copy, _original, report, request } = copy_of_one_dead_at("s4.committed", "Hello");
    assert_eq!((&report["heldMessages"], &report["endedWork"]), (&json!(0), &json!(1)), "{report}");
    let view = daemon.get(&format!("/api/requests/{request}")).json();
    assert_eq!(view["status"], "failed", "{view}");
    let history = daemon.get("/api/chat/history").json();
    assert!(history.to_string().contains("when the backup was made"), "{history}");
    let lines = history["lines"].as_array().map(Vec::len);
    daemon.stop();
    let daemon = Daemon::start(&copy, &DaemonOptions::default());
    let again = daemon.get("/api/chat/history").json();
    assert_eq!(again["lines"].as_array().map(Vec::len), lines, "said once: {again}");
}

#[test]
fn a_damaged_backup_or_a_taken_place_is_refused_and_nothing_is_left() {
    let workspace = Workspace::initialized(env!("CARGO_BIN_EXE_nexus"));
    let backup = workspace.home().join("backup");
    let path = backup.to_str().unwrap();
    workspace.nexus(&["backup", path]).ok();
    assert_eq!(workspace.nexus(&["backup", path]).code(), Some(1));
    let inside = workspace.path("home/backup");
    assert_eq!(workspace.nexus(&["backup", inside.to_str().unwrap()]).code(), Some(1));
    assert_eq!(workspace.nexus(&["restore", path]).code(), Some(1), "a workspace is there already");

    let file = backup.join("AGENTS.md");
    nexus_base::file::replace(&file, b"other", 0o600, nexus_base::file::Durability::Crash).unwrap();
    let place = workspace.home().join("again");
    let refused = workspace.nexus(&["restore", path, "--workspace", place.to_str().unwrap()]);
    assert_eq!(refused.code(), Some(1), "{refused:?}");
    assert!(refused.stderr.contains("AGENTS.md"), "{refused:?}");
    assert!(!place.exists());
    let left: Vec<_> = std::fs::read_dir(workspace.home())
        .unwrap()
        .flatten()
        .filter(|entry| entry.file_name().to_string_lossy().contains(".part-"))
        .collect();
    assert!(left.is_empty(), "{left:?}");
}
