//! Models that refuse, stall, break off, say nothing or never stop: each ends with a clear answer, and the
//! next message is served.

use crate::turns_meet_bad_input::{wait_for_token, watch};
use std::time::Duration;

use nexus_testkit::model::{Gate, ModelServer, Reply, Wire};
use nexus_testkit::{Daemon, DaemonOptions, Workspace, until};
use serde_json::{Value, json};

fn workspace(server: &ModelServer, wire: Wire) -> Workspace {
    let mut workspace = Workspace::initialized(env!("CARGO_BIN_EXE_nexus"));
    server.configure(&mut workspace, wire);
    workspace.write("state/agents/pixel/IDENTITY.md", "---\nname: Pixel\n---\nPixel helps.\n");
    workspace.write("state/agents/pixel/SOUL.md", "Kind and exact.\n");
    workspace.write("state/user/IDENTITY.md", "---\nname: Ada\n---\nAda owns it.\n");
    workspace.edit_config(|config| {
        config["models"] = json!({"retry_pause_ms": 2, "first_byte_timeout_ms": 400, "idle_timeout_ms": 400});
    });
    workspace
}

fn send(daemon: &Daemon, message: &str) -> String {
    let accepted = daemon.post("/api/chat", &json!({ "message": message })).json();
    accepted["requestId"].as_str().unwrap_or_else(|| panic!("{accepted}")).to_owned()
}

/// Waits for a request; returns how it ended, in the trace, and the last reply.
fn ended(daemon: &Daemon, request: &str) -> (Value, String) {
    let waited = daemon.get(&format!("/api/chat/wait?request={request}&timeoutMs=60000")).json();
    assert_eq!(waited["quiescent"], true, "{waited}\n{}", daemon.log());
    let replies = waited["replies"].as_array().unwrap();
    let text = replies.last().and_then(|line| line["text"].as_str()).unwrap_or_default().to_owned();
    let trace = until("the trace to end", Duration::from_secs(10), || {
        let trace = daemon.get(&format!("/api/requests/{request}")).json();
        (trace["status"] != "processing").then_some(trace)
    });
    (trace["status"].clone(), text)
}

fn say(daemon: &Daemon, message: &str) -> (Value, String) {
    ended(daemon, &send(daemon, message))
}

#[test]
fn every_kind_of_trouble_ends_in_words_and_the_next_message_is_served() {
    for wire in Wire::BOTH {
        let server = ModelServer::start();
        let workspace = workspace(&server, wire);
        let daemon = Daemon::start(&workspace, &DaemonOptions::default());
        let provider = wire.provider();
        let stall = Gate::new();
        let thrice = |reply: Reply| vec![reply.clone(), reply.clone(), reply];
        // Overload and passing trouble first: they leave the credential alone.
        let cases: Vec<(&str, Vec<Reply>, &str)> = vec![
            ("overload", thrice(Reply::status(529, "Overloaded")), "is unavailable: status 529: Overloaded"),
            ("5xx", thrice(Reply::status(500, "internal")), "is unavailable: status 500: internal"),
            ("cut", vec![Reply::text("Once upon a time").pieces(4).cut_after(4)], "was cut off"),
            ("cut unseen", thrice(Reply::text("never seen").cut_after(1)), "was cut off"),
            ("silence", vec![Reply::text("x").hold(&stall), Reply::text("x").hold(&stall)], "took too long"),
            ("stall", vec![Reply::text("one two three").pieces(3).hold_after(3, &stall)], "took too long"),
            (
                "rejected",
                vec![Reply::status(400, "tools.0 is wrong")],
                "refused the request: status 400: tools.0 is wrong",
            ),
            ("unknown model", vec![Reply::status(404, "no such model")], "no such model"),
        ];
        for (name, replies, expected) in cases {
            server.script(replies);
            let (status, text) = say(&daemon, name);
            assert!(text.contains(expected), "{provider}, {name}: {text}\n{}", daemon.log());
            assert_eq!(status, "failed", "{provider}, {name}: {text}");
            server.script([Reply::text("back again")]);
            assert_eq!(
                say(&daemon, "and now?"),
                (json!("completed"), "back again".to_owned()),
                "after {name}"
            );
        }
        // Recovered without anybody noticing.
        let asked = server.asked().len();
        server.script([
            Reply::status(503, "soon"),
            Reply::text("unseen").cut_after(1),
            Reply::text("third time lucky"),
        ]);
        assert_eq!(say(&daemon, "try"), (json!("completed"), "third time lucky".to_owned()));
        assert_eq!(server.asked().len(), asked + 3);
        // What was shown of a reply that broke off is kept.
        let history = daemon.get("/api/chat/history").json().to_string();
        assert!(history.contains("Once upo"), "{history}");
        // A refused key: the message names it, rests it, and says so the next time without asking.
        server.script([Reply::status(401, "invalid key")]);
        let (_, text) = say(&daemon, "401");
        assert!(text.contains(&format!("{provider} rejected the credential {provider}/env:")), "{text}");
        let asked = server.asked().len();
        let (_, text) = say(&daemon, "again");
        assert!(text.contains("is paused for another"), "{text}");
        assert_eq!(server.asked().len(), asked, "a resting credential is not used");
        let listed = workspace.nexus(&["credential", "list"]).ok().stdout;
        assert!(listed.contains("cooldown") && listed.contains("paused until "), "{listed}");
        assert!(listed.contains(" after auth × "), "{listed}");
        daemon.stop();
    }
}

#[test]
fn odd_replies_are_taken_as_they_come() {
    for wire in Wire::BOTH {
        let server = ModelServer::start();
        let workspace = workspace(&server, wire);
        let daemon = Daemon::start(&workspace, &DaemonOptions::default());
        // Nothing at all.
        server.otherwise(Reply::nothing());
        let (status, text) = say(&daemon, "say nothing");
        assert!(status == "completed" || status == "failed", "{status}");
        assert!(!text.trim().is_empty(), "somebody who asked gets words: {status}");
        // A tool that does not exist, and arguments that do not parse: the model is told and repairs it.
        server.script([
            Reply::default().raw_call("recall", "{\"query\": oops").call("no_such_tool", &json!({})),
            Reply::text("repaired"),
        ]);
        let (status, text) = say(&daemon, "odd calls");
        assert_eq!((status, text), (json!("completed"), "repaired".to_owned()));
        let results = server.asked().pop().unwrap().results();
        assert_eq!(results.len(), 2, "{results:?}");
        assert!(results[0].1.contains("JSON"), "{results:?}");
        assert!(results[1].1.contains("there is no tool"), "{results:?}");
        // One that never stops calling.
        server.otherwise(Reply::calls("recall", &json!({"query": "the same"})));
        let (status, text) = say(&daemon, "loop");
        assert_eq!(status, "failed", "{text}");
        assert!(text.contains("recall") || text.contains("same"), "{text}");
        server.otherwise(Reply::text("fine"));
        assert_eq!(say(&daemon, "and now?"), (json!("completed"), "fine".to_owned()));
        daemon.stop();
    }
}

#[test]
fn a_second_key_and_a_second_model_step_in() {
    let (first, second) = (ModelServer::start(), ModelServer::start());
    let mut workspace = workspace(&first, Wire::Anthropic);
    workspace.set_variable("OPENAI_API_KEY", Wire::OpenAi.key());
    workspace.edit_config(|config| {
        config["agent"]["fallbacks"] = json!(["openai/other-1"]);
        config["providers"]["openai"]["base_url"] = json!(second.base_url());
    });
    let daemon = Daemon::start(&workspace, &DaemonOptions::default());
    first.script([Reply::status(429, "slow").header("retry-after", "120")]);
    second.script([Reply::text("the other one"), Reply::text("the other one again")]);
    assert_eq!(say(&daemon, "Hello").1, "the other one");
    assert_eq!(second.asked()[0].model(), "other-1");
    assert_eq!(say(&daemon, "Hello again").1, "the other one again");
    assert_eq!(
        (first.asked().len(), second.asked().len()),
        (1, 2),
        "the first rests as long as it asked for"
    );
    let models = workspace.nexus(&["models", "--json"]).json();
    assert_eq!(models["chain"], json!(["anthropic/scripted-1", "openai/other-1"]), "{models}");
    // Nothing left: the answer lists what was tried.
    second.script([Reply::status(401, "bad key")]);
    let (status, text) = say(&daemon, "and now?");
    assert_eq!(status, "failed");
    for part in [
        "no model could answer",
        "anthropic/scripted-1",
        "is paused for another",
        "openai/other-1",
        "status 401",
    ] {
        assert!(text.contains(part), "{part} is missing: {text}");
    }
    daemon.stop();
}

#[test]
fn an_abort_hangs_up_on_the_provider_at_once() {
    let server = ModelServer::start();
    let workspace = workspace(&server, Wire::Anthropic);
    let daemon = Daemon::start(&workspace, &DaemonOptions::default());
    let gate = Gate::new();
    workspace.edit_config(|config| config["models"]["idle_timeout_ms"] = json!(60_000));
    workspace.nexus(&["config", "reload"]).ok();
    server
        .script([Reply::text("a long, long story").pieces(4).hold_after(4, &gate), Reply::text("new story")]);
    let mut watching = watch(&workspace, &daemon);
    let request = send(&daemon, "tell me");
    gate.wait_reached();
    // Sent is not yet read: only what the daemon has shown can be kept.
    wait_for_token(&mut watching);
    let aborted = std::time::Instant::now();
    let answer = daemon.post("/api/chat/abort", &json!({}));
    assert_eq!(answer.status, 200, "{}", answer.body);
    server.wait_for_hangup(0);
    assert!(aborted.elapsed() < Duration::from_secs(2), "{:?}", aborted.elapsed());
    let (_, text) = ended(&daemon, &request);
    assert!(text.starts_with("a lo"), "what was said is kept: {text}");
    assert_eq!(say(&daemon, "another").1, "new story");
    daemon.stop();
}
