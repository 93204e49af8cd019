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
    assert_eq!(status["bootstrap"]["needed"], false);
    assert_eq!(
        (&status["identity"]["agentName"], &status["identity"]["userName"]),
        (&"Pixel".into(), &"Ada".into())
    );
    assert_eq!(status["runtime"]["running"], false, "what it started it stopped: {status}");

    // The template stays, the three files are written, and nothing in them waits to be filled in.
    assert!(!workspace.file("state/agents/BOOTSTRAP.md").is_empty());
    for name in ["state/agents/pixel/IDENTITY.md", "state/agents/pixel/SOUL.md", "state/user/IDENTITY.md"] {
        assert!(!nexus_workspace::persona::is_template(&workspace.file(name)), "{name}");
    }
    // The first message led to a worker that looked for credentials, and its result came back.
    let first = workspace.nexus(&["trace", "--list", "--json"]).json()["requests"]
        .as_array()
        .and_then(|requests| requests.iter().find(|request| request["input"] == "Hello").cloned())
        .expect("the first message is listed");
    let trace = workspace.nexus(&["trace", "--json", first["requestId"].as_str().unwrap()]).json();
    let children = trace["children"].as_array().unwrap();
    assert!(
        children.iter().flat_map(|child| child["toolCalls"].as_array().unwrap()).any(|call| {
            call["tool"] == "bash" && call["arguments"].to_string().contains("nexus credential scan")
        }),
        "{trace}"
    );
    assert!(children.iter().any(|child| child["eventType"] == "worker_result"), "{trace}");
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
