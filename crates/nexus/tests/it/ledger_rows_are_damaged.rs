//! A row of the ledger that cannot be read any more is never taken for an empty one: what it belongs to does not run, and
//! the person is told which row it is.

use std::os::unix::process::ExitStatusExt as _;

use nexus_testkit::model::{ModelServer, Reply, Wire};
use nexus_testkit::{Daemon, DaemonOptions, Workspace};
use serde_json::{Value, json};

/// Sends the message of this file; the same one each time, so that the second time finds the first.
fn send(daemon: &Daemon) -> Option<Value> {
    let body = json!({"message": "where is the spare key?", "idempotencyKey": "one", "session": "chat:keys"});
    let (port, token) = (daemon.port(), Some(daemon.token()));
    let wanted = nexus_testkit::http::request("POST", port, "/api/chat", token, &body.to_string());
    // An error is the death that was asked for.
    Some(nexus_testkit::http::exchange(daemon.port(), &wanted).ok()?.json())
}

#[expect(clippy::disallowed_methods, reason = "damages a row behind the daemon's back")]
fn change(workspace: &Workspace, statement: &str) {
    let agents = rusqlite::Connection::open(workspace.path("state/data/agents.db")).unwrap();
    assert_eq!(agents.execute(statement, []).unwrap(), 1, "{statement} changes one row");
}

/// Queues a message, damages a row while no daemon runs, and returns what the next one answers.
fn answer_after(damage: &str) -> (String, usize) {
    let server = ModelServer::start();
    server.answer(|_| Some(Reply::text("With Grace.")));
    let mut workspace = Workspace::initialized(env!("CARGO_BIN_EXE_nexus"));
    server.configure(&mut workspace, Wire::Anthropic);
    let daemon = Daemon::start(&workspace, &DaemonOptions::dying_at("s3.committed"));
    send(&daemon);
    assert_eq!(
        daemon.wait_for_end(std::time::Duration::from_secs(30)).signal(),
        Some(9),
        "the message was not queued"
    );

    change(&workspace, damage);

    let daemon = Daemon::start(&workspace, &DaemonOptions::default());
    let request = send(&daemon).expect("a living daemon answers")["requestId"].as_str().unwrap().to_owned();
    let waited = daemon.get(&format!("/api/chat/wait?request={request}&timeoutMs=60000")).json();
    assert_eq!(waited["quiescent"], true, "{waited}\n{}", daemon.log());
    let replies = waited["replies"].as_array().unwrap();
    assert_eq!(replies.len(), 1, "{waited}");
    let text = replies[0]["text"].as_str().unwrap().to_owned();
    daemon.stop();
    (text, server.asked().len())
}

#[test]
fn a_message_whose_facts_cannot_be_read_is_refused() {
    let (text, asked) = answer_after(r#"UPDATE queue_items SET frame_json = '[["sender","owner"'"#);
    assert!(text.contains("the ledger is damaged: queue_items.frame_json cannot be read"), "{text}");
    assert_eq!(asked, 0, "a model was asked all the same");
}

#[test]
fn a_session_whose_settings_cannot_be_read_does_not_run_without_them() {
    let (text, asked) = answer_after(r#"UPDATE sessions SET settings_json = '{"project":'"#);
    assert!(text.contains("the ledger is damaged: sessions.settings_json cannot be read"), "{text}");
    assert_eq!(asked, 0, "a model was asked all the same");
}
