//! One redactor before everything that leaves: a secret of no known shape, learnt only when its pointer
//! was resolved, comes back through no door, and neither does its JSON form.

use std::collections::BTreeMap;
use std::time::Duration;

use nexus_protocol::methods::Method;
use nexus_testkit::client::Socket;
use nexus_testkit::model::{ModelServer, Reply, Wire};
use nexus_testkit::{Daemon, DaemonOptions, Run, Workspace, until};
use rustix::process::Signal;
use serde_json::{Value, json};

const WITHIN: Duration = Duration::from_secs(30);

#[test]
fn t14_a_secret_learnt_at_run_time_leaves_through_no_door() {
    let secret = "tr0ub4dor\"&\\3-für-élise";
    let escaped = serde_json::to_string(secret).unwrap();
    let forms = [secret.to_owned(), escaped[1..escaped.len() - 1].to_owned()];
    let workspace = Workspace::initialized(env!("CARGO_BIN_EXE_nexus"));
    workspace.run(&Run::new(&["credential", "add", "demo"]).input(secret)).ok();
    let daemon = Daemon::start(&workspace, &DaemonOptions::default());
    let clean = |what: &str, text: &str| {
        for form in &forms {
            assert!(!text.contains(form.as_str()), "{what}: {text}");
        }
        assert!(!text.contains(daemon.token()), "{what}: {text}");
    };
    let call = |method: &str, params: &Value| {
        daemon.post("/api/call", &json!({ "method": method, "params": params })).body
    };
    // Pointers are resolved in the background after the start; from then on nothing repeats it.
    until("the secret to be known", WITHIN, || {
        (!call("sessions.resolve", &json!({ "session": secret })).contains(&forms[1])).then_some(())
    });

    // HTTP: answers, errors, what was asked and what is kept.
    clean("unknown method", &call(secret, &json!({})));
    clean("wrong parameter", &call("chat.history", &json!({ "session": secret })));
    let ask =
        json!({ "kind": "access", "summary": format!("use {secret}"), "resources": ["x"], "reason": secret });
    clean("question", &call("approvals.request", &ask));
    clean("questions", &call("approvals.list", &json!({ "all": true })));
    let sent = daemon.post("/api/chat", &json!({ "message": format!("remember that it is {secret}") }));
    clean("accepted", &sent.body);
    let request = sent.json()["requestId"].as_str().unwrap().to_owned();
    clean("replies", &daemon.get(&format!("/api/chat/wait?request={request}&timeoutMs=30000")).body);
    clean("trace", &daemon.get(&format!("/api/requests/{request}")).body);
    clean("history", &daemon.get("/api/chat/history").body);

    // WebSocket: answers, errors, every event of the conversation.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let all = nexus_protocol::ws::Subscribe { after: Some(0), ..Default::default() };
        let token = daemon.token().to_owned().into();
        let mut socket = Socket::connect(daemon.port(), &token, "test", Some(all)).await.unwrap();
        let wrong: Result<Value, _> = socket.call(Method::RequestsGet, &json!({ "id": secret })).await;
        clean("error frame", &wrong.unwrap_err().to_string());
        loop {
            let event = socket.event().await.unwrap();
            clean("event", &serde_json::to_string(&event).unwrap());
            if event.event == "chat.quiescent" {
                break;
            }
        }
    });

    // The log: a policy that cannot be used is named in the complaint about it.
    let before = workspace.file("state/config.json");
    let mut config = workspace.json("state/config.json");
    config["acl"] = json!({ "policies": [{ "name": secret, "effect": "deny", "priority": 200 }] });
    workspace.write("state/config.json", &config.to_string());
    daemon.signal(Signal::HUP);
    let log = until("the complaint in the log", WITHIN, || {
        let log = daemon.log();
        log.contains("some values are not usable").then_some(log)
    });
    clean("log", &log);
    assert!(log.contains("[redacted]"), "nothing was there to hide: {log}");
    clean("logs.tail", &call("logs.tail", &json!({})));
    workspace.write("state/config.json", &before);
    clean("nexus logs", &workspace.nexus(&["logs", "--json", "-n", "100000"]).ok().stdout);
    clean("nexus trace", &workspace.nexus(&["trace", &request, "--json"]).ok().stdout);

    // And nothing was stored for later.
    daemon.stop();
    for name in ["agents", "events", "runtime", "memory", "identity", "embeddings"] {
        let bytes = std::fs::read(workspace.path(&format!("state/data/{name}.db"))).unwrap();
        for form in &forms {
            let found = bytes.windows(form.len()).any(|window| window == form.as_bytes());
            assert!(!found, "{name}.db holds it");
        }
    }
}

/// Says a secret in two pieces, cut where the message says, or letter by letter.
fn teller(secret: &str) -> ModelServer {
    let secret = secret.to_owned();
    let server = ModelServer::start();
    server.answer(move |asked| {
        let last = asked.last_text();
        let (_, words) = last.rsplit_once("cut ")?;
        let characters = secret.chars().count();
        let Ok(at) = words.trim().parse::<usize>() else {
            return Some(Reply::text(format!("It is {secret}, I think.")).pieces(10_000));
        };
        // Half of the text ends right at the cut.
        let (before, after) = (characters, 2 * at);
        let text = format!("{}{secret}{}", ".".repeat(before), "~".repeat(after));
        Some(Reply::text(text).pieces(2))
    });
    server
}

#[test]
fn t14_a_secret_said_in_pieces_is_hidden_wherever_it_is_cut() {
    for secret in ["plum-Orchard-27-wält", &format!("sk-ant-{}", "q7".repeat(10))] {
        let server = teller(secret);
        let mut workspace = Workspace::initialized(env!("CARGO_BIN_EXE_nexus"));
        server.configure(&mut workspace, Wire::Anthropic);
        workspace.write("state/agents/ada/IDENTITY.md", "---\nname: Ada\n---\nAda helps.\n");
        workspace.write("state/agents/ada/SOUL.md", "Kind and exact.\n");
        workspace.write("state/user/IDENTITY.md", "---\nname: Tim\n---\nTim owns it.\n");
        workspace.run(&Run::new(&["credential", "add", "demo"]).input(secret)).ok();
        let daemon = Daemon::start(&workspace, &DaemonOptions::default());
        until("the secret to be known", WITHIN, || {
            let asked = json!({ "method": "sessions.resolve", "params": { "session": secret } });
            (!daemon.post("/api/call", &asked).body.contains(secret)).then_some(())
        });
        let characters = secret.chars().count();
        let cuts: Vec<String> = (1..characters).map(|at| at.to_string()).chain(["up".to_owned()]).collect();
        for cut in &cuts {
            let message = json!({ "message": format!("cut {cut}"), "session": format!("chat:{cut}") });
            let sent = daemon.post("/api/chat", &message).json();
            let request = sent["requestId"].as_str().unwrap().to_owned();
            let waited = daemon.get(&format!("/api/chat/wait?request={request}&timeoutMs=30000")).json();
            assert_eq!(waited["quiescent"], true, "{waited}");
        }
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let (streamed, framed) = runtime.block_on(async {
            let mut events = daemon.client().events(None, Some(0)).await.unwrap();
            let mut streamed = Vec::new();
            while streamed.iter().filter(|event: &&Value| event["type"] == "chat.quiescent").count()
                < cuts.len()
            {
                streamed.push(json!(events.next().await.unwrap().unwrap()));
            }
            let all = nexus_protocol::ws::Subscribe { after: Some(0), ..Default::default() };
            let token = daemon.token().to_owned().into();
            let mut socket = Socket::connect(daemon.port(), &token, "test", Some(all)).await.unwrap();
            let mut framed = Vec::new();
            while framed.iter().filter(|event: &&Value| event["type"] == "chat.quiescent").count()
                < cuts.len()
            {
                framed.push(socket.event().await.unwrap().payload.unwrap());
            }
            (streamed, framed)
        });
        for (door, events) in [("SSE", streamed), ("WS", framed)] {
            let mut said: BTreeMap<String, String> = BTreeMap::new();
            for event in events.iter().filter(|event| event["type"] == "agent.streaming.token") {
                let properties = &event["properties"];
                let turn = properties["turn_id"].as_str().unwrap().to_owned();
                said.entry(turn).or_default().push_str(properties["text"].as_str().unwrap());
            }
            assert_eq!(said.len(), cuts.len(), "{door}: every turn was streamed");
            for text in said.values() {
                assert!(!text.contains(secret), "{door}: {text}");
                assert_eq!(text.matches("[redacted]").count(), 1, "{door}: {text}");
            }
            let finals: Vec<&Value> = events.iter().filter(|event| event["type"] == "chat.final").collect();
            for reply in &finals {
                let text = reply["properties"]["text"].as_str().unwrap();
                assert!(said.values().any(|said| said == text), "{door}: the pieces are the reply: {text}");
            }
            assert_eq!(finals.len(), cuts.len());
        }
        daemon.stop();
    }
}

#[test]
fn a_failing_command_does_not_repeat_a_key() {
    let key = format!("sk-ant-{}", "c0mm4nd".repeat(4));
    let workspace = Workspace::initialized(env!("CARGO_BIN_EXE_nexus"));
    for arguments in [
        &["trace", &key][..],
        &["skills", "info", &key],
        &["credential", "get", &key],
        &["config", "set", "queue.mode", &key],
        &["config", "get", &key],
        &["chat", "--session", &key, "-m", "x"],
    ] {
        let finished = workspace.nexus(arguments);
        assert_ne!(finished.code(), Some(0), "{arguments:?}");
        let said = format!("{}{}", finished.stdout, finished.stderr);
        assert!(!said.contains(&key), "{arguments:?}: {said}");
    }
}
