//! `nexus mcp`: the tools of a project through the door another program has.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Output, Stdio};

use nexus_testkit::http::{self, Answer};
use nexus_testkit::{Daemon, DaemonOptions, Workspace};
use serde_json::{Value, json};

/// A program that talks to `nexus mcp`.
pub(crate) struct Client {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    asked: u64,
}

impl Client {
    pub(crate) fn start(root: &Path) -> Self {
        Self::start_as(root, &[])
    }

    /// Starts it through another program, which becomes somebody else first.
    #[expect(clippy::disallowed_methods, reason = "tests start the binary under test")]
    pub(crate) fn start_as(root: &Path, before: &[&str]) -> Self {
        let words = [before, &[env!("CARGO_BIN_EXE_nexus"), "mcp"]].concat();
        let mut child = Command::new(words[0])
            .args(&words[1..])
            .current_dir(root)
            .env_clear()
            .env("HOME", root)
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (input, output) = (child.stdin.take(), BufReader::new(child.stdout.take().unwrap()));
        let mut client = Self { child, input, output, asked: 0 };
        let hello = client.ask(
            "initialize",
            &json!({ "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": { "name": "t", "version": "1" } }),
        );
        assert!(hello["result"]["instructions"].as_str().unwrap().contains("plan_start"), "{hello}");
        client.say(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }).to_string());
        client
    }

    fn say(&mut self, line: &str) {
        writeln!(self.input.as_mut().unwrap(), "{line}").unwrap();
    }

    fn hear(&mut self) -> Value {
        let mut line = String::new();
        assert_ne!(self.output.read_line(&mut line).unwrap(), 0, "the server is gone");
        serde_json::from_str(&line).unwrap()
    }

    fn ask(&mut self, method: &str, parameters: &Value) -> Value {
        self.asked += 1;
        self.say(
            &json!({ "jsonrpc": "2.0", "id": self.asked, "method": method, "params": parameters })
                .to_string(),
        );
        self.hear()
    }

    /// Calls a tool and returns what its text says, and whether it failed.
    pub(crate) fn call(&mut self, tool: &str, arguments: &Value) -> (Value, bool) {
        let answer = self.ask("tools/call", &json!({ "name": tool, "arguments": arguments }));
        let result = &answer["result"];
        let text = result["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{answer}"));
        (serde_json::from_str(text).unwrap(), result["isError"] == true)
    }

    pub(crate) fn leave(mut self) -> Option<i32> {
        self.input = None;
        self.child.wait().unwrap().code()
    }
}

#[test]
fn a_cycle_from_plan_to_close() {
    let folder = tempfile::tempdir().unwrap();
    let mut client = Client::start(folder.path());
    let list = client.ask("tools/list", &json!({}));
    let tools = list["result"]["tools"].as_array().unwrap();
    assert_eq!(tools.len(), 11);
    for tool in tools {
        assert_eq!(tool["inputSchema"]["type"], "object", "{tool}");
        assert_eq!(tool["annotations"]["openWorldHint"], false, "{tool}");
        assert!(!tool["description"].as_str().unwrap().is_empty(), "{tool}");
    }
    assert_eq!(client.call("plan_status", &json!({})), (json!({ "active": false }), false));
    assert!(!folder.path().join(".nexus").exists(), "looking makes nothing");
    let plan = json!({ "topic": "T", "issues": ["A"], "research_summary": "r" });
    assert_eq!(client.call("plan_start", &plan).0["plan_id"], 1);
    // The prefix of upstream's servers is understood.
    assert_eq!(
        client.call("nx_plan_decide", &json!({ "issue_id": 1, "summary": "d" })).0["allComplete"],
        true
    );
    assert_eq!(client.call("task_add", &json!({ "title": "t", "context": "c" })).0["task"]["id"], 1);
    let (refused, failed) = client.call("task_update", &json!({ "id": 9, "status": "completed" }));
    assert_eq!((refused, failed), (json!({ "error": "Task id 9 not found" }), true));
    assert_eq!(client.call("task_close", &json!({})).0["total_cycles"], 1);
    assert_eq!(client.call("history_search", &json!({ "query": "t" })).0["total"], 1);
    assert_eq!(client.leave(), Some(0));
}

#[test]
fn faults_are_answered_and_change_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let mut client = Client::start(folder.path());
    client.call("task_add", &json!({ "title": "t", "context": "c" }));
    let file = folder.path().join(".nexus/state/tasks.json");
    let before = std::fs::read(&file).unwrap();
    let huge = "x".repeat(10 * 1024 * 1024);
    let (said, failed) = client.call("task_add", &json!({ "title": "t", "context": huge }));
    assert!(failed && said["error"].as_str().unwrap().contains("allowed"), "{said}");
    let (said, failed) = client.call("artifact_write", &json!({ "filename": "..", "content": "x" }));
    assert!(failed, "{said}");
    for (line, code) in [
        ("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\"", -32700),
        ("[]", -32600),
        ("{\"id\":1,\"method\":\"tools/list\"}", -32600),
    ] {
        client.say(line);
        assert_eq!(client.hear()["error"]["code"], code, "{line}");
    }
    client.say(&"z".repeat(17 * 1024 * 1024));
    assert_eq!(client.hear()["error"]["code"], -32600);
    assert_eq!(std::fs::read(&file).unwrap(), before);
    assert_eq!(client.call("task_list", &json!({})).0["summary"]["total"], 1);
    assert_eq!(client.leave(), Some(0));
}

#[expect(clippy::disallowed_methods, reason = "tests start the binary under test")]
fn conformance(root: &Path, arguments: &[&str]) -> Output {
    let server = format!("'{}' mcp", env!("CARGO_BIN_EXE_nexus"));
    Command::new(env!("CARGO_BIN_EXE_nexus"))
        .args(["project", "conformance", "--server", &server])
        .args(arguments)
        .current_dir(root)
        .env_clear()
        .env("HOME", root)
        .output()
        .unwrap()
}

#[test]
fn fixtures_hold_through_a_server() {
    let folder = tempfile::tempdir().unwrap();
    let output = conformance(folder.path(), &["--json"]);
    let report: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{output:?}"));
    assert!(output.status.success(), "{report:#}");
    assert!(report["passed"].as_u64().unwrap() >= 25, "{report:#}");
    assert!(report["skipped"].as_u64().unwrap() >= 1, "events go to no server");
    // A map that leads elsewhere is a failure, and so is too little.
    let output = conformance(folder.path(), &["--map", r#"{"task_close":"task_list"}"#]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let output = conformance(folder.path(), &["--at-least", "1000"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        String::from_utf8_lossy(&output.stderr).contains("fixtures were run; 1000 are required"),
        "{output:?}"
    );
}

fn web(daemon: &Daemon, target: &str, token: Option<&str>, extra: &str, body: &Value) -> Answer {
    let body = body.to_string();
    let token = token.map(|token| format!("Authorization: Bearer {token}\r\n")).unwrap_or_default();
    let request = format!(
        "POST {target} HTTP/1.1\r\nHost: 127.0.0.1:{}\r\nConnection: close\r\n{token}{extra}\
         Content-Type: application/json\r\nAccept: application/json, text/event-stream\r\n\
         Content-Length: {}\r\n\r\n{body}",
        daemon.port(),
        body.len(),
    );
    http::exchange(daemon.port(), request.as_bytes()).unwrap()
}

#[test]
fn the_daemon_serves_the_project_that_is_named() {
    let workspace = Workspace::new(env!("CARGO_BIN_EXE_nexus"));
    workspace.nexus(&["init"]).ok();
    let daemon = Daemon::start(&workspace, &DaemonOptions::default());
    let folder = tempfile::tempdir().unwrap();
    let target = format!("/mcp?project={}", folder.path().display());
    let token = Some(daemon.token());
    let call = |tool: &str, arguments: Value| json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": { "name": tool, "arguments": arguments } });
    let add = call("task_add", json!({ "title": "t", "context": daemon.token() }));
    let answer = web(&daemon, &target, token, "", &add);
    assert_eq!(answer.status, 200, "{}", answer.body);
    let said = answer.json();
    assert_eq!(said["result"]["isError"], false, "{said}");
    assert!(!answer.body.contains(daemon.token()), "what a tool says passes the redactor");
    assert!(folder.path().join(".nexus/state/tasks.json").exists());
    // The rules of every other route hold here.
    assert_eq!(web(&daemon, &target, None, "", &add).status, 401);
    assert_eq!(web(&daemon, &target, token, "Origin: http://evil.example\r\n", &add).status, 403);
    assert_eq!(daemon.get("/mcp").status, 405);
    let unnamed = web(&daemon, "/mcp", token, "", &call("task_list", json!({}))).json();
    assert!(
        unnamed["result"]["content"][0]["text"].as_str().unwrap().contains("no project is named"),
        "{unnamed}"
    );
    let state = format!("/mcp?project={}", workspace.root().join("state").display());
    for wrong in ["/mcp?project=relative", "/mcp?project=/no/such/folder", "/mcp?other=1", &state] {
        assert_eq!(web(&daemon, wrong, token, "", &add).status, 400, "{wrong}");
    }
    let huge = call("task_add", json!({ "title": "t", "context": "x".repeat(10 * 1024 * 1024) }));
    let refused = web(&daemon, &target, token, "", &huge).json();
    assert!(refused["result"]["content"][0]["text"].as_str().unwrap().contains("allowed"), "{refused}");
    let list = web(&daemon, &target, token, "", &call("task_list", json!({}))).json();
    assert!(list["result"]["content"][0]["text"].as_str().unwrap().contains("\"total\":1"), "{list}");
}
