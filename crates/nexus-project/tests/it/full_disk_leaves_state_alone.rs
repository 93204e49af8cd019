//! On a disk without room every tool says so, and what was there stays.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use nexus_project::{Project, Tool};
use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};
use serde_json::{Value, json};

use crate::child::{ask, plan};

struct Disk(PathBuf);

impl Disk {
    /// A disk of half a megabyte, where mounting is allowed.
    fn small(path: &Path) -> Option<Self> {
        match mount("none", path, "tmpfs", MountFlags::empty(), Some(c"size=512k,mode=0755")) {
            Ok(()) => Some(Self(path.to_owned())),
            Err(error) => {
                assert!(!rustix::process::geteuid().is_root(), "root could not mount a disk: {error}");
                None
            }
        }
    }

    /// Leaves no room at all.
    fn fill(&self) {
        let mut filler = std::fs::File::create(self.0.join("filler")).unwrap();
        let block = [0; 4096];
        while filler.write_all(&block).is_ok() {}
        while filler.write_all(&block[..1]).is_ok() {}
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        // The folder below is removed by its owner; a disk that stays shows there.
        let _ = unmount(&self.0, UnmountFlags::DETACH);
    }
}

fn files(root: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut found = Vec::new();
    for name in ["history.json", "state/plan.json", "state/tasks.json", "state/artifacts/a.md"] {
        let path = root.join(".nexus").join(name);
        found.push((path.clone(), std::fs::read(path).unwrap()));
    }
    found
}

#[test]
fn every_tool_that_writes_says_so_and_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let Some(disk) = Disk::small(folder.path()) else {
        let _ =
            writeln!(std::io::stderr(), "SKIPPED full_disk_leaves_state_alone: only root can mount a disk");
        return;
    };
    let project = Project::open(folder.path()).unwrap();
    ask(&project, Tool::PlanStart, plan());
    ask(&project, Tool::TaskClose, json!({}));
    ask(&project, Tool::PlanStart, plan());
    // Long enough that the cycle finds no room in what its file has left of a page.
    ask(&project, Tool::TaskAdd, json!({ "title": "t", "context": "c".repeat(9000) }));
    ask(&project, Tool::ArtifactWrite, json!({ "filename": "a.md", "content": "before" }));
    disk.fill();
    let before = files(folder.path());
    let long = "x".repeat(20_000);
    let tries = [
        (Tool::PlanStart, json!({ "topic": long, "issues": [], "research_summary": "" })),
        (Tool::PlanUpdate, json!({ "action": "add", "title": long })),
        (Tool::PlanDecide, json!({ "issue_id": 1, "decision": long })),
        (Tool::TaskAdd, json!({ "title": "t", "context": long })),
        (Tool::TaskUpdate, json!({ "id": 1, "status": "completed" })),
        (Tool::ArtifactWrite, json!({ "filename": "a.md", "content": long })),
        (Tool::TaskClose, json!({})),
    ];
    for (tool, parameters) in tries {
        let answer = ask(&project, tool, parameters);
        let said = answer["error"].as_str().unwrap_or_else(|| panic!("{tool:?}: {answer}"));
        assert!(said.contains("space"), "{tool:?}: {said}");
        assert_eq!(files(folder.path()), before, "{tool:?}");
    }
    for tool in [Tool::PlanStatus, Tool::TaskList, Tool::HistorySearch, Tool::Context] {
        let answer: Value = ask(&project, tool, json!({}));
        assert!(answer.get("error").is_none(), "{tool:?}: {answer}");
    }
    std::fs::remove_file(folder.path().join("filler")).unwrap();
    assert_eq!(ask(&project, Tool::TaskClose, json!({}))["total_cycles"], 2);
}
