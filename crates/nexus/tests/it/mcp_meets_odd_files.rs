//! `nexus mcp` over files that somebody else wrote or keeps: what is odd is told, what cannot be read is no absence,
//! and a folder can have two owners.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use nexus_base::file::{Durability, replace};
use serde_json::{Value, json};

use crate::mcp_meets_faults::is_root;
use crate::mcp_serves_a_project::Client;

const NOBODY: [&str; 6] = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups"];

fn plant(root: &Path, name: &str, value: &Value) {
    replace(&root.join(".nexus").join(name), value.to_string().as_bytes(), 0o644, Durability::Crash).unwrap();
}

fn told(client: &mut Client, tool: &str, arguments: &Value) -> String {
    let (said, failed) = client.call(tool, arguments);
    assert!(failed, "{tool}: {said}");
    said["error"].as_str().unwrap().to_owned()
}

fn project() -> (tempfile::TempDir, Client) {
    let folder = tempfile::tempdir().unwrap();
    std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    let mut client = Client::start(folder.path());
    let plan = json!({ "topic": "T", "issues": ["A"], "research_summary": "r" });
    assert_eq!(client.call("plan_start", &plan).0["created"], true);
    assert!(client.call("task_add", &json!({ "title": "t", "context": "c" })).0["task"].is_object());
    (folder, client)
}

#[test]
fn odd_values_are_told_or_left_out() {
    let (folder, mut client) = project();
    let root = folder.path();
    let highest = json!([{ "id": u64::MAX, "title": "last", "context": "c", "status": "pending" }]);
    plant(root, "state/tasks.json", &json!({ "goal": 5, "decisions": [3, "keep"], "tasks": highest }));
    let more = json!({ "title": "t", "context": "c" });
    assert!(told(&mut client, "task_add", &more).contains("the highest possible id is already in use"));
    let (context, failed) = client.call("context", &json!({}));
    assert!(!failed && context.get("goal").is_none() && context["decisions"] == json!(["keep"]), "{context}");
    plant(root, "state/plan.json", &json!({ "id": 1, "topic": "T", "issues": [{ "id": u64::MAX }] }));
    let add = json!({ "action": "add", "title": "B" });
    assert!(told(&mut client, "plan_update", &add).contains("the highest possible id is already in use"));
    plant(root, "state/tasks.json", &json!({ "tasks": {} }));
    for (tool, arguments) in [("task_list", json!({})), ("task_add", more), ("task_close", json!({}))] {
        assert!(told(&mut client, tool, &arguments).contains("`tasks` is not a list"), "{tool}");
    }
    assert_eq!(client.leave(), Some(0));
}

#[test]
fn what_may_not_be_read_is_not_taken_for_absent() {
    if !is_root("what_may_not_be_read_is_not_taken_for_absent") {
        return;
    }
    let (folder, client) = project();
    assert_eq!(client.leave(), Some(0));
    let state = folder.path().join(".nexus/state");
    std::fs::set_permissions(&state, std::fs::Permissions::from_mode(0o700)).unwrap();
    let mut client = Client::start_as(folder.path(), &NOBODY);
    let add = json!({ "action": "add", "title": "B" });
    for (tool, arguments) in [
        ("plan_update", add),
        ("task_update", json!({ "id": 1, "status": "completed" })),
        ("plan_status", json!({})),
    ] {
        let told = told(&mut client, tool, &arguments);
        assert!(told.to_lowercase().contains("permission denied"), "{tool}: {told}");
    }
    let (context, failed) = client.call("context", &json!({}));
    assert!(!failed && context["activeMode"] == Value::Null, "{context}");
    assert_eq!(client.leave(), Some(0));
}

#[test]
fn a_folder_that_two_share_is_written_by_both() {
    if !is_root("a_folder_that_two_share_is_written_by_both") {
        return;
    }
    let (folder, mut client) = project();
    let mut open = vec![folder.path().join(".nexus")];
    while let Some(path) = open.pop() {
        let mode = if path.is_dir() { 0o777 } else { 0o666 };
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        if path.is_dir() {
            open.extend(std::fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
        }
    }
    let mut other = Client::start_as(folder.path(), &NOBODY);
    let task = json!({ "title": "t", "context": "c" });
    for (who, id) in [(&mut other, 2), (&mut client, 3)] {
        assert_eq!(who.call("task_add", &task).0["task"]["id"], id);
    }
    assert_eq!(other.call("task_list", &json!({})).0["summary"]["total"], 3);
    assert_eq!((client.leave(), other.leave()), (Some(0), Some(0)));
}
