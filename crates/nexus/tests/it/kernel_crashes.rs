//! The Kernel killed at every step of an operation: Root lives, nothing half-made stays, and the
//! next Kernel goes on.

use std::os::unix::process::ExitStatusExt as _;
use std::path::PathBuf;

use nexus_testkit::Workspace;

use crate::kernel_serving::Serving;

fn names(run_dir: &PathBuf) -> Vec<String> {
    let mut names: Vec<String> = std::fs::read_dir(run_dir)
        .expect("the run folder")
        .map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned())
        .filter(|name| !["root", "kernel"].contains(&name.as_str()))
        .collect();
    names.sort();
    names
}

/// Kills the Kernel at `place` during the operation, restarts it, and returns which workspaces stand.
fn after_a_kill(place: &str, arguments: &[&str]) -> Vec<String> {
    let workspace = Workspace::new(env!("CARGO_BIN_EXE_nexus"));
    let run_dir = workspace.home().join(".nexus/run");
    workspace.nexus(&["ws", "create", "victim"]).ok();
    let _root = Serving::start(&workspace, &["--root-only", "--quiet"], None);
    let mut kernel = Serving::start(&workspace, &["--kernel-only", "--quiet"], Some(place));
    let refused = workspace.nexus(arguments);
    assert!(refused.stderr.contains("code 500: kernel_read_failed"), "{place}: {refused:?}");
    assert_eq!(kernel.wait().signal(), Some(9), "{place} was never reached");
    // Root is there without it, and says what is wrong.
    workspace.nexus(&["kernel", "ping", "--root"]).ok();
    let down = workspace.nexus(&["kernel", "ping"]);
    assert!(down.stderr.contains("code 500: kernel_connect_failed"), "{place}: {down:?}");

    let _kernel = Serving::start(&workspace, &["--kernel-only", "--quiet"], None);
    let standing = names(&run_dir);
    for name in &standing {
        assert!(!name.starts_with('.'), "{place} left {name}");
        assert!(run_dir.join(name).join("manifest.json").is_file(), "{place}: {name} has no manifest");
        assert!(run_dir.join(name).join("logs").is_dir(), "{place}: {name} has no logs");
    }
    // The same request again ends as it should have the first time.
    workspace.nexus(arguments).ok();
    standing
}

#[test]
fn a_create_that_was_cut_off_is_whole_or_not_there() {
    let create = ["ws", "create", "fresh"];
    assert_eq!(after_a_kill("kernel.create.staged", &create), ["victim"]);
    assert_eq!(after_a_kill("kernel.create.renamed", &create), ["fresh", "victim"]);
    assert_eq!(after_a_kill("kernel.reply@2", &create), ["fresh", "victim"]);
}

#[test]
fn a_destroy_that_was_cut_off_has_happened() {
    let destroy = ["ws", "destroy", "victim", "--arming", "--role", "operator"];
    for place in ["kernel.destroy.renamed", "kernel.destroy.deleted", "kernel.reply@2"] {
        assert_eq!(after_a_kill(place, &destroy), Vec::<String>::new(), "{place}");
    }
}
