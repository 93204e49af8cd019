//! What a policy allows and denies holds wherever tools, credentials and data are handed out: for the manager,
//! its workers, a project's tools, searches and memory.

use nexus_testkit::Workspace;
use nexus_testkit::script::SELF;
use serde_json::{Value, json};

use crate::scripted::Scripted;

/// Starts with one policy about the owner, giving `permissions`.
fn under(permissions: &Value, prepare: impl FnOnce(&mut Workspace)) -> Scripted {
    let policies = json!([{ "name": "limits", "effect": "allow", "match": { "principal": { "is_user": true } },
        "permissions": permissions }]);
    Scripted::start(|workspace| {
        workspace.nexus(&["config", "set", "acl.policies", &policies.to_string()]).ok();
        workspace.write("home/note.txt", "a note\n");
        prepare(workspace);
    })
}

/// How a call ended, in a word.
fn outcome(result: &str) -> &'static str {
    if result.contains("not allowed: no policy allows") {
        "denied"
    } else if result.contains("there is no tool") {
        "absent"
    } else {
        "ran"
    }
}

/// One policy, who makes the calls, and how each of them has to end.
type Row = (Value, &'static str, &'static [(&'static str, &'static str)]);

fn arguments(tool: &str) -> Value {
    match tool {
        "read" => json!({ "path": "note.txt" }),
        "write" => json!({ "path": "new.txt", "content": "x" }),
        "edit" => json!({ "path": "note.txt", "old": "a note", "new": "my note" }),
        "list" => json!({ "path": "." }),
        "glob" | "grep" => json!({ "pattern": "note" }),
        "bash" => json!({ "command": "touch touched" }),
        "recall" => json!({ "query": "zebras" }),
        "remember" => json!({ "text": "Tim keeps bees." }),
        "web_fetch" => json!({ "url": "http://127.0.0.1:9/" }),
        "agent_send" | "spawn_worker" => json!({ "op": "list", "text": "WORK[]" }),
        "get_agent_status" => json!({}),
        other => panic!("no arguments for {other}"),
    }
}

#[test]
fn tools_are_handed_out_as_policies_say() {
    let rows: &[Row] = &[
        (
            json!({ "tools": { "deny": ["bash"] } }),
            "worker",
            &[
                ("bash", "denied"),
                ("read", "ran"),
                ("write", "ran"),
                ("remember", "ran"),
                ("web_fetch", "ran"),
            ],
        ),
        (
            json!({ "tools": { "deny": ["runtime", "fs", "web"] } }),
            "worker",
            &[
                ("bash", "denied"),
                ("read", "denied"),
                ("write", "denied"),
                ("edit", "denied"),
                ("glob", "denied"),
                ("grep", "denied"),
                ("list", "denied"),
                ("web_fetch", "denied"),
                ("remember", "ran"),
            ],
        ),
        (
            json!({ "tools": { "allow": ["sessions", "remember"] } }),
            "worker",
            &[
                ("bash", "denied"),
                ("read", "denied"),
                ("recall", "denied"),
                ("remember", "ran"),
                ("agent_send", "ran"),
            ],
        ),
        (
            json!({ "tools": { "allow": ["read", "remember"] } }),
            "manager",
            &[
                ("agent_send", "denied"),
                ("spawn_worker", "denied"),
                ("get_agent_status", "denied"),
                ("write", "denied"),
                ("bash", "absent"),
                ("remember", "ran"),
            ],
        ),
    ];
    for (permissions, who, calls) in rows {
        let scripted = under(permissions, |_| {});
        let script: Vec<Value> = calls.iter().map(|(tool, _)| json!([tool, arguments(tool)])).collect();
        let done =
            if *who == "worker" { scripted.work(&json!(script)) } else { scripted.manage(&json!(script)) };
        let ends: Vec<&str> = done.results.iter().map(|result| outcome(result)).collect();
        let expected: Vec<&str> = calls.iter().map(|(_, end)| *end).collect();
        assert_eq!(ends, expected, "{permissions} {who}: {done:#?}");
        let ran = |tool: &str| calls.contains(&(tool, "ran"));
        assert_eq!(scripted.workspace.path("home/touched").exists(), ran("bash"), "{permissions}");
        assert_eq!(scripted.workspace.path("home/new.txt").exists(), ran("write"), "{permissions}");
        // What may not be used is not offered either.
        let asked = scripted.server.asked();
        for tool in calls.iter().filter(|(_, end)| *end == "denied").map(|(tool, _)| tool) {
            let named = format!("\"name\":\"{tool}\"");
            let offered = asked
                .iter()
                .any(|body| body.body["tools"].to_string().contains(&named) && body.contains("note.txt"));
            assert!(!offered, "{tool} was offered under {permissions}");
        }
    }
}

#[test]
fn a_project_s_ops_can_be_denied_one_by_one() {
    let scripted = under(&json!({ "tools": { "deny": ["project/task_add"] } }), |_| {});
    let project = scripted.workspace.home().join("shop");
    std::fs::create_dir_all(project.join(".git")).unwrap();
    let calls = json!([
        ["project", {"op": "task_list"}],
        ["project", {"op": "task_add", "args": {"title": "t", "context": "c"}}],
    ]);
    let body = json!({ "message": format!("{SELF}{calls} mark"), "project": project });
    let accepted = scripted.daemon.post("/api/chat", &body).json();
    let request = accepted["requestId"].as_str().unwrap_or_else(|| panic!("{accepted}"));
    let waited = scripted.daemon.get(&format!("/api/chat/wait?request={request}&timeoutMs=60000")).json();
    assert_eq!(waited["quiescent"], true, "{waited}");
    let last = scripted.server.asked().pop().unwrap();
    assert!(last.body.to_string().contains("project has no op"), "{:#}", last.body);
    assert!(!project.join(".nexus/state/tasks.json").exists(), "no task was made");
}

#[test]
fn credentials_and_memory_are_handed_out_as_policies_say() {
    let searchable = |workspace: &mut Workspace| {
        workspace.set_variable("BRAVE_SEARCH_API_KEY", format!("BSA{}", "k4".repeat(14)));
        workspace.nexus(&["credential", "scan", "--import", "--yes"]).ok();
        workspace.nexus(&["memory", "add", "Tim keeps bees."]).ok();
    };
    let calls = json!([["web_search", {"query": "bees"}], ["recall", {"query": "bees"}]]);
    for (permissions, has_search, finds) in [
        (json!({}), true, true),
        (json!({ "credentials": ["github/*"] }), false, true),
        (json!({ "credentials": ["brave-search/*"], "data": "none" }), true, false),
        (json!({ "data": "minimal" }), true, false),
    ] {
        let scripted = under(&permissions, searchable);
        let done = scripted.work(&calls);
        assert_eq!(outcome(&done.results[0]) == "ran", has_search, "{permissions}: {done:#?}");
        assert_eq!(done.results[1].contains("Tim keeps bees"), finds, "{permissions}: {done:#?}");
    }
}
