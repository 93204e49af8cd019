//! `nexus init`: the whole tree, twice without a difference, and clear refusals.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use nexus_testkit::{Finished, Run, Workspace};
use serde_json::Value;

fn workspace() -> Workspace {
    Workspace::new(env!("CARGO_BIN_EXE_nexus"))
}

/// Every file's bytes, every folder and every mode under a folder.
fn snapshot(folder: &Path) -> BTreeMap<String, (u32, Option<Vec<u8>>)> {
    let mut found = BTreeMap::new();
    let mut open = vec![folder.to_owned()];
    while let Some(next) = open.pop() {
        for entry in fs::read_dir(&next).unwrap() {
            let path = entry.unwrap().path();
            let metadata = fs::symlink_metadata(&path).unwrap();
            let content = if metadata.is_dir() { None } else { Some(fs::read(&path).unwrap()) };
            if metadata.is_dir() {
                open.push(path.clone());
            }
            let name = path.strip_prefix(folder).unwrap().to_string_lossy().into_owned();
            found.insert(name, (metadata.permissions().mode() & 0o777, content));
        }
    }
    found
}

#[test]
fn the_tree_is_whole_and_private() {
    let workspace = workspace();
    let report = workspace.nexus(&["init", "--json"]).json();
    assert!(report["created"].as_array().unwrap().iter().any(|path| path == "state/config.json"), "{report}");
    for folder in ["skills", "state/workspace", "state/user", "state/credentials"] {
        assert_eq!(fs::read_dir(workspace.path(folder)).unwrap().count(), 0, "{folder} is empty");
    }
    for database in ["events", "agents", "identity", "memory", "embeddings", "runtime"] {
        let bytes = fs::read(workspace.path(&format!("state/data/{database}.db"))).unwrap();
        assert!(bytes.starts_with(b"SQLite format 3\0"), "{database}");
    }
    assert!(!workspace.file("AGENTS.md").is_empty() && workspace.file("AGENTS.md").len() <= 3_200);
    assert!(!workspace.file("state/agents/BOOTSTRAP.md").is_empty());
    let config = workspace.json("state/config.json");
    assert_eq!(config["runtime"]["port"], 18_789);
    assert_eq!(config["runtime"]["bind"], "loopback");
    assert_eq!(config["runtime"]["auth"]["mode"], "token");
    let token = workspace.token();
    assert!(token.len() == 48 && token.bytes().all(|byte| byte.is_ascii_hexdigit()), "48 hex characters");
    let mode = |name: &str| fs::metadata(workspace.path(name)).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode("state/config.json"), mode("state"), mode("state/data")), (0o600, 0o700, 0o700));
    assert!(mode("state/data/agents.db") & 0o077 == 0);
}

#[test]
fn a_second_run_changes_no_byte() {
    let workspace = workspace();
    workspace.init();
    let before = snapshot(workspace.root());
    let report = workspace.nexus(&["init", "--json"]).json();
    assert_eq!(report["created"], Value::Array(Vec::new()));
    assert_eq!(snapshot(workspace.root()), before);
}

#[test]
fn a_half_made_workspace_is_completed_and_keeps_its_token() {
    let workspace = workspace();
    workspace.init();
    let token = workspace.token();
    fs::remove_file(workspace.path("state/data/memory.db")).unwrap();
    fs::remove_file(workspace.path("AGENTS.md")).unwrap();
    fs::remove_dir(workspace.path("skills")).unwrap();
    let report = workspace.nexus(&["init", "--json"]).json();
    assert_eq!(report["created"].as_array().unwrap().len(), 3, "{report}");
    assert_eq!(workspace.token(), token);
    assert!(workspace.path("state/data/memory.db").is_file());
}

#[test]
fn a_copied_workspace_is_not_trusted_until_its_owner_says_so() {
    let workspace = workspace();
    assert_eq!(workspace.nexus(&["init", "--json"]).json()["trust"], "trusted");
    let copy = workspace.home().join("copy");
    copy_folder(workspace.root(), &copy);
    let copy = copy.to_str().unwrap();
    let report = workspace.nexus(&["init", "--json", "--workspace", copy]).json();
    assert_ne!(report["trust"], "trusted");
    assert_eq!(workspace.nexus(&["trust", "--json", "--workspace", copy]).json()["trust"], "trusted");
    assert_eq!(workspace.nexus(&["init", "--json", "--workspace", copy]).json()["trust"], "trusted");
    assert_ne!(
        workspace.nexus(&["trust", "--revoke", "--json", "--workspace", copy]).json()["trust"],
        "trusted"
    );
}

#[test]
fn a_file_in_the_way_is_named() {
    let workspace = workspace();
    let path = workspace.home().join("file");
    fs::File::create(&path).unwrap();
    let finished = workspace.nexus(&["init", "--workspace", path.to_str().unwrap()]);
    refused(&finished, path.to_str().unwrap());
}

#[test]
fn a_place_that_cannot_be_written_is_named() {
    // Root may write everywhere, so this has to run as somebody else.
    let outer = tempfile::tempdir().unwrap();
    fs::set_permissions(outer.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let place = outer.path().join("place");
    let home = outer.path().join("home");
    fs::create_dir(&place).unwrap();
    fs::create_dir(&home).unwrap();
    fs::set_permissions(&home, fs::Permissions::from_mode(0o777)).unwrap();
    let binary = outer.path().join("nexus");
    fs::copy(env!("CARGO_BIN_EXE_nexus"), &binary).unwrap();
    let shell = Workspace::new("/bin/sh");
    let target = place.join("workspace");
    let script = "[ \"$(id -u)\" = 0 ] && drop='setpriv --reuid=65534 --regid=65534 --clear-groups' || chmod 500 \"$1\"; \
                  unset NEXUS_ROOT; HOME=$2 XDG_STATE_HOME=$2/state exec $drop \"$3\" init --workspace \"$4\"";
    let mut run = Run::new(&["-c", script, "sh"]);
    for path in [&place, &home, &binary, &target] {
        run.arguments.push(path.to_str().unwrap().to_owned());
    }
    let finished = shell.run(&run);
    assert!(!target.exists(), "nothing may have been made: {finished:?}");
    refused(&finished, place.to_str().unwrap());
}

#[test]
fn a_database_that_is_none_is_named_and_left_alone() {
    let workspace = workspace();
    workspace.init();
    workspace.write("state/data/events.db", "these are not the pages of a database, only words in a file");
    let finished = workspace.nexus(&["init"]);
    refused(&finished, "events.db");
    assert!(workspace.file("state/data/events.db").starts_with("these are not"));
}

fn refused(finished: &Finished, naming: &str) {
    assert_eq!(finished.code(), Some(1), "{finished:?}");
    let lines: Vec<&str> = finished.stderr.lines().collect();
    assert!(
        lines.len() == 2
            && lines[0].starts_with("error: ")
            && lines[0].contains(naming)
            && lines[1].starts_with("hint: "),
        "{lines:?}"
    );
}

fn copy_folder(from: &Path, to: &Path) {
    fs::create_dir(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        let target = to.join(path.file_name().unwrap());
        if path.is_dir() {
            copy_folder(&path, &target);
        } else {
            fs::copy(&path, &target).unwrap();
        }
    }
}
