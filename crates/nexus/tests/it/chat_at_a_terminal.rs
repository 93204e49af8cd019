//! `nexus chat` at a real terminal: what was said stands there once, several lines are one message,
//! and leaving leaves the terminal as it was.

use std::os::unix::fs::PermissionsExt;

use nexus_testkit::{Daemon, DaemonOptions, Workspace, until};

use crate::terminal::{Terminal, WITHIN};

#[test]
fn a_reply_stands_there_once_and_leaving_restores_the_terminal() {
    let workspace = Workspace::initialized(env!("CARGO_BIN_EXE_nexus"));
    let daemon = Daemon::start(&workspace, &DaemonOptions::default());
    let mut terminal = Terminal::run(&workspace, &["chat"]);
    terminal.wait_for("you> ", 1);
    terminal.press("Hello\r");
    let reply = until("a reply", WITHIN, || {
        let lines = daemon.get("/api/chat/history").json()["lines"].as_array().cloned()?;
        let reply = lines.iter().find(|line| line["speaker"] == "assistant")?;
        Some(reply["text"].as_str()?.lines().next()?.to_owned())
    });
    let start: String = reply.chars().take(40).collect();
    terminal.wait_for_prompt_after(&start);
    assert_eq!(terminal.seen().matches(&start).count(), 1, "{}", terminal.seen());

    terminal.press("\u{4}");
    assert_eq!(terminal.wait_for_exit(), Some(0));
    assert!(terminal.echoes(), "the terminal is as it was");
    let history = workspace.home().join(".local/state/nexus/history");
    assert!(std::fs::read_to_string(&history).unwrap().contains("Hello"));
    assert_eq!(std::fs::metadata(&history).unwrap().permissions().mode() & 0o777, 0o600);
}

#[test]
fn continued_and_pasted_lines_are_one_message() {
    let workspace = Workspace::initialized(env!("CARGO_BIN_EXE_nexus"));
    let daemon = Daemon::start(&workspace, &DaemonOptions::default());
    let mut terminal = Terminal::run(&workspace, &["chat"]);
    terminal.wait_for("you> ", 1);
    terminal.press("one\\\rtwo\u{1b}\rthree\u{1b}[200~ four\nfive\u{1b}[201~\r");
    let said = until("the message", WITHIN, || {
        let lines = daemon.get("/api/chat/history").json()["lines"].as_array().cloned()?;
        lines.iter().find(|line| line["speaker"] == "user")?["text"].as_str().map(str::to_owned)
    });
    assert_eq!(said, "one\ntwo\nthree four\nfive");
}

#[test]
fn ctrl_c_clears_then_warns_then_leaves() {
    let workspace = Workspace::initialized(env!("CARGO_BIN_EXE_nexus"));
    let _daemon = Daemon::start(&workspace, &DaemonOptions::default());
    let mut terminal = Terminal::run(&workspace, &["chat"]);
    terminal.wait_for("you> ", 1);
    terminal.press("never sent\u{3}");
    terminal.press("/help\r");
    terminal.wait_for_prompt_after("Ctrl-C stops");
    terminal.press("\u{3}");
    terminal.wait_for_prompt_after("Ctrl-C again");
    terminal.press("\u{3}");
    assert_eq!(terminal.wait_for_exit(), Some(0));
}

#[test]
fn a_conversation_is_summed_up_and_begun_anew_from_the_prompt() {
    let workspace = Workspace::initialized(env!("CARGO_BIN_EXE_nexus"));
    let daemon = Daemon::start(&workspace, &DaemonOptions::default());
    let mut terminal = Terminal::run(&workspace, &["chat"]);
    terminal.wait_for("you> ", 1);
    terminal.press("/compact\r");
    terminal.wait_for_prompt_after("nothing has been said in that session yet");
    for number in 0..5 {
        let accepted = daemon.post("/api/chat", &serde_json::json!({"message": format!("hello {number}")}));
        let request = accepted.json()["requestId"].as_str().unwrap().to_owned();
        daemon.get(&format!("/api/chat/wait?request={request}&timeoutMs=30000"));
    }
    terminal.press("/compact\r");
    terminal.wait_for_prompt_after("summarised from here on");
    terminal.press("/compact\r");
    terminal.wait_for_prompt_after("nothing to compact");
    // The command from elsewhere shows here; the one from here shows once.
    workspace.nexus(&["sessions", "reset", "dm:entity-owner"]).ok();
    terminal.wait_for("the conversation starts afresh", 1);
    terminal.press("/new\r");
    terminal.wait_for_prompt_after("the conversation already starts afresh");
    assert_eq!(terminal.seen().matches("summarised from here on").count(), 1, "{}", terminal.seen());
    terminal.press("/help\r");
    terminal.wait_for_prompt_after("/reset");
    // A model for what follows, and back; a name nobody knows is refused with the message.
    terminal.press("/model nobody/none\r");
    terminal.wait_for_prompt_after("nobody/none answers from here on");
    terminal.press("hello there\r");
    terminal.wait_for_prompt_after("does not name a provider");
    terminal.press("/model default\r");
    terminal.wait_for_prompt_after("the configured model answers");
    terminal.press("hello again\r");
    terminal.wait_for_prompt_after("not a language model");
}

#[test]
fn a_secret_said_letter_by_letter_is_not_on_the_screen() {
    let secret = "plum-Orchard-27-lane";
    let server = nexus_testkit::model::ModelServer::start();
    let reply = nexus_testkit::model::Reply::text(format!("It is {secret}, I think."));
    server.otherwise(reply.pieces(1_000));
    let workspace = crate::scripted::workspace(&server);
    workspace.run(&nexus_testkit::Run::new(&["credential", "add", "demo"]).input(secret)).ok();
    let daemon = Daemon::start(&workspace, &DaemonOptions::default());
    until("the secret to be known", WITHIN, || {
        let asked = serde_json::json!({"method": "sessions.resolve", "params": {"session": secret}});
        (!daemon.post("/api/call", &asked).body.contains(secret)).then_some(())
    });
    let mut terminal = Terminal::run(&workspace, &["chat"]);
    terminal.wait_for("you> ", 1);
    terminal.press("tell me\r");
    terminal.wait_for_prompt_after("I think.");
    let seen = terminal.seen();
    assert!(!seen.contains("Orchard") && seen.contains("It is [redacted], I think."), "{seen}");
    assert_eq!(seen.matches("[redacted]").count(), 1, "said once: {seen}");
}

#[test]
fn a_daemon_that_dies_under_up_is_started_again() {
    let workspace = Workspace::initialized(env!("CARGO_BIN_EXE_nexus"));
    let mut terminal = Terminal::run(&workspace, &["up", "--port", "0"]);
    terminal.wait_for("you> ", 1);
    let daemon = |workspace: &Workspace| {
        let pid = workspace.nexus(&["status", "--json"]).json()["runtime"]["pid"].as_i64()?;
        rustix::process::Pid::from_raw(i32::try_from(pid).ok()?)
    };
    let first = daemon(&workspace).expect("a daemon runs");
    rustix::process::kill_process(first, rustix::process::Signal::KILL).unwrap();
    terminal.press("Hello\r");
    terminal.wait_for_prompt_after("the Nexus guide");
    let second = daemon(&workspace).expect("a daemon runs again");
    assert_ne!(first, second);
    terminal.press("/quit\r");
    assert_eq!(terminal.wait_for_exit(), Some(0));
    assert_eq!(daemon(&workspace), None, "what it started it stopped");
}

#[test]
fn consent_is_asked_while_a_turn_waits_for_it() {
    let scripted = crate::scripted::Scripted::start(|_| {});
    let mut terminal = Terminal::run(&scripted.workspace, &["chat"]);
    terminal.wait_for("you> ", 1);
    let message = |mark: &str| {
        format!("WORK [[\"bash\",{{\"command\":\"echo the-{mark}\",\"network\":true}}]] {mark}\r")
    };
    terminal.press(&message("typed-yes"));
    terminal.wait_for("1│ run in", 1);
    terminal.wait_for("2│ echo the-typed-yes", 1);
    terminal.wait_for("Allow this? [y/N]", 1);
    terminal.press("y\r");
    terminal.wait_for("allowed this once", 1);
    terminal.wait_for_prompt_after("It is done.");
    assert_eq!(scripted.results("typed-yes"), ["the-typed-yes\n"]);
    // Enter alone is a no.
    terminal.press(&message("typed-no"));
    terminal.wait_for("? [y/N]", 2);
    terminal.press("\r");
    terminal.wait_for("not allowed", 1);
    terminal.wait_for("It is done.", 2);
    let told = scripted.results("typed-no");
    assert!(told[0].contains("the owner refused"), "{told:?}");
    // A key in a message is in no file of this machine, the prompt's memory included.
    let key = format!("sk-ant-{}", "k7".repeat(12));
    terminal.press(&format!("my key is {key} remember\r"));
    terminal.wait_for_prompt_after("Hello.");
    let history = scripted.workspace.home().join(".local/state/nexus/history");
    let history = std::fs::read_to_string(history).unwrap();
    assert!(!history.lines().any(|line| line == "y"), "answers are no messages");
    assert!(history.contains("my key is [redacted] remember") && !history.contains(&key), "{history}");
}

#[test]
fn a_credential_that_was_found_is_asked_about_before_the_conversation() {
    let mut workspace = Workspace::initialized(env!("CARGO_BIN_EXE_nexus"));
    workspace.set_variable("OPENAI_API_KEY", format!("sk-{}", "t4".repeat(12)));
    let daemon = Daemon::start(&workspace, &DaemonOptions::default());
    let models = || daemon.post("/api/call", &serde_json::json!({"method": "models.list"})).json();
    for (keys, source) in [("\r", "guide"), ("y\r", "credential")] {
        let mut terminal = Terminal::run(&workspace, &["chat"]);
        terminal.wait_for("account env:OPENAI_API_KEY", 1);
        terminal.wait_for("[y/N", 1);
        terminal.press(keys);
        terminal.wait_for("you> ", 1);
        let view = models();
        assert!(view.to_string().contains(&format!("\"source\":\"{source}\"")), "{view}");
    }
    // Answered: nobody is asked again.
    let terminal = Terminal::run(&workspace, &["chat"]);
    terminal.wait_for("you> ", 1);
    assert!(!terminal.seen().contains("[y/N"), "{}", terminal.seen());
}
