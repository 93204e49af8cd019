//! Which model answers: configuration, credentials after a yes, servers on this machine, the guide.

use std::time::Duration;

use nexus_testkit::model::{ModelServer, Reply, Wire};
use nexus_testkit::{Daemon, DaemonOptions, Run, Workspace, until};
use serde_json::{Value, json};

const SOON: Duration = Duration::from_secs(20);

/// A workspace that looks for no server but those named.
fn workspace(ports: &[u16]) -> Workspace {
    let workspace = Workspace::initialized(env!("CARGO_BIN_EXE_nexus"));
    let ports: Vec<String> = ports.iter().map(ToString::to_string).collect();
    workspace.edit_config(|config| config["models"]["local"]["ports"] = json!(ports));
    workspace
}

fn say(daemon: &Daemon, message: &str) -> String {
    let accepted = daemon.post("/api/chat", &json!({ "message": message })).json();
    let request = accepted["requestId"].as_str().unwrap_or_else(|| panic!("{accepted}"));
    let waited = daemon.get(&format!("/api/chat/wait?request={request}&timeoutMs=60000")).json();
    assert_eq!(waited["quiescent"], true, "{waited}\n{}", daemon.log());
    let texts = waited["replies"].as_array().unwrap().iter().map(|line| line["text"].as_str().unwrap());
    texts.collect::<Vec<_>>().join("\n")
}

fn models(workspace: &Workspace) -> Value {
    workspace.nexus(&["models", "--json"]).json()
}

#[test]
fn a_found_credential_waits_for_one_yes_that_is_remembered() {
    let mut workspace = workspace(&[]);
    workspace.set_variable("ANTHROPIC_API_KEY", Wire::Anthropic.key());
    // From a pipe without a yes: the guide answers and says why.
    let piped = workspace.run(&Run::new(&["up", "--port", "0"]).input("Hello\nI am Ada\n")).ok();
    assert!(piped.stdout.contains("not a language model"), "{piped:?}");
    assert!(piped.stdout.contains("account env:ANTHROPIC_API_KEY"), "{piped:?}");
    assert_eq!(piped.stdout.matches("use anthropic").count(), 1, "said once: {piped:?}");

    let daemon = Daemon::start(&workspace, &DaemonOptions::default());
    let view = models(&workspace);
    assert_eq!((&view["model"], &view["source"]), (&json!("nexus/guide"), &json!("guide")), "{view}");
    assert_eq!(view["question"]["provider"], "anthropic", "{view}");
    // A plain yes belongs to the guide's own question.
    say(&daemon, "yes");
    assert_eq!(models(&workspace)["model"], "nexus/guide");
    // No: nobody asks again. Yes: from then on, also after a restart.
    workspace.nexus(&["models", "refuse", "anthropic"]).ok();
    assert!(models(&workspace)["question"].is_null());
    let told = workspace.nexus(&["models", "allow", "anthropic"]).ok();
    assert!(told.stdout.contains("allowed anthropic/env:ANTHROPIC_API_KEY"), "{told:?}");
    assert_eq!(models(&workspace)["source"], "credential");
    daemon.stop();
    let daemon = Daemon::start(&workspace, &DaemonOptions::default());
    let view = models(&workspace);
    assert_eq!(view["model"], "anthropic/claude-sonnet-4-5", "{view}");
    assert!(view["reason"].as_str().unwrap().contains("you agreed"), "{view}");
    assert_ne!(workspace.nexus(&["models", "allow", "openai"]).code(), Some(0), "there is nothing to allow");
    daemon.stop();
}

#[test]
fn the_words_use_and_not_answer_the_question_in_the_conversation() {
    let server = ModelServer::start();
    let mut workspace = workspace(&[]);
    workspace.set_variable("OPENAI_API_KEY", Wire::OpenAi.key());
    let daemon = Daemon::start(&workspace, &DaemonOptions::default());
    let first = say(&daemon, "Hello");
    assert!(first.contains("Say “use openai”"), "{first}");
    let refused = say(&daemon, "not openai");
    assert!(refused.contains("will not be used"), "{refused}");
    assert!(models(&workspace)["question"].is_null());
    // A server of one's own needs no yes; a reload is enough, and the conversation goes on.
    server.script([Reply::text("a model now")]);
    workspace.edit_config(|config| {
        config["providers"]["openai"]["base_url"] = json!(server.base_url());
        config["agent"]["model"] = json!("openai/mine");
    });
    daemon.signal(rustix::process::Signal::HUP);
    until("the reload", SOON, || (models(&workspace)["model"] == "openai/mine").then_some(()));
    assert_eq!(say(&daemon, "Who are you?"), "a model now");
    let asked = server.asked().remove(0);
    assert!(asked.contains("Hello") && asked.contains("not openai"), "the history comes along");
    daemon.stop();
}

#[test]
fn a_server_on_this_machine_is_found_and_needs_no_key() {
    let server = ModelServer::start();
    server.models(&["tiny-embed", "tiny-chat"]);
    server.otherwise(Reply::text("from next door"));
    let workspace = workspace(&[server.port()]);
    let daemon = Daemon::start(&workspace, &DaemonOptions::default());
    // The very first message waits for the look around.
    assert_eq!(say(&daemon, "Hello"), "from next door");
    assert_eq!((server.asked()[0].model(), server.asked()[0].header("authorization")), ("tiny-chat", None));
    let view = models(&workspace);
    assert_eq!((&view["model"], &view["source"]), (&json!("local/tiny-chat"), &json!("local")), "{view}");
    assert_eq!(daemon.get("/health").json()["model"], "local/tiny-chat");
    // Configuration beats what was found.
    workspace.nexus(&["config", "set", "agent.provider", "nexus"]).ok();
    workspace.nexus(&["config", "reload"]).ok();
    assert_eq!(models(&workspace)["model"], "nexus/guide");
    daemon.stop();
}

#[test]
fn variables_alone_point_a_script_at_its_own_server() {
    for wire in Wire::BOTH {
        let server = ModelServer::start();
        server.otherwise(Reply::text("scripted"));
        let mut workspace = workspace(&[]);
        workspace.set_variable(wire.key_variable(), wire.key());
        workspace.set_variable(&format!("{}_BASE_URL", wire.provider().to_uppercase()), server.base_url());
        let piped = workspace.run(&Run::new(&["up", "--port", "0"]).input("Hello\n")).ok();
        assert!(piped.stdout.contains("scripted"), "{wire:?}: {piped:?}");
        assert!(!piped.stdout.contains("use "), "nothing is asked about this machine: {piped:?}");
        assert_eq!(server.asked()[0].wire, Some(wire));
    }
}

#[test]
fn a_stranger_s_workspace_sends_nothing_anywhere() {
    let server = ModelServer::start();
    server.otherwise(Reply::text("leaked"));
    let mut workspace = workspace(&[]);
    server.configure(&mut workspace, Wire::Anthropic);
    workspace.set_variable("OPENAI_API_KEY", Wire::OpenAi.key());
    workspace.set_variable("OPENAI_BASE_URL", server.base_url());
    // As if it had been copied here: no record names it.
    std::fs::remove_dir_all(workspace.home().join(".local/state/nexus/trust")).unwrap();
    let daemon = Daemon::start(&workspace, &DaemonOptions::default());
    assert!(!say(&daemon, "Hello").contains("leaked"));
    assert_eq!(models(&workspace)["model"], "nexus/guide");
    assert_eq!(server.asked().len(), 0);
    daemon.stop();
    workspace.nexus(&["trust"]).ok();
    let daemon = Daemon::start(&workspace, &DaemonOptions::default());
    assert_eq!(say(&daemon, "Hello again"), "leaked");
    daemon.stop();
}

#[test]
fn a_worker_may_be_given_another_model() {
    let server = ModelServer::start();
    server.answer(|asked| {
        let last = asked.last_text();
        Some(match () {
            () if !asked.has_tool("wait") => Reply::text(format!("done by {}", asked.model())),
            () if last.contains("kind: worker_result") => Reply::text("reported"),
            () if last.contains("dispatch_id") || last.contains("not dispatched") => Reply::text("sent"),
            () if last.contains("bad model") => {
                Reply::calls("agent_send", &json!({"op": "dispatch", "text": "work", "model": "nobody/none"}))
            }
            () => Reply::calls(
                "agent_send",
                &json!({"op": "dispatch", "text": "work", "model": "openai/small-2"}),
            ),
        })
    });
    let mut workspace = workspace(&[]);
    server.configure(&mut workspace, Wire::OpenAi);
    let daemon = Daemon::start(&workspace, &DaemonOptions::default());
    assert!(say(&daemon, "go").ends_with("reported"));
    let worker = server.asked().into_iter().find(|asked| !asked.has_tool("wait")).unwrap();
    assert_eq!(worker.model(), "small-2");
    // One nobody knows: the dispatch or the worker fails in words, and the conversation goes on.
    assert_eq!(say(&daemon, "bad model"), "sent");
    let refused = server.asked().pop().unwrap().results().remove(0).1;
    assert!(refused.contains("not dispatched") && refused.contains("nobody"), "{refused}");
    assert!(say(&daemon, "go").ends_with("reported"));
    daemon.stop();
}

#[test]
fn a_message_may_name_the_model_that_answers_it() {
    let (usual, other) = (ModelServer::start(), ModelServer::start());
    // The manager sends a worker for the word "errand"; whoever is asked for anything else says who it is.
    let script = |name: &'static str| {
        move |asked: &nexus_testkit::model::Asked| {
            let errand = asked.last_text().contains("errand") && asked.has_tool("wait");
            let sends = errand && asked.results().is_empty();
            Some(match sends && !asked.contains("kind: worker_result") {
                true => Reply::calls("agent_send", &json!({"op": "dispatch", "text": "run"})),
                false => Reply::text(format!("This is {name}.")),
            })
        }
    };
    usual.answer(script("the usual one"));
    other.answer(script("the other one"));
    let mut workspace = crate::scripted::workspace(&usual);
    workspace.set_variable("OPENAI_API_KEY", Wire::OpenAi.key());
    workspace.edit_config(|config| {
        config["providers"]["openai"]["base_url"] = json!(other.base_url());
        config["models"]["table"] =
            json!({"openai/other-1": {"context": 50_000, "input": 1.0, "output": 2.0}});
    });
    let daemon = Daemon::start(&workspace, &DaemonOptions::default());
    let ask = |words: &str, model: Option<&str>| {
        let mut body = json!({ "message": words });
        if let Some(model) = model {
            body["model"] = json!(model);
        }
        let accepted = daemon.post("/api/chat", &body).json();
        let request = accepted["requestId"].as_str().unwrap_or_else(|| panic!("{accepted}")).to_owned();
        let waited = daemon.get(&format!("/api/chat/wait?request={request}&timeoutMs=60000")).json();
        assert_eq!(waited["quiescent"], true, "{waited}\n{}", daemon.log());
        let text =
            waited["replies"].as_array().and_then(|lines| lines.last()?["text"].as_str().map(str::to_owned));
        (request, text.unwrap_or_default())
    };
    let (request, text) = ask("who are you?", Some("openai/other-1"));
    assert_eq!(text, "This is the other one.", "{}", daemon.log());
    assert_eq!(other.asked()[0].model(), "other-1");
    assert!(
        other.asked()[0].last_text().contains("model: openai/other-1"),
        "{}",
        other.asked()[0].last_text()
    );
    let trace = until("the trace to end", SOON, || {
        let trace = daemon.get(&format!("/api/requests/{request}")).json();
        (trace["status"] == "completed").then_some(trace)
    });
    assert_eq!(trace["model"], "openai/other-1", "{trace}");
    // It holds for that message, and for what comes of it: the worker has its own, the answer has not.
    assert_eq!(ask("and you?", None).1, "This is the usual one.");
    assert_eq!(ask("do an errand", Some("openai/other-1")).1, "This is the other one.");
    assert!(usual.asked().iter().any(|asked| !asked.has_tool("wait")), "the worker keeps the usual model");
    // A name that leads nowhere is refused before anything is kept.
    let before = (usual.asked().len(), other.asked().len());
    for (model, hint) in [
        ("openai/never-heard-of", "is not a known model"),
        ("nobody/model", "nobody"),
        ("", "printable characters"),
    ] {
        let answer = daemon.post("/api/chat", &json!({"message": "hi", "model": model}));
        assert_eq!(answer.status, 400, "{model}: {}", answer.body);
        assert!(answer.body.contains(hint), "{model}: {}", answer.body);
    }
    let refused = workspace.nexus(&["chat", "-m", "hi", "--model", "openai/never-heard-of"]);
    assert!(refused.code() == Some(1) && refused.stderr.contains("not a known model"), "{refused:?}");
    assert_eq!((usual.asked().len(), other.asked().len()), before);
    let told = workspace.nexus(&["chat", "-m", "hi", "--model", "openai/other-1"]).ok();
    assert_eq!(told.stdout.trim(), "This is the other one.");
    daemon.stop();
}
