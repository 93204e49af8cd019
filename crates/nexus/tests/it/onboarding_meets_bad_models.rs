//! The first conversation with models that behave badly: workers one after another, in the wrong order, twice,
//! refusing, with nonsense names, stopping in the middle; and the daemon killed between any two messages. In the end
//! all three files are right, because every message goes on where the last one stopped.

use nexus_testkit::model::{Asked, ModelServer, Reply, Wire};
use nexus_testkit::{Daemon, DaemonOptions, Workspace};
use serde_json::{Value, json};

const BINARY: &str = env!("CARGO_BIN_EXE_nexus");
/// Messages that an owner says before they give up.
const PATIENCE: usize = 8;

/// Stands at the end of a task that a worker refuses.
const NO: &str = "(say no)";

/// How a model behaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Manner {
    /// One worker for all files, as it is told.
    Obedient,
    /// A worker for each file, all at once.
    OneEach,
    /// One file with each message.
    OneAfterAnother,
    /// The user's profile first, the identity last.
    WrongOrder,
    /// Two workers that write the same.
    Twice,
    /// Every second worker says no.
    Refusing,
    /// Tries paths that are no persona's before the right ones.
    NonsenseNames,
    /// A worker that ends after its first file.
    StopsInTheMiddle,
    /// A manager that says nothing but small talk every second time.
    Distracted,
}

const MANNERS: [Manner; 9] = [
    Manner::Obedient,
    Manner::OneEach,
    Manner::OneAfterAnother,
    Manner::WrongOrder,
    Manner::Twice,
    Manner::Refusing,
    Manner::NonsenseNames,
    Manner::StopsInTheMiddle,
    Manner::Distracted,
];

fn files(manner: Manner) -> [(String, &'static str); 3] {
    // A folder's name is a matter of taste; whose persona it is stands in the file.
    let folder = if manner == Manner::NonsenseNames { "Pixel The 2nd!!" } else { "pixel" };
    [
        (
            format!("state/agents/{folder}/IDENTITY.md"),
            "---\nname: Pixel\n---\nA brief and friendly assistant.\n",
        ),
        (format!("state/agents/{folder}/SOUL.md"), "Helpful, honest, short.\n"),
        ("state/user/IDENTITY.md".to_owned(), "---\nname: Ada\n---\nLikes numbers.\n"),
    ]
}

/// Returns the files that a manager's prompt says are missing.
fn missing(manner: Manner, system: &str) -> Vec<String> {
    let all = files(manner).map(|(file, _)| file);
    if let Some((_, note)) = system.split_once("Still missing:\n") {
        let line = note.lines().next().unwrap_or_default();
        return all.into_iter().filter(|file| line.contains(file.as_str())).collect();
    }
    let written = system.split_once("Already written, so keep to it:").map_or("", |(_, rest)| rest);
    let needed = system.contains("\n## Onboarding\n");
    all.into_iter().filter(|file| needed && !written.contains(file.as_str())).collect()
}

fn dispatch(files: &[String]) -> Value {
    json!({"op": "dispatch", "text": format!("TASK {}", json!(files))})
}

fn manager(manner: Manner, asked: &Asked) -> Reply {
    let last = asked.last_text();
    if !last.contains("kind: message") {
        return Reply::text("I see.");
    }
    let mut wanted = missing(manner, &asked.system());
    let turns = asked.messages().iter().filter(|message| message["role"] == "assistant").count();
    if wanted.is_empty() {
        return Reply::text("Hello, I am ready.");
    }
    let reply = Reply::text("I send somebody.");
    match manner {
        Manner::Refusing if turns % 2 == 0 => {
            let text = format!("TASK {} {NO}", json!(wanted));
            reply.call("agent_send", &json!({"op": "dispatch", "text": text}))
        }
        Manner::Obedient | Manner::NonsenseNames | Manner::StopsInTheMiddle | Manner::Refusing => {
            reply.call("agent_send", &dispatch(&wanted))
        }
        Manner::OneEach => wanted
            .iter()
            .fold(reply, |reply, file| reply.call("agent_send", &dispatch(std::slice::from_ref(file)))),
        Manner::OneAfterAnother => reply.call("agent_send", &dispatch(&wanted[..1])),
        Manner::WrongOrder => {
            wanted.reverse();
            reply.call("agent_send", &dispatch(&wanted))
        }
        Manner::Twice => reply.call("agent_send", &dispatch(&wanted)).call("agent_send", &dispatch(&wanted)),
        Manner::Distracted if turns % 2 == 0 => Reply::text("Lovely weather."),
        Manner::Distracted => reply.call("agent_send", &dispatch(&wanted)),
    }
}

fn worker(manner: Manner, asked: &Asked) -> Reply {
    let messages = asked.messages();
    let task = messages.iter().map(text_of).find(|text| text.contains("TASK [")).unwrap_or_default();
    let list = task.rsplit_once("TASK ").map_or("[]", |(_, list)| list);
    let list = list.split_inclusive(']').next().unwrap_or("[]");
    let wanted: Vec<String> = serde_json::from_str(list).unwrap_or_default();
    let done = messages.iter().filter(|message| message["role"] == "assistant").count();
    let write = |path: &str, content: &str| Reply::calls("write", &json!({"path": path, "content": content}));
    let nonsense = [
        "state/agents/IDENTITY.md",
        "state/agents/../config.json",
        "state/agents/BOOTSTRAP.md",
        "agents/pixel/IDENTITY.md",
        "/etc/IDENTITY.md",
    ];
    let before = if manner == Manner::NonsenseNames { nonsense.len() } else { 0 };
    if done < before {
        return write(nonsense[done], "---\nname: Nobody\n---\nNobody.\n");
    }
    let number = done - before;
    match (manner, wanted.get(number)) {
        (Manner::Refusing, _) if task.contains(NO) => Reply::text("I cannot help with that."),
        (Manner::StopsInTheMiddle, Some(_)) if number == 1 => Reply::text("That is enough for now."),
        (_, Some(file)) => write(file, content(manner, file)),
        (_, None) => Reply::text("That is all."),
    }
}

fn content(manner: Manner, file: &str) -> &'static str {
    files(manner).into_iter().find(|(name, _)| name == file).map_or("", |(_, text)| text)
}

fn text_of(message: &Value) -> String {
    match &message["content"] {
        Value::String(text) => text.clone(),
        Value::Array(parts) => {
            parts.iter().filter_map(|part| part["text"].as_str()).collect::<Vec<_>>().join("\n")
        }
        _ => String::new(),
    }
}

fn say(daemon: &Daemon, message: &str) {
    let accepted = daemon.post("/api/chat", &json!({ "message": message })).json();
    let request = accepted["requestId"].as_str().unwrap_or_else(|| panic!("{accepted}"));
    let waited = daemon.get(&format!("/api/chat/wait?request={request}&timeoutMs=60000")).json();
    assert_eq!(waited["quiescent"], true, "{waited}");
    assert!(!waited["replies"].as_array().unwrap().is_empty(), "silence: {waited}");
}

fn is_onboarded(workspace: &Workspace) -> bool {
    workspace.nexus(&["status", "--json"]).json()["onboarded"] == true
}

fn assert_introduced(workspace: &Workspace, case: &str) {
    let status = workspace.nexus(&["status", "--json"]).json();
    assert_eq!(status["onboarded"], true, "{case}: {status}");
    assert_eq!(
        (&status["identity"]["agentName"], &status["identity"]["userName"]),
        (&json!("Pixel"), &json!("Ada")),
        "{case}: {status}"
    );
    assert!(status["bootstrap"].get("missing").is_none(), "{case}: {status}");
    let bootstrap = workspace.file("state/agents/BOOTSTRAP.md");
    assert!(bootstrap.starts_with("# Onboarding"), "{case}: {bootstrap}");
    assert!(workspace.json("state/config.json")["runtime"]["port"].is_number(), "{case}");
}

fn run(manner: Manner, wire: Wire, kills: bool) {
    let case = format!("{manner:?} over {wire:?}, killed between messages: {kills}");
    let server = ModelServer::start();
    server.answer(move |asked| {
        Some(if asked.has_tool("wait") { manager(manner, asked) } else { worker(manner, asked) })
    });
    let mut workspace = Workspace::initialized(BINARY);
    server.configure(&mut workspace, wire);
    // The automations' own turns are not what this is about.
    workspace.edit_config(|config| config["memory"] = json!({"writer": "plain", "quiet_ms": 600_000}));
    let mut daemon = Daemon::start(&workspace, &DaemonOptions::default());
    for number in 0..PATIENCE {
        say(&daemon, &format!("message {number}"));
        if kills {
            daemon.kill9();
            daemon = Daemon::start(&workspace, &DaemonOptions::default());
        }
        if is_onboarded(&workspace) {
            break;
        }
    }
    assert_introduced(&workspace, &case);
    for (file, text) in files(manner) {
        assert_eq!(workspace.file(&file), text, "{case}");
    }
    say(&daemon, "who are you?");
    let asked = server.asked();
    let last = asked.iter().rev().find(|asked| asked.has_tool("wait")).unwrap().system();
    assert!(last.starts_with("You are Pixel") && !last.contains("Onboarding"), "{case}: {last}");
    daemon.stop();
}

#[test]
fn a_first_conversation_ends_well_however_the_model_behaves() {
    for (number, manner) in MANNERS.into_iter().enumerate() {
        for kills in [false, true] {
            run(manner, Wire::BOTH[(number + usize::from(kills)) % 2], kills);
        }
    }
}

#[test]
fn the_guide_ends_well_however_the_owner_behaves() {
    let stories: [&[&str]; 5] = [
        &["Hello", "I am Ada", "Call yourself Pixel, be brief and friendly"],
        // Asks something else first.
        &["What can you do?", "Hello", "I am Ada", "Call yourself Pixel, be brief and friendly"],
        // Names it twice.
        &["Hello", "I am Ada", "Call yourself Pixel, be brief", "Call yourself Pixel, be brief"],
        // Names it first.
        &["Call yourself Pixel, be brief", "I am Ada"],
        // Leaves in the middle and comes back.
        &["Hello", "I am Ada", "bye", "Hello again", "Call yourself Pixel, be brief and friendly"],
    ];
    for story in stories {
        for kills in [false, true] {
            let case = format!("{story:?}, killed between messages: {kills}");
            let workspace = Workspace::initialized(BINARY);
            let mut daemon = Daemon::start(&workspace, &DaemonOptions::default());
            for message in story {
                say(&daemon, message);
                if kills {
                    daemon.kill9();
                    daemon = Daemon::start(&workspace, &DaemonOptions::default());
                }
            }
            assert_introduced(&workspace, &case);
            daemon.stop();
        }
    }
}
