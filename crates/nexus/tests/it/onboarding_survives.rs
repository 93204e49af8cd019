//! The first conversation reaches its end whatever happens on the way: three identity files, by one worker or
//! by many, in any order, with the daemon killed between any two of them. Then the right to write them ends.

use std::time::Duration;

use nexus_testkit::model::{Asked, ModelServer, Reply, Wire};
use nexus_testkit::{Daemon, DaemonOptions, Run, Workspace, until, witness};
use serde_json::{Value, json};

const BINARY: &str = env!("CARGO_BIN_EXE_nexus");
const FILES: [(&str, &str); 3] = [
    ("state/agents/pixel/IDENTITY.md", "---\nname: Pixel\n---\nA brief and friendly assistant.\n"),
    ("state/agents/pixel/SOUL.md", "Helpful, honest, short.\n"),
    ("state/user/IDENTITY.md", "---\nname: Ada\n---\nLikes numbers.\n"),
];
const ORDERS: [[usize; 3]; 6] = [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]];

/// Names of identity files in a text, in their order there, the first of each.
fn named(text: &str) -> Vec<&'static str> {
    let mut found: Vec<(usize, &str)> =
        FILES.iter().filter_map(|(file, _)| Some((text.find(file)?, *file))).collect();
    found.sort_unstable();
    found.into_iter().map(|(_, file)| file).collect()
}

/// What the model says; read off the conversation alone. "go on" leaves it to the prompt what to write.
fn model(asked: &Asked) -> Reply {
    let last = asked.last_text();
    if asked.has_tool("wait") {
        let system = asked.system();
        let unfinished = system.split_once("\n## Unfinished Onboarding\n").map(|(_, text)| text);
        let files = match last.contains("go on") {
            true => named(unfinished.unwrap_or_default()),
            false => named(&last),
        };
        return match () {
            () if last.contains("kind: worker_result") => Reply::text("I heard from the worker."),
            () if last.contains("dispatch_id") => Reply::text("It is under way."),
            () if last.contains("kind: message") && !files.is_empty() => Reply::text("I send somebody.")
                .call("agent_send", &json!({"op": "dispatch", "text": format!("TASK {}", files.join(" "))})),
            () => Reply::text("Hello."),
        };
    }
    let messages = asked.messages();
    let task = messages.iter().map(Value::to_string).find(|text| text.contains("TASK ")).unwrap_or_default();
    let files = named(task.rsplit_once("TASK ").map_or("", |(_, list)| list));
    let done = messages.iter().filter(|message| message["role"] == "assistant").count();
    let text = |file: &str| FILES.iter().find(|(name, _)| *name == file).map_or("", |(_, text)| text);
    match files.get(done) {
        Some(file) => Reply::calls("write", &json!({"path": file, "content": text(file)})),
        None => Reply::text("That is all."),
    }
}

fn scripted(wire: Wire) -> (ModelServer, Workspace) {
    let server = ModelServer::start();
    server.answer(|asked| Some(model(asked)));
    let mut workspace = Workspace::initialized(BINARY);
    server.configure(&mut workspace, wire);
    (server, workspace)
}

/// Sends a message and waits for its end; none when the daemon died on the way.
fn say(daemon: &Daemon, message: &str) -> Option<()> {
    let exchange = |method: &str, target: &str, body: &str| {
        let wanted = nexus_testkit::http::request(method, daemon.port(), target, Some(daemon.token()), body);
        nexus_testkit::http::exchange(daemon.port(), &wanted).ok()
    };
    let accepted = exchange("POST", "/api/chat", &json!({ "message": message }).to_string())?.json();
    let request = accepted["requestId"].as_str().unwrap_or_else(|| panic!("{accepted}"));
    let waited = exchange("GET", &format!("/api/chat/wait?request={request}&timeoutMs=60000"), "")?.json();
    assert_eq!(waited["quiescent"], true, "{waited}");
    Some(())
}

fn present(workspace: &Workspace) -> Vec<&'static str> {
    FILES.iter().map(|(file, _)| *file).filter(|file| workspace.path(file).exists()).collect()
}

/// Everything that must be true once all three files are there.
fn assert_complete(server: &ModelServer, workspace: &Workspace, daemon: &Daemon, case: &str) {
    for (file, text) in FILES {
        assert!(workspace.path(file).exists(), "{case}: {file} is missing, only {:?}", present(workspace));
        assert_eq!(workspace.file(file), text, "{case}");
    }
    let status = workspace.nexus(&["status", "--json"]).json();
    assert_eq!(
        (&status["onboarded"], &status["bootstrap"]["needed"]),
        (&json!(true), &json!(false)),
        "{case}"
    );
    assert!(status["bootstrap"].get("missing").is_none(), "{case}: {status}");
    assert!(!workspace.file("state/agents/BOOTSTRAP.md").is_empty(), "{case}");
    // A worker that is sent once more is told that it may not.
    say(daemon, &format!("write {} again", FILES[1].0)).unwrap();
    let asked = server.asked();
    let refused = asked.iter().rev().find(|asked| !asked.has_tool("wait")).unwrap();
    assert!(refused.last_text().contains("may be read but not changed"), "{case}: {}", refused.last_text());
    let manager = asked.iter().rev().find(|asked| asked.has_tool("wait")).unwrap();
    assert!(!manager.system().contains("Onboarding"), "{case}: {}", manager.system());
}

#[test]
fn w1_workers_one_after_another_write_all_three_files_in_every_order() {
    for (number, order) in ORDERS.into_iter().enumerate() {
        let wire = Wire::BOTH[number % 2];
        let (server, workspace) = scripted(wire);
        let daemon = Daemon::start(&workspace, &DaemonOptions::default());
        for (done, place) in order.into_iter().enumerate() {
            say(&daemon, &format!("please write {}", FILES[place].0)).unwrap();
            let asked = server.asked();
            let worker = asked.iter().rev().find(|asked| !asked.has_tool("wait")).unwrap();
            let told = worker.last_text();
            assert_eq!(present(&workspace).len(), done + 1, "{order:?} over {wire:?}: {told}");
        }
        assert_complete(&server, &workspace, &daemon, &format!("{order:?} over {wire:?}"));
        daemon.stop();
    }
}

#[test]
fn w1_a_kill_between_any_two_files_is_made_good_by_the_next_message() {
    for (number, order) in ORDERS.into_iter().enumerate() {
        let wire = Wire::BOTH[number % 2];
        let (server, workspace) = scripted(wire);
        for place in order {
            let daemon = Daemon::start(&workspace, &DaemonOptions::default());
            say(&daemon, &format!("please write {}", FILES[place].0)).unwrap();
            daemon.kill9();
        }
        let daemon = Daemon::start(&workspace, &DaemonOptions::default());
        assert_complete(&server, &workspace, &daemon, &format!("{order:?} over {wire:?}"));
        daemon.stop();
    }
}

#[test]
fn w1_a_worker_killed_between_its_files_goes_on_after_the_restart() {
    for wire in Wire::BOTH {
        for written in 1..=3 {
            for order in [[0, 1, 2], [2, 1, 0]] {
                let case = format!("{order:?} over {wire:?}, killed after {written}");
                let (server, workspace) = scripted(wire);
                let place = format!("tool.written@{written}");
                let daemon = Daemon::start(&workspace, &DaemonOptions::dying_at(&place));
                let files = order.map(|place| FILES[place].0).join(" ");
                assert!(say(&daemon, &format!("please write {files}")).is_none(), "{case}: nobody died");
                daemon.wait_for_end(Duration::from_secs(30));
                assert_eq!(present(&workspace).len(), written, "{case}");
                let daemon = Daemon::start(&workspace, &DaemonOptions::default());
                // What was under way is taken up by itself.
                until("the worker comes to its end", Duration::from_secs(60), || {
                    (present(&workspace).len() == 3).then_some(())
                });
                say(&daemon, "are you there?").unwrap();
                assert_complete(&server, &workspace, &daemon, &case);
                daemon.stop();
            }
        }
    }
}

#[test]
fn w1_a_worker_that_writes_one_file_only_leaves_the_rest_to_the_next_message() {
    for wire in Wire::BOTH {
        let (server, workspace) = scripted(wire);
        let daemon = Daemon::start(&workspace, &DaemonOptions::default());
        say(&daemon, &format!("please write {}", FILES[0].0)).unwrap();
        let status = workspace.nexus(&["status", "--json"]).json();
        assert_eq!(status["onboarded"], false, "{status}");
        assert_eq!(status["bootstrap"]["needed"], false, "{status}");
        assert_eq!(status["bootstrap"]["missing"], json!([FILES[1].0, FILES[2].0]), "{status}");
        daemon.kill9();
        let daemon = Daemon::start(&workspace, &DaemonOptions::default());
        // The introduction is not repeated: only what is missing is asked for.
        say(&daemon, "go on").unwrap();
        let asked = server.asked();
        let manager = asked.iter().find(|asked| asked.last_text().contains("go on"));
        let manager = manager.unwrap();
        assert!(!manager.system().contains("\n## Onboarding\n"), "{}", manager.system());
        assert!(manager.system().contains("You are Pixel"), "{}", manager.system());
        assert_complete(&server, &workspace, &daemon, &format!("{wire:?}"));
        daemon.stop();
    }
}

#[test]
fn w1_until_then_workers_write_the_begun_persona_and_no_other() {
    let server = ModelServer::start();
    let mut workspace = Workspace::initialized(BINARY);
    server.configure(&mut workspace, Wire::Anthropic);
    workspace.write(FILES[0].0, FILES[0].1);
    workspace.write("state/agents/atlas/NOTES.md", "nobody's");
    server.answer(|asked| {
        Some(match asked.has_tool("wait") {
            true if asked.last_text().contains("kind: message") => Reply::text("I send somebody.")
                .call("agent_send", &json!({"op": "dispatch", "text": "TRY THEM"})),
            true => Reply::text("Good."),
            false if asked.results().is_empty() => {
                let write = |path: &str| json!({"path": path, "content": "x y z\n"});
                let shell = "echo mine > ../state/agents/atlas/x; echo ours > ../state/agents/pixel/NOTES.md";
                Reply::calls("write", &write("state/agents/atlas/IDENTITY.md"))
                    .call("write", &write("state/agents/BOOTSTRAP.md"))
                    .call("bash", &json!({"command": shell}))
                    .call("write", &write(FILES[1].0))
            }
            false => Reply::text("Tried."),
        })
    });
    let daemon = Daemon::start(&workspace, &DaemonOptions::default());
    say(&daemon, "try it").unwrap();
    let asked = server.asked();
    let results = asked.iter().map(Asked::results).max_by_key(Vec::len).unwrap();
    for refused in &results[..2] {
        assert!(refused.1.contains("may be read but not changed"), "{refused:?}");
    }
    assert!(!workspace.path("state/agents/atlas/x").exists(), "{results:?}");
    assert!(workspace.path("state/agents/pixel/NOTES.md").exists(), "{results:?}");
    assert!(workspace.path(FILES[1].0).exists(), "{results:?}");
}

#[test]
fn w1_the_guide_goes_on_where_it_was_killed() {
    for written in 1..=3 {
        let workspace = Workspace::initialized(BINARY);
        let place = format!("tool.written@{written}");
        let daemon = Daemon::start(&workspace, &DaemonOptions::dying_at(&place));
        let died = witness::ONBOARDING.iter().any(|line| say(&daemon, line).is_none());
        assert!(died, "nobody died after {written}");
        daemon.wait_for_end(Duration::from_secs(30));
        let daemon = Daemon::start(&workspace, &DaemonOptions::default());
        say(&daemon, "hello again").unwrap();
        until("all three files are written", Duration::from_secs(60), || {
            (present(&workspace).len() == 3).then_some(())
        });
        let status = workspace.nexus(&["status", "--json"]).json();
        assert_eq!(status["onboarded"], true, "{written}: {status}");
        assert_eq!(status["identity"]["userName"], "Ada", "{written}: {status}");
        daemon.stop();
    }
}

#[test]
fn w1_the_guide_completes_an_old_workspace_without_another_introduction() {
    let workspace = Workspace::initialized(BINARY);
    workspace.write("state/agents/Pixel/IDENTITY.md", FILES[0].1);
    let chat = |message: &str| {
        let run = Run::new(&["up"]).input(format!("{message}\n")).within(Duration::from_secs(60));
        workspace.run(&run).ok().stdout
    };
    let first = chat("remember that the tea is in the blue tin");
    assert!(first.contains("what may I call you?"), "{first}");
    assert!(!first.contains("I can set up your assistant"), "{first}");
    assert!(!workspace.path("state/agents/pixel").exists(), "one persona, not two");
    let soul = workspace.file("state/agents/Pixel/SOUL.md");
    assert!(soul.contains("Pixel") && !soul.contains("Friend"), "{soul}");
    chat("I am Ada");
    assert!(workspace.file("state/user/IDENTITY.md").contains("name: Ada"));
    let status = workspace.nexus(&["status", "--json"]).json();
    assert_eq!((&status["onboarded"], &status["identity"]["agentName"]), (&json!(true), &json!("Pixel")));
    let later = chat("what do you remember about tea?");
    assert!(!later.contains("is missing"), "{later}");
}
