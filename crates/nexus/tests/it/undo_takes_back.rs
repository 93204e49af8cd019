//! `nexus undo` through the real binary: what a run changed is as it was, or nothing is touched.

use std::os::unix::fs::PermissionsExt;

use nexus_testkit::{Daemon, DaemonOptions};
use serde_json::json;

use crate::scripted::{self, Scripted};

#[test]
fn a_run_is_taken_back_and_kept_from_overwriting() {
    let scripted = Scripted::start(|workspace| {
        workspace.write("home/notes.md", "one\ntwo\n");
        workspace.write("home/old.txt", "to be deleted\n");
    });
    let workspace = &scripted.workspace;
    assert_eq!(workspace.nexus(&["undo", "--list"]).ok().stdout, "no run has changed any files yet\n");
    assert_eq!(workspace.nexus(&["undo"]).code(), Some(3));
    let done = scripted.work(&json!([
        ["edit", {"path": "notes.md", "old": "two", "new": "2"}],
        ["write", {"path": "sub/new.md", "content": "made"}],
        ["bash", {"command": "rm old.txt; echo three >> notes.md"}],
    ]));
    assert!(done.results.iter().all(|result| !result.contains("not written")), "{done:?}");
    assert_eq!(done.reply, "It is done.");
    assert_eq!(workspace.file("home/notes.md"), "one\n2\nthree\n");
    let listed = workspace.nexus(&["undo", "--list", "--json"]).json();
    assert_eq!(
        (&listed["runs"][0]["request"], &listed["runs"][0]["files"]),
        (&json!(done.request), &json!(3))
    );

    // Somebody went on working in one of the files: nothing is touched and the difference is shown.
    workspace.write("home/notes.md", "one\n2\nthree\nmine\n");
    let refused = workspace.nexus(&["undo", &done.request]);
    assert_eq!(refused.code(), Some(1));
    assert!(refused.stdout.contains("-mine") && refused.stderr.contains("--force"), "{refused:?}");
    assert!(!workspace.path("home/old.txt").exists());
    assert!(workspace.nexus(&["undo", "--json"]).stdout.contains("\"conflicts\""));

    let undone = workspace.nexus(&["undo", &done.request, "--force", "--json"]).json();
    assert_eq!(
        (undone["restored"].as_array().unwrap().len(), undone["removed"].as_array().unwrap().len()),
        (2, 1)
    );
    assert_eq!(workspace.file("home/notes.md"), "one\ntwo\n");
    assert_eq!(workspace.file("home/old.txt"), "to be deleted\n");
    assert!(!workspace.path("home/sub/new.md").exists());
    assert_eq!(workspace.nexus(&["undo", &done.request]).code(), Some(1), "taken back once");
    // Even what --force overwrote comes back, with no daemon running.
    let Scripted { workspace, daemon, .. } = scripted;
    daemon.stop();
    workspace.nexus(&["undo", undone["undo"].as_str().unwrap()]).ok();
    assert_eq!(workspace.file("home/notes.md"), "one\n2\nthree\nmine\n");
}

#[test]
fn permissions_come_back_as_well() {
    let scripted = Scripted::start(|workspace| {
        workspace.write("home/tool.sh", "echo one\n");
        workspace.write("home/kept.sh", "echo two\n");
    });
    let workspace = &scripted.workspace;
    let mode = |name: &str| std::fs::metadata(workspace.path(name)).unwrap().permissions().mode() & 0o777;
    let before = [mode("home/tool.sh"), mode("home/kept.sh")];
    let done = scripted.work(&json!([
        ["bash", {"command": "chmod 755 tool.sh kept.sh; echo more >> tool.sh"}],
    ]));
    assert_eq!([mode("home/tool.sh"), mode("home/kept.sh")], [0o755, 0o755], "{done:?}");
    let undone = workspace.nexus(&["undo", &done.request, "--json"]).json();
    assert_eq!(undone["restored"].as_array().unwrap().len(), 2, "{undone}");
    assert_eq!([mode("home/tool.sh"), mode("home/kept.sh")], before);
    assert_eq!(workspace.file("home/tool.sh"), "echo one\n");
    // Undoing the undo makes them programs again.
    workspace.nexus(&["undo", undone["undo"].as_str().unwrap()]).ok();
    assert_eq!([mode("home/tool.sh"), mode("home/kept.sh")], [0o755, 0o755]);
}

/// The file as it was is on disk before the effect, wherever the daemon dies.
#[test]
fn a_death_around_a_change_leaves_the_way_back() {
    let server = scripted::server();
    let workspace = scripted::workspace(&server);
    let calls = json!([
        ["write", {"path": "notes.md", "content": "after\n"}],
        ["bash", {"command": "echo more >> notes.md"}],
    ]);
    for place in ["undo.kept", "tool.written", "undo.folder_kept", "tool.bash.ran", "undo.folder_compared"] {
        workspace.write("home/notes.md", "before\n");
        let daemon = Daemon::start(&workspace, &DaemonOptions::dying_at(place));
        let accepted =
            daemon.post("/api/chat", &json!({ "message": format!("WORK {calls} {place}") })).json();
        let request = accepted["requestId"].as_str().unwrap().to_owned();
        daemon.wait_for_end(std::time::Duration::from_secs(30));
        let left = workspace.file("home/notes.md");
        // What the record knows is undone without force; a command that was cut off needs one.
        let undone = workspace.nexus(&["undo", &request]);
        let undone =
            if undone.code() == Some(0) { undone } else { workspace.nexus(&["undo", &request, "--force"]) };
        undone.ok();
        assert_eq!(workspace.file("home/notes.md"), "before\n", "{place} left {left:?}");
        // The daemon goes on with that message; its end is none of this test's business.
        let daemon = Daemon::start(&workspace, &DaemonOptions::default());
        daemon.get(&format!("/api/chat/wait?request={request}&timeoutMs=60000"));
        daemon.stop();
    }
    // While a restore is under way, too: repeating it ends where it should.
    workspace.write("home/notes.md", "before\n");
    let daemon = Daemon::start(&workspace, &DaemonOptions::default());
    let accepted = daemon.post("/api/chat", &json!({ "message": format!("WORK {calls} last") })).json();
    let request = accepted["requestId"].as_str().unwrap().to_owned();
    daemon.get(&format!("/api/chat/wait?request={request}&timeoutMs=60000"));
    for place in ["undo.before_restore", "undo.restored"] {
        let run =
            nexus_testkit::Run::new(&["undo", &request]).variable(nexus_base::failpoint::VARIABLE, place);
        workspace.run(&run);
    }
    let _ = workspace.nexus(&["undo", &request]);
    assert_eq!(workspace.file("home/notes.md"), "before\n");
}
