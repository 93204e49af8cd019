//! Whoever writes a workspace is alone, also when the file that names them was removed.

use nexus_testkit::{Daemon, DaemonOptions, Workspace};
use serde_json::json;

#[test]
fn s18_removing_the_lock_file_lets_nobody_in() {
    let workspace = Workspace::initialized(env!("CARGO_BIN_EXE_nexus"));
    let daemon = Daemon::start(&workspace, &DaemonOptions::default());
    std::fs::remove_file(workspace.path("state/nex.pid")).unwrap();
    let second = workspace.nexus(&["start", "--port", "0"]);
    assert_ne!(second.code(), Some(0), "{second:?}");
    assert!(second.stderr.contains("running") || second.stderr.contains("in use"), "{second:?}");
    let added = workspace.nexus(&["memory", "add", "Written by a second writer."]);
    assert_ne!(added.code(), Some(0), "{added:?}");
    // The first one is as well as ever.
    let accepted = daemon.post("/api/chat", &json!({ "message": "Hello" }));
    assert!(accepted.status == 200 || accepted.status == 202, "{}", accepted.body);
    // A dead writer locks nobody out.
    daemon.kill9();
    let again = Daemon::start(&workspace, &DaemonOptions::default());
    assert!(again.stop().success());
}
