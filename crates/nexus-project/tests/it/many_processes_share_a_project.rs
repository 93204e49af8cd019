//! Several processes at once: no update is lost and no id given twice.

use std::collections::BTreeSet;

use nexus_project::{Project, Tool};
use serde_json::{Value, json};

use crate::child::{answers, ask, plan, read, start};

const PROCESSES: usize = 8;
const CALLS: usize = 25;

#[test]
fn tasks_added_by_eight_processes_are_all_there_once() {
    let folder = tempfile::tempdir().unwrap();
    let calls: Vec<Value> = (0..CALLS)
        .map(|number| json!(["task_add", { "title": format!("t{number}"), "context": "c", "decisions": ["d"] }]))
        .collect();
    let calls = Value::Array(calls);
    let children: Vec<_> = (0..PROCESSES).map(|_| start(folder.path(), &calls, &[])).collect();
    let mut ids = BTreeSet::new();
    for answer in children.into_iter().flat_map(answers) {
        assert!(ids.insert(answer["task"]["id"].as_u64().unwrap()), "{answer}");
    }
    assert_eq!(ids, (1..=(PROCESSES * CALLS) as u64).collect());
    let file = read(folder.path(), "state/tasks.json").unwrap();
    assert_eq!(file["tasks"].as_array().unwrap().len(), PROCESSES * CALLS);
    assert_eq!(file["decisions"].as_array().unwrap().len(), PROCESSES * CALLS);
}

#[test]
fn cycles_closed_by_eight_processes_are_all_archived_once() {
    let folder = tempfile::tempdir().unwrap();
    let project = Project::open(folder.path()).unwrap();
    let round = [
        json!(["plan_start", plan()]),
        json!(["task_add", { "title": "t", "context": "c" }]),
        json!(["history_search", { "query": "topic" }]),
        json!(["task_close", {}]),
    ];
    let calls = Value::Array(round.iter().cycle().take(round.len() * 5).cloned().collect());
    let children: Vec<_> = (0..PROCESSES).map(|_| start(folder.path(), &calls, &[])).collect();
    let answers: Vec<Value> = children.into_iter().flat_map(answers).collect();
    assert!(answers.iter().all(|answer| answer.get("error").is_none()), "{answers:?}");
    let count = |name: &str| answers.iter().filter(|answer| answer[name] == true).count();
    let tasks = answers.iter().filter(|answer| answer["task"].is_object()).count();
    let history = read(folder.path(), "history.json").unwrap();
    let cycles = history["cycles"].as_array().unwrap();
    // Each close is a cycle, and so is each plan that was started over another.
    assert_eq!(cycles.len(), count("closed") + count("previousArchived"));
    let plans: Vec<u64> = cycles.iter().filter_map(|cycle| cycle["plan"]["id"].as_u64()).collect();
    let open = read(folder.path(), "state/plan.json").map_or(0, |_| 1);
    assert_eq!(plans.len() + open, count("created"), "every plan is archived or open");
    assert_eq!(plans.iter().collect::<BTreeSet<_>>().len(), plans.len(), "no plan is archived twice");
    let archived: usize = cycles.iter().map(|cycle| cycle["tasks"].as_array().unwrap().len()).sum();
    let left =
        read(folder.path(), "state/tasks.json").map_or(0, |file| file["tasks"].as_array().unwrap().len());
    assert_eq!(archived + left, tasks, "every task is archived or open");
    assert_eq!(ask(&project, Tool::HistorySearch, json!({}))["total"], cycles.len());
}
