//! Deaths at what automations commit: a handled message is answered once, a registration is whole or not
//! there, and what they learn is never half written.

use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt as _;
use std::time::Duration;

use nexus_base::failpoint::VARIABLE;
use nexus_base::id::EventId;
use nexus_store::{OpenMode, Store};
use nexus_testkit::model::{ModelServer, Reply, Wire};
use nexus_testkit::{Daemon, DaemonOptions, Run, Workspace, http, until};
use serde_json::{Value, json};

const LONG: Duration = Duration::from_secs(30);

fn onboarded() -> Workspace {
    let workspace = Workspace::initialized(env!("CARGO_BIN_EXE_nexus"));
    workspace.write("state/agents/nova/IDENTITY.md", "---\nname: Nova\n---\nNova helps.\n");
    workspace.write("state/agents/nova/SOUL.md", "Kind and exact.\n");
    workspace.write("state/user/IDENTITY.md", "---\nname: Ada\n---\nAda owns it.\n");
    workspace
}

fn program(workspace: &Workspace, name: &str, text: &str) {
    workspace.write(&format!("automations/{name}"), text);
    let path = workspace.path(&format!("automations/{name}"));
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
}

fn registering<'a>(name: &'a str, script: &'a str) -> Vec<&'a str> {
    vec!["automation", "register", name, script, "--hook-point", "runAutomations", "--blocking", "--yes"]
}

#[test]
fn a_handled_message_is_answered_once_whatever_happens() {
    let workspace = onboarded();
    program(&workspace, "pong", "#!/bin/sh\nprintf '{\"handled\": true, \"reply\": \"pong\"}'\n");
    // A death right after the row: it is whole, and registering again changes nothing.
    let died = workspace
        .run(&Run::new(&registering("pong", "automations/pong")).variable(VARIABLE, "automation.registered"));
    assert_eq!(died.code(), None, "{died:?}");
    let listed = workspace.nexus(&["automation", "list", "--json"]).json();
    assert_eq!(listed["automations"][0]["name"], "pong", "{listed}");
    workspace.nexus(&registering("pong", "automations/pong")).ok();

    for (number, place) in ["s3.before_answer", "s3.answered"].iter().enumerate() {
        let daemon = Daemon::start(&workspace, &DaemonOptions::dying_at(place));
        let body = json!({"message": format!("ping {number}"), "idempotencyKey": format!("key-{number}")});
        let accepted = daemon.post("/api/chat", &body).json();
        daemon.wait_for_end(LONG);
        let daemon = Daemon::start(&workspace, &DaemonOptions::default());
        let request = accepted["requestId"].as_str().unwrap_or_else(|| panic!("{accepted}"));
        let waited = daemon.get(&format!("/api/chat/wait?request={request}&timeoutMs=30000")).json();
        let replies: Vec<&str> =
            waited["replies"].as_array().unwrap().iter().filter_map(|line| line["text"].as_str()).collect();
        assert_eq!(replies, ["pong"], "{place}: {waited}");
        daemon.stop();
    }

    // One that handles in silence.
    program(&workspace, "pong", "#!/bin/sh\nprintf '{\"handled\": true}'\n");
    workspace.nexus(&registering("pong", "automations/pong")).ok();
    let daemon = Daemon::start(&workspace, &DaemonOptions::dying_at("s2.handled"));
    let accepted = daemon.post("/api/chat", &json!({"message": "hush"})).json();
    daemon.wait_for_end(LONG);
    let daemon = Daemon::start(&workspace, &DaemonOptions::default());
    let request = accepted["requestId"].as_str().unwrap();
    let trace = daemon.get(&format!("/api/requests/{request}")).json();
    assert_eq!(trace["status"], "handled_by_automation", "{trace}");
    daemon.stop();
}

#[test]
fn memory_is_told_who_is_who_once() {
    let workspace = onboarded();
    let died = Daemon::try_start(&workspace, &DaemonOptions::dying_at("memory.introduced"));
    if let Ok(daemon) = died {
        daemon.wait_for_end(LONG);
    }
    let daemon = Daemon::start(&workspace, &DaemonOptions::default());
    until("both names", LONG, || {
        let known = workspace.nexus(&["memory", "entities", "--json"]).json().to_string();
        (known.contains("\"Ada\"") && known.contains("\"Nova\"")).then_some(())
    });
    daemon.stop();
    let names = || {
        let store = Store::open(&workspace.path("state/data"), OpenMode::ReadOnly).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let facts = runtime.block_on(store.memory().recent_facts(100)).unwrap();
        let mut texts: Vec<String> = facts.into_iter().map(|fact| fact.text).collect();
        texts.sort();
        texts.dedup();
        texts
    };
    let once = names();
    Daemon::start(&workspace, &DaemonOptions::default()).stop();
    assert_eq!(names(), once, "told again, nothing is added");
}

#[test]
fn a_death_while_it_thinks_about_its_work_leaves_its_files_whole() {
    let server = ModelServer::start();
    server.answer(|asked| {
        Some(match () {
            () if asked.has_tool("edit") && !asked.has_tool("agent_send") => Reply::text("Nothing to learn."),
            () if asked.has_tool("remember") && !asked.has_tool("agent_send") => {
                Reply::text("Nothing to keep.")
            }
            () if !asked.has_tool("wait") => Reply::text("Done."),
            () if asked.last_text().contains("kind: worker_result") => Reply::text("It is done."),
            () if asked.last_text().contains("dispatch_id") => Reply::text("Under way."),
            () => {
                Reply::text("Yes.").call("agent_send", &json!({"op": "dispatch", "text": "find my red hat"}))
            }
        })
    });
    let mut workspace = onboarded();
    server.configure(&mut workspace, Wire::Anthropic);
    workspace.edit_config(|config| config["memory"]["quiet_ms"] = json!(50));
    let daemon = Daemon::start(&workspace, &DaemonOptions::dying_at("automation.backed_up"));
    let folder = "state/workspace/memory-reader";
    let before: Vec<String> =
        ["ROLE.md", "SKILLS.md", "ERRORS.md"].map(|name| workspace.file(&format!("{folder}/{name}"))).into();
    daemon.post("/api/chat", &json!({"message": "find it"}));
    daemon.wait_for_end(LONG);
    let daemon = Daemon::start(&workspace, &DaemonOptions::default());
    let waited = daemon.post("/api/chat", &json!({"message": "find it again"})).json();
    let request = waited["requestId"].as_str().unwrap();
    let waited: Value = daemon.get(&format!("/api/chat/wait?request={request}&timeoutMs=30000")).json();
    assert_eq!(waited["quiescent"], true, "{waited}");
    daemon.stop();
    let after: Vec<String> =
        ["ROLE.md", "SKILLS.md", "ERRORS.md"].map(|name| workspace.file(&format!("{folder}/{name}"))).into();
    assert_eq!(after, before);
    assert_eq!(workspace.file(&format!("{folder}/.SKILLS.md.before")), before[1]);
}

fn say(daemon: &Daemon, message: &str) -> String {
    let accepted = daemon.post("/api/chat", &json!({ "message": message })).json();
    let request = accepted["requestId"].as_str().unwrap_or_else(|| panic!("{accepted}"));
    let waited = daemon.get(&format!("/api/chat/wait?request={request}&timeoutMs=30000")).json();
    assert_eq!(waited["quiescent"], true, "{waited}\n{}", daemon.log());
    accepted["eventId"].as_str().unwrap().to_owned()
}

/// Names of the files of a workspace that hold a word, whatever its letters' case.
fn files_with(folder: &std::path::Path, word: &str) -> Vec<String> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files_with(&path, word));
        } else if std::fs::read(&path)
            .is_ok_and(|bytes| String::from_utf8_lossy(&bytes).to_lowercase().contains(word))
        {
            found.push(path.display().to_string());
        }
    }
    found
}

#[test]
fn forgetting_and_episodes_that_a_death_cut_off_are_completed() {
    let workspace = onboarded();
    program(&workspace, "mark", "#!/bin/sh\ncat >> told.jsonl\n");
    for hook in ["created", "retained"] {
        let point = format!("episode:{hook}");
        let words = [
            "automation",
            "register",
            hook,
            "automations/mark",
            "--hook-point",
            &point,
            "--own-folder",
            "--yes",
        ];
        workspace.nexus(&words).ok();
    }
    let told = |hook: &str| {
        let path = workspace.path(&format!("state/workspace/{hook}/told.jsonl"));
        std::fs::read_to_string(path).unwrap_or_default().lines().count()
    };
    let daemon = Daemon::start(&workspace, &DaemonOptions::dying_at("forget.overwritten@2"));
    say(&daemon, "My sister Grace lives in Lisbon.");
    let event = say(&daemon, "My dentist is called Wolfgangson and I live in Quarantania.");
    until("both facts", LONG, || {
        let kept = workspace.nexus(&["memory", "changes", "--json"]).json().to_string();
        (kept.contains("Lisbon") && kept.contains("Quarantania")).then_some(())
    });
    // Dies in the middle of the six files, with a stretch of conversation open.
    let cut = workspace.nexus(&["memory", "forget", &event, "--source"]);
    assert_ne!(cut.code(), Some(0), "{cut:?}");
    daemon.wait_for_end(LONG);
    assert!(!files_with(workspace.root(), "quarantania").is_empty(), "it was cut off before its end");
    assert_eq!(told("created"), 0);

    let daemon = Daemon::start(&workspace, &DaemonOptions::default());
    for word in ["quarantania", "wolfgangson"] {
        until("nothing is left", LONG, || files_with(workspace.root(), word).is_empty().then_some(()));
    }
    let left = workspace.nexus(&["memory", "recall", "Quarantania", "--json"]).json();
    assert!(!left.to_string().contains("[forgotten]"), "{left}");
    let kept = workspace.nexus(&["memory", "recall", "where does Grace live", "--json"]).json();
    assert!(kept.to_string().contains("Lisbon"), "{kept}");
    daemon.stop();
    assert_eq!(
        (told("created"), told("retained")),
        (1, 1),
        "the stretch that was open is closed by the stop"
    );
    for word in ["quarantania", "wolfgangson"] {
        assert_eq!(files_with(workspace.root(), word), Vec::<String>::new());
    }
}

#[test]
fn a_death_beside_a_command_runs_it_and_logs_it_once() {
    for place in ["automation.ran", "automation.command_logged"] {
        let workspace = onboarded();
        let body = json!({"message": "run `echo once >> deaths.txt`", "idempotencyKey": place});
        match Daemon::try_start(&workspace, &DaemonOptions::dying_at(place)) {
            Ok(daemon) => {
                let (port, token) = (daemon.port(), daemon.token());
                let wanted = http::request("POST", port, "/api/chat", Some(token), &body.to_string());
                // An error is the death that was asked for.
                let _ = http::exchange(port, &wanted);
                daemon.wait_for_end(LONG);
            }
            // An automation that runs at the start died before anything was said.
            Err(failure) => assert_eq!(failure.status.and_then(|status| status.signal()), Some(9), "{place}"),
        }
        let daemon = Daemon::start(&workspace, &DaemonOptions::default());
        let accepted = daemon.post("/api/chat", &body).json();
        let request = accepted["requestId"].as_str().unwrap_or_else(|| panic!("{place}: {accepted}"));
        let waited = daemon.get(&format!("/api/chat/wait?request={request}&timeoutMs=30000")).json();
        assert_eq!(waited["quiescent"], true, "{place}: {waited}");
        daemon.stop();
        assert_eq!(workspace.file("home/deaths.txt"), "once\n", "{place}");
        let logged = workspace.file("state/logs/commands.jsonl");
        assert_eq!(logged.matches("deaths.txt").count(), 1, "{place}: {logged}");
        // No run of an automation stays open.
        let runs = workspace.nexus(&["automation", "invocations", "--json"]).json();
        assert!(!runs.to_string().contains("\"running\""), "{place}: {runs}");
    }
}

#[test]
fn a_death_after_an_episode_was_stored_stores_it_once() {
    let workspace = onboarded();
    let daemon = Daemon::start(&workspace, &DaemonOptions::dying_at("automation.episode"));
    let event = EventId::new(say(&daemon, "My sister Grace lives in Lisbon."));
    assert_eq!(daemon.stop().signal(), Some(9), "the stop closes the episode");
    let without = || {
        let store = Store::open(&workspace.path("state/data"), OpenMode::ReadOnly).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(store.memory().without_episode(vec![event.clone()])).unwrap()
    };
    assert_eq!(without(), [], "it was on disk before the death");
    let daemon = Daemon::start(&workspace, &DaemonOptions::default());
    assert!(!daemon.log().contains("processing unfinished episodes"), "{}", daemon.log());
    daemon.stop();
    assert_eq!(without(), []);
}
