//! The daemon dies at every step of a conversation with a real model's calls and workers in flight, and
//! nothing is lost, nothing runs twice, nothing hangs.
//!
//! The oracle is outside the daemon: a command that appends one line to a file, and the frames that
//! whoever listened was sent. The model is scripted and has no memory; what it says follows from what it
//! is told, so it also shows what a resumed turn is told.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use nexus_base::failpoint::LOG_VARIABLE;
use nexus_protocol::bus::BusBody;
use nexus_testkit::model::ModelServer;
use nexus_testkit::{Daemon, DaemonOptions, Workspace};
use serde_json::{Value, json};

use crate::scripted;

/// Steps that only such a conversation takes, or takes with more at stake. The rest is swept with the
/// guide, which is quicker.
const SWEPT: [&str; 8] = ["marks.", "s4.", "s5.", "s6.", "undo.", "tool.", "artifact.", "s7."];
/// Steps of commands that no conversation takes; `undo_takes_back` dies there.
const ELSEWHERE: [&str; 2] = ["undo.before_restore", "undo.restored"];

/// A page on this machine.
fn site() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let base = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            let _ = stream.read(&mut [0; 4096]);
            let _ =
                stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\nconnection: close\r\n\r\npage");
        }
    });
    base
}

struct Stage {
    server: ModelServer,
    workspace: Workspace,
    page: String,
    frames: Arc<Mutex<Vec<(String, String)>>>,
    runtime: tokio::runtime::Runtime,
}

impl Stage {
    fn new() -> Self {
        let (server, page) = (scripted::server(), site());
        let workspace = scripted::workspace(&server);
        workspace.edit_config(|config| config["tools"]["web"]["allow"] = json!([page]));
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        Self { server, workspace, page, frames: Arc::default(), runtime }
    }

    /// Writes down every reply that a listener of this life of the daemon is sent.
    fn listen(&self, daemon: &Daemon) {
        let (client, frames) = (daemon.client(), Arc::clone(&self.frames));
        self.runtime.block_on(async {
            let Ok(mut stream) = client.events(None, None).await else { return };
            tokio::spawn(async move {
                while let Ok(Some(event)) = stream.next().await {
                    if let BusBody::Reply { message_id, text, .. } = event.body {
                        frames.lock().unwrap().push((message_id.to_string(), text));
                    }
                }
            });
        });
    }

    /// The calls of one message: each kind of effect once, the append last.
    fn calls(&self, mark: &str) -> Value {
        json!([
            ["read", {"path": "AGENTS.md"}],
            ["write", {"path": format!("{mark}.md"), "content": mark}],
            ["web_fetch", {"url": self.page}],
            ["bash", {"command": format!("echo {mark} >> appended; seq 1 9000")}],
            ["remember", {"text": format!("The mark {mark} was seen.")}],
        ])
    }

    fn say(&self, daemon: &Daemon, mark: &str) -> Option<String> {
        let message = format!("WORK {} {mark}", self.calls(mark));
        let body = json!({ "message": message, "idempotencyKey": mark }).to_string();
        let answer =
            nexus_testkit::http::post(daemon.port(), "/api/chat", Some(daemon.token()), &body).ok()?;
        serde_json::from_str::<Value>(&answer.body).ok()?["requestId"].as_str().map(str::to_owned)
    }

    /// Waits until the message is at rest and judges what became of it.
    fn judge(&self, daemon: &Daemon, request: &str, mark: &str, place: &str) {
        let waited = daemon.get(&format!("/api/chat/wait?request={request}&timeoutMs=25000")).json();
        if waited["quiescent"] != true {
            let trace = daemon.get(&format!("/api/requests/{request}")).json();
            panic!("stuck after {place}: {waited}\n{trace}\n{}", daemon.log());
        }
        let replies = waited["replies"].as_array().cloned().unwrap_or_default();
        assert!(!replies.is_empty(), "lost after {place}");
        let ids: BTreeSet<&str> = replies.iter().filter_map(|line| line["messageId"].as_str()).collect();
        assert_eq!(ids.len(), replies.len(), "a reply stands twice after {place}: {waited}");

        let appended = std::fs::read_to_string(self.workspace.path("home/appended")).unwrap_or_default();
        let times = appended.lines().filter(|line| *line == mark).count();
        let told = self.told(mark);
        let unknown = told.iter().any(|result| result.contains("outcome unknown"));
        let failed = replies.iter().any(|line| line["speaker"] == "system");
        match times {
            0 => assert!(unknown || failed, "not run, and nobody says so, after {place}: {told:?}"),
            1 => {}
            many => panic!("run {many} times after {place}"),
        }
        // Whatever a listener was shown is what the history says, under one id.
        let history = daemon.get("/api/chat/history?limit=1000").json();
        let lines = history["lines"].as_array().cloned().unwrap_or_default();
        for (id, text) in self.frames.lock().unwrap().iter() {
            let known: Vec<&Value> = lines.iter().filter(|line| line["messageId"] == id.as_str()).collect();
            assert_eq!(known.len(), 1, "frame {id} after {place}");
            assert_eq!(known[0]["text"], text.as_str(), "frame {id} after {place}");
        }
    }

    /// Returns the longest list of results the model was told for this mark.
    fn told(&self, mark: &str) -> Vec<String> {
        let asked = self.server.asked();
        let own =
            asked.iter().filter(|asked| !asked.has_tool("wait") && asked.contains(&format!("echo {mark} ")));
        own.map(|asked| {
            let messages = asked.messages();
            let parts = messages.iter().filter_map(|message| message["content"].as_array()).flatten();
            parts
                .filter(|part| part["type"] == "tool_result")
                .map(|part| part["content"].to_string())
                .collect::<Vec<_>>()
        })
        .max_by_key(Vec::len)
        .unwrap_or_default()
    }
}

#[test]
fn a_death_with_calls_and_workers_in_flight_loses_and_doubles_nothing() {
    let stage = Stage::new();
    let log = stage.workspace.home().join("passed");
    let daemon = Daemon::start(
        &stage.workspace,
        &DaemonOptions::default().variable(LOG_VARIABLE, log.to_string_lossy().into_owned()),
    );
    stage.listen(&daemon);
    let request = stage.say(&daemon, "undisturbed").unwrap();
    stage.judge(&daemon, &request, "undisturbed", "nothing");
    let told = stage.told("undisturbed");
    assert!(told.len() == 5 && !told.iter().any(|result| result.contains("unknown")), "{told:?}");
    daemon.stop();
    let mut passed: BTreeMap<String, usize> = BTreeMap::new();
    for name in std::fs::read_to_string(&log).unwrap().lines() {
        if SWEPT.iter().any(|prefix| name.starts_with(prefix)) {
            *passed.entry(name.to_owned()).or_insert(0) += 1;
        }
    }
    for name in ["undo.kept", "undo.folder_kept", "tool.bash.ran", "artifact.kept", "s5.taint.committed"] {
        assert!(passed.contains_key(name), "{name} is not passed: {passed:?}");
    }
    for (name, count) in &passed {
        for pass in BTreeSet::from([1, *count]) {
            let place = format!("{name}@{pass}");
            let mark = place.replace(['.', '@', '_'], "-");
            let (status, request) =
                match Daemon::try_start(&stage.workspace, &DaemonOptions::dying_at(&place)) {
                    Ok(daemon) => {
                        stage.listen(&daemon);
                        let request = stage.say(&daemon, &mark);
                        (Some(daemon.wait_for_end(Duration::from_secs(60))), request)
                    }
                    Err(failure) => (failure.status, None),
                };
            let signal = status.and_then(|status| std::os::unix::process::ExitStatusExt::signal(&status));
            assert_eq!(signal, Some(9), "{place} was not reached");
            let daemon = Daemon::start(&stage.workspace, &DaemonOptions::default());
            stage.listen(&daemon);
            // The same key: one that was taken already is not taken again.
            let again = stage.say(&daemon, &mark).expect("a daemon that lives acknowledges");
            assert!(request.is_none_or(|request| request == again), "two requests after {place}");
            stage.judge(&daemon, &again, &mark, &place);
            daemon.stop();
        }
    }
}

/// The failpoints that the sweep with the guide leaves to this one are passed here.
#[test]
fn what_other_sweeps_leave_out_is_swept_here() {
    let left_out = crate::crash_sweep::left_to_tools();
    for name in left_out {
        let here = SWEPT.iter().any(|prefix| name.starts_with(prefix)) || ELSEWHERE.contains(&name);
        assert!(here, "{name}");
    }
}
