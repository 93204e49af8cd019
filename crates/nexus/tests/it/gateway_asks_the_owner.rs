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
    assert_eq!(workspace.nexus(&["approvals", "list"]).ok().stdout, "nothing is waiting for your consent\n");
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

/// Says where a value is not what a schema wants. Knows as much of JSON Schema as our own files use.
fn mismatch(schema: &Value, value: &Value, definitions: &Value, path: &str) -> Option<String> {
    let wrong = |what: &str| Some(format!("{path}: {what}: {value} against {schema}"));
    if let Some(accepts) = schema.as_bool() {
        return if accepts { None } else { wrong("nothing is accepted") };
    }
    if let Some(name) = schema["$ref"].as_str().and_then(|name| name.strip_prefix("#/$defs/")) {
        assert!(definitions[name].is_object(), "{name} is not defined");
        return mismatch(&definitions[name], value, definitions, path);
    }
    for choice in ["anyOf", "oneOf"] {
        if let Some(any) = schema[choice].as_array()
            && !any.iter().any(|one| mismatch(one, value, definitions, path).is_none())
        {
            return wrong("none of the choices fits");
        }
    }
    let is = |name: &str| match name {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "string" => value.is_string(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        other => panic!("type {other}"),
    };
    let types: Vec<&str> = match &schema["type"] {
        Value::String(one) => vec![one],
        Value::Array(several) => several.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    };
    if !types.is_empty() && !types.iter().any(|name| is(name)) {
        return wrong("another type");
    }
    if schema.get("const").is_some_and(|only| only != value)
        || schema["enum"].as_array().is_some_and(|list| !list.contains(value))
    {
        return wrong("another value");
    }
    if let (Some(items), Some(list)) = (schema.get("items"), value.as_array()) {
        let found = list.iter().enumerate();
        return found
            .map(|(place, one)| mismatch(items, one, definitions, &format!("{path}[{place}]")))
            .find_map(|one| one);
    }
    let object = value.as_object()?;
    for required in schema["required"].as_array().into_iter().flatten() {
        if !object.contains_key(required.as_str().unwrap()) {
            return wrong(&format!("{required} is missing"));
        }
    }
    object.iter().find_map(|(name, one)| {
        let below = format!("{path}.{name}");
        match (schema["properties"].get(name), schema.get("additionalProperties")) {
            (Some(schema), _) | (None, Some(schema)) => mismatch(schema, one, definitions, &below),
            // Types of ours list everything they give; a member that is not listed was forgotten.
            (None, None) if schema["properties"].is_object() => Some(format!("{below} is not in the schema")),
            (None, None) => None,
        }
    })
}

#[test]
fn every_method_answers_the_owner_and_as_its_schema_says() {
    let (workspace, daemon) = running();
    workspace.write("skills/tea/SKILL.md", "---\nname: tea\ndescription: makes tea\n---\nBoil water.\n");
    let schemas: Value = serde_json::from_str(include_str!("../../../../schemas/methods.json")).unwrap();
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
            Method::RequestsGet | Method::RequestsPrompt => json!({ "id": request }),
            Method::SessionsResolve => json!({ "session": session }),
            Method::SessionsPreview => json!({ "sessions": [session, "chat:none"] }),
            Method::AgentsFilesList => json!({ "agent": "nobody" }),
            Method::AgentsFilesGet => json!({ "agent": "nobody", "file": "IDENTITY.md" }),
            Method::AgentsFilesSet => json!({ "agent": "nobody", "file": "IDENTITY.md", "content": "" }),
            Method::SkillsInfo | Method::SkillsUse => json!({ "name": "tea" }),
            Method::MemoryRecall => json!({ "query": "tea" }),
            Method::MemoryAdd => json!({ "text": "Ada drinks tea" }),
            Method::MemoryForget | Method::SessionsUndo => json!({ "id": "none" }),
            Method::AutomationsRemove | Method::AutomationsTest => json!({ "name": "none" }),
            Method::ModelsAllow | Method::ModelsRefuse => json!({ "provider": "none" }),
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
            Method::Connect
            | Method::EventsSubscribe
            | Method::EventsUnsubscribe
            | Method::Metrics
            | Method::Mcp => Some(400),
            Method::AgentsFilesList
            | Method::AgentsFilesGet
            | Method::AgentsFilesSet
            | Method::MemoryForget
            | Method::SessionsUndo
            | Method::AutomationsRemove
            | Method::AutomationsTest
            | Method::ModelsAllow
            | Method::ModelsRefuse => Some(404),
            // Needs a hash of a file its owner was shown; nobody accepted the skill.
            Method::AutomationsRegister | Method::SkillsUse => Some(400),
            Method::GrantsRevoke | Method::TokensRotate => Some(400),
            _ => None,
        };
        assert_eq!(answer.status, elsewhere.unwrap_or(200), "{method:?}: {}", answer.body);
        let entry = method.entry();
        let of = schemas["methods"].as_array().unwrap().iter().find(|one| one["method"] == entry.name);
        let of = of.unwrap_or_else(|| panic!("{} has no schema", entry.name));
        assert_eq!(of["permission"], json!(entry.permission()));
        assert!(of["payload"].is_object() && of["params"].is_object(), "{} has no types", entry.name);
        if answer.status == 200 {
            let found = mismatch(&of["payload"], &answer.json(), &schemas["$defs"], entry.name);
            assert_eq!(found, None);
        }
    }
    for (alias, method) in
        nexus_protocol::methods::ALIASES.iter().filter(|(alias, _)| alias.ends_with(".list"))
    {
        let (old, new) = (call(&daemon, alias, &json!({})), call(&daemon, method.entry().name, &json!({})));
        assert_eq!((old.status, old.json()), (200, new.json()), "{alias}");
    }
}

#[test]
fn tokens_are_made_shown_once_and_ended_on_the_command_line() {
    let (workspace, daemon) = running();
    let create =
        ["tokens", "create", "--label", "panel", "--scope", "control.*.read", "--expires", "2h", "--json"];
    let made = workspace.nexus(&create).json();
    let token = made["token"].as_str().unwrap().to_owned();
    let id = made["about"]["id"].as_str().unwrap();
    let lasts = made["about"]["expiresAt"].as_i64().unwrap() - made["about"]["createdAt"].as_i64().unwrap();
    assert_eq!(lasts, 2 * 3_600_000);
    assert_eq!(call_as(&daemon, &token, "sessions.list", &json!({})).status, 200);
    assert_eq!(call_as(&daemon, &token, "chat.send", &json!({ "message": "x" })).status, 403);
    // Nothing shows it again: no listing, no log, no answer, not even to its holder.
    let listed = workspace.nexus(&["tokens", "list", "--json"]).ok().stdout;
    assert!(listed.contains(id) && !listed.contains(&token), "{listed}");
    let table = workspace.nexus(&["tokens", "list"]).ok().stdout;
    assert!(table.contains("panel") && !table.contains(&token), "{table}");
    let echoed = call_as(&daemon, &token, &format!("no.{token}"), &json!({}));
    assert!(echoed.status == 404 && !echoed.body.contains(&token), "{}", echoed.body);
    assert!(!daemon.log().contains(&token));

    let rotated = workspace.nexus(&["tokens", "rotate", id, "--json"]).json();
    let (second, second_id) = (rotated["token"].as_str().unwrap(), rotated["about"]["id"].as_str().unwrap());
    assert_eq!(call_as(&daemon, &token, "sessions.list", &json!({})).status, 401);
    assert_eq!(call_as(&daemon, second, "sessions.list", &json!({})).status, 200);
    assert_eq!(rotated["about"]["scopes"], json!(["control.*.read"]));
    assert_eq!(workspace.nexus(&["tokens", "revoke", second_id]).ok().stdout, format!("{second_id} ended\n"));
    assert_eq!(call_as(&daemon, second, "sessions.list", &json!({})).status, 401);
    assert_eq!(workspace.nexus(&["tokens", "revoke", second_id]).code(), Some(3));
    assert_eq!(workspace.nexus(&["tokens", "list"]).ok().stdout, "no tokens have been issued\n");
    let all = workspace.nexus(&["tokens", "list", "--all", "--json"]).json();
    assert_eq!(all["tokens"].as_array().map(Vec::len), Some(2), "{all}");
    // Plain text goes to stdout alone, for `TOKEN=$(nexus tokens create …)`.
    let plain = workspace.nexus(&["tokens", "create", "--scope", "control.chat.read"]).ok();
    assert!(plain.stdout.starts_with("nxt_") && plain.stdout.lines().count() == 1, "{plain:?}");
    assert_eq!(workspace.nexus(&["tokens", "create", "--scope", "everything"]).code(), Some(1));
    assert_eq!(workspace.nexus(&["tokens", "create"]).code(), Some(2));
    assert_eq!(
        workspace.nexus(&["tokens", "create", "--scope", "control.*.*", "--expires", "soon"]).code(),
        Some(2)
    );
}
