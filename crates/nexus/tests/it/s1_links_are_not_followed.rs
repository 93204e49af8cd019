//! Nothing the program writes goes through a link, a second name or a pipe that a worker or a repository laid where
//! its files belong, by whichever door it is asked to write.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nexus_base::file::{Durability, replace};
use nexus_testkit::{Run, Workspace};
use serde_json::json;

use crate::scripted::Scripted;

/// What was there before somebody planted something.
const VICTIM: &str = "# the owner's own words\n";
/// Shell text, as a worker would try to bring it into a file that a shell reads.
const PAYLOAD: &str = "$(touch pwned)";
const HARNESSES: [&str; 6] = ["claude-code", "codex", "cursor", "opencode", "gemini", "qwen"];
const EVENTS: [&str; 9] = [
    "session_start",
    "user_message",
    "subagent_spawn",
    "pre_tool_use",
    "post_tool_use",
    "subagent_complete",
    "context_compact",
    "turn_end",
    "session_end",
];
/// Files and folders of the layer that a repository could bring along in another form.
const PLACES: [&str; 16] = [
    ".nexus",
    ".nexus/.gitignore",
    ".nexus/history.json",
    ".nexus/memory",
    ".nexus/state",
    ".nexus/state/artifacts",
    ".nexus/state/claude-code",
    ".nexus/state/claude-code/agent-tracker.json",
    ".nexus/state/claude-code/edit-tracker.json",
    ".nexus/state/claude-code/session.json",
    ".nexus/state/nexus",
    ".nexus/state/nexus/archive-journal.bin",
    ".nexus/state/nexus/project.lock",
    ".nexus/state/plan.json",
    ".nexus/state/tasks.json",
    ".nexus/state/tool-log.jsonl",
];

#[derive(Debug, Clone, Copy, PartialEq)]
enum Planted {
    /// A link to a file of the owner's, or to a folder.
    Link,
    /// A second name of a file of the owner's.
    HardLink,
    /// A pipe that nobody reads or writes.
    Pipe,
}

/// A project in which one place is not what it should be, and what it leads to.
struct Trap {
    _folder: tempfile::TempDir,
    root: PathBuf,
    outside: PathBuf,
}

impl Trap {
    fn lay(place: &str, planted: Planted) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let (root, outside) = (folder.path().join("project"), folder.path().join("outside"));
        fs::create_dir_all(root.join(place).parent().unwrap()).unwrap();
        fs::create_dir_all(outside.join("folder")).unwrap();
        plant(&outside.join("victim"));
        let is_file = Path::new(place).extension().is_some() || place.ends_with(".gitignore");
        match planted {
            Planted::Link if is_file => symlink(outside.join("victim"), root.join(place)).unwrap(),
            Planted::Link => symlink(outside.join("folder"), root.join(place)).unwrap(),
            Planted::HardLink => fs::hard_link(outside.join("victim"), root.join(place)).unwrap(),
            Planted::Pipe => {
                let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
                rustix::fs::mknodat(rustix::fs::CWD, root.join(place), rustix::fs::FileType::Fifo, mode, 0)
                    .unwrap();
            }
        }
        // So that the folder counts as a project also where only the planted place is there.
        let _ = fs::create_dir_all(root.join(".nexus/rules"));
        let _ = fs::remove_dir(outside.join("folder/rules"));
        Self { _folder: folder, root, outside }
    }

    #[track_caller]
    fn holds(&self, what: &str) {
        assert_eq!(fs::read_to_string(self.outside.join("victim")).unwrap(), VICTIM, "{what}");
        let left: Vec<_> =
            fs::read_dir(self.outside.join("folder")).unwrap().map(|entry| entry.unwrap().path()).collect();
        assert!(left.is_empty(), "{what}: {left:?}");
    }
}

fn plant(path: &Path) {
    replace(path, VICTIM.as_bytes(), 0o600, Durability::Crash).unwrap();
}

fn hook(workspace: &Workspace, root: &Path, harness: &str, event: &str) {
    let file = root.join(PAYLOAD);
    let payload = json!({
        "session_id": "s", "cwd": root, "hook_event_name": event, "tool_name": "Write", "prompt": "[m] keep this",
        "tool_input": { "file_path": file, "content": "x" }, "tool_response": { "success": true },
        "conversation_id": "c", "workspace_roots": [root], "agent_id": "a", "agent_type": "engineer",
    });
    let run = Run::new(&["hook", event, "--harness", harness]).input(payload.to_string());
    // Whatever it says: it ends, and soon.
    let _ = workspace.run(&run.within(Duration::from_secs(10)));
}

#[test]
fn s1_no_hook_and_no_command_writes_through_what_a_repository_planted() {
    let workspace = Workspace::initialized(env!("CARGO_BIN_EXE_nexus"));
    for (number, place) in PLACES.iter().enumerate() {
        for planted in [Planted::Link, Planted::HardLink, Planted::Pipe] {
            let trap = Trap::lay(place, planted);
            // Each place meets all events; the harnesses take turns.
            let harness = HARNESSES[if place.contains("claude") { 0 } else { number % HARNESSES.len() }];
            for event in EVENTS {
                hook(&workspace, &trap.root, harness, event);
                trap.holds(&format!("{planted:?} at {place}: hook {event} of {harness}"));
            }
            let root = trap.root.to_str().unwrap();
            for command in [
                &["init"][..],
                &["plan"],
                &["task", "add", PAYLOAD],
                &["tasks"],
                &["task", "done", "1"],
                &["close"],
                &["gc"],
            ] {
                let arguments = [&["project", "--project", root][..], command].concat();
                let _ = workspace.run(&Run::new(&arguments).within(Duration::from_secs(10)));
                trap.holds(&format!("{planted:?} at {place}: project {command:?}"));
            }
        }
    }
}

#[test]
fn s1_a_worker_cannot_have_the_daemon_write_elsewhere() {
    let scripted = Scripted::start(|_| {});
    let home = scripted.workspace.home();
    let rc = home.join(".bashrc");
    fs::create_dir_all(&home).unwrap();
    plant(&rc);
    let project = scripted.workspace.path("home/project");
    fs::create_dir_all(project.join(".nexus/state")).unwrap();
    // The log itself, then the folder it lies in.
    for link in [
        format!("ln -sfn {} project/.nexus/state/tool-log.jsonl", rc.display()),
        format!("rm -rf project/.nexus/state && ln -sfn {} project/.nexus/state", home.display()),
        format!("rm -rf project/.nexus && ln -sfn {} project/.nexus", home.display()),
    ] {
        let before = names_in(&home);
        let done = scripted.work(&json!([
            ["bash", { "command": link }],
            ["write", { "path": format!("project/{PAYLOAD}"), "content": "x" }],
            ["write", { "path": "project/.nexus/state/tool-log.jsonl", "content": "x" }],
        ]));
        assert_eq!(fs::read_to_string(&rc).unwrap(), VICTIM, "{link}: {done:?}");
        assert_eq!(names_in(&home), before, "{link}: {done:?}");
    }
}

fn names_in(folder: &Path) -> Vec<PathBuf> {
    let mut names: Vec<PathBuf> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    names.sort();
    names
}
