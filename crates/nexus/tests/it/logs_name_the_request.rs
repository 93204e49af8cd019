//! Whatever happens in a turn is found in the log by the request it belongs to, with session, turn and tool beside it.

use nexus_testkit::model::{ModelServer, Reply};
use nexus_testkit::{Daemon, DaemonOptions};
use serde_json::{Value, json};

use crate::scripted;

/// Modules whose work is a turn's.
const OF_TURNS: [&str; 4] = ["nexus_agent", "nexus_llm", "nexus_tools", "nexus_pipeline::stages"];

fn told(lines: &[Value], message: &str) -> Value {
    let found = lines.iter().find(|line| line["msg"] == message);
    found.unwrap_or_else(|| panic!("{message:?} is not in {lines:#?}")).clone()
}

#[test]
fn every_line_of_a_turn_carries_its_request() {
    let server = ModelServer::start();
    server.script([
        Reply::status(529, "overloaded"),
        Reply::calls("read", &json!({"path": "note.txt"})),
        Reply::text("It says hello."),
    ]);
    let workspace = scripted::workspace(&server);
    workspace.write("home/note.txt", "hello\n");
    workspace.edit_config(|config| config["logging"]["level"] = json!("debug"));
    let daemon = Daemon::start(&workspace, &DaemonOptions::default());
    let body = json!({"message": "what does my note say?", "session": "chat:notes"});
    let accepted = daemon.post("/api/chat", &body).json();
    let request = accepted["requestId"].as_str().unwrap_or_else(|| panic!("{accepted}")).to_owned();
    let waited = daemon.get(&format!("/api/chat/wait?request={request}&timeoutMs=60000")).json();
    assert_eq!(waited["quiescent"], true, "{waited}\n{}", daemon.log());
    daemon.stop();

    let shown = workspace.nexus(&["logs", "-n", "1000", "--json"]).ok().stdout;
    let lines: Vec<Value> = shown.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let of_turns: Vec<&Value> = lines
        .iter()
        .filter(|line| OF_TURNS.iter().any(|of| line["target"].as_str().unwrap_or_default().starts_with(of)))
        .collect();
    assert!(of_turns.len() >= 4, "{lines:#?}");
    for line in of_turns {
        assert_eq!(
            (line["request"].as_str(), line["session"].as_str()),
            (Some(&*request), Some("chat:notes")),
            "{line}"
        );
    }
    for message in ["a turn begins", "a model is asked again", "calling a tool", "turn ended"] {
        assert!(told(&lines, message)["turn"].is_string(), "{message}");
    }
    assert_eq!(told(&lines, "calling a tool")["tool"], "read");
    let readable = workspace.nexus(&["logs", "-n", "1000"]).ok().stdout;
    assert!(
        readable.lines().any(|line| line.contains("calling a tool") && line.contains(&request)),
        "{readable}"
    );
}
