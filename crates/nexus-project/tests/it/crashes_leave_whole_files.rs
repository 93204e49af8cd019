//! Death at every place a write passes: what is on disk parses, nothing is archived twice, nothing lost.

use std::collections::BTreeSet;
use std::path::Path;

use nexus_base::failpoint;
use nexus_project::{Project, Tool};
use serde_json::{Value, json};

use crate::child::{ask, plan, read, start};

/// Cycles archived before the death.
const BEFORE: usize = 2;

fn prepared() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    fill(folder.path());
    folder
}

/// The same after a cycle so large that the history is remembered on disk.
fn prepared_large() -> tempfile::TempDir {
    use std::io::Write as _;
    let folder = tempfile::tempdir().unwrap();
    let large = json!({ "cycles": [{ "plan": null, "tasks": [], "pad": "x".repeat(100_000) }] });
    std::fs::create_dir(folder.path().join(".nexus")).unwrap();
    let mut file = std::fs::File::create(folder.path().join(".nexus/history.json")).unwrap();
    file.write_all(large.to_string().as_bytes()).unwrap();
    fill(folder.path());
    std::fs::remove_file(folder.path().join(".nexus/state/nexus/history-index.bin")).unwrap();
    folder
}

fn fill(root: &Path) {
    let project = Project::open(root).unwrap();
    for _ in 0..BEFORE {
        ask(&project, Tool::PlanStart, plan());
        ask(&project, Tool::TaskClose, json!({}));
    }
    ask(&project, Tool::PlanStart, plan());
    ask(&project, Tool::TaskAdd, json!({ "title": "kept", "context": "c" }));
}

fn die(root: &Path, calls: &Value, place: &str) -> bool {
    let child = start(root, calls, &[(failpoint::VARIABLE, place.to_owned())]);
    !child.wait_with_output().unwrap().status.success()
}

fn places(prepare: fn() -> tempfile::TempDir, calls: &Value) -> Vec<String> {
    let folder = prepare();
    let log = folder.path().join("places");
    let child = start(folder.path(), calls, &[(failpoint::LOG_VARIABLE, log.display().to_string())]);
    assert!(child.wait_with_output().unwrap().status.success());
    let text = std::fs::read_to_string(log).unwrap();
    let mut counts = std::collections::BTreeMap::<&str, usize>::new();
    text.lines()
        .map(|name| {
            let count = counts.entry(name).or_default();
            *count += 1;
            format!("{name}@{count}")
        })
        .collect()
}

/// Every plan and task there ever was is in the history or open, once.
fn check(root: &Path, place: &str) {
    let project = Project::open(root).unwrap();
    // Whoever comes next repairs what was left.
    let search = ask(&project, Tool::HistorySearch, json!({ "last_n": 1000 }));
    assert!(search.get("error").is_none(), "{place}: {search}");
    // A write takes the lock, and with it everything that is to be repaired.
    let added = ask(&project, Tool::TaskAdd, json!({ "title": "after", "context": "c" }));
    assert!(added["task"].is_object(), "{place}: {added}");
    let history = read(root, "history.json").unwrap();
    let cycles = history["cycles"].as_array().unwrap();
    let mut plans: Vec<u64> = cycles.iter().filter_map(|cycle| cycle["plan"]["id"].as_u64()).collect();
    plans.extend(read(root, "state/plan.json").and_then(|plan| plan["id"].as_u64()));
    assert_eq!(plans.iter().collect::<BTreeSet<_>>().len(), plans.len(), "{place}: twice in {plans:?}");
    for id in 1..=BEFORE as u64 + 1 {
        assert!(plans.contains(&id), "{place}: plan {id} is lost");
    }
    let archived = cycles.iter().filter_map(|cycle| cycle["tasks"].as_array()).flatten().cloned();
    let open = read(root, "state/tasks.json").and_then(|file| file["tasks"].as_array().cloned());
    let all: Vec<Value> = archived.chain(open.unwrap_or_default()).collect();
    let kept = all.iter().filter(|task| task["title"] == "kept").count();
    assert_eq!(kept, 1, "{place}: {all:?}");
    assert!(!root.join(".nexus/history.json.lock").exists(), "{place}");
}

fn sweep(calls: &Value) -> Vec<String> {
    sweep_from(prepared, calls)
}

fn sweep_from(prepare: fn() -> tempfile::TempDir, calls: &Value) -> Vec<String> {
    let places = places(prepare, calls);
    assert!(places.len() >= 5, "{places:?}");
    for place in &places {
        let folder = prepare();
        assert!(die(folder.path(), calls, place), "{place} was not reached");
        check(folder.path(), place);
    }
    places
}

#[test]
fn death_while_closing() {
    sweep(&json!([["task_close", {}]]));
}

#[test]
fn death_while_remembering_a_large_history() {
    let places = sweep_from(prepared_large, &json!([["task_close", {}]]));
    for place in ["project.index.store@1", "project.index.stored@1", "project.index.renew@1"] {
        assert!(places.iter().any(|passed| passed == place), "{place} is not in {places:?}");
    }
}

#[test]
fn death_while_closing_a_cycle_larger_than_the_journal() {
    /// The history is one that somebody else put there, so it has to be synced before.
    fn prepared_by_others() -> tempfile::TempDir {
        let folder = prepared();
        let history = folder.path().join(".nexus/history.json");
        let copy = folder.path().join("copy");
        std::fs::copy(&history, &copy).unwrap();
        std::fs::rename(&copy, &history).unwrap();
        let project = Project::open(folder.path()).unwrap();
        ask(&project, Tool::TaskAdd, json!({ "title": "large", "context": "x".repeat(300_000) }));
        folder
    }
    let places = sweep_from(prepared_by_others, &json!([["task_close", {}]]));
    assert!(places.iter().any(|place| place == "project.archive.synced@1"), "{places:?}");
}

#[test]
fn death_while_starting_a_plan_over_another() {
    sweep(&json!([["plan_start", plan()]]));
}

#[test]
fn death_while_changing_plan_and_tasks() {
    sweep(&json!([
        ["plan_update", { "action": "add", "title": "C" }],
        ["plan_decide", { "issue_id": 1, "decision": "d" }],
        ["task_add", { "title": "another", "context": "c" }],
        ["task_update", { "id": 1, "status": "completed" }],
        ["artifact_write", { "filename": "a/b.md", "content": "x" }],
    ]));
}

#[test]
fn death_during_the_first_close_of_a_project() {
    let calls = json!([["plan_start", plan()], ["task_close", {}]]);
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("places");
    let child = start(folder.path(), &calls, &[(failpoint::LOG_VARIABLE, log.display().to_string())]);
    assert!(child.wait_with_output().unwrap().status.success());
    for place in std::fs::read_to_string(log).unwrap().lines().collect::<BTreeSet<_>>() {
        let folder = tempfile::tempdir().unwrap();
        assert!(die(folder.path(), &calls, place), "{place}");
        let project = Project::open(folder.path()).unwrap();
        ask(&project, Tool::TaskClose, json!({}));
        let history = read(folder.path(), "history.json").unwrap();
        let plans = history["cycles"].as_array().unwrap().iter().filter(|cycle| cycle["plan"].is_object());
        assert!(plans.count() <= 1, "{place}: {history}");
    }
}

#[test]
fn a_death_during_the_repair_is_repaired() {
    for place in ["project.journal.undoing", "project.journal.done"] {
        let folder = prepared();
        assert!(die(folder.path(), &json!([["task_close", {}]]), "project.archive.torn"));
        assert!(die(folder.path(), &json!([["task_close", {}]]), place), "{place}");
        check(folder.path(), place);
    }
}
