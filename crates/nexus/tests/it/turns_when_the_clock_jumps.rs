//! A wall clock that is set a day forward and an hour back in the middle of a conversation: nothing is lost,
//! doubled, put in another order or run out before its time, and the next message is served.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nexus_base::failpoint::CLOCK_VARIABLE;
use nexus_base::file::{Durability, replace};
use nexus_testkit::model::{Gate, ModelServer, Reply, Wire};
use nexus_testkit::{Daemon, DaemonOptions, Workspace, until};
use serde_json::{Value, json};

use crate::scripted::Scripted;

const HOUR: i64 = 3_600_000;
const DAY: i64 = 24 * HOUR;
const WITHIN: Duration = Duration::from_secs(30);

/// The clock of a workspace: its daemon and its commands look at it.
struct Clock(PathBuf);

impl Clock {
    fn of(workspace: &mut Workspace) -> Self {
        let file = workspace.home().join("clock");
        workspace.set_variable(CLOCK_VARIABLE, file.to_str().unwrap());
        Self(file)
    }

    /// Sets the clock so far from the true time.
    fn set(&self, milliseconds: i64) {
        replace(Path::new(&self.0), milliseconds.to_string().as_bytes(), 0o600, Durability::Crash).unwrap();
    }
}

fn send(daemon: &Daemon, message: &str) -> String {
    let body = json!({ "message": message, "queueMode": "followup" });
    let accepted = daemon.post("/api/chat", &body).json();
    accepted["requestId"].as_str().unwrap_or_else(|| panic!("{accepted}")).to_owned()
}

/// Waits for the end of a request; returns its words, and how the trace says it ended.
fn ended(daemon: &Daemon, request: &str) -> (String, Value) {
    let waited = daemon.get(&format!("/api/chat/wait?request={request}&timeoutMs=60000")).json();
    assert_eq!(waited["quiescent"], true, "{waited}\n{}", daemon.log());
    let replies = waited["replies"].as_array().cloned().unwrap_or_default();
    let words = replies.last().and_then(|line| line["text"].as_str()).unwrap_or_default().to_owned();
    let trace = until("the trace to end", WITHIN, || {
        let trace = daemon.get(&format!("/api/requests/{request}")).json();
        (trace["status"] != "processing").then_some(trace)
    });
    (words, trace["status"].clone())
}

fn history(daemon: &Daemon) -> Vec<String> {
    let history = daemon.get("/api/chat/history").json();
    let lines = history["lines"].as_array().unwrap_or_else(|| panic!("{history}"));
    lines.iter().map(|line| line["text"].as_str().unwrap().to_owned()).collect()
}

/// Questions and answers stand in their order, each answer behind its question, nothing missing or twice. A
/// question that waits may stand before or behind the answer it waits for.
fn in_order(lines: &[String], count: usize) {
    let side = |first: char| lines.iter().filter(|line| line.starts_with(first)).cloned().collect::<Vec<_>>();
    let expected = |first: char| (1..=count).map(|number| format!("{first}{number}")).collect::<Vec<_>>();
    assert_eq!((side('Q'), side('A')), (expected('Q'), expected('A')), "{lines:?}");
    let place = |line: String| lines.iter().position(|one| *one == line);
    assert!((1..=count).all(|n| place(format!("Q{n}")) < place(format!("A{n}"))), "{lines:?}");
    // What was answered before the next was said stays before it.
    assert_eq!(lines[..4], ["Q1", "A1", "Q2", "A2"]);
}

fn good(words: &str) -> (String, Value) {
    (words.to_owned(), json!("completed"))
}

#[test]
fn a_conversation_goes_on_in_its_order_whatever_the_clock_says() {
    let server = ModelServer::start();
    let mut workspace = crate::scripted::workspace(&server);
    let clock = Clock::of(&mut workspace);
    let daemon = Daemon::start(&workspace, &DaemonOptions::default());
    server.script([Reply::text("A1")]);
    assert_eq!(ended(&daemon, &send(&daemon, "Q1")), good("A1"));

    // A day forward in the middle of a stream: no timeout of ours looks at the wall.
    let gate = Gate::new();
    server.script([Reply::text("A2").pieces(2).hold_after(3, &gate)]);
    let second = send(&daemon, "Q2");
    gate.wait_reached();
    clock.set(DAY);
    gate.open();
    assert_eq!(ended(&daemon, &second), good("A2"));

    // An hour before where it began, with one turn under way and two messages behind it.
    let gate = Gate::new();
    server.script([Reply::text("A3").hold(&gate), Reply::text("A4"), Reply::text("A5")]);
    let third = send(&daemon, "Q3");
    gate.wait_reached();
    let fourth = send(&daemon, "Q4");
    clock.set(-HOUR);
    let fifth = send(&daemon, "Q5");
    gate.open();
    assert_eq!(ended(&daemon, &third), good("A3"));
    assert_eq!(ended(&daemon, &fourth), good("A4"));
    assert_eq!(ended(&daemon, &fifth), good("A5"));
    in_order(&history(&daemon), 5);
    // The newest request is the last one made, not the one with the latest time.
    let newest = workspace.nexus(&["trace", "--json"]).json();
    assert_eq!(newest["requestId"].as_str().or(newest["id"].as_str()), Some(fifth.as_str()), "{newest}");

    // A death with an accepted message in hand, after which the clock is further back still.
    let gate = Gate::new();
    server.script([Reply::text("never said").hold(&gate)]);
    send(&daemon, "Q6");
    gate.wait_reached();
    let seventh = send(&daemon, "Q7");
    daemon.kill9();
    clock.set(-2 * HOUR);
    server.script([Reply::text("A6"), Reply::text("A7")]);
    let daemon = Daemon::start(&workspace, &DaemonOptions::default());
    assert_eq!(ended(&daemon, &seventh), good("A7"));
    in_order(&history(&daemon), 7);
    // What the model was told is in that order too, and nothing of it twice.
    let last = server.asked().pop().unwrap();
    let sent = json!(last.messages()).to_string();
    let places: Vec<usize> = ["Q1", "A1", "Q2", "A2", "Q3", "A3", "Q4", "A4", "Q5", "A5", "Q6", "A6", "Q7"]
        .iter()
        .map(|word| {
            assert_eq!(sent.matches(&format!("{word}\"")).count(), 1, "{word} in {sent}");
            sent.find(&format!("{word}\"")).unwrap()
        })
        .collect();
    assert!(places.is_sorted(), "{sent}");
    daemon.stop();
}

#[test]
fn what_runs_out_does_so_after_its_time_and_not_at_its_hour() {
    let mut clock = None;
    let scripted = Scripted::start(|workspace| {
        clock = Some(Clock::of(workspace));
        workspace.edit_config(|config| config["tools"]["approval_timeout_ms"] = json!(60_000));
    });
    let clock = clock.unwrap();
    let watching = scripted.daemon.client();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let _watch = runtime.block_on(async { watching.events(None, None).await.unwrap() });
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let command = format!("exec 3<>/dev/tcp/127.0.0.1/{port}; echo ran");
    let call = json!([["bash", {"command": command, "network": true}]]);
    // A question that stands for two minutes is still open after the clock went on by a day, and back.
    for shift in [DAY, -HOUR] {
        let begun = scripted.begin_work(&call);
        let open = || scripted.workspace.nexus(&["approvals", "list", "--json"]).json()["approvals"].clone();
        let asked = until("a question to the owner", WITHIN, || open().get(0).cloned());
        clock.set(shift);
        assert_eq!(open()[0]["id"], asked["id"], "{shift}");
        scripted.workspace.nexus(&["approvals", "approve", asked["id"].as_str().unwrap()]).ok();
        let done = scripted.finish(&begun);
        assert!(done.results[0].contains("ran"), "{shift}: {done:?}");
    }
    scripted.daemon.stop();
}

#[test]
fn a_rest_and_a_budget_of_the_day_survive_the_clock() {
    let server = ModelServer::start();
    let mut workspace = crate::scripted::workspace(&server);
    server.configure(&mut workspace, Wire::OpenAi);
    workspace.edit_config(|config| config["models"]["retry_pause_ms"] = json!(2));
    let clock = Clock::of(&mut workspace);
    let daemon = Daemon::start(&workspace, &DaemonOptions::default());
    server.script([Reply::status(429, "slow down").header("retry-after", "60")]);
    let (words, status) = ended(&daemon, &send(&daemon, "one"));
    assert_eq!(status, "failed", "{words}");
    let (words, _) = ended(&daemon, &send(&daemon, "two"));
    assert!(words.contains("is paused for another"), "{words}");
    // An hour back: a minute's rest does not become an hour's.
    clock.set(-HOUR);
    server.script([Reply::text("rested")]);
    assert_eq!(ended(&daemon, &send(&daemon, "three")), good("rested"));
    // Every call is paid for once, on the day the clock said.
    clock.set(DAY);
    server.script([Reply::text("tomorrow")]);
    assert_eq!(ended(&daemon, &send(&daemon, "four")), good("tomorrow"));
    clock.set(0);
    let usage = workspace.nexus(&["usage", "--by", "session", "--json"]).json();
    let calls: u64 = usage["sessions"]
        .as_array()
        .unwrap_or_else(|| panic!("{usage}"))
        .iter()
        .map(|row| row["calls"].as_u64().unwrap_or_else(|| panic!("{usage}")))
        .sum();
    assert_eq!(calls, 2, "{usage}");
    daemon.stop();
}
