//! The owner's own programs at hook points: looked at, registered, run in their box, switched while the
//! daemon runs, and never a danger to the message they run for.

use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use nexus_automation::HookPoint;
use nexus_testkit::model::{ModelServer, Reply, Wire};
use nexus_testkit::{Daemon, DaemonOptions, Workspace, until};
use serde_json::{Value, json};

const DOCUMENT: &str = include_str!("../../../../docs/automations.md");

const GRACE: &str = "My sister Grace lives in Lisbon.";

/// Leaves a mark in its own folder, and says nothing.
const MARK: &str = "#!/bin/sh\ncat >> told.jsonl\n";

fn program(workspace: &Workspace, name: &str, text: &str) {
    workspace.write(&format!("automations/{name}"), text);
    let path = workspace.path(&format!("automations/{name}"));
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
}

fn template() -> &'static str {
    let (_, rest) = DOCUMENT.split_once("```sh\n").unwrap();
    rest.split_once("```").unwrap().0
}

fn register(workspace: &Workspace, name: &str, hook: &str, more: &[&str]) {
    let script = format!("automations/{name}");
    let mut words = vec!["automation", "register", name, &script, "--hook-point", hook, "--yes"];
    words.extend(more);
    workspace.nexus(&words).ok();
}

fn say(daemon: &Daemon, message: &str) -> (Value, Vec<String>) {
    let accepted = daemon.post("/api/chat", &json!({ "message": message })).json();
    let request = accepted["requestId"].as_str().unwrap_or_else(|| panic!("{accepted}"));
    let waited = daemon.get(&format!("/api/chat/wait?request={request}&timeoutMs=30000")).json();
    assert_eq!(waited["quiescent"], true, "{waited}\n{}", daemon.log());
    let replies = waited["replies"].as_array().unwrap().iter();
    let replies = replies.map(|line| line["text"].as_str().unwrap().to_owned()).collect();
    (daemon.get(&format!("/api/requests/{request}")).json(), replies)
}

fn invocations(workspace: &Workspace, name: &str) -> Vec<Value> {
    let listed = workspace.nexus(&["automation", "invocations", name, "--json"]).json();
    listed["invocations"].as_array().unwrap().clone()
}

/// A workspace with a persona and an owner in which nobody but the test asks the model.
pub(crate) fn onboarded(server: &ModelServer) -> Workspace {
    let mut workspace = Workspace::initialized(env!("CARGO_BIN_EXE_nexus"));
    server.configure(&mut workspace, Wire::Anthropic);
    workspace.write("state/agents/ada/IDENTITY.md", "---\nname: Ada\n---\nAda helps.\n");
    workspace.write("state/agents/ada/SOUL.md", "Kind and exact.\n");
    workspace.write("state/user/IDENTITY.md", "---\nname: Tim\n---\nTim owns it.\n");
    // The shipped ones think only in the quiet, and there is none in this test.
    workspace.edit_config(|config| config["memory"]["quiet_ms"] = json!(3_600_000));
    workspace
}

#[test]
fn the_documented_template_is_asked_about_run_switched_and_confined() {
    let server = ModelServer::start();
    server.otherwise(Reply::text("from the model"));
    let workspace = onboarded(&server);
    // Only what a start has seeded can be listed with them.
    program(&workspace, "clock", template());
    let asked = workspace.nexus(&[
        "automation",
        "register",
        "clock",
        "automations/clock",
        "--hook-point",
        "runAutomations",
        "--blocking",
    ]);
    assert_eq!(asked.code(), Some(1), "{asked:?}");
    for part in ["automations/clock", "sha256:", "/bin/sh", "runAutomations, waited for", "closed"] {
        assert!(asked.stdout.contains(part), "{part} in {asked:?}");
    }
    assert_eq!(workspace.nexus(&["automation", "list", "--json"]).json()["automations"], json!([]));

    register(&workspace, "clock", "runAutomations", &["--blocking"]);
    let tried = workspace.nexus(&["automation", "test", "clock", "--json"]).json();
    assert_eq!(tried["outcome"], "ok", "{tried}");
    assert!(tried["result"]["enrich"]["clock"].as_str().unwrap().contains(':'), "{tried}");
    assert_eq!(workspace.nexus(&["automation", "test", "nobody"]).code(), Some(3));

    // One that pries, one that hangs and one that breaks.
    program(
        &workspace,
        "pries",
        "#!/bin/sh\nif cat \"$PWD\"/../../state/config.json ../../config.json /etc/shadow >/dev/null 2>&1; then seen=all; \
         else seen=denied; fi\nprintf '{\"enrich\": {\"pried\": \"%s\"}}' \"$seen\"\n",
    );
    register(&workspace, "pries", "after:resolveAccess", &["--blocking", "--own-folder"]);
    program(&workspace, "hangs", "#!/bin/sh\nsleep 60\n");
    register(&workspace, "hangs", "after:receiveEvent", &["--blocking", "--timeout-ms", "300"]);
    program(&workspace, "breaks", "#!/bin/sh\necho no JSON\n");
    register(&workspace, "breaks", "after:resolveIdentity", &["--blocking"]);

    let daemon = Daemon::start(&workspace, &DaemonOptions::default());
    let (trace, replies) = say(&daemon, "ping");
    assert_eq!(replies, ["pong"], "{trace}");
    let closed = until("the closed trace", Duration::from_secs(10), || {
        let request = trace["requestId"].as_str().unwrap();
        let closed = daemon.get(&format!("/api/requests/{request}")).json();
        (closed["status"] != "processing").then_some(closed)
    });
    assert_eq!(
        (&closed["status"], &closed["error"]),
        (&json!("handled_by_automation"), &Value::Null),
        "{closed}"
    );
    assert!(server.asked().is_empty(), "no model was asked");
    let (trace, replies) = say(&daemon, "hello");
    assert_eq!(replies, ["from the model"], "{trace}");
    let told = server.asked().pop().unwrap().last_text();
    assert!(told.contains("\nhook.clock: ") && told.contains("\nhook.pried: denied\n"), "{told}");
    assert_eq!(invocations(&workspace, "hangs")[0]["outcome"], "timeout");
    assert_eq!(invocations(&workspace, "breaks")[0]["outcome"], "error");
    assert_eq!(invocations(&workspace, "clock").len(), 2);

    // Switched, changed and removed while the daemon runs.
    workspace.nexus(&["automation", "disable", "clock"]).ok();
    assert_eq!(say(&daemon, "ping").1, ["from the model"]);
    workspace.nexus(&["automation", "enable", "clock"]).ok();
    assert_eq!(say(&daemon, "ping").1, ["pong"]);
    program(&workspace, "clock", &format!("{}# and more\n", template()));
    assert_eq!(say(&daemon, "ping").1, ["from the model"], "what was not agreed to does not run");
    let error = invocations(&workspace, "clock")[0]["error"].as_str().unwrap().to_owned();
    assert!(error.contains("changed since it was registered"), "{error}");
    let listed = workspace.nexus(&["automation", "list"]).ok().stdout;
    assert!(
        listed.lines().any(|line| line.contains("clock") && line.contains("active (changed)")),
        "{listed}"
    );
    let info = workspace.nexus(&["automation", "info", "clock"]).ok().stdout;
    assert!(info.contains("(changed; it will not run until it is registered again)"), "{info}");
    let removed = workspace.nexus(&["automation", "remove", "memory-reader"]);
    assert_eq!(removed.code(), Some(1), "{removed:?}");
    workspace.nexus(&["automation", "remove", "clock"]).ok();
    workspace.nexus(&["automation", "disable", "command-logger"]).ok();
    daemon.stop();
    // A restart keeps what was switched off.
    let daemon = Daemon::start(&workspace, &DaemonOptions::default());
    let listed = workspace.nexus(&["automation", "list", "--json"]).json();
    let state = |name: &str| {
        let rows = listed["automations"].as_array().unwrap();
        rows.iter().find(|row| row["name"] == name).map(|row| row["status"].clone())
    };
    assert_eq!(state("command-logger"), Some(json!("disabled")));
    assert_eq!((state("memory-reader"), state("clock")), (Some(json!("active")), None));
    daemon.stop();
}

#[test]
fn a_workspace_that_was_copied_runs_nobodys_programs() {
    let server = ModelServer::start();
    server.otherwise(Reply::text("from the model"));
    let workspace = onboarded(&server);
    program(&workspace, "clock", template());
    register(&workspace, "clock", "runAutomations", &["--blocking"]);
    workspace.write("BOOT.md", "Say hello to the burglar.\n");
    // Without its record the workspace is as good as somebody else's.
    let records = workspace.home().join(".local/state/nexus");
    std::fs::remove_dir_all(&records).unwrap();
    let daemon = Daemon::start(&workspace, &DaemonOptions::default());
    let boot = until("boot-md", Duration::from_secs(10), || {
        invocations(&workspace, "boot-md").pop().filter(|run| run["outcome"] == "ok")
    });
    assert_eq!(
        (&boot["fired"], &boot["result"]["note"]),
        (&json!(false), &json!("the workspace is not trusted"))
    );
    assert!(invocations(&workspace, "clock").is_empty());
    let refused = workspace.nexus(&["automation", "test", "clock"]);
    assert!(refused.stderr.contains("not trusted"), "{refused:?}");
    let again = workspace.nexus(&[
        "automation",
        "register",
        "more",
        "automations/clock",
        "--hook-point",
        "finalize",
        "--yes",
    ]);
    assert!(again.stderr.contains("not trusted"), "{again:?}");
    assert_ne!(say(&daemon, "ping").1, ["pong"]);
    // The owner vouches for it beside the running daemon, and takes it back.
    let trusted = workspace.nexus(&["trust"]).ok();
    assert!(trusted.stdout.contains("the running daemon"), "{trusted:?}");
    until("the program answers", Duration::from_secs(10), || {
        (say(&daemon, "ping").1 == ["pong"]).then_some(())
    });
    workspace.nexus(&["trust", "--revoke"]).ok();
    until("the program is off again", Duration::from_secs(10), || {
        (say(&daemon, "ping").1 != ["pong"]).then_some(())
    });
    daemon.stop();
}

#[test]
fn every_hook_point_fires() {
    let reached = HookPoint::ALL.map(HookPoint::as_str);
    // Those that the end of the daemon reaches.
    let late = ["runtime:shutdown", "episode:created", "episode:retained"];
    let server = ModelServer::start();
    server.answer(|asked| {
        let last = asked.last_text();
        Some(match () {
            () if last.contains("kind: worker_result") => Reply::text("All done."),
            () if last.contains("dispatch_id") => Reply::text("Under way."),
            () if asked.system().starts_with("You summarise a long conversation") => {
                Reply::text("They talked.")
            }
            () if asked.has_tool("wait") && !last.contains("Lisbon") => Reply::text("I see."),
            () if asked.has_tool("wait") => Reply::text("I send somebody.")
                .call("agent_send", &json!({"op": "dispatch", "text": "run it"})),
            () if asked.results().is_empty() => Reply::calls("bash", &json!({"command": "echo here"})),
            () => Reply::text("It said: here"),
        })
    });
    let workspace = onboarded(&server);
    // Facts are kept at once, by rules: an episode that nothing was kept from is not retained.
    workspace.edit_config(|config| config["memory"]["writer"] = json!("plain"));
    program(&workspace, "mark", MARK);
    for hook in reached {
        let name = format!("at-{}", hook.to_lowercase().replace([':', '_'], "-"));
        workspace
            .nexus(&[
                "automation",
                "register",
                &name,
                "automations/mark",
                "--hook-point",
                hook,
                "--own-folder",
                "--yes",
            ])
            .ok();
    }
    let daemon = Daemon::start(&workspace, &DaemonOptions::default());
    let (trace, replies) = say(&daemon, GRACE);
    assert_eq!(replies.last().map(String::as_str), Some("All done."), "{trace}");
    daemon.post("/api/chat/abort", &json!({}));
    let turns = 6;
    for number in 3..turns {
        say(&daemon, &format!("And {number}."));
    }
    for method in ["sessions.compact", "sessions.reset"] {
        let changed = daemon.post("/api/call", &json!({"method": method})).json();
        assert_eq!(changed["changed"], true, "{method}: {changed}");
    }
    let told = |hook: &str| -> Vec<Value> {
        let name = format!("at-{}", hook.to_lowercase().replace([':', '_'], "-"));
        let path = workspace.path(&format!("state/workspace/{name}/told.jsonl"));
        let text = std::fs::read_to_string(path).unwrap_or_default();
        text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
    };
    for hook in reached.iter().filter(|hook| !late.contains(hook)) {
        let first = until(hook, Duration::from_secs(20), || told(hook).first().cloned());
        assert_eq!(first["hook"], *hook);
    }
    assert_eq!(told("command:execute")[0]["data"]["command"], "echo here");
    assert_eq!(told("worker:pre_execution")[0]["data"]["task"], "run it");
    assert_eq!(told("runAutomations")[0]["event"]["content"], GRACE);
    assert_eq!(told("runAutomations")[0]["principal"]["type"], "owner");
    // The manager's first two turns and the worker's one, and those after them, each once.
    until("every turn", Duration::from_secs(20), || (told("after:runAgent").len() == turns).then_some(()));
    daemon.stop();
    for hook in late {
        assert_eq!(
            told(hook).len(),
            1,
            "{hook}: the stop ended the conversation, and a fact was kept from it"
        );
    }
    assert_eq!(told("episode:retained")[0]["data"]["retained"], true);
}

#[test]
fn a_program_that_is_meant_to_gets_better() {
    let server = ModelServer::start();
    server.answer(|asked| {
        let done = asked.messages().iter().filter(|message| message["role"] == "assistant").count();
        Some(match () {
            () if asked.has_tool("edit") && !asked.has_tool("agent_send") && done == 0 => {
                Reply::calls("write", &json!({"path": "SKILLS.md", "content": "- Say the hour in words.\n"}))
            }
            () if asked.has_tool("edit") && !asked.has_tool("agent_send") && done == 1 => {
                Reply::calls("write", &json!({"path": "ROLE.md", "content": "I am the owner.\n"}))
            }
            () if asked.has_tool("edit") && !asked.has_tool("agent_send") => {
                Reply::text("I learnt something.")
            }
            () => Reply::text("from the model"),
        })
    });
    let workspace = onboarded(&server);
    workspace.edit_config(|config| config["memory"] = json!({"writer": "plain", "quiet_ms": 50}));
    program(&workspace, "hour", "#!/bin/sh\nprintf '{\"enrich\": {\"hour\": \"noon\"}}'\n");
    let refused = workspace.nexus(&[
        "automation",
        "register",
        "hour",
        "automations/hour",
        "--hook-point",
        "runAutomations",
        "--self-improvement",
        "--yes",
    ]);
    assert_eq!(refused.code(), Some(2), "it needs a folder: {refused:?}");
    register(&workspace, "hour", "runAutomations", &["--blocking", "--own-folder", "--self-improvement"]);
    workspace.write("state/workspace/hour/ROLE.md", "You tell the hour.\n");
    let daemon = Daemon::start(&workspace, &DaemonOptions::default());
    say(&daemon, "hello");
    let learnt = until("what it learnt", Duration::from_secs(20), || {
        std::fs::read_to_string(workspace.path("state/workspace/hour/SKILLS.md")).ok()
    });
    assert_eq!(learnt, "- Say the hour in words.\n");
    let asked = until("the reflection's end", Duration::from_secs(20), || {
        let asked = server.asked();
        asked.into_iter().rev().find(|asked| asked.has_tool("edit") && asked.messages().len() > 4)
    });
    let question = asked.messages()[0].to_string();
    assert!(question.contains("hello") && question.contains("hour: noon"), "{question}");
    assert!(asked.system().contains("You tell the hour."), "{}", asked.system());
    assert_eq!(workspace.file("state/workspace/hour/ROLE.md"), "You tell the hour.\n", "never what it is");
    let sessions = workspace.nexus(&["sessions", "--json"]).json().to_string();
    assert!(sessions.contains("meeseeks:hour:reflect"), "{sessions}");
    daemon.stop();
}
