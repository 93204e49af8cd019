//! Decision 10 through the real binary: what a worker runs has no way to become the owner.

use nexus_testkit::{Daemon, DaemonOptions, Workspace};
use serde_json::{Value, json};

/// Says something and returns everything that was answered, with the worker's part from the trace.
fn say(daemon: &Daemon, message: &str) -> String {
    let accepted = daemon.post("/api/chat", &json!({ "message": message })).json();
    let request = accepted["requestId"].as_str().unwrap_or_else(|| panic!("{accepted}"));
    let waited = daemon.get(&format!("/api/chat/wait?request={request}&timeoutMs=60000")).json();
    assert_eq!(waited["quiescent"], true, "{waited}");
    let trace = daemon.get(&format!("/api/requests/{request}")).body;
    format!("{waited}\n{trace}")
}

fn onboarded() -> (Workspace, Daemon, String) {
    let secret = format!("sk-ant-{}", "w0rker".repeat(6));
    let mut workspace = Workspace::initialized(env!("CARGO_BIN_EXE_nexus"));
    workspace.set_variable("ANTHROPIC_API_KEY", &secret);
    let daemon = Daemon::start(&workspace, &DaemonOptions::default());
    for line in nexus_testkit::witness::ONBOARDING {
        say(&daemon, line);
    }
    (workspace, daemon, secret)
}

fn call(daemon: &Daemon, method: &str, params: &Value) -> Value {
    daemon.post("/api/call", &json!({ "method": method, "params": params })).json()
}

#[test]
fn a_worker_cannot_read_the_token_or_a_credential() {
    let (workspace, daemon, secret) = onboarded();
    let root = workspace.root().display();
    // That commands run at all, or the rest would show nothing.
    assert!(say(&daemon, "run `echo alive-$((40 + 2))`").contains("alive-42"));
    for command in [
        format!("cat {root}/state/config.json"),
        format!("cat {root}/state/config.last-good.json"),
        format!("ls -R {root}/state/credentials"),
        format!("strings {root}/state/data/identity.db"),
        "env".to_owned(),
        format!("cat /proc/{}/environ", daemon.pid()),
        "cat /proc/self/environ".to_owned(),
        "nexus config get runtime.auth.token".to_owned(),
        "nexus config list --json".to_owned(),
        "nexus credential get anthropic --raw".to_owned(),
        "nexus credential list --json".to_owned(),
        "nexus credential scan --deep --json".to_owned(),
    ] {
        let told = say(&daemon, &format!("run `{command}`"));
        for forbidden in [daemon.token(), secret.as_str()] {
            assert!(!told.contains(forbidden), "{command}: {told}");
        }
    }
    // Redaction would hide a leak from the answers above; nothing may have been stored either.
    for name in ["agents", "events", "runtime", "memory", "identity"] {
        let bytes = std::fs::read(workspace.path(&format!("state/data/{name}.db"))).unwrap();
        let log = std::fs::read(workspace.path(&format!("state/data/{name}.db-wal"))).unwrap_or_default();
        for forbidden in [daemon.token(), secret.as_str()] {
            let found = [&bytes, &log]
                .iter()
                .any(|bytes| bytes.windows(forbidden.len()).any(|window| window == forbidden.as_bytes()));
            assert!(!found, "{name}.db");
        }
    }
}

#[test]
fn a_worker_cannot_approve_itself_change_settings_or_rotate_anything() {
    let (workspace, daemon, _) = onboarded();
    let ask = json!({ "kind": "access", "summary": "everything", "resources": ["all"] });
    let question = call(&daemon, "approvals.request", &ask);
    let id = question["id"].as_str().unwrap_or_else(|| panic!("{question}")).to_owned();
    let before = workspace.file("state/config.json");
    let port = daemon.port();
    for command in [
        format!("nexus approvals approve {id}"),
        "nexus approvals list".to_owned(),
        "nexus config rotate-token".to_owned(),
        "nexus tokens create --scope control.*.*".to_owned(),
        "nexus tokens list".to_owned(),
        "nexus config set queue.cap 3".to_owned(),
        "nexus trust".to_owned(),
        "nexus stop".to_owned(),
        format!("kill -9 {}", daemon.pid()),
        format!("curl -s -X POST http://127.0.0.1:{port}/api/call -d '{{}}'"),
        format!("bash -c 'exec 3<>/dev/tcp/127.0.0.1/{port}'"),
        // Without the inherited socket it is an ordinary command, and finds nothing it may read.
        format!(
            "env -u NEXUS_RUN_FD nexus --workspace {} approvals approve {id}",
            workspace.root().display()
        ),
        format!("env -u NEXUS_RUN_FD nexus --workspace {} config rotate-token", workspace.root().display()),
    ] {
        let told = say(&daemon, &format!("run `{command}`"));
        assert!(!told.contains(&format!("{id} approved")), "{command}: {told}");
        if command.starts_with("nexus ") {
            assert!(told.contains("is not available inside a tool call"), "{command}: {told}");
        }
    }
    let question = call(&daemon, "approvals.show", &json!({ "id": id }));
    assert_eq!(question["status"], "pending", "{question}");
    assert_eq!(workspace.file("state/config.json"), before);
    assert_eq!(daemon.get("/api/sessions").status, 200, "the same daemon with the same token");
}
