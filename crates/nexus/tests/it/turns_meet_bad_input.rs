//! Bad input and faults around a turn: each has a clear, recorded end, and the next message is served.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use nexus_testkit::model::{Gate, ModelServer, Reply, Wire};
use nexus_testkit::{Daemon, DaemonOptions, Workspace, http, until};
use serde_json::{Value, json};

fn workspace(server: &ModelServer, wire: Wire) -> Workspace {
    let mut workspace = Workspace::initialized(env!("CARGO_BIN_EXE_nexus"));
    server.configure(&mut workspace, wire);
    workspace.write("state/agents/pixel/IDENTITY.md", "---\nname: Pixel\n---\nPixel helps.\n");
    workspace
}

fn send(daemon: &Daemon, body: &Value) -> String {
    let accepted = daemon.post("/api/chat", body).json();
    accepted["requestId"].as_str().unwrap_or_else(|| panic!("{accepted}")).to_owned()
}

fn reply(daemon: &Daemon, request: &str) -> String {
    let waited = daemon.get(&format!("/api/chat/wait?request={request}&timeoutMs=60000")).json();
    assert_eq!(waited["quiescent"], true, "{waited}\n{}", daemon.log());
    let replies = waited["replies"].as_array().cloned().unwrap_or_default();
    replies.last().and_then(|line| line["text"].as_str()).unwrap_or_default().to_owned()
}

fn say(daemon: &Daemon, message: &str) -> String {
    reply(daemon, &send(daemon, &json!({ "message": message, "queueMode": "followup" })))
}

#[test]
fn wrong_messages_and_wrong_calls_are_told_and_nothing_stops() {
    for wire in Wire::BOTH {
        let server = ModelServer::start();
        let workspace = workspace(&server, wire);
        let daemon = Daemon::start(&workspace, &DaemonOptions::default());
        // Messages that are none.
        for (message, status, hint) in [
            (json!({"message": "  "}), 400, "empty"),
            (json!({"message": "hi", "session": "no such form"}), 400, "session label"),
            (json!({"message": "hi", "session": "worker:01"}), 403, "run by the daemon"),
            (json!({"message": "x".repeat(300_000)}), 400, "the most is"),
        ] {
            let answer = daemon.post("/api/chat", &message);
            assert_eq!(answer.status, status, "{message:.80}");
            assert!(answer.json().to_string().contains(hint), "{hint}: {}", answer.json());
        }
        let two_megabytes = json!({ "message": "x".repeat(2_000_000) });
        assert_eq!(daemon.post("/api/chat", &two_megabytes).status, 413);
        let unknown = daemon.get("/api/chat/history?session=chat:never-heard-of");
        assert_eq!(unknown.status, 404, "{}", unknown.json());
        assert!(server.asked().is_empty(), "none of them reached a model");

        // Arguments that do not parse, a tool that does not exist, arguments that are no object.
        server.script([
            Reply::default().raw_call("read", "{\"path\": \"AGENTS"),
            Reply::calls("teleport", &json!({"to": "Mars"})),
            Reply::calls("read", &json!(["AGENTS.md"])),
            Reply::text("I could not do that."),
        ]);
        assert_eq!(say(&daemon, "please read"), "I could not do that.");
        let asked = server.asked();
        let told: Vec<String> =
            asked.iter().flat_map(|asked| asked.results()).map(|(_, text)| text).collect();
        assert_eq!(told.len(), 3, "{told:?}");
        assert!(told[0].contains("JSON"), "{told:?}");
        assert!(told[1].contains("there is no tool \"teleport\""), "{told:?}");
        assert!(told[2].contains("JSON object"), "{told:?}");

        // A model that says nothing, and one that goes round in circles.
        server.script([Reply::nothing()]);
        assert!(say(&daemon, "say nothing").contains("without a reply"));
        let again = Reply::calls("read", &json!({"path": "AGENTS.md"}));
        server.script(vec![again; 5]);
        assert!(say(&daemon, "go round").contains("5 times with the same arguments"));
        server.script([Reply::text("Still here.")]);
        assert_eq!(say(&daemon, "are you there?"), "Still here.");
        daemon.stop();
    }
}

#[test]
fn an_abort_closes_the_providers_socket_at_once_and_a_client_that_leaves_stops_nothing() {
    let server = ModelServer::start();
    let workspace = workspace(&server, Wire::Anthropic);
    let daemon = Daemon::start(&workspace, &DaemonOptions::default());
    let gate = Gate::new();

    // Aborted in the middle of a stream: within 100 ms the provider sees the end of it.
    server.script([Reply::text("a long story").pieces(4).hold_after(4, &gate)]);
    let body = json!({"message": "tell me a story", "session": "chat:story"});
    let request = send(&daemon, &body);
    gate.wait_reached();
    let started = Instant::now();
    let aborted = daemon.post("/api/chat/abort", &json!({"session": "chat:story"}));
    assert_eq!(aborted.status, 200);
    server.wait_for_hangup(0);
    let took = started.elapsed();
    assert!(took < Duration::from_millis(if cfg!(debug_assertions) { 300 } else { 100 }), "{took:?}");
    // What had been said is kept.
    assert!(reply(&daemon, &request).starts_with("a lo"), "{}", daemon.log());
    let trace = until("the trace to end", Duration::from_secs(10), || {
        let trace = daemon.get(&format!("/api/requests/{request}")).json();
        (trace["status"] != "processing").then_some(trace)
    });
    assert_eq!(trace["status"], "interrupted", "{trace}");

    // A client that reads the stream and goes in the middle of it: the turn ends by itself.
    let gate = Gate::new();
    server.script([Reply::text("first and second").pieces(2).hold_after(3, &gate)]);
    let token = workspace.token();
    let mut watching = TcpStream::connect(("127.0.0.1", daemon.port())).unwrap();
    let wanted = http::request("GET", daemon.port(), "/api/events/stream", Some(&token), "");
    watching.write_all(&wanted).unwrap();
    let request = send(&daemon, &json!({"message": "go on", "session": "chat:story"}));
    gate.wait_reached();
    let mut seen = String::new();
    let mut buffer = [0; 4096];
    while !seen.contains("agent.streaming.token") {
        let count = watching.read(&mut buffer).unwrap();
        assert!(count > 0, "the stream ended: {seen}");
        seen.push_str(&String::from_utf8_lossy(&buffer[..count]));
    }
    drop(watching);
    gate.open();
    assert_eq!(reply(&daemon, &request), "first and second");
    server.script([Reply::text("Here.")]);
    assert_eq!(say(&daemon, "and now?"), "Here.");
    daemon.stop();
}
