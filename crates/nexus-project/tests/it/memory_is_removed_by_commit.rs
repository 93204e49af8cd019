//! Death while memory is removed: the commit is there or not, and what it removed can always be had again.

use std::path::Path;
use std::process::Command;

use nexus_base::failpoint;
use nexus_base::file::{Durability, create_folder, replace};
use serde_json::json;

use crate::child::start;

#[expect(clippy::disallowed_methods, reason = "the test needs a repository")]
fn git(root: &Path, arguments: &[&str]) -> String {
    let output = Command::new("git")
        .args(["-c", "user.name=t", "-c", "user.email=t@example.org"])
        .args(arguments)
        .current_dir(root)
        .env("HOME", root)
        .output()
        .unwrap();
    assert!(output.status.success(), "{arguments:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

#[test]
fn a_file_goes_only_after_its_commit() {
    for (place, committed) in [("project.gc_commit", false), ("project.gc_committed", true)] {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        let file = root.join(".nexus/memory/old.md");
        create_folder(&root.join(".nexus/memory"), 0o755).unwrap();
        replace(&file, b"old\n", 0o644, Durability::Crash).unwrap();
        git(root, &["init", "-q", "-b", "main"]);
        git(root, &["add", "-A"]);
        git(root, &["commit", "-q", "-m", "first"]);
        let child =
            start(root, &json!([["memory_gc", "old.md"]]), &[(failpoint::VARIABLE, place.to_owned())]);
        assert!(!child.wait_with_output().unwrap().status.success(), "{place} was not reached");
        // Neither way is anything lost: the file goes last.
        assert!(file.exists(), "{place}");
        let removed = git(root, &["log", "--format=%s", "--", ".nexus/memory/old.md"]);
        assert_eq!(removed.starts_with("memory: remove"), committed, "{place}: {removed}");
        if !committed {
            let child = start(root, &json!([["memory_gc", "old.md"]]), &[]);
            assert!(child.wait_with_output().unwrap().status.success());
            assert!(!file.exists());
        }
    }
}
