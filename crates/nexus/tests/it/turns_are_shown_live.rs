//! A turn as somebody sees it who follows over a WebSocket: words, workers, tools and tokens while they come.

use nexus_client::Socket;
use nexus_protocol::methods::Method;
use nexus_protocol::ws::{EventFrame, Subscribe};
use nexus_testkit::model::{Asked, Gate, ModelServer, Reply, Tokens};
use nexus_testkit::{Daemon, DaemonOptions};
use serde_json::{Value, json};

/// A manager that sends one worker, which reads a file and tells in three pieces, the second behind a gate.
fn model(gate: &Gate) -> ModelServer {
    let server = ModelServer::start();
    let gate = gate.clone();
    let tokens = Tokens { input: 700, output: 30, cache_read: 0, cache_write: 0 };
    server.answer(move |asked: &Asked| {
        let is_worker = !asked.has_tool("wait");
        let reply = match (is_worker, asked.results().is_empty()) {
            (true, true) => Reply::calls("read", &json!({"path": "AGENTS.md"})),
            (true, false) => Reply::text("I have read it."),
            (false, _) if asked.contains("kind: worker_result") => {
                Reply::text("It says a lot.").pieces(3).hold_after(4, &gate)
            }
            (false, true) => Reply::calls("agent_send", &json!({"op": "dispatch", "text": "read AGENTS.md"})),
            (false, false) => Reply::text("Somebody reads it."),
        };
        Some(reply.tokens(tokens))
    });
    server
}

#[test]
fn a_socket_is_shown_words_workers_tools_and_tokens_while_they_come() {
    let gate = Gate::new();
    let server = model(&gate);
    let workspace = crate::scripted::workspace(&server);
    let daemon = Daemon::start(&workspace, &DaemonOptions::default());
    let tokio = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let seen: Vec<EventFrame> = tokio.block_on(async {
        let token = daemon.token().to_owned().into();
        let mut socket =
            Socket::connect(daemon.port(), &token, "test", Some(Subscribe::default())).await.unwrap();
        let said = json!({"message": "What does AGENTS.md say?"});
        let accepted: Value = socket.call(Method::ChatSend, &said).await.unwrap();
        let request = accepted["requestId"].as_str().unwrap().to_owned();
        let mut seen: Vec<EventFrame> = Vec::new();
        let mut opened = false;
        loop {
            let event = tokio::time::timeout(std::time::Duration::from_secs(30), socket.event()).await;
            let event = event.unwrap_or_else(|_| panic!("nothing more came\n{}", daemon.log())).unwrap();
            let text = serde_json::to_value(&event).unwrap().to_string();
            // A piece is there while the provider still holds the rest back.
            if !opened && event.event == "agent.streaming.token" && text.contains("It s") {
                gate.wait_reached();
                gate.open();
                opened = true;
            }
            let ends = event.event == "chat.quiescent" && text.contains(&request);
            seen.push(event);
            if ends {
                return seen;
            }
        }
    });
    let frames: Vec<(String, Value)> =
        seen.iter().map(|frame| (frame.event.clone(), serde_json::to_value(frame).unwrap())).collect();
    let of = |name: &str| -> Vec<&Value> {
        frames.iter().filter(|(event, _)| event == name).map(|(_, frame)| frame).collect()
    };
    let first = |name: &str| frames.iter().position(|(event, _)| event == name).unwrap_or(usize::MAX);
    let told = |name: &str, word: &str| of(name).iter().any(|frame| frame.to_string().contains(word));
    // The words of the last reply came in pieces that make it up.
    let pieces: Vec<String> = of("agent.streaming.token")
        .iter()
        .map(|frame| {
            frame["payload"]["properties"]["text"].as_str().unwrap_or_else(|| panic!("{frame}")).to_owned()
        })
        .collect();
    let whole: String = pieces.concat();
    assert!(whole.contains("Somebody reads it.") && whole.contains("It says a lot."), "{pieces:?}");
    assert!(pieces.len() > 3, "{pieces:?}");
    // The worker is named when it is sent and when it is back, its tool in between.
    assert!(
        told("worker.dispatched", "read AGENTS.md") && told("worker.completed", "completed"),
        "{frames:?}"
    );
    assert!(told("agent.tool.started", "\"read\"") && told("agent.tool.completed", "\"read\""), "{frames:?}");
    assert!(first("worker.dispatched") < first("worker.completed"), "{frames:?}");
    // What it costs, while it runs.
    let used = of("agent.usage");
    assert!(
        used.len() >= 4
            && used
                .iter()
                .all(|frame| frame.to_string().contains("700") || frame.to_string().contains("1400")),
        "{used:?}"
    );
    assert!(told("chat.final", "It says a lot."), "{frames:?}");
    daemon.stop();
}
