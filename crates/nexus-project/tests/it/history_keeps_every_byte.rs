//! The history grows at its end and nowhere else, whoever wrote what is there.

use nexus_project::{Project, Tool};
use serde_json::json;

use crate::child::{ask, plan, read};

#[expect(clippy::disallowed_methods, reason = "plants files for the test")]
fn plant(root: &std::path::Path, text: &str) {
    std::fs::create_dir_all(root.join(".nexus")).unwrap();
    std::fs::write(root.join(".nexus/history.json"), text).unwrap();
}

#[test]
fn old_cycles_keep_their_spelling() {
    let odd = "{ \"cycles\" : [\r\n\t{\"plan\":{\"id\": 7.0,\"x\":1e2},  \"tasks\":[ ]},{\"a\\u00e9\":\"\\/\\\"]}\"}\r\n], \"later\": [1, 2] }\n";
    let folder = tempfile::tempdir().unwrap();
    plant(folder.path(), odd);
    let project = Project::open(folder.path()).unwrap();
    assert_eq!(ask(&project, Tool::PlanStart, plan())["plan_id"], 8);
    for count in 3..6 {
        assert_eq!(ask(&project, Tool::TaskClose, json!({}))["total_cycles"], count);
    }
    let text = std::fs::read_to_string(folder.path().join(".nexus/history.json")).unwrap();
    let kept = odd.find("\r\n], ").unwrap();
    assert_eq!(text[..kept], odd[..kept]);
    assert!(text.ends_with(&odd[kept..]));
    assert_eq!(read(folder.path(), "history.json").unwrap()["later"], json!([1, 2]));
}

#[test]
fn what_others_write_is_seen() {
    let folder = tempfile::tempdir().unwrap();
    let (ours, other) = (Project::open(folder.path()).unwrap(), Project::open(folder.path()).unwrap());
    ask(&ours, Tool::TaskClose, json!({}));
    ask(&other, Tool::PlanStart, json!({ "topic": "needle", "issues": [], "research_summary": "" }));
    ask(&other, Tool::TaskClose, json!({}));
    assert_eq!(ask(&ours, Tool::HistorySearch, json!({ "query": "NEEDLE" }))["total"], 1);
    plant(folder.path(), "{\"cycles\":[{\"branch\":\"hay\"}]}");
    assert_eq!(ask(&ours, Tool::HistorySearch, json!({ "query": "needle" }))["total"], 0);
    assert_eq!(ask(&ours, Tool::HistorySearch, json!({ "query": "hay" }))["total"], 1);
    assert_eq!(ask(&other, Tool::TaskClose, json!({}))["total_cycles"], 2);
}

#[test]
fn an_empty_list_is_continued() {
    for text in ["{\"cycles\":[]}", "{\n  \"cycles\": []\n}\n", "{\"cycles\":[\n]}"] {
        let folder = tempfile::tempdir().unwrap();
        plant(folder.path(), text);
        let project = Project::open(folder.path()).unwrap();
        assert_eq!(ask(&project, Tool::TaskClose, json!({}))["total_cycles"], 1, "{text}");
        assert_eq!(ask(&project, Tool::TaskClose, json!({}))["total_cycles"], 2, "{text}");
        assert_eq!(read(folder.path(), "history.json").unwrap()["cycles"].as_array().unwrap().len(), 2);
    }
}
