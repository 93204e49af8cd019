use std::path::Path;

use serde_json::{Map, Value, json};

use super::*;
use crate::catalog::Catalog;
use crate::harness::HarnessId;
use crate::tools::{Tool, call};
use crate::{Project, ProjectError};

fn project() -> (tempfile::TempDir, Project) {
    let folder = tempfile::tempdir().unwrap();
    let project = Project::open(folder.path()).unwrap();
    project.start(&HarnessId::ours()).unwrap();
    (folder, project)
}

fn say(project: &Project, text: &str) -> Kept {
    keep(project, &Catalog::embedded().unwrap().vocabulary.memory_policy, text).unwrap()
}

fn read(project: &Project, path: &Path) -> String {
    std::fs::read_to_string(project.root().join(path)).unwrap()
}

#[test]
fn a_note_joins_the_file_that_is_about_it() {
    let (_folder, project) = project();
    let first = say(&project, "The staging database listens on port 6543, not 5432");
    assert_eq!(first.path, Path::new(".nexus/memory/staging-database-listens-port.md"));
    assert!(!first.merged);
    let second = say(&project, "staging database needs the VPN");
    assert_eq!((second.path.clone(), second.merged), (first.path.clone(), true));
    assert_eq!(read(&project, &first.path).matches("\n- ").count(), 2);
    let again = say(&project, "staging database needs the VPN");
    assert!(again.known);
    assert_eq!(read(&project, &first.path).matches("VPN").count(), 1);
    let other = say(&project, "Release notes are written on Fridays");
    assert_ne!(other.path, first.path);
}

#[test]
fn categories_keep_to_themselves_and_names_have_their_form() {
    let (_folder, project) = project();
    let plain = say(&project, "vendor api limit is 100 calls");
    let external = say(&project, "external: vendor api limit is 100 calls per minute since v2");
    assert_eq!(external.path.file_name().unwrap().to_str(), Some("external-vendor-api-limit-calls.md"));
    assert_ne!(plain.path, external.path);
    assert!(say(&project, "external: the vendor api limit counts retries").merged);
    let pattern =
        regex::Regex::new(&Catalog::embedded().unwrap().vocabulary.memory_policy.file_name_pattern).unwrap();
    for text in ["Ünïcödé Wörds ünd mehr", "2026 12 31", "???", "x"] {
        let path = say(&project, text).path;
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        assert!(pattern.is_match(&name), "{text}: {name}");
    }
    for refused in ["", "  ", &"x".repeat(20_000)] {
        keep(&project, &Catalog::embedded().unwrap().vocabulary.memory_policy, refused).unwrap_err();
    }
}

#[test]
fn rules_go_to_the_file_of_their_category() {
    let (_folder, project) = project();
    assert_eq!(
        keep_rule(&project, Some("Git"), "no force pushes").unwrap().path,
        Path::new(".nexus/rules/git.md")
    );
    assert!(keep_rule(&project, Some("git"), "no force pushes").unwrap().known);
    assert_eq!(keep_rule(&project, None, "be kind").unwrap().path, Path::new(".nexus/rules/project.md"));
    assert_eq!(keep_rule(&project, Some("../../x"), "y").unwrap().path, Path::new(".nexus/rules/x.md"));
    keep_rule(&project, Some("///"), "y").unwrap_err();
    std::fs::remove_dir_all(project.root().join(".nexus/rules")).unwrap();
    std::os::unix::fs::symlink(project.root(), project.root().join(".nexus/rules")).unwrap();
    assert!(matches!(keep_rule(&project, None, "be kind"), Err(ProjectError::NotAFolder { .. })));
}

#[test]
fn outside_git_nothing_is_removed() {
    let (_folder, project) = project();
    let kept = say(&project, "old things nobody reads");
    let name = kept.path.file_name().unwrap().to_str().unwrap().to_owned();
    let ours = HarnessId::ours();
    let refused = remove(&project, &ours, std::slice::from_ref(&name)).unwrap_err().to_string();
    assert!(refused.contains("not in a git repository"), "{refused}");
    remove(&project, &ours, &["../context/a.md".to_owned()]).unwrap_err();
    remove(&project, &ours, &[]).unwrap_err();
    assert!(project.root().join(&kept.path).exists());
}

#[test]
fn three_signs_at_once_or_none() {
    let (_folder, project) = project();
    let (a, b) = (say(&project, "alpha facts"), say(&project, "beta facts"));
    let old = "2020-01-01T00:00:00.000Z";
    let line = |path: &Path, count: u64| json!({ "path": project.root().join(path), "last_accessed_ts": old, "access_count": count, "last_agent": "x" });
    let log = project.root().join(".nexus/state/codex/memory-access.jsonl");
    nexus_base::file::create_folder(log.parent().unwrap(), 0o755).unwrap();
    let text = format!("{}\n{}\n", line(&a.path, 1), line(&b.path, 9));
    nexus_base::file::replace(&log, text.as_bytes(), 0o644, nexus_base::file::Durability::Crash).unwrap();
    let limits = Limits { days: 30, cycles: 1, reads: 2 };
    let names = |limits: Limits| unused(&standings(&project).unwrap(), limits);
    assert_eq!(names(limits), Vec::<String>::new(), "no cycle was finished since");
    call(&project, Tool::TaskClose, &Map::new()).unwrap();
    assert_eq!(names(limits), ["alpha-facts.md"]);
    assert_eq!(names(Limits { days: 1_000_000, ..limits }), Vec::<String>::new());
    say(&project, "gamma unread things");
    assert_eq!(names(limits), ["alpha-facts.md"], "without a record there is no sign");
    let standing: Vec<Value> =
        standings(&project).unwrap().iter().map(|one| json!([one.name, one.reads, one.cycles])).collect();
    assert_eq!(standing[0], json!(["alpha-facts.md", 1, 1]));
}
