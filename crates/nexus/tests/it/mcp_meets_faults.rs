//! `nexus mcp` where the disk or the folder refuses: each tool says what is wrong, the server goes on, and what was
//! there stays.

use std::collections::BTreeMap;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::mcp_serves_a_project::Client;

/// A call of every tool that writes; with long texts, so that none finds room in what a page has left.
fn writing() -> Vec<(&'static str, Value)> {
    let long = "x".repeat(20_000);
    vec![
        ("plan_start", json!({ "topic": long, "issues": ["a"], "research_summary": "r" })),
        ("plan_update", json!({ "action": "add", "title": long })),
        ("plan_decide", json!({ "issue_id": 1, "decision": long })),
        ("task_add", json!({ "title": "t", "context": long })),
        ("task_update", json!({ "id": 1, "status": "completed" })),
        ("artifact_write", json!({ "filename": "a.md", "content": long })),
        ("task_close", json!({})),
    ]
}

const READING: [&str; 4] = ["plan_status", "task_list", "history_search", "context"];

/// A project with a closed cycle and an open one.
fn fill(root: &Path) {
    let mut client = Client::start(root);
    for context in ["c".to_owned(), "c".repeat(9_000)] {
        let plan = json!({ "topic": "T", "issues": ["A"], "research_summary": "r" });
        assert_eq!(client.call("plan_start", &plan).0["created"], true);
        assert!(client.call("task_add", &json!({ "title": "t", "context": context })).0["task"].is_object());
        client.call("artifact_write", &json!({ "filename": "a.md", "content": "before" }));
        if context.len() == 1 {
            assert_eq!(client.call("task_close", &json!({})).0["total_cycles"], 1);
        }
    }
    assert_eq!(client.leave(), Some(0));
}

/// Puts a file there as somebody else might have left it.
fn plant(path: &Path, text: impl AsRef<[u8]>) {
    nexus_base::file::replace(path, text.as_ref(), 0o644, nexus_base::file::Durability::Crash).unwrap();
}

/// The files that belong to everybody.
fn files(root: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    ["history.json", "state/plan.json", "state/tasks.json", "state/artifacts/a.md"]
        .into_iter()
        .map(|name| root.join(".nexus").join(name))
        .map(|path| (path.clone(), std::fs::read(path).unwrap()))
        .collect()
}

/// Every tool that writes is refused with these words, every other one answers, nothing changes.
fn refused(client: &mut Client, root: &Path, words: &str) {
    let before = files(root);
    for (tool, arguments) in writing() {
        let (said, failed) = client.call(tool, &arguments);
        assert!(failed && said["error"].as_str().unwrap().contains(words), "{tool}: {said}");
        assert_eq!(files(root), before, "{tool}");
    }
    for tool in READING {
        let (said, failed) = client.call(tool, &json!({}));
        assert!(!failed, "{tool}: {said}");
    }
}

pub(crate) fn is_root(what: &str) -> bool {
    use std::io::Write as _;
    let is_root = rustix::process::geteuid().is_root();
    if !is_root {
        let _ = writeln!(std::io::stderr(), "SKIPPED {what}: only root can");
    }
    is_root
}

#[test]
fn a_folder_that_may_only_be_read() {
    if !is_root("a_folder_that_may_only_be_read") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    fill(folder.path());
    let nobody = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups"];
    let mut client = Client::start_as(folder.path(), &nobody);
    refused(&mut client, folder.path(), "denied");
    assert_eq!(client.leave(), Some(0));
}

#[test]
#[expect(clippy::disallowed_methods, reason = "the test needs a disk of its own")]
fn a_disk_that_is_full() {
    use std::io::Write as _;
    if !is_root("a_disk_that_is_full") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let run = |program: &str, arguments: &[&str]| {
        let done = std::process::Command::new(program).args(arguments).arg(folder.path()).output().unwrap();
        assert!(done.status.success(), "{program}: {done:?}");
    };
    run("mount", &["-t", "tmpfs", "-o", "size=768k,mode=0755", "tmpfs"]);
    let root = folder.path().to_owned();
    let done = std::panic::catch_unwind(|| {
        fill(&root);
        let mut filler = std::fs::File::create(root.join("filler")).unwrap();
        while filler.write_all(&[0; 4096]).is_ok() {}
        let mut client = Client::start(&root);
        refused(&mut client, &root, "space");
        // Not by removing alone: a program that another test is about to start may have the file open for a moment.
        filler.set_len(0).unwrap();
        drop(filler);
        std::fs::remove_file(root.join("filler")).unwrap();
        let (said, _) = client.call("task_close", &json!({}));
        assert_eq!(said["total_cycles"], 2, "{said}");
        assert_eq!(client.leave(), Some(0));
    });
    run("umount", &["-l"]);
    if let Err(panic) = done {
        std::panic::resume_unwind(panic);
    }
}

#[test]
fn a_linked_folder_and_names_that_lead_out() {
    let (folder, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    symlink(elsewhere.path(), folder.path().join(".nexus")).unwrap();
    let mut client = Client::start(folder.path());
    for (tool, arguments) in writing().into_iter().chain(READING.map(|tool| (tool, json!({})))) {
        let (said, failed) = client.call(tool, &arguments);
        assert!(failed && said["error"].as_str().unwrap().contains("not a plain folder"), "{tool}: {said}");
    }
    assert_eq!(std::fs::read_dir(elsewhere.path()).unwrap().count(), 0);
    assert_eq!(client.leave(), Some(0));

    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("inside");
    std::fs::create_dir(&root).unwrap();
    let mut client = Client::start(&root);
    let artifacts = root.canonicalize().unwrap().join(".nexus/state/artifacts");
    for (name, lands) in [
        ("../../../../escaped", "escaped"),
        ("/etc/escaped", "etc/escaped"),
        ("a\\..\\..\\escaped2", "a/escaped2"),
        ("./b//c.md", "b/c.md"),
    ] {
        let (said, failed) = client.call("artifact_write", &json!({ "filename": name, "content": "x" }));
        assert!(!failed && said["path"].as_str() == artifacts.join(lands).to_str(), "{name}: {said}");
    }
    for name in ["..", "", "///", ".", "a\u{0}b"] {
        let (said, failed) = client.call("artifact_write", &json!({ "filename": name, "content": "x" }));
        assert!(failed, "{name:?}: {said}");
    }
    symlink("/etc", artifacts.join("out")).unwrap();
    let (said, failed) = client.call("artifact_write", &json!({ "filename": "out/nexus", "content": "x" }));
    assert!(failed && !Path::new("/etc/nexus").exists(), "{said}");
    let above: Vec<_> = std::fs::read_dir(folder.path()).unwrap().collect();
    assert_eq!(above.len(), 1, "{above:?}");
    assert_eq!(client.leave(), Some(0));
}

#[test]
fn a_history_that_is_no_json_is_told_and_left() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    let nexus = root.join(".nexus");
    std::fs::create_dir_all(nexus.join("state")).unwrap();
    plant(&nexus.join("state/tasks.json"), r#"{"goal":"g","decisions":[],"tasks":[]}"#);
    let damaged: [(&[u8], &str); 6] = [
        (b"{\"schema_version\": nope, \"cycles\": []}", "line 1, column 21"),
        (b"{\"a\":[},\n \"cycles\":[]}", "line 1, column 7"),
        (b"{\"a\":\n\"x\x01y\",\"cycles\":[]}", "line 2, column 3"),
        (b"{\"cycles\":[],\n\"b\":tru}", "line 2, column 8"),
        (b"{\"a\":\"\xff\xfe\",\"cycles\":[]}", "line 1, column 7"),
        (b"{\"cycles\":[{\"plan\":null}],\n\n\"b\":1 2}", "line 3, column 7"),
    ];
    let mut client = Client::start(root);
    for (text, place) in damaged {
        plant(&nexus.join("history.json"), text);
        for tool in ["history_search", "task_close"] {
            let (said, failed) = client.call(tool, &json!({}));
            let error = said["error"].as_str().unwrap_or_default();
            assert!(failed && error.contains("damaged") && error.contains(place), "{place}: {said}");
        }
        assert_eq!(std::fs::read(nexus.join("history.json")).unwrap(), text);
        assert!(nexus.join("state/tasks.json").exists());
    }
    plant(&nexus.join("history.json"), "{\"a\":[{}],\"cycles\":[],\"b\":true}");
    assert_eq!(client.call("task_close", &json!({})).0["total_cycles"], 1);
    let history: Value = serde_json::from_slice(&std::fs::read(nexus.join("history.json")).unwrap()).unwrap();
    assert_eq!((&history["a"], &history["b"]), (&json!([{}]), &json!(true)));
    assert_eq!(client.leave(), Some(0));
}

/// What is written is what we read again: neither a file nor a cycle grows past that.
#[test]
fn nothing_is_written_that_could_not_be_read_again() {
    let folder = tempfile::tempdir().unwrap();
    let state = folder.path().join(".nexus/state");
    std::fs::create_dir_all(&state).unwrap();
    let mut client = Client::start(folder.path());

    // A plan as deep as a document may be, and a cycle around it.
    let deep =
        format!("{{\"id\":1,\"topic\":\"t\",\"issues\":[],\"more\":{}{}}}", "[".repeat(126), "]".repeat(126));
    plant(&state.join("plan.json"), &deep);
    let start = json!({ "topic": "next", "issues": ["a"], "research_summary": "r" });
    for (tool, arguments) in [("task_close", json!({})), ("plan_start", start)] {
        let (said, failed) = client.call(tool, &arguments);
        let error = said["error"].as_str().unwrap_or_default();
        assert!(failed && error.contains("nested lists and objects"), "{tool}: {said}");
        assert_eq!(std::fs::read_to_string(state.join("plan.json")).unwrap(), deep, "{tool}");
        assert!(!folder.path().join(".nexus/history.json").exists(), "{tool}");
        let left: Vec<_> = std::fs::read_dir(&state).unwrap().map(|entry| entry.unwrap().path()).collect();
        let files = left.iter().filter(|path| path.is_file()).count();
        assert_eq!(files, 1, "nothing is left beside it: {tool}: {left:?}");
    }

    // Tasks that are nearly full.
    std::fs::remove_file(state.join("plan.json")).unwrap();
    let full = "x".repeat(15 * 1024 * 1024);
    let tasks = format!("{{\"goal\":\"\",\"decisions\":[],\"tasks\":[{{\"id\":1,\"context\":\"{full}\"}}]}}");
    plant(&state.join("tasks.json"), &tasks);
    let long = json!({ "title": "t", "context": "y".repeat(1024 * 1024) });
    let (said, failed) = client.call("task_add", &long);
    let error = said["error"].as_str().unwrap_or_default();
    assert!(failed && error.contains("would be larger") && error.contains("close the cycle"), "{said}");
    assert!(std::fs::read_to_string(state.join("tasks.json")).unwrap() == tasks);
    // Which is what helps.
    assert_eq!(client.call("task_close", &json!({})).0["total_cycles"], 1);
    assert!(!client.call("task_add", &long).1);
    assert_eq!(client.leave(), Some(0));
}
