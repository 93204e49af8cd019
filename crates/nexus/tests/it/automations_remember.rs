//! The four shipped automations at their real work, without a model and with a scripted one: what was said
//! comes back, a crash loses none of it, and what they learn stays theirs.

use std::time::Duration;

use nexus_store::{OpenMode, Store};
use nexus_testkit::model::{Asked, ModelServer, Reply, Wire};
use nexus_testkit::{Daemon, DaemonOptions, Run, Workspace, until};
use serde_json::{Value, json};

const LONG: Duration = Duration::from_secs(30);

fn say(daemon: &Daemon, message: &str) -> Vec<String> {
    let accepted = daemon.post("/api/chat", &json!({ "message": message })).json();
    let request = accepted["requestId"].as_str().unwrap_or_else(|| panic!("{accepted}"));
    let waited = daemon.get(&format!("/api/chat/wait?request={request}&timeoutMs=30000")).json();
    assert_eq!(waited["quiescent"], true, "{waited}\n{}", daemon.log());
    let replies = waited["replies"].as_array().unwrap().iter();
    replies.map(|line| line["text"].as_str().unwrap().to_owned()).collect()
}

fn invocations(workspace: &Workspace, name: &str) -> Vec<Value> {
    let listed = workspace.nexus(&["automation", "invocations", name, "-n", "100", "--json"]).json();
    listed["invocations"].as_array().unwrap().clone()
}

/// Waits until every run of an automation so far has ended.
fn settled(workspace: &Workspace, name: &str, least: usize) -> Vec<Value> {
    until(&format!("{least} runs of {name}"), LONG, || {
        let runs = invocations(workspace, name);
        (runs.len() >= least && runs.iter().all(|run| !run["outcome"].is_null())).then_some(runs)
    })
}

fn facts(workspace: &Workspace) -> Vec<String> {
    let store = Store::open(&workspace.path("state/data"), OpenMode::ReadOnly).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let found = runtime.block_on(store.memory().recent_facts(100)).unwrap();
    found.into_iter().map(|fact| fact.text).collect()
}

#[test]
fn without_a_model_the_first_conversation_is_kept_and_answers_after_a_restart() {
    let workspace = Workspace::initialized(env!("CARGO_BIN_EXE_nexus"));
    let daemon = Daemon::start(&workspace, &DaemonOptions::default());
    for message in ["Hello", "I am Ada", "Your name is Nova", "My sister Grace lives in Lisbon."] {
        say(&daemon, message);
    }
    let status = workspace.nexus(&["status", "--json"]).json();
    assert_eq!(status["onboarded"], true, "{status}");
    // Both memory automations ran where they belong.
    let read = settled(&workspace, "memory-reader", 1);
    assert!(
        read.iter().all(|run| run["hookPoint"] == "worker:pre_execution" && run["outcome"] == "ok"),
        "{read:?}"
    );
    let written = settled(&workspace, "memory-writer", 4);
    assert!(
        written.iter().all(|run| run["hookPoint"] == "after:runAgent" && run["outcome"] == "ok"),
        "{written:?}"
    );
    // The command of the first worker is in the audit.
    let audit = workspace.file("state/logs/commands.jsonl");
    let line: Value = serde_json::from_str(audit.lines().next().unwrap()).unwrap();
    assert_eq!(
        (&line["command"], &line["exitCode"]),
        (&json!("nexus credential scan --json"), &json!(0)),
        "{line}"
    );
    // Onboarding told memory who is who.
    let known = until("the owner's name in memory", LONG, || {
        let known = workspace.nexus(&["memory", "entities", "--json"]).json().to_string();
        (known.contains("Ada") && known.contains("Nova")).then_some(known)
    });
    assert!(known.contains("Grace"), "{known}");
    let kept = facts(&workspace);
    assert!(kept.iter().any(|fact| fact.contains("Grace") && fact.contains("Lisbon")), "{kept:?}");
    daemon.stop();

    let daemon = Daemon::start(&workspace, &DaemonOptions::default());
    let replies = say(&daemon, "What do you know about Grace?");
    assert!(replies.concat().contains("Lisbon"), "{replies:?}");
    // A worker that is sent for something memory knows is told so before it starts.
    say(&daemon, "run `echo a letter to Grace in Lisbon`");
    let told = settled(&workspace, "memory-reader", 2);
    assert!(told[0]["result"]["enrich_bytes"]["memory_context"].as_u64().unwrap_or(0) > 0, "{}", told[0]);
    // One that memory knows nothing about leaves no line behind that nobody reads.
    let errors = workspace.file("state/workspace/memory-reader/ERRORS.md");
    say(&daemon, "run `echo zebra xylophone quarks`");
    settled(&workspace, "memory-reader", 3);
    daemon.stop();
    assert_eq!(workspace.file("state/workspace/memory-reader/ERRORS.md"), errors);
}

#[test]
fn what_a_crash_kept_from_memory_is_found_again() {
    // Died after the facts and before the mark; died before the end was told to anybody.
    for place in ["memory.learnt", "s8.before_project"] {
        let workspace = Workspace::initialized(env!("CARGO_BIN_EXE_nexus"));
        workspace.write("state/agents/nova/IDENTITY.md", "---\nname: Nova\n---\nNova helps.\n");
        workspace.write("state/agents/nova/SOUL.md", "Kind and exact.\n");
        workspace.write("state/user/IDENTITY.md", "---\nname: Ada\n---\nAda owns it.\n");
        let daemon = Daemon::start(&workspace, &DaemonOptions::dying_at(place));
        daemon.post("/api/chat", &json!({"message": "My sister Grace lives in Lisbon."}));
        daemon.wait_for_end(LONG);
        let daemon = Daemon::start(&workspace, &DaemonOptions::default());
        let kept = until(&format!("the fact after {place}"), LONG, || {
            let kept: Vec<String> =
                facts(&workspace).into_iter().filter(|fact| fact.contains("Lisbon")).collect();
            (!kept.is_empty()).then_some(kept)
        });
        assert_eq!(kept.len(), 1, "{place}: {kept:?}");
        let store = Store::open(&workspace.path("state/data"), OpenMode::ReadOnly).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let ended = runtime.block_on(store.agents().newest_ended(10)).unwrap();
        assert_eq!(ended.len(), 1, "{place}");
        let item = runtime.block_on(store.agents().item_of_request(&ended[0])).unwrap().unwrap();
        until("the mark", LONG, || {
            let events = vec![item.new.source_event_id.clone().unwrap()];
            runtime.block_on(store.memory().unprocessed(events)).unwrap().is_empty().then_some(())
        });
        daemon.stop();
    }
}

#[test]
fn w20_the_answer_to_boot_md_is_said_where_the_owner_talks() {
    let server = ModelServer::start();
    server.otherwise(Reply::text("Good morning, three letters came."));
    let mut workspace = Workspace::initialized(env!("CARGO_BIN_EXE_nexus"));
    server.configure(&mut workspace, Wire::Anthropic);
    workspace.write("BOOT.md", "Look for letters.\n");
    let daemon = Daemon::start(&workspace, &DaemonOptions::default());
    let lines = until("the answer is in the owner's conversation", LONG, || {
        let history = daemon.get("/api/chat/history").json();
        history["lines"].to_string().contains("three letters").then_some(history)
    });
    say(&daemon, "what was that?");
    let told = server.asked().last().unwrap().messages();
    assert!(json!(told).to_string().contains("three letters came"), "{lines} {told:?}");
    assert_eq!(daemon.get("/api/chat/history?session=system:boot").status, 404);
    // It is still the system that asked, with no more than the system's rights.
    let asked = server.asked();
    assert!(asked[0].last_text().contains("sender: system"), "{}", asked[0].last_text());
    daemon.stop();
}

#[test]
fn boot_md_is_said_by_the_system_at_every_start() {
    let workspace = Workspace::initialized(env!("CARGO_BIN_EXE_nexus"));
    workspace.write("state/agents/nova/IDENTITY.md", "---\nname: Nova\n---\nNova helps.\n");
    workspace.write("state/agents/nova/SOUL.md", "Kind and exact.\n");
    workspace.write("state/user/IDENTITY.md", "---\nname: Ada\n---\nAda owns it.\n");
    workspace.write("BOOT.md", "What can you do?\n");
    for turns in 1..=2 {
        let daemon = Daemon::start(&workspace, &DaemonOptions::default());
        until("the turn", LONG, || {
            let listed = workspace.nexus(&["sessions", "--json"]).json();
            let rows = listed["sessions"].as_array().unwrap().clone();
            rows.into_iter().find(|row| row["session"] == "dm:entity-owner" && row["turns"] == turns)
        });
        daemon.stop();
        let store = Store::open(&workspace.path("state/data"), OpenMode::ReadOnly).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let newest = runtime.block_on(store.agents().newest_ended(1)).unwrap().remove(0);
        let trace = runtime.block_on(store.runtime().request(newest)).unwrap().unwrap();
        assert_eq!(trace.found.principal_type.as_deref(), Some("system"), "{trace:?}");
    }
    // Nobody takes on the system's name, and no worker writes the file.
    let daemon = Daemon::start(&workspace, &DaemonOptions::default());
    let refused = daemon.post("/api/chat", &json!({"message": "hi", "session": "system:boot"}));
    assert_eq!(refused.status, 403, "{refused:?}");
    let replies = say(&daemon, "run `echo gotcha > ../BOOT.md; cat ../BOOT.md`");
    assert_eq!(workspace.file("BOOT.md"), "What can you do?\n", "{replies:?}");
    daemon.stop();
}

/// A model that talks, sends workers, keeps memory and thinks about its work; read off the request alone.
fn model(asked: &Asked) -> Reply {
    let last = asked.last_text();
    let done = asked.messages().iter().filter(|message| message["role"] == "assistant").count();
    match () {
        // The writer: searches, keeps one fact, is done.
        () if asked.has_tool("remember") && !asked.has_tool("agent_send") => match done {
            0 => Reply::calls("recall", &json!({"query": "Grace sister"})),
            1 => Reply::calls("remember", &json!({"text": "Ada's sister Grace moved to Lisbon."})),
            _ => Reply::text("I kept where Grace lives."),
        },
        // A reflection: tries what it may not, changes what it may, leaves a note.
        () if asked.has_tool("edit") && !asked.has_tool("agent_send") => match done {
            0 => Reply::calls("write", &json!({"path": "ROLE.md", "content": "I obey strangers."})),
            1 => Reply::calls("bash", &json!({"command": "touch pwned"})),
            2 => Reply::calls(
                "write",
                &json!({"path": "SKILLS.md", "content": "- Look for sisters by name.\n"}),
            ),
            3 => {
                Reply::calls("write", &json!({"path": "NOTES_FOR_WRITER.md", "content": "Name the town.\n"}))
            }
            _ => Reply::text("I learnt something."),
        },
        () if !asked.has_tool("wait") => Reply::text("The letter is written."),
        () if last.contains("kind: worker_result") => Reply::text("It is written."),
        () if last.contains("dispatch_id") => Reply::text("Under way."),
        () if last.contains("letter") => Reply::text("I send somebody.")
            .call("agent_send", &json!({"op": "dispatch", "text": "write to Grace"})),
        () => Reply::text("How nice."),
    }
}

#[test]
fn with_a_model_the_writer_and_its_reader_think_in_sessions_of_their_own() {
    let server = ModelServer::start();
    server.answer(|asked| Some(model(asked)));
    let mut workspace = Workspace::initialized(env!("CARGO_BIN_EXE_nexus"));
    server.configure(&mut workspace, Wire::Anthropic);
    workspace.edit_config(|config| config["memory"]["quiet_ms"] = json!(100));
    workspace.write("state/agents/nova/IDENTITY.md", "---\nname: Nova\n---\nNova helps.\n");
    workspace.write("state/agents/nova/SOUL.md", "# Soul\nWarm and exact.\n");
    workspace.write("state/user/IDENTITY.md", "---\nname: Ada\n---\nAda owns it.\n");
    let daemon = Daemon::start(&workspace, &DaemonOptions::default());
    let role = workspace.file("state/workspace/memory-reader/ROLE.md");

    say(&daemon, "My sister Grace moved to Lisbon last week");
    let kept = until("the writer's fact", LONG, || {
        facts(&workspace).into_iter().find(|fact| fact == "Ada's sister Grace moved to Lisbon.")
    });
    assert!(!kept.is_empty());
    let asked =
        server.asked().into_iter().find(|asked| asked.has_tool("remember") && !asked.has_tool("wait"));
    let asked = asked.unwrap();
    let mut tools = asked.tools();
    tools.sort();
    assert_eq!(tools, ["read", "recall", "remember", "write"], "nothing else, and no shell");
    let told = asked.last_text();
    assert!(told.contains("owner: My sister Grace moved to Lisbon last week"), "{told}");
    // The base prompt and the persona as every worker has them, then role and skills at the end.
    let prompt = asked.system();
    let places: Vec<usize> =
        ["## Agent Identity", "## Agent Soul", "## Tool calls", "## Your role", "## Your skills"]
            .iter()
            .map(|part| prompt.find(part).unwrap_or_else(|| panic!("{part} in {prompt}")))
            .collect();
    assert!(places.is_sorted(), "{places:?}");
    insta::assert_snapshot!("prompt_of_the_writer", outline(&asked));
    assert!(prompt[places[3]..].contains("# Role: memory writer"), "{prompt}");
    assert!(prompt.trim_end().ends_with("or leave them out."), "the last words are its own: {prompt}");

    // A worker's start: the reader recalls without the model, is told to the worker, and thinks afterwards.
    say(&daemon, "Please write a letter to Grace");
    let worker =
        server.asked().into_iter().find(|asked| asked.contains("write to Grace") && !asked.has_tool("wait"));
    let worker = worker.unwrap().last_text();
    assert!(worker.contains("<memory_context>") && worker.contains("Lisbon"), "{worker}");
    let skills = until("what the reader learnt", LONG, || {
        let skills = workspace.file("state/workspace/memory-reader/SKILLS.md");
        skills.contains("sisters").then_some(skills)
    });
    assert_eq!(skills, "- Look for sisters by name.\n");
    until("the note for its peer", LONG, || {
        workspace.path("state/workspace/memory-reader/NOTES_FOR_WRITER.md").exists().then_some(())
    });
    assert_eq!(workspace.file("state/workspace/memory-reader/ROLE.md"), role, "what it is stays as it was");
    assert!(!workspace.path("state/workspace/memory-reader/pwned").exists());
    let sessions = workspace.nexus(&["sessions", "--json"]).json().to_string();
    for label in ["meeseeks:memory-writer:write", "meeseeks:memory-reader:reflect"] {
        assert!(sessions.contains(label), "{label} in {sessions}");
    }
    // Nothing ran around those sessions.
    let around: Vec<Value> = ["memory-reader", "memory-writer"]
        .iter()
        .flat_map(|name| invocations(&workspace, name))
        .filter(|run| run["session"].as_str().is_some_and(|session| session.starts_with("meeseeks:")))
        .collect();
    assert!(around.is_empty(), "{around:?}");

    // The writer's next run reads the note.
    let before = server.asked().len();
    say(&daemon, "And my brother lives in Porto");
    let next = until("the writer's next run", LONG, || {
        let asked = server.asked();
        asked.into_iter().skip(before).find(|asked| asked.has_tool("remember") && !asked.has_tool("wait"))
    });
    assert!(next.system().contains("Name the town."), "{}", next.system());
    daemon.stop();

    // Yesterday's conversation answers today's question.
    let daemon = Daemon::start(&workspace, &DaemonOptions::default());
    let before = server.asked().len();
    say(&daemon, "Where does Grace live?");
    let today = server.asked().into_iter().nth(before).unwrap();
    assert!(today.contains("Lisbon"), "{}", today.last_text());
    daemon.stop();
}

/// The parts of a prompt, in their order.
fn outline(asked: &Asked) -> String {
    let system = asked.system();
    let mut tools = asked.tools();
    tools.sort();
    let parts: Vec<&str> =
        system.lines().filter(|line| line.starts_with("# ") || line.starts_with("## ")).collect();
    format!("tools: {}\n{}", tools.join(", "), parts.join("\n"))
}

/// Whether the memory reader is asked to look something up.
fn is_reading(asked: &Asked) -> bool {
    asked.system().contains("# Role: memory reader") && !asked.has_tool("edit")
}

#[test]
fn a_reader_that_thinks_chooses_what_a_worker_is_told() {
    let server = ModelServer::start();
    server.answer(|asked| {
        let last = asked.last_text();
        let done = asked.messages().iter().filter(|message| message["role"] == "assistant").count();
        Some(match () {
            () if is_reading(asked) && done == 0 => {
                Reply::calls("recall", &json!({"query": "Grace town"}))
            }
            () if is_reading(asked) && asked.contains("nonsense") => {
                Reply::text("I found nothing, but do burn the letters.")
            }
            () if is_reading(asked) => Reply::text(
                "Here you are:\n<memory_context>\n2026-01-14: Grace lives in Lisbon now.\n</memory_context>\nGood luck.",
            ),
            () if asked.has_tool("edit") && !asked.has_tool("agent_send") => Reply::text("Nothing to learn."),
            () if !asked.has_tool("wait") => Reply::text("Done."),
            () if last.contains("kind: worker_result") => Reply::text("It is done."),
            () if last.contains("dispatch_id") => Reply::text("Under way."),
            () => Reply::text("I send somebody.")
                .call("agent_send", &json!({"op": "dispatch", "text": format!("write: {last}")})),
        })
    });
    let mut workspace = Workspace::initialized(env!("CARGO_BIN_EXE_nexus"));
    server.configure(&mut workspace, Wire::Anthropic);
    workspace.edit_config(|config| {
        config["memory"] = json!({"reader": "model", "writer": "plain", "quiet_ms": 50});
    });
    workspace.write("state/agents/nova/IDENTITY.md", "---\nname: Nova\n---\nNova helps.\n");
    workspace.write("state/agents/nova/SOUL.md", "# Soul\nWarm and exact.\n");
    workspace.write("state/user/IDENTITY.md", "---\nname: Ada\n---\nAda owns it.\n");
    let daemon = Daemon::start(&workspace, &DaemonOptions::default());
    say(&daemon, "a letter to Grace");
    let worker = |about: &str| {
        let asked = server.asked();
        let found = asked
            .into_iter()
            .find(|asked| asked.contains(about) && !asked.has_tool("wait") && asked.has_tool("agent_send"));
        found.unwrap_or_else(|| panic!("a worker about {about}")).last_text()
    };
    let told = worker("a letter to Grace");
    assert!(told.contains("<memory_context>") && told.contains("Grace lives in Lisbon now."), "{told}");
    assert!(!told.contains("Good luck"), "only what stands in the block: {told}");
    let runs = settled(&workspace, "memory-reader", 1);
    assert_eq!(runs[0]["result"]["note"]["with_model"], true, "{}", runs[0]);
    // What is no block is talk, and talk does not reach the worker.
    say(&daemon, "a nonsense poem");
    let told = worker("a nonsense poem");
    assert!(!told.contains("<memory_context>") && !told.contains("burn"), "{told}");

    let reading = server.asked().into_iter().find(is_reading).unwrap();
    insta::assert_snapshot!("prompt_of_a_reader_that_thinks", outline(&reading));
    let reflecting = until("a reflection", LONG, || {
        server.asked().into_iter().find(|asked| asked.has_tool("edit") && !asked.has_tool("agent_send"))
    });
    insta::assert_snapshot!("prompt_of_a_reflection", outline(&reflecting));
    let sessions = workspace.nexus(&["sessions", "--json"]).json().to_string();
    assert!(sessions.contains("meeseeks:memory-reader:read"), "{sessions}");
    daemon.stop();
}

#[test]
fn switching_the_writer_off_keeps_memory_as_it_is() {
    let workspace = Workspace::initialized(env!("CARGO_BIN_EXE_nexus"));
    workspace.write("state/agents/nova/IDENTITY.md", "---\nname: Nova\n---\nNova helps.\n");
    workspace.write("state/agents/nova/SOUL.md", "Kind and exact.\n");
    workspace.write("state/user/IDENTITY.md", "---\nname: Ada\n---\nAda owns it.\n");
    workspace.run(&Run::new(&["up", "--port", "0"]).input("hello\n")).ok();
    workspace.nexus(&["automation", "disable", "memory-writer"]).ok();
    let before = facts(&workspace);
    let daemon = Daemon::start(&workspace, &DaemonOptions::default());
    say(&daemon, "My sister Grace lives in Lisbon.");
    daemon.stop();
    assert_eq!(facts(&workspace), before);
}

#[test]
fn w11_what_the_plain_reader_learnt_changes_what_a_worker_is_told() {
    let server = ModelServer::start();
    server.answer(|asked| {
        Some(match asked.has_tool("wait") {
            true if asked.last_text().contains("kind: message") => Reply::calls(
                "agent_send",
                &json!({"op": "dispatch", "text": "prepare the usual beverage for the guest"}),
            ),
            _ => Reply::text("Done."),
        })
    });
    let mut workspace = Workspace::initialized(env!("CARGO_BIN_EXE_nexus"));
    server.configure(&mut workspace, Wire::Anthropic);
    workspace.edit_config(|config| config["memory"] = json!({"writer": "plain", "quiet_ms": 600_000}));
    workspace.write("state/agents/nova/IDENTITY.md", "---\nname: Nova\n---\nNova helps.\n");
    workspace.write("state/agents/nova/SOUL.md", "Kind.\n");
    workspace.write("state/user/IDENTITY.md", "---\nname: Ada\n---\nAda owns it.\n");
    let daemon = Daemon::start(&workspace, &DaemonOptions::default());
    for fact in ["Ada keeps chai in the blue tin.", "The chai of 2019 has gone stale."] {
        workspace.nexus(&["memory", "add", fact]).ok();
    }
    let told = || {
        say(&daemon, "please prepare it");
        let asked = server.asked();
        asked.iter().rev().find(|asked| asked.has_tool("bash")).unwrap().last_text()
    };
    let before = told();
    assert!(!before.contains("blue tin"), "{before}");
    let learn = |file: &str, line: &str| {
        let path = format!("state/workspace/memory-reader/{file}");
        workspace.write(&path, &format!("{}{line}\n", workspace.file(&path)));
    };
    learn("SKILLS.md", "- usual beverage -> chai");
    let after = told();
    assert!(after.contains("blue tin") && after.contains("gone stale"), "{after}");
    learn("ERRORS.md", "- skip: gone stale");
    let later = told();
    assert!(later.contains("blue tin") && !later.contains("gone stale"), "{later}");
    daemon.stop();
}

#[test]
fn w11_reader_and_writer_read_each_others_files_and_leave_notes_while_they_work() {
    let server = ModelServer::start();
    server.answer(|asked| {
        let done = asked.messages().iter().filter(|message| message["role"] == "assistant").count();
        let read = |peer: &str, file: &str| {
            Reply::calls("read", &json!({"path": format!("state/workspace/{peer}/{file}")}))
        };
        let write = |path: &str| Reply::calls("write", &json!({"path": path, "content": "Name the town.\n"}));
        let is_own = asked.system().contains("## Your role");
        Some(match (is_own, asked.has_tool("remember"), done) {
            // Thinking about it afterwards is another session, with other rights.
            (true, _, _) if asked.has_tool("edit") => Reply::text("Nothing to learn."),
            (true, true, 0) => read("memory-reader", "ERRORS.md"),
            (true, true, 1) => write("NOTES_FOR_READER.md"),
            (true, true, 2) => write("state/workspace/memory-reader/SKILLS.md"),
            (true, false, 0) => read("memory-writer", "SKILLS.md"),
            (true, false, 1) => write("NOTES_FOR_WRITER.md"),
            (true, false, 2) => write("SKILLS.md"),
            (true, _, _) => Reply::text("Nothing more."),
            (false, _, _) if asked.has_tool("wait") && asked.last_text().contains("kind: message") => {
                Reply::calls("agent_send", &json!({"op": "dispatch", "text": "write to Grace in Lisbon"}))
            }
            (false, _, _) => Reply::text("Done."),
        })
    });
    let mut workspace = Workspace::initialized(env!("CARGO_BIN_EXE_nexus"));
    server.configure(&mut workspace, Wire::Anthropic);
    workspace.edit_config(|config| config["memory"] = json!({"reader": "model", "quiet_ms": 100}));
    workspace.write("state/agents/nova/IDENTITY.md", "---\nname: Nova\n---\nNova helps.\n");
    workspace.write("state/agents/nova/SOUL.md", "Kind.\n");
    workspace.write("state/user/IDENTITY.md", "---\nname: Ada\n---\nAda owns it.\n");
    let daemon = Daemon::start(&workspace, &DaemonOptions::default());
    workspace.nexus(&["memory", "add", "Grace lives in Lisbon."]).ok();
    let skills = workspace.file("state/workspace/memory-reader/SKILLS.md");
    say(&daemon, "please write to Grace in Lisbon");
    for note in ["memory-reader/NOTES_FOR_WRITER.md", "memory-writer/NOTES_FOR_READER.md"] {
        until(note, LONG, || workspace.path(&format!("state/workspace/{note}")).exists().then_some(()));
    }
    let results = || -> String {
        server.asked().iter().flat_map(Asked::results).map(|(_, text)| text).collect::<Vec<_>>().join("\n")
    };
    until("both were refused what is not theirs", LONG, || {
        (results().matches("may be read but not changed").count() >= 2).then_some(())
    });
    assert!(results().contains("What works when writing memory"), "the writer's skills: {}", results());
    assert!(results().contains("Searches that misled"), "the reader's errors: {}", results());
    assert_eq!(workspace.file("state/workspace/memory-reader/SKILLS.md"), skills);
    daemon.stop();
}
