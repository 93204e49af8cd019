//! What is remembered about a history helps and never decides.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use nexus_project::{Project, Tool};
use serde_json::{Value, json};

use crate::child::{ask, plan};

fn memory(root: &Path) -> PathBuf {
    root.join(".nexus/state/nexus/history-index.bin")
}

fn history(root: &Path) -> PathBuf {
    root.join(".nexus/history.json")
}

/// A project with some 200 kB of history, remembered.
fn remembered() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir_all(folder.path().join(".nexus")).unwrap();
    let cycles: Vec<Value> = (1..=200)
        .map(|id| json!({ "plan": { "id": id, "topic": format!("topic {id}") }, "tasks": [], "pad": "x".repeat(900) }))
        .collect();
    let text = serde_json::to_vec_pretty(&json!({ "cycles": cycles })).unwrap();
    fs::File::create(history(folder.path())).unwrap().write_all(&text).unwrap();
    let project = Project::open(folder.path()).unwrap();
    assert_eq!(ask(&project, Tool::PlanStart, plan())["plan_id"], 201);
    assert!(memory(folder.path()).exists());
    folder
}

fn found(project: &Project, query: &str) -> u64 {
    ask(project, Tool::HistorySearch, json!({ "query": query }))["total"].as_u64().unwrap()
}

#[test]
fn a_new_process_goes_on_where_another_ended() {
    let folder = remembered();
    let before = fs::read(memory(folder.path())).unwrap();
    for round in 1..=3 {
        let project = Project::open(folder.path()).unwrap();
        assert_eq!(found(&project, "topic 77\""), 1);
        ask(
            &project,
            Tool::PlanStart,
            json!({ "topic": format!("own {round}"), "issues": [], "research_summary": "" }),
        );
        assert_eq!(ask(&project, Tool::TaskClose, json!({}))["closed"], true);
        assert_eq!(found(&Project::open(folder.path()).unwrap(), &format!("own {round}")), 1);
    }
    let after = fs::read(memory(folder.path())).unwrap();
    assert_eq!(before.len(), after.len(), "the body is not written with each cycle");
    assert_ne!(before, after, "the mark is");
}

#[test]
fn several_of_us_see_each_others_cycles() {
    let folder = remembered();
    let projects = [(); 3].map(|()| Project::open(folder.path()).unwrap());
    let start = found(&projects[0], "");
    for round in 0..9 {
        let project = &projects[round % 3];
        assert_eq!(ask(project, Tool::TaskClose, json!({}))["total_cycles"], start + round as u64 + 1);
    }
    for project in &projects {
        assert_eq!(found(project, ""), start + 9);
    }
}

#[test]
fn what_somebody_else_changed_is_read_anew() {
    let folder = remembered();
    let project = Project::open(folder.path()).unwrap();
    assert_eq!((found(&project, "topic 5\""), found(&project, "another")), (1, 0));
    let text = fs::read_to_string(history(folder.path())).unwrap();
    // In place and far from the end, with a cycle more: as a program without our lock might.
    let changed = text.replacen("topic 5\"", "another\"", 1);
    let end = changed.rfind("\n  ]").unwrap();
    let changed = format!(
        "{},\n    {{ \"tasks\": [], \"pad\": \"{}\" }}{}",
        &changed[..end],
        "y".repeat(400),
        &changed[end..]
    );
    fs::OpenOptions::new()
        .write(true)
        .open(history(folder.path()))
        .unwrap()
        .write_all(changed.as_bytes())
        .unwrap();
    for project in [&project, &Project::open(folder.path()).unwrap()] {
        assert_eq!(
            (found(project, "topic 5\""), found(project, "another"), found(project, "yyyy")),
            (0, 1, 1)
        );
    }
}

#[test]
fn damage_to_the_memory_does_no_harm() {
    for change in [0_usize, 8, 40, 70, 3000, 20_000] {
        let folder = remembered();
        let mut bytes = fs::read(memory(folder.path())).unwrap();
        bytes[change] ^= 0x40;
        fs::File::create(memory(folder.path())).unwrap().write_all(&bytes).unwrap();
        let project = Project::open(folder.path()).unwrap();
        assert_eq!((found(&project, "topic 199\""), found(&project, "")), (1, 200), "{change}");
    }
    let folder = remembered();
    fs::File::create(memory(folder.path())).unwrap().write_all(b"nothing of the kind").unwrap();
    assert_eq!(found(&Project::open(folder.path()).unwrap(), ""), 200);
    fs::remove_file(memory(folder.path())).unwrap();
    fs::create_dir(memory(folder.path())).unwrap();
    let project = Project::open(folder.path()).unwrap();
    assert_eq!(found(&project, ""), 200);
    assert_eq!(ask(&project, Tool::TaskClose, json!({}))["total_cycles"], 201);
}
