//! What goes wrong outside of us is said, and what was there stays as it was.

use std::os::unix::fs::symlink;

use nexus_project::{Project, Tool};
use serde_json::{Value, json};

use crate::child::{ask, plan, read};

fn error(answer: &Value) -> &str {
    answer["error"].as_str().unwrap_or_else(|| panic!("an error was expected: {answer}"))
}

#[test]
fn a_linked_folder_is_not_followed() {
    let (folder, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    symlink(elsewhere.path(), folder.path().join(".nexus")).unwrap();
    let project = Project::open(folder.path()).unwrap();
    for tool in [Tool::PlanStart, Tool::TaskClose, Tool::HistorySearch] {
        assert!(error(&ask(&project, tool, plan())).contains("not a plain folder"), "{tool:?}");
    }
    let parameters = json!({ "filename": "a", "content": "x" });
    assert!(error(&ask(&project, Tool::ArtifactWrite, parameters)).contains("not a plain folder"));
    assert_eq!(std::fs::read_dir(elsewhere.path()).unwrap().count(), 0);
}

#[test]
fn a_linked_artifact_folder_or_state_file_is_not_followed() {
    let (folder, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let project = Project::open(folder.path()).unwrap();
    ask(&project, Tool::PlanStart, plan());
    let state = folder.path().join(".nexus/state");
    symlink(elsewhere.path(), state.join("artifacts")).unwrap();
    error(&ask(&project, Tool::ArtifactWrite, json!({ "filename": "a", "content": "x" })));
    symlink("/etc/passwd", state.join("tasks.json")).unwrap();
    error(&ask(&project, Tool::TaskList, json!({})));
    error(&ask(&project, Tool::TaskClose, json!({})));
    assert!(read(folder.path(), "state/plan.json").is_some());
    assert_eq!(std::fs::read_dir(elsewhere.path()).unwrap().count(), 0);
}

#[test]
fn ten_megabytes_are_refused_and_nothing_is_made() {
    let folder = tempfile::tempdir().unwrap();
    let project = Project::open(folder.path()).unwrap();
    let huge = "x".repeat(10 * 1024 * 1024);
    let tries = [
        (Tool::PlanStart, json!({ "topic": huge, "issues": [], "research_summary": "" })),
        (Tool::TaskAdd, json!({ "title": "t", "context": huge })),
        (Tool::TaskAdd, json!({ "title": "t", "context": "c", "deps": vec![1; 20_000] })),
        (Tool::ArtifactWrite, json!({ "filename": "a", "content": huge })),
        (Tool::ArtifactWrite, json!({ "filename": "a/".repeat(600), "content": "" })),
        (Tool::HistorySearch, json!({ "query": huge })),
    ];
    for (tool, parameters) in tries {
        let answer = ask(&project, tool, parameters);
        assert!(error(&answer).contains("allowed"), "{tool:?}: {answer}");
    }
    assert!(!folder.path().join(".nexus").exists());
}

#[test]
fn a_foreign_lock_is_respected_and_an_old_one_is_not() {
    let folder = tempfile::tempdir().unwrap();
    let project = Project::open(folder.path()).unwrap();
    ask(&project, Tool::PlanStart, plan());
    let lock = folder.path().join(".nexus/state/plan.json.lock");
    let file = std::fs::File::create(&lock).unwrap();
    let decide = json!({ "issue_id": 1, "decision": "d" });
    assert!(error(&ask(&project, Tool::PlanDecide, decide.clone())).contains("held by another program"));
    assert!(lock.exists());
    file.set_modified(std::time::SystemTime::now() - std::time::Duration::from_secs(31)).unwrap();
    assert_eq!(ask(&project, Tool::PlanDecide, decide)["decided"], true);
    assert!(!lock.exists());
}

#[test]
fn wrong_types_touch_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let project = Project::open(folder.path()).unwrap();
    for (tool, parameters) in [
        (Tool::PlanStart, json!({ "topic": 1, "issues": [], "research_summary": "" })),
        (Tool::PlanStart, json!({ "topic": "t", "issues": "a", "research_summary": "" })),
        (Tool::PlanDecide, json!({ "issue_id": "1", "decision": "d" })),
        (Tool::TaskAdd, json!({ "title": "t" })),
        (Tool::TaskAdd, json!({ "title": "t", "context": "c", "deps": ["1"] })),
        (Tool::TaskAdd, json!({ "title": "t", "context": "c", "decisions": [1] })),
        (Tool::HistorySearch, json!({ "last_n": "2" })),
        (Tool::ArtifactWrite, json!({ "filename": "a\u{0}b", "content": "" })),
    ] {
        error(&ask(&project, tool, parameters));
    }
    assert!(!folder.path().join(".nexus").exists());
}
