//! The first conversation and the turn after it, led by a scripted model over each wire format: what must
//! hold after onboarding, and after a turn that goes through a worker.

use nexus_testkit::model::{Asked, ModelServer, Reply, Wire};
use nexus_testkit::{Daemon, DaemonOptions, Workspace};
use serde_json::{Value, json};

const IDENTITY: &str = "---\nname: Pixel\n---\n# Pixel\nA brief and friendly assistant.\n";
const SOUL: &str = "# Soul\nHelpful, honest, short.\n";
const USER: &str = "---\nname: Ada\n---\n# Ada\nLikes numbers.\n";

fn dispatch(text: &str) -> Reply {
    Reply::text("I send somebody.").call("agent_send", &json!({"op": "dispatch", "text": text}))
}

/// What the model says; read off the conversation alone.
fn model(asked: &Asked) -> Reply {
    let last = asked.last_text();
    if asked.has_tool("wait") {
        return match () {
            () if last.contains("kind: worker_result") => {
                Reply::text(if last.contains("files are written") {
                    "Nice to meet you, Ada. I am Pixel now."
                } else {
                    "The worker counted 42."
                })
            }
            () if last.contains("dispatch_id") => Reply::text("It is under way."),
            () if last.contains("Call yourself Pixel") => dispatch("write the identity files"),
            () if last.contains("count for me") => dispatch("count to 42"),
            () => Reply::text("Hello! Who are you, and what shall I be called?"),
        };
    }
    // A worker: two calls at once where the task allows it.
    let write = |path: &str, content: &str| (path.to_owned(), json!({"path": path, "content": content}));
    let done = asked.messages().iter().filter(|message| message["role"] == "assistant").count();
    match (asked.contains("write the identity files"), done) {
        (true, 0) => {
            let files = [
                write("state/agents/pixel/IDENTITY.md", IDENTITY),
                write("state/agents/pixel/SOUL.md", SOUL),
                write("state/user/IDENTITY.md", USER),
            ];
            let reply = files.iter().fold(Reply::default(), |reply, (_, input)| reply.call("write", input));
            reply.call("bash", &json!({"command": "nexus credential scan"})).pieces(3)
        }
        (true, _) => Reply::text("The files are written; the scan is done."),
        (false, 0) => Reply::calls("bash", &json!({"command": "echo $((6 * 7))"})),
        (false, _) => Reply::text("Counted: 42"),
    }
}

fn say(daemon: &Daemon, message: &str) -> (Value, Vec<String>) {
    let accepted = daemon.post("/api/chat", &json!({ "message": message })).json();
    let request = accepted["requestId"].as_str().unwrap_or_else(|| panic!("{accepted}"));
    let waited = daemon.get(&format!("/api/chat/wait?request={request}&timeoutMs=60000")).json();
    assert_eq!(waited["quiescent"], true, "{waited}\n{}", daemon.log());
    let texts = waited["replies"].as_array().unwrap().iter();
    let replies = texts.map(|line| line["text"].as_str().unwrap().to_owned()).collect();
    (daemon.get(&format!("/api/requests/{request}")).json(), replies)
}

fn tools(trace: &Value) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    names.extend(trace["toolCalls"].as_array().into_iter().flatten().map(|call| {
        format!(
            "{} {}",
            call["tool"].as_str().unwrap_or_default(),
            call["status"].as_str().unwrap_or_default()
        )
    }));
    for child in trace["children"].as_array().into_iter().flatten() {
        names.extend(tools(child));
    }
    names
}

#[test]
fn onboarding_and_the_turn_after_it_work_over_each_wire_format() {
    for wire in Wire::BOTH {
        let server = ModelServer::start();
        server.answer(|asked| Some(model(asked).bytes_at_once(37)));
        let mut workspace = Workspace::initialized(env!("CARGO_BIN_EXE_nexus"));
        server.configure(&mut workspace, wire);
        let brave = format!("BSA{}", "x9".repeat(14));
        workspace.set_variable("BRAVE_SEARCH_API_KEY", &brave);
        let daemon = Daemon::start(&workspace, &DaemonOptions::default());
        let named = format!("{}/scripted-1", wire.provider());
        assert_eq!(daemon.get("/health").json()["model"], json!(named));

        // Onboarding.
        let (_, replies) = say(&daemon, "Hello");
        assert_eq!(replies, ["Hello! Who are you, and what shall I be called?"], "{wire:?}");
        let (trace, replies) = say(&daemon, "I am Ada. Call yourself Pixel, be brief and friendly");
        assert_eq!(replies.last().unwrap(), "Nice to meet you, Ada. I am Pixel now.", "{trace}");
        assert!(replies.len() >= 2, "the person is told before and after: {replies:?}");
        let called = tools(&trace);
        for expected in ["agent_send completed", "write completed", "bash completed"] {
            assert!(called.iter().any(|call| call == expected), "{wire:?}: {called:?}\n{trace}");
        }
        for (file, text) in [
            ("state/agents/pixel/IDENTITY.md", IDENTITY),
            ("state/agents/pixel/SOUL.md", SOUL),
            ("state/user/IDENTITY.md", USER),
        ] {
            assert_eq!(workspace.file(file), text);
        }
        assert!(!workspace.file("state/agents/BOOTSTRAP.md").is_empty());
        let status = workspace.nexus(&["status", "--json"]).json();
        assert_eq!((&status["onboarded"], &status["bootstrap"]["needed"]), (&json!(true), &json!(false)));
        // The scan ran through the daemon: the worker saw the variable's name and never its value.
        let scan = server.asked().into_iter().find(|asked| asked.contains("BRAVE_SEARCH_API_KEY"));
        let scan = scan.unwrap_or_else(|| panic!("{wire:?}: no scan result\n{trace}"));
        assert!(!scan.has_tool("wait") && !scan.contains(&brave), "{:?}", scan.results());

        // The turn after it.
        let before = server.asked().len();
        let (trace, replies) = say(&daemon, "Please count for me");
        assert_eq!(replies.last().unwrap(), "The worker counted 42.", "{trace}");
        let called = tools(&trace);
        assert!(called.contains(&"agent_send completed".to_owned()), "{called:?}");
        let kinds: Vec<&Value> =
            trace["children"].as_array().unwrap().iter().map(|child| &child["eventType"]).collect();
        assert_eq!(kinds, ["task", "worker_result"], "{trace}");
        let asked = server.asked();
        let manager = asked[before..].iter().find(|asked| asked.has_tool("wait")).unwrap();
        assert!(!manager.system().contains("## Onboarding") && manager.system().contains("Pixel"));
        assert!(asked[0].system().contains("## Onboarding"), "{}", asked[0].system());
        // The prefix of a session's requests is the same from turn to turn.
        let managers: Vec<&Asked> = asked[before..].iter().filter(|asked| asked.has_tool("wait")).collect();
        for pair in managers.windows(2) {
            assert_eq!(pair[0].system(), pair[1].system(), "{wire:?}");
            assert_eq!(pair[0].body["tools"], pair[1].body["tools"], "{wire:?}");
        }
        let header = match wire {
            Wire::Anthropic => manager.header("x-api-key").map(str::to_owned),
            Wire::OpenAi => manager.header("authorization").map(|value| value.replace("Bearer ", "")),
        };
        assert_eq!(header, Some(wire.key()), "{wire:?}");
        let turn_model = &trace["model"];
        assert!(turn_model.is_null() || *turn_model == json!(named), "{trace}");
        daemon.stop();
        let sessions = workspace.nexus(&["sessions", "--json"]).ok().stdout;
        assert!(sessions.contains("worker:"), "the worker's turn is in the ledger: {sessions}");
    }
}
