//! `nexus up` with a pipe: from an empty folder to an onboarded workspace, leaving nothing running.

use std::time::Duration;

use nexus_testkit::{Daemon, DaemonOptions, Run, Workspace, witness};

fn run(input: &str) -> Run {
    Run::new(&["up", "--port", "0"]).input(input).within(Duration::from_secs(120))
}

#[test]
fn a_pipe_onboards_a_fresh_workspace_without_a_key() {
    let workspace = Workspace::new(env!("CARGO_BIN_EXE_nexus"));
    let conversation = witness::ONBOARDING.join("\n");
    let finished = workspace.run(&run(&conversation)).ok();
    assert!(finished.stdout.starts_with("you> Hello\n"), "{finished:?}");
    let replies =
        finished.stdout.lines().filter(|line| !line.starts_with("you> ") && line.contains("> ")).count();
    assert!(replies >= conversation.lines().count(), "every message is answered: {finished:?}");
    assert!(finished.stdout.contains("  · worker 1:"), "workers show: {finished:?}");
    let status = workspace.nexus(&["status", "--json"]).json();
    assert_eq!(status["onboarded"], true, "{status}\n{}", finished.stdout);
    assert_eq!(status["runtime"]["running"], false, "what it started it stopped: {status}");
}

#[test]
fn a_running_daemon_is_used_and_left_running() {
    let workspace = Workspace::initialized(env!("CARGO_BIN_EXE_nexus"));
    let daemon = Daemon::start(&workspace, &DaemonOptions::default());
    let finished = workspace.run(&run("Hello\n")).ok();
    assert!(finished.stderr.contains(&format!("attached to process {}", daemon.pid())), "{finished:?}");
    assert_eq!(workspace.nexus(&["status", "--json"]).json()["runtime"]["pid"], daemon.pid());
}

#[test]
fn keep_leaves_the_daemon_running() {
    let workspace = Workspace::new(env!("CARGO_BIN_EXE_nexus"));
    workspace.run(&Run::new(&["up", "--port", "0", "--keep"]).input("Hello\n")).ok();
    assert_eq!(workspace.nexus(&["status", "--json"]).json()["runtime"]["running"], true);
    workspace.nexus(&["stop"]).ok();
}

#[test]
fn a_daemon_that_cannot_start_says_why() {
    let workspace = Workspace::initialized(env!("CARGO_BIN_EXE_nexus"));
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let finished = workspace.run(&Run::new(&["up", "--port", &port]).input("Hello\n"));
    assert_eq!(finished.code(), Some(1), "{finished:?}");
    assert!(
        finished.stderr.contains(&format!("error: port {port}")) || finished.stderr.contains(&port),
        "{finished:?}"
    );
    assert!(finished.stderr.contains("--port"), "{finished:?}");
}
