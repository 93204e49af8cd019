//! Who gets which part of the context: a table made from recorded requests and hooks, compared with the one that is
//! kept. No sentence stands twice for one reader, and every command and file named exists.

use std::collections::BTreeSet;

use nexus_testkit::model::{Asked, ModelServer, Reply};
use nexus_testkit::{Daemon, DaemonOptions, Run, Workspace, until};
use serde_json::{Value, json};

use crate::scripted;

/// A reader and everything it is told by us.
struct Reader {
    name: String,
    text: String,
}

fn say(daemon: &Daemon, body: &Value) {
    let accepted = daemon.post("/api/chat", body).json();
    let request = accepted["requestId"].as_str().unwrap_or_else(|| panic!("{accepted}"));
    let waited = daemon.get(&format!("/api/chat/wait?request={request}&timeoutMs=60000")).json();
    assert_eq!(waited["quiescent"], true, "{waited}");
}

fn told(asked: &Asked) -> String {
    let frame = asked.last_text();
    let frame = frame.split_once("</context>").map_or("", |(frame, _)| frame);
    format!("{}\n{frame}", asked.system())
}

/// The embedded readers, each by the request that was recorded.
fn embedded() -> Vec<Reader> {
    let server = ModelServer::start();
    server.answer(|asked| {
        let last = asked.last_text();
        Some(match asked.has_tool("wait") {
            true if last.contains("kind: message") && last.contains("send a reviewer") => Reply::calls(
                "agent_send",
                &json!({"op": "dispatch", "text": "review it", "agent": "reviewer"}),
            ),
            true if last.contains("kind: message") && last.contains("send somebody") => {
                Reply::calls("agent_send", &json!({"op": "dispatch", "text": "count"}))
            }
            _ => Reply::text("Good."),
        })
    });
    let workspace = scripted::workspace(&server);
    workspace.edit_config(|config| config["memory"]["quiet_ms"] = json!(100));
    let persona: Vec<(&str, String)> =
        ["state/agents/ada/IDENTITY.md", "state/agents/ada/SOUL.md", "state/user/IDENTITY.md"]
            .map(|file| (file, workspace.file(file)))
            .to_vec();
    for (file, _) in &persona {
        std::fs::remove_file(workspace.path(file)).unwrap();
    }
    let project = workspace.home().join("project");
    std::fs::create_dir_all(project.join(".git")).unwrap();
    let daemon = Daemon::start(&workspace, &DaemonOptions::default());
    let mut readers = Vec::new();
    let mut record = |name: &str, body: Value, is_meant: &dyn Fn(&Asked) -> bool| {
        let before = server.asked().len();
        say(&daemon, &body);
        let asked = server.asked();
        let found = asked[before..].iter().find(|asked| is_meant(asked));
        let text = told(found.unwrap_or_else(|| panic!("nobody was asked for {name}")));
        readers.push(Reader { name: name.to_owned(), text });
    };
    let is_manager = |asked: &Asked| asked.has_tool("wait");
    let is_worker = |asked: &Asked| asked.has_tool("bash");
    record("manager, before onboarding", json!({"message": "hello"}), &is_manager);
    for (file, text) in &persona {
        workspace.write(file, text);
    }
    record("manager", json!({"message": "hello"}), &is_manager);
    record("manager in a group", json!({"message": "hello", "session": "group:discord:7"}), &is_manager);
    record("manager in a channel DM", json!({"message": "hello", "session": "dm:telegram:4"}), &is_manager);
    record("worker", json!({"message": "send somebody"}), &is_worker);
    record("worker with a role", json!({"message": "send a reviewer", "project": project}), &|asked| {
        asked.system().contains("## Your role: ")
    });
    let writer = until("the memory writer", std::time::Duration::from_secs(60), || {
        server.asked().into_iter().find(|asked| asked.has_tool("remember") && !asked.has_tool("agent_send"))
    });
    readers.push(Reader { name: "automation memory-writer".to_owned(), text: told(&writer) });
    daemon.stop();
    readers
}

fn harnesses() -> Vec<Reader> {
    let mut readers = Vec::new();
    for (stage, is_onboarded) in [(", before onboarding", false), ("", true)] {
        let workspace = Workspace::initialized(env!("CARGO_BIN_EXE_nexus"));
        if is_onboarded {
            workspace.write("state/agents/ada/IDENTITY.md", "---\nname: Ada\n---\nAda helps.\n");
            workspace.write("state/agents/ada/SOUL.md", "Kind and exact.\n");
            workspace.write("state/user/IDENTITY.md", "---\nname: Tim\n---\nTim owns it.\n");
        }
        for harness in ["claude-code", "codex", "cursor", "opencode", "gemini", "qwen"] {
            let payload = json!({"cwd": workspace.root(), "model": "m-1"}).to_string();
            let run = Run::new(&["hook", "session_start", "--harness", harness]).input(payload);
            let answer: Value = workspace.run(&run).ok().json();
            let text =
                longest(&answer).replace(&workspace.root().to_string_lossy().into_owned(), "WORKSPACE");
            readers.push(Reader {
                name: format!("{harness}{stage}"),
                text: format!("{}\n{text}", workspace.file("AGENTS.md")),
            });
        }
    }
    readers
}

/// The longest text in an answer is what the agent is told.
fn longest(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(items) => items.iter().map(longest).max_by_key(String::len).unwrap_or_default(),
        Value::Object(fields) => fields.values().map(longest).max_by_key(String::len).unwrap_or_default(),
        _ => String::new(),
    }
}

/// The parts that the table is about, and what shows each of them.
const PARTS: [(&str, &str); 21] = [
    ("AGENTS.md", "# This is a Nexus workspace"),
    ("commands", "nexus skills use"),
    ("safety", "## Safety"),
    ("identity", "## Agent Identity"),
    ("soul", "## Agent Soul"),
    ("user", "## User Identity"),
    ("time", "ime: 2"),
    ("zone", "one: "),
    ("machine", "(x86_64)"),
    ("model", "odel: "),
    ("call style", "tool calls"),
    ("onboarding", "## Onboarding"),
    ("introduction", "## First Conversation"),
    ("manager's rules", "You are the manager"),
    ("worker's rules", "You are a worker: a manager"),
    ("catalog role", "## Your role: "),
    ("own role", "# Role: "),
    ("reply tags", "[[reply_to_current]]"),
    ("group", "In a group you are"),
    ("reactions", "Reactions:"),
    ("platform", "You are writing on "),
];

fn table(readers: &[Reader]) -> String {
    let wide = PARTS.iter().map(|(part, _)| part.len()).max().unwrap_or_default();
    let mut lines: Vec<String> =
        readers.iter().enumerate().map(|(at, reader)| format!("{:>2} {}", at + 1, reader.name)).collect();
    lines.push(String::new());
    let numbers: Vec<String> = (1..=readers.len()).map(|at| format!("{at:>2}")).collect();
    lines.push(format!("{:wide$} {}", "", numbers.join(" ")));
    for (part, sign) in PARTS {
        let sign = if part == "machine" { format!("({})", std::env::consts::ARCH) } else { sign.to_owned() };
        let marks: Vec<&str> =
            readers.iter().map(|reader| if reader.text.contains(&sign) { " x" } else { " ." }).collect();
        lines.push(format!("{part:wide$} {}", marks.join(" ")));
    }
    lines.join("\n")
}

/// Sentences of a text that stand in it more than once.
fn doubled(text: &str) -> Vec<String> {
    let mut seen = BTreeSet::new();
    let sentences = text.split(['.', '\n', ';']).map(str::trim).filter(|sentence| sentence.len() > 30);
    sentences.filter(|sentence| !seen.insert(sentence.to_lowercase())).map(str::to_owned).collect()
}

/// Commands of ours that a text names, as far as they are words.
fn commands(text: &str) -> BTreeSet<Vec<String>> {
    let named = text.split('`').filter(|part| part.starts_with("nexus ") && !part.contains('\n'));
    let words = |part: &str| -> Vec<String> {
        let is_word = |word: &&str| word.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'-');
        part.split(' ')
            .skip(1)
            .take_while(is_word)
            .filter(|word| !word.starts_with('-'))
            .map(str::to_owned)
            .collect()
    };
    named.map(words).filter(|words| !words.is_empty()).collect()
}

#[test]
fn everybody_gets_what_they_must_and_nothing_twice() {
    let mut readers = embedded();
    readers.extend(harnesses());
    insta::assert_snapshot!("who_is_told_what", table(&readers));
    let workspace = Workspace::initialized(env!("CARGO_BIN_EXE_nexus"));
    let mut known = BTreeSet::new();
    for reader in &readers {
        assert_eq!(doubled(&reader.text), Vec::<String>::new(), "{} is told twice", reader.name);
        for words in commands(&reader.text) {
            if known.insert(words.clone()) {
                let arguments: Vec<&str> =
                    words.iter().take(2).map(String::as_str).chain(["--help"]).collect();
                let help = workspace.nexus(&arguments);
                assert_eq!(help.code(), Some(0), "{} is told of {words:?}: {}", reader.name, help.stderr);
            }
        }
    }
    assert!(known.len() > 4, "{known:?}");
}
