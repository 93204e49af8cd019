//! `nexus start` and `nexus stop`: one daemon per workspace, a clear word when it cannot be, and a
//! clean end.

use std::net::TcpListener;
use std::time::{Duration, Instant};

use nexus_testkit::model::{Gate, ModelServer, Reply};
use nexus_testkit::{Daemon, DaemonOptions, Run, Workspace, until};

const SOON: Duration = Duration::from_secs(20);

fn workspace() -> Workspace {
    Workspace::initialized(env!("CARGO_BIN_EXE_nexus"))
}

#[test]
fn commands_find_a_daemon_on_a_port_of_its_own() {
    let workspace = workspace();
    let daemon = Daemon::start(&workspace, &DaemonOptions::default());
    let status = workspace.nexus(&["status", "--json"]).json();
    assert_eq!(status["runtime"]["running"], true, "{status}");
    assert_eq!(status["runtime"]["pid"], daemon.pid());
    assert_eq!(status["runtime"]["port"], daemon.port());
    assert!(workspace.nexus(&["status"]).ok().stdout.contains("running"));
}

#[test]
fn a_second_start_names_the_first() {
    let workspace = workspace();
    let daemon = Daemon::start(&workspace, &DaemonOptions::default());
    let finished = workspace.nexus(&["start", "--port", "0"]);
    assert_eq!(finished.code(), Some(1), "{finished:?}");
    assert!(
        finished
            .stderr
            .lines()
            .any(|line| line.starts_with("error: ") && line.contains(&daemon.pid().to_string())),
        "{finished:?}"
    );
    assert!(finished.stderr.contains("hint: "), "{finished:?}");
}

#[test]
fn a_taken_port_names_its_holder_and_the_way_out() {
    let workspace = workspace();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let finished = workspace.nexus(&["start", "--port", &port]);
    assert_eq!(finished.code(), Some(1), "{finished:?}");
    let error = finished.stderr.lines().find(|line| line.starts_with("error: ")).unwrap_or_default();
    assert!(error.contains(&port) && error.contains(&std::process::id().to_string()), "{finished:?}");
    assert!(finished.stderr.contains("--port"), "{finished:?}");
}

#[test]
fn stop_ends_it_and_leaves_nothing_held() {
    let workspace = workspace();
    let daemon = Daemon::start(&workspace, &DaemonOptions::default());
    let stopped = workspace.nexus(&["stop"]).ok().stdout;
    assert!(stopped.contains(&daemon.pid().to_string()), "{stopped}");
    assert!(daemon.wait_for_end(std::time::Duration::from_secs(10)).success());
    assert_eq!(workspace.nexus(&["stop"]).code(), Some(3));
    // The same workspace starts again at once.
    Daemon::start(&workspace, &DaemonOptions::default()).stop();
}

#[test]
fn a_wrong_required_setting_stops_the_start_with_key_and_fix() {
    let workspace = workspace();
    let config = workspace.file("state/config.json").replace("18789", "\"many\"");
    workspace.write("state/config.json", &config);
    let finished = workspace.nexus(&["start"]);
    assert_eq!(finished.code(), Some(1), "{finished:?}");
    assert!(finished.stderr.contains("runtime.port") && finished.stderr.contains("hint: "), "{finished:?}");
}

#[test]
fn the_log_is_json_lines_and_readable_through_the_command() {
    let workspace = workspace();
    Daemon::start(&workspace, &DaemonOptions::default()).stop();
    let log = workspace.file("state/logs/nex.log");
    assert!(log.lines().count() > 0);
    for line in log.lines() {
        let line: serde_json::Value = serde_json::from_str(line).unwrap();
        assert!(line["ts"].is_string() && line["level"].is_string() && line["msg"].is_string(), "{line}");
    }
    assert!(!log.contains(&workspace.token()));
    assert_eq!(workspace.nexus(&["logs", "-n", "1"]).ok().stdout.lines().count(), 1);
}

#[test]
fn one_message_from_the_command_line_prints_the_answer_only() {
    let workspace = workspace();
    let _daemon = Daemon::start(&workspace, &DaemonOptions::default());
    let finished = workspace.nexus(&["chat", "-m", "Hello"]).ok();
    assert!(!finished.stdout.trim().is_empty(), "{finished:?}");
    assert!(!finished.stdout.contains("you>"), "{finished:?}");
    let trace = workspace.nexus(&["trace", "--json"]).json();
    assert_eq!(trace["status"], "completed", "{trace}");
    assert_eq!(trace["input"], "Hello");
    assert!(workspace.nexus(&["trace"]).ok().stdout.contains("receiveEvent"));
    let sessions = workspace.nexus(&["sessions", "--json"]).json();
    assert!(!sessions["sessions"].as_array().unwrap().is_empty(), "{sessions}");
}

#[test]
fn piped_json_is_one_object_per_line_and_ends_with_the_wait() {
    let workspace = workspace();
    let _daemon = Daemon::start(&workspace, &DaemonOptions::default());
    let finished = workspace.run(&Run::new(&["chat", "--json"]).input("Hello\n")).ok();
    let lines: Vec<serde_json::Value> =
        finished.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.first().unwrap()["type"], "chat.accepted");
    let last = lines.last().unwrap();
    assert_eq!((&last["type"], &last["quiescent"]), (&"chat.waited".into(), &true.into()));
    assert!(lines.iter().any(|line| line["type"] == "chat.final"), "{finished:?}");
}

#[test]
fn only_the_daemon_writes_while_it_runs() {
    let workspace = workspace();
    let daemon = Daemon::start(&workspace, &DaemonOptions::default());
    // What is added goes through the daemon; what needs the files for itself is refused and names it.
    let added = workspace.nexus(&["memory", "add", "The ladder is in the shed."]);
    assert_eq!(added.code(), Some(0), "{added:?}");
    let second = workspace.nexus(&["start", "--port", "0"]);
    assert_eq!(second.code(), Some(1), "{second:?}");
    assert!(second.stderr.contains(&daemon.pid().to_string()), "{second:?}");
    let found = workspace.nexus(&["memory", "recall", "ladder"]).ok();
    assert!(found.stdout.contains("shed"), "{found:?}");
}

#[test]
fn a_new_token_voids_the_old_one_while_the_daemon_runs() {
    let workspace = workspace();
    let daemon = Daemon::start(&workspace, &DaemonOptions::default());
    assert_eq!(daemon.get("/api/sessions").status, 200);
    workspace.nexus(&["config", "rotate-token"]).ok();
    assert_eq!(daemon.get("/api/sessions").status, 401);
    // Commands read the new one.
    workspace.nexus(&["chat", "-m", "Hello"]).ok();
}

#[test]
fn a_stop_that_waits_says_why_and_a_second_one_ends_the_wait() {
    let server = ModelServer::start();
    let gate = Gate::new();
    server.otherwise(Reply::text("late").hold(&gate));
    let workspace = crate::scripted::workspace(&server);
    let daemon = Daemon::start(&workspace, &DaemonOptions::default());
    daemon.post("/api/chat", &serde_json::json!({ "message": "Hello" }));
    until("the model to be asked", SOON, || (!server.asked().is_empty()).then_some(()));
    let first = std::thread::scope(|scope| {
        let first = scope.spawn(|| workspace.nexus(&["stop"]));
        // Not before the first one has told its story, or the second signal could be the first.
        until("the first stop to be heard", SOON, || daemon.log().contains("stopping:").then_some(()));
        let heard = Instant::now();
        until("the first stop to explain itself", SOON, || {
            (heard.elapsed() > Duration::from_millis(1_200)).then_some(())
        });
        workspace.nexus(&["stop"]).ok();
        first.join().unwrap()
    });
    let first = first.ok();
    assert!(first.stderr.contains("for turns in progress"), "{first:?}");
    assert!(daemon.wait_for_end(SOON).success());
    gate.open();
}
