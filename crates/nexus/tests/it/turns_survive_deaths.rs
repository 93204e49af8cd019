//! The daemon dies at every place where a turn with a real model keeps something, and goes on: nothing is
//! asked of memory and automations twice, nothing is said twice, and the history stays the same bytes.

use std::os::unix::process::ExitStatusExt as _;

use nexus_base::failpoint::LOG_VARIABLE;
use nexus_testkit::model::{ModelServer, Reply, Wire};
use nexus_testkit::{Daemon, DaemonOptions, Workspace};
use serde_json::json;

use crate::architecture::source::rust_files;

/// Failpoints of this file.
const PREFIX: &str = "turn.";

/// A workspace with something to remember and room for few turns.
fn workspace(server: &ModelServer) -> Workspace {
    let mut workspace = Workspace::initialized(env!("CARGO_BIN_EXE_nexus"));
    server.configure(&mut workspace, Wire::Anthropic);
    workspace.write("state/agents/pixel/IDENTITY.md", "---\nname: Pixel\n---\nPixel helps.\n");
    workspace.write("state/agents/pixel/SOUL.md", "Kind and exact.\n");
    workspace.write("state/user/IDENTITY.md", "---\nname: Ada\n---\nAda owns it.\n");
    workspace.edit_config(|config| config["agents"]["history_turns"] = json!(6));
    workspace.nexus(&["memory", "add", "The spare key is with Grace"]).ok();
    workspace
}

/// Sends a message once, whatever happens; returns the request if the daemon lived to acknowledge it.
fn send(daemon: &Daemon, number: usize) -> Option<String> {
    let body = json!({
        "message": format!("message {number}: where is the spare key?"), "idempotencyKey": format!("key-{number}"),
        "session": "chat:keys", "queueMode": "followup",
    });
    let wanted = nexus_testkit::http::request(
        "POST",
        daemon.port(),
        "/api/chat",
        Some(daemon.token()),
        &body.to_string(),
    );
    let answer = nexus_testkit::http::exchange(daemon.port(), &wanted).ok()?.json();
    answer["requestId"].as_str().map(str::to_owned)
}

fn wait(daemon: &Daemon, request: &str) {
    let target = format!("/api/chat/wait?request={request}&timeoutMs=60000");
    let wanted = nexus_testkit::http::request("GET", daemon.port(), &target, Some(daemon.token()), "");
    // An error is the death that was asked for.
    let _ = nexus_testkit::http::exchange(daemon.port(), &wanted);
}

fn answering() -> ModelServer {
    let server = ModelServer::start();
    server.answer(|asked| {
        let summing_up = asked.system().starts_with("You summarise a long conversation");
        Some(Reply::text(if summing_up { "They asked for a key." } else { "With Grace." }))
    });
    server
}

#[test]
fn a_death_at_any_place_of_a_turn_loses_nothing_and_doubles_nothing() {
    let mut places: Vec<String> = rust_files()
        .iter()
        .flat_map(|file| {
            let text = file.code_and_strings();
            let names: Vec<String> = text
                .split("hit(\"")
                .skip(1)
                .filter_map(|piece| piece.split('"').next())
                .filter(|name| name.starts_with(PREFIX))
                .map(str::to_owned)
                .collect();
            names
        })
        .collect();
    places.sort();
    places.dedup();
    assert!(places.len() >= 6, "{places:?}");

    let server = answering();
    let workspace = workspace(&server);
    // What one undisturbed conversation passes, so that no place is only thought to be reached.
    let log = workspace.home().join("passed");
    let options = DaemonOptions::default().variable(LOG_VARIABLE, log.to_string_lossy().into_owned());
    let daemon = Daemon::start(&workspace, &options);
    let mut number = 0;
    for _ in 0..8 {
        let request = send(&daemon, number).expect("an undisturbed daemon answers");
        wait(&daemon, &request);
        number += 1;
    }
    daemon.stop();
    let passed = std::fs::read_to_string(&log).expect("the program lists what it passes");
    for place in &places {
        assert!(passed.lines().any(|line| line == place), "{place} is not passed");
    }

    for place in &places {
        // Enough turns that every place is passed at least once.
        let daemon = Daemon::start(&workspace, &DaemonOptions::dying_at(place));
        let first = number;
        for _ in 0..8 {
            if let Some(request) = send(&daemon, number) {
                wait(&daemon, &request);
            }
            number += 1;
        }
        let status = daemon.stop();
        assert_eq!(status.signal(), Some(9), "{place} was not reached");
        let daemon = Daemon::start(&workspace, &DaemonOptions::default());
        for again in first..number {
            let request = send(&daemon, again).expect("a living daemon answers");
            let waited = daemon.get(&format!("/api/chat/wait?request={request}&timeoutMs=60000")).json();
            assert_eq!(waited["quiescent"], true, "after {place}: {waited}\n{}", daemon.log());
            let replies = waited["replies"].as_array().unwrap();
            assert_eq!(replies.len(), 1, "after {place}: {waited}");
            assert_eq!(replies[0]["text"], "With Grace.", "after {place}: {waited}");
        }
        daemon.stop();
    }
    // Every message was told what is known about it exactly once, in every request that carries it.
    for asked in server.asked() {
        for message in asked.messages() {
            let text = message.to_string();
            for part in text.split("kind: message").skip(1) {
                assert_eq!(part.matches("<memory_context>").count(), 1, "{part}");
            }
        }
    }
}
