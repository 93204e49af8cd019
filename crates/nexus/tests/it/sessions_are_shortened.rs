//! `nexus sessions compact` and `reset` through the program: after the turn that runs, whole or not at all
//! when the daemon dies, counted, told to automations, and taken back.

use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt as _;
use std::time::Duration;

use nexus_testkit::model::{Gate, ModelServer, Reply};
use nexus_testkit::{Daemon, DaemonOptions, until};
use serde_json::{Value, json};

use crate::automations_of_the_owner::onboarded;

const WITHIN: Duration = Duration::from_secs(20);

fn summing_up() -> ModelServer {
    let server = ModelServer::start();
    server.answer(|asked| {
        asked
            .system()
            .starts_with("You summarise a long conversation")
            .then(|| Reply::text("They counted sheep."))
    });
    server.otherwise(Reply::text("Noted."));
    server
}

fn send(daemon: &Daemon, message: &str) -> String {
    let sent = json!({"message": message, "session": "chat:sheep", "queueMode": "followup"});
    let accepted = daemon.post("/api/chat", &sent).json();
    accepted["requestId"].as_str().unwrap_or_else(|| panic!("{accepted}")).to_owned()
}

fn wait(daemon: &Daemon, request: &str) -> Vec<Value> {
    let waited = daemon.get(&format!("/api/chat/wait?request={request}&timeoutMs=30000")).json();
    assert_eq!(waited["quiescent"], true, "{waited}\n{}", daemon.log());
    waited["replies"].as_array().unwrap().clone()
}

fn say(daemon: &Daemon, message: &str) {
    assert_eq!(wait(daemon, &send(daemon, message)).len(), 1, "{message}");
}

#[test]
fn by_hand_after_the_running_turn_and_back_again() {
    let server = summing_up();
    let workspace = onboarded(&server);
    workspace.write("automations/mark", "#!/bin/sh\ncat >> told.jsonl\n");
    let executable = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(workspace.path("automations/mark"), executable).unwrap();
    for hook in ["compact", "reset"] {
        let point = format!("command:{hook}");
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
        let text = std::fs::read_to_string(path).unwrap_or_default();
        text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect::<Vec<Value>>()
    };
    assert!(
        workspace.nexus(&["sessions", "compact", "chat:sheep"]).stderr.contains("nexus start"),
        "without a daemon it says what to do"
    );
    let daemon = Daemon::start(&workspace, &DaemonOptions::default());
    assert_eq!(workspace.nexus(&["sessions", "compact", "chat:sheep"]).code(), Some(3));
    assert_ne!(workspace.nexus(&["sessions", "compact", "no session"]).code(), Some(0));
    for number in 0..2 {
        say(&daemon, &format!("sheep {number}."));
    }
    let nothing = workspace.nexus(&["sessions", "compact", "chat:sheep"]).ok();
    assert!(nothing.stdout.contains("nothing to compact"), "{nothing:?}");
    let nothing = workspace.nexus(&["sessions", "compact", "chat:sheep", "--json"]).json();
    assert_eq!((&nothing["changed"], &nothing["session"]), (&json!(false), &json!("chat:sheep")));
    let own = daemon.post("/api/call", &json!({"method": "sessions.compact"})).json();
    assert_eq!(own["changed"], false, "the owner's conversation is there before its first word: {own}");

    // One turn runs, another waits: the compaction comes between them.
    for number in 2..5 {
        say(&daemon, &format!("sheep {number}."));
    }
    let gate = Gate::new();
    server.script([Reply::text("Slowly noted.").hold(&gate)]);
    let running = send(&daemon, "sheep 5.");
    gate.wait_reached();
    let answer = std::thread::scope(|scope| {
        let asked = scope.spawn(|| workspace.nexus(&["sessions", "compact", "chat:sheep", "--json"]).json());
        let busy = workspace.nexus(&["sessions", "compactions", "--json"]).json();
        assert_eq!(busy["compactions"], json!([]), "nothing is summed up under a running turn");
        gate.open();
        asked.join().unwrap()
    });
    assert_eq!(wait(&daemon, &running)[0]["text"], "Slowly noted.");
    let compaction = &answer["compaction"];
    assert_eq!(answer["changed"], true, "{answer}");
    assert_eq!((&compaction["cause"], &compaction["turns"]), (&json!("asked"), &json!(3)), "{answer}");
    assert_eq!(compaction["summary"], "They counted sheep.");
    assert_eq!(compaction["author"], "anthropic/scripted-1");
    say(&daemon, "sheep 6.");
    let asked = server.asked();
    let last = asked.last().unwrap();
    assert!(last.contains("They counted sheep.") && !last.contains("sheep 2."));
    assert!(last.contains("sheep 3.") && last.contains("Slowly noted."));
    let used = workspace.nexus(&["usage", "--by", "session", "--json"]).json();
    let row = used["sessions"].as_array().unwrap().iter().find(|row| row["session"] == "chat:sheep").unwrap();
    assert_eq!(row["calls"].as_u64().unwrap() as usize, asked.len(), "the summary is paid for: {used}");
    let hooked = until("command:compact", WITHIN, || told("compact").first().cloned());
    assert_eq!((&hooked["hook"], &hooked["session"]), (&json!("command:compact"), &json!("chat:sheep")));

    // Back again, then anew: the words stay, the model is sent none of them.
    workspace.nexus(&["sessions", "undo", compaction["id"].as_str().unwrap()]).ok();
    say(&daemon, "sheep 7.");
    assert!(server.asked().last().unwrap().contains("sheep 0."));
    let anew = workspace.nexus(&["sessions", "reset", "chat:sheep"]).ok();
    assert!(anew.stdout.contains("starts afresh") && anew.stdout.contains("nexus sessions undo"), "{anew:?}");
    say(&daemon, "sheep 8.");
    let last = server.asked().pop().unwrap();
    assert!(last.contains("sheep 8.") && !last.contains("sheep 7.") && !last.contains("They counted"));
    assert_eq!(last.messages().len(), 1);
    let lines = daemon.get("/api/chat/history?session=chat:sheep").json()["lines"].as_array().unwrap().len();
    assert_eq!(lines, 18, "every word of nine turns is still there");
    let hooked = until("command:reset", WITHIN, || told("reset").first().cloned());
    assert_eq!(hooked["hook"], "command:reset");
    assert!(workspace.nexus(&["sessions", "compactions"]).ok().stdout.contains("reset"));
    daemon.stop();
}

#[test]
fn a_death_in_the_middle_leaves_the_whole_conversation_or_the_whole_summary() {
    let server = summing_up();
    let workspace = onboarded(&server);
    let mut kept = 0;
    for (method, place) in [
        ("sessions.compact", "shorten.before_commit"),
        ("sessions.compact", "shorten.committed"),
        ("sessions.reset", "shorten.before_commit"),
        ("sessions.reset", "shorten.committed"),
    ] {
        let daemon = Daemon::start(&workspace, &DaemonOptions::dying_at(place));
        for number in 0..4 {
            say(&daemon, &format!("sheep {number} of {method} {place}."));
        }
        let body = json!({"method": method, "params": {"session": "chat:sheep"}}).to_string();
        let (port, token) = (daemon.port(), Some(daemon.token()));
        let wanted = nexus_testkit::http::request("POST", port, "/api/call", token, &body);
        assert!(
            nexus_testkit::http::exchange(port, &wanted).is_err(),
            "nobody is told that it is done before it is"
        );
        assert_eq!(daemon.wait_for_end(WITHIN).signal(), Some(9), "{place}");
        let is_kept = place == "shorten.committed";
        kept += usize::from(is_kept);
        let listed = workspace.nexus(&["sessions", "compactions", "--json"]).json();
        assert_eq!(listed["compactions"].as_array().unwrap().len(), kept, "{method} {place}: {listed}");

        let daemon = Daemon::start(&workspace, &DaemonOptions::default());
        say(&daemon, "and on");
        let last = server.asked().pop().unwrap();
        let first = last.contains(&format!("sheep 0 of {method} {place}."));
        assert_eq!(first, !is_kept, "{method} {place}");
        // Asked again it does what is still to do, and no more.
        let again = daemon.post("/api/call", &serde_json::from_str(&body).unwrap()).json();
        assert!(again["changed"].is_boolean(), "{again}");
        kept += usize::from(again["changed"] == true);
        let twice = daemon.post("/api/call", &serde_json::from_str(&body).unwrap()).json();
        assert_eq!(twice["changed"], false, "{twice}");
        daemon.stop();
    }
}
