//! Consent, policies and identity files through the real binary.

use std::time::Duration;

use nexus_protocol::methods::Method;
use nexus_testkit::client::Socket;
use nexus_testkit::http::{self, Answer};
use nexus_testkit::{Daemon, DaemonOptions, Workspace, until};
use serde_json::{Value, json};

fn running() -> (Workspace, Daemon) {
    let workspace = Workspace::initialized(env!("CARGO_BIN_EXE_nexus"));
    let daemon = Daemon::start(&workspace, &DaemonOptions::default());
    (workspace, daemon)
}

fn call_as(daemon: &Daemon, token: &str, method: &str, params: &Value) -> Answer {
    http::post(
        daemon.port(),
        "/api/call",
        Some(token),
        &json!({ "method": method, "params": params }).to_string(),
    )
    .unwrap()
}

fn call(daemon: &Daemon, method: &str, params: &Value) -> Answer {
    call_as(daemon, daemon.token(), method, params)
}

fn token(daemon: &Daemon, scopes: &[&str]) -> String {
    call(daemon, "tokens.create", &json!({ "scopes": scopes })).json()["token"].as_str().unwrap().to_owned()
}

#[test]
fn a_question_waits_until_the_owner_answers_on_the_command_line() {
    let (workspace, daemon) = running();
    let asking = token(&daemon, &["control.approvals.*"]);
    let (port, secret) = (daemon.port(), asking.clone());
    let waiting = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let mut socket = Socket::connect(port, &secret.into(), "test", None).await.unwrap();
            let ask = json!({ "kind": "access", "summary": "read the calendar", "resources": ["calendar:read"], "waitMs": 60000 });
            socket.call::<Value>(Method::ApprovalsRequest, &ask).await.unwrap()
        })
    });
    let listed = until("the question to be listed", Duration::from_secs(20), || {
        let listed = workspace.nexus(&["approvals", "list", "--json"]).json();
        listed["approvals"][0]["id"].is_string().then_some(listed)
    });
    let id = listed["approvals"][0]["id"].as_str().unwrap();
    assert!(workspace.nexus(&["approvals", "show", id]).ok().stdout.contains("calendar:read"));
    // Whoever asks does not answer, whatever their token may do.
    let own = call_as(&daemon, &asking, "approvals.approve", &json!({ "id": id }));
    assert_eq!(own.status, 403, "{}", own.body);
    assert_eq!(
        workspace.nexus(&["approvals", "approve", id, "--for", "day"]).ok().stdout,
        format!("{id} approved\n")
    );
    let answer = waiting.join().unwrap();
    assert_eq!((&answer["status"], &answer["responder"]), (&json!("approved"), &json!("owner")));
    // The same again is answered by the standing consent, until it is taken back.
    let again = json!({ "kind": "access", "summary": "again", "resources": ["calendar:read"] });
    assert_eq!(call_as(&daemon, &asking, "approvals.request", &again).json()["status"], "approved");
    let grant = call(&daemon, "grants.list", &json!({})).json()["grants"][0]["id"].clone();
    assert_eq!(call(&daemon, "grants.revoke", &json!({ "id": grant })).status, 200);
    let open = call_as(&daemon, &asking, "approvals.request", &again).json();
    assert_eq!(open["status"], "pending");
    workspace.nexus(&["approvals", "deny", open["id"].as_str().unwrap(), "--json"]).ok();
    assert_eq!(
        workspace.nexus(&["approvals", "approve", open["id"].as_str().unwrap()]).code(),
        Some(1),
        "answered once"
    );
    assert_eq!(workspace.nexus(&["approvals", "show", "nobody"]).code(), Some(3));
    assert_eq!(workspace.nexus(&["approvals", "list"]).ok().stdout, "nothing waits for your consent\n");
}

#[test]
fn consent_to_a_command_holds_once() {
    let (workspace, daemon) = running();
    let ask = json!({ "kind": "exec", "summary": "git push", "resources": ["exec:/usr/bin/git push"] });
    let open = call(&daemon, "approvals.request", &ask).json();
    let lasts = open["expiresAt"].as_i64().unwrap() - open["createdAt"].as_i64().unwrap();
    assert_eq!(lasts, 120_000);
    let id = open["id"].as_str().unwrap();
    let always = workspace.nexus(&["approvals", "approve", id, "--for", "always"]);
    assert_eq!(always.code(), Some(1), "{always:?}");
    workspace.nexus(&["approvals", "approve", id]).ok();
    assert_eq!(call(&daemon, "approvals.request", &ask).json()["status"], "pending", "asked again");
}

#[test]
fn consent_is_told_on_the_bus() {
    let (_workspace, daemon) = running();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let types = vec!["permission.requested".to_owned(), "permission.resolved".to_owned()];
        let wanted = nexus_protocol::ws::Subscribe { types: Some(types), ..Default::default() };
        let secret = daemon.token().to_owned().into();
        let mut socket = Socket::connect(daemon.port(), &secret, "test", Some(wanted)).await.unwrap();
        let ask = json!({ "kind": "tool", "summary": "x", "resources": ["y"] });
        let open: Value = socket.call(Method::ApprovalsRequest, &ask).await.unwrap();
        let _: Value = socket.call(Method::ApprovalsDeny, &json!({ "id": open["id"] })).await.unwrap();
        let first = socket.event().await.unwrap();
        let second = socket.event().await.unwrap();
        assert_eq!(
            (first.event.as_str(), second.event.as_str()),
            ("permission.requested", "permission.resolved")
        );
        assert_eq!(second.payload.unwrap()["properties"]["status"], "denied");
    });
}

#[test]
fn written_policies_hold_at_once_and_wrong_ones_are_refused_whole() {
    let (workspace, daemon) = running();
    let deny =
        json!([{ "name": "not-now", "effect": "deny", "match": { "principal": { "is_user": true } } }]);
    let set = call(&daemon, "config.set", &json!({ "key": "acl.policies", "value": deny }));
    assert_eq!(set.status, 200, "{}", set.body);
    let request = daemon.post("/api/chat", &json!({ "message": "Hello" })).json()["requestId"].clone();
    let status = until("the message to be decided", Duration::from_secs(20), || {
        let view = daemon.get(&format!("/api/requests/{}", request.as_str().unwrap())).json();
        (view["status"] != "processing").then(|| view["status"].clone())
    });
    assert_eq!(status, "denied");
    let before = workspace.file("state/config.json");
    let wrong = call(
        &daemon,
        "config.patch",
        &json!({ "values": { "queue.cap": 9, "acl.policies": [{ "name": "x", "effect": "maybe" }] } }),
    );
    assert_eq!(wrong.status, 400, "{}", wrong.body);
    assert_eq!(workspace.file("state/config.json"), before, "all or nothing");
    let both = call(&daemon, "config.patch", &json!({ "values": { "queue.cap": 9, "acl.policies": null } }));
    assert_eq!(both.json()["values"]["queue.cap"], 9, "{}", both.body);
    assert_eq!(workspace.nexus(&["chat", "-m", "Hello"]).code(), Some(0));
}

#[test]
fn identity_files_are_reached_and_nothing_beside_them() {
    let (workspace, daemon) = running();
    workspace.write("state/agents/ada/IDENTITY.md", "---\nname: Ada\n---\n");
    let file = |file: &str| call(&daemon, "agents.files.get", &json!({ "agent": "ada", "file": file }));
    assert!(file("IDENTITY.md").json()["content"].as_str().unwrap().contains("Ada"));
    for outside in ["../../config.json", "/etc/passwd", "NOTES.md", "", "IDENTITY.md/../../../config.json"] {
        assert_eq!(file(outside).status, 403, "{outside}");
    }
    for agent in ["..", "../agents/ada", "nobody", "."] {
        let answer = call(&daemon, "agents.files.get", &json!({ "agent": agent, "file": "IDENTITY.md" }));
        assert_eq!(answer.status, 404, "{agent}: {}", answer.body);
    }
    std::fs::remove_file(workspace.path("state/agents/ada/IDENTITY.md")).unwrap();
    std::os::unix::fs::symlink(
        workspace.path("state/config.json"),
        workspace.path("state/agents/ada/SOUL.md"),
    )
    .unwrap();
    let linked = file("SOUL.md");
    assert!(linked.status != 200 && !linked.body.contains("auth"), "{}", linked.body);
    let set = json!({ "agent": "ada", "file": "IDENTITY.md", "content": "---\nname: Ada\n---\nKind.\n" });
    assert_eq!(call(&daemon, "agents.files.set", &set).status, 200);
    assert!(workspace.file("state/agents/ada/IDENTITY.md").contains("Kind."));
}

#[test]
fn every_method_answers_the_owner() {
    let (_workspace, daemon) = running();
    let sent = daemon.post("/api/chat", &json!({ "message": "Hello" })).json();
    let request = sent["requestId"].as_str().unwrap();
    daemon.get(&format!("/api/chat/wait?request={request}&timeoutMs=60000"));
    let session = sent["session"].clone();
    let automation = call(&daemon, "automations.list", &json!({})).json()["automations"][0]["name"].clone();
    let made = call(&daemon, "tokens.create", &json!({ "scopes": ["control.chat.read"] })).json();
    let rotated = call(&daemon, "tokens.rotate", &json!({ "id": made["about"]["id"] })).json();
    let open = |summary: &str| {
        call(
            &daemon,
            "approvals.request",
            &json!({ "kind": "access", "summary": summary, "resources": [summary] }),
        )
        .json()["id"]
            .clone()
    };
    // That one ends the token this test asks with; it has tests of its own.
    for method in Method::ALL.iter().filter(|method| **method != Method::ConfigRotateToken) {
        let params = match method {
            Method::ChatSend => json!({ "message": "hi" }),
            Method::ChatInject => json!({ "message": "the backup has run" }),
            Method::ChatWait => json!({ "request": request, "timeoutMs": 1000 }),
            Method::RequestsGet => json!({ "id": request }),
            Method::SessionsResolve => json!({ "session": session }),
            Method::SessionsPreview => json!({ "sessions": [session, "chat:none"] }),
            Method::AgentsFilesList => json!({ "agent": "nobody" }),
            Method::AgentsFilesGet => json!({ "agent": "nobody", "file": "IDENTITY.md" }),
            Method::AgentsFilesSet => json!({ "agent": "nobody", "file": "IDENTITY.md", "content": "" }),
            Method::ConfigSet => json!({ "key": "queue.cap", "value": 21 }),
            Method::ConfigPatch => json!({ "values": { "queue.cap": 22 } }),
            Method::AutomationsGet | Method::AutomationsEnable | Method::AutomationsDisable => {
                json!({ "name": automation })
            }
            Method::ApprovalsShow | Method::ApprovalsApprove => json!({ "id": open("a") }),
            Method::ApprovalsDeny => json!({ "id": open("b") }),
            Method::ApprovalsRequest => json!({ "kind": "tool", "summary": "c", "resources": ["c"] }),
            Method::TokensCreate => json!({ "scopes": ["control.*.read"], "expiresInMs": 60000 }),
            Method::TokensRevoke => json!({ "id": rotated["about"]["id"] }),
            _ => json!({}),
        };
        let answer = call(&daemon, method.entry().name, &params);
        // These belong to a socket or another route, or name something that is not there.
        let elsewhere = match method {
            Method::Connect | Method::EventsSubscribe | Method::EventsUnsubscribe | Method::Metrics => {
                Some(400)
            }
            Method::AgentsFilesList | Method::AgentsFilesGet | Method::AgentsFilesSet => Some(404),
            Method::GrantsRevoke | Method::TokensRotate => Some(400),
            _ => None,
        };
        assert_eq!(answer.status, elsewhere.unwrap_or(200), "{method:?}: {}", answer.body);
    }
}
