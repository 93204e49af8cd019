//! What several tests need: a workspace in a temporary place and a picture of its files.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use nexus_workspace::Layout;
use nexus_workspace::init::{InitReport, prepare_tree};
use nexus_workspace::trust::TrustFolder;

pub(crate) struct Place {
    pub(crate) folder: tempfile::TempDir,
    pub(crate) layout: Layout,
    pub(crate) trust: TrustFolder,
}

impl Place {
    pub(crate) fn empty() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let layout = Layout::new(folder.path().join("workspace"));
        let trust = TrustFolder::at(folder.path().join("outside/trust"));
        Self { folder, layout, trust }
    }

    pub(crate) fn initialised() -> Self {
        let place = Self::empty();
        place.init();
        place
    }

    pub(crate) fn init(&self) -> InitReport {
        prepare_tree(&self.layout, &self.trust).unwrap()
    }

    pub(crate) fn write(&self, path: &str, text: &str) {
        let path = self.layout.root().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        put(&path, text);
    }
}

#[expect(clippy::disallowed_methods, reason = "a test sets the scene; how durable it is does not matter")]
pub(crate) fn put(path: &Path, text: &str) {
    std::fs::write(path, text).unwrap();
}

/// Mode and content of every path under `root`.
pub(crate) fn picture(root: &Path) -> BTreeMap<String, (u32, Vec<u8>)> {
    let mut found = BTreeMap::new();
    let mut open = vec![root.to_owned()];
    while let Some(path) = open.pop() {
        let metadata = std::fs::symlink_metadata(&path).unwrap();
        let mut content = Vec::new();
        if metadata.is_dir() {
            open.extend(std::fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
        } else {
            content = std::fs::read(&path).unwrap();
        }
        let name = path.strip_prefix(root).unwrap().display().to_string();
        found.insert(name, (metadata.permissions().mode() & 0o777, content));
    }
    found
}

pub(crate) fn copy_tree(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy_tree(&entry.path(), &target);
        } else {
            std::fs::copy(entry.path(), target).unwrap();
        }
    }
}

const CHILD_ROOT: &str = "NEXUS_TEST_CHILD_ROOT";
const CHILD_TRUST: &str = "NEXUS_TEST_CHILD_TRUST";
const UNPRIVILEGED: &str = "65534";

/// Runs `init` in a child process that dies at `step`. Returns whether SIGKILL ended it.
pub(crate) fn init_in_child(place: &Place, step: &str) -> bool {
    use std::os::unix::process::ExitStatusExt;
    let program = std::env::current_exe().unwrap();
    let output = child(program.as_os_str(), place)
        .args(["--exact", "support::child_runs_init"])
        .env("NEXUS_FAILPOINT", step)
        .output()
        .unwrap();
    output.status.signal() == Some(9)
}

/// Runs `init` as a user who is not root and returns what it printed.
pub(crate) fn init_without_privileges(place: &Place) -> String {
    let program = std::env::current_exe().unwrap();
    let mut command = if rustix::process::geteuid().is_root() {
        let mut command = child("setpriv".as_ref(), place);
        command.args(["--reuid", UNPRIVILEGED, "--regid", UNPRIVILEGED, "--clear-groups"]).arg(program);
        command
    } else {
        child(program.as_os_str(), place)
    };
    let output = command.args(["--exact", "support::child_runs_init", "--nocapture"]).output().unwrap();
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(printed.contains("unprivileged: true"), "privileges were not dropped: {printed} {output:?}");
    printed
}

#[expect(
    clippy::disallowed_methods,
    reason = "the test runs itself again; nexus-process is not below this crate"
)]
fn child(program: &std::ffi::OsStr, place: &Place) -> std::process::Command {
    let mut command = std::process::Command::new(program);
    command.env(CHILD_ROOT, place.layout.root()).env(CHILD_TRUST, place.trust.path());
    command
}

/// Not a test of its own: the other half of the two functions above.
#[test]
fn child_runs_init() {
    let Some(root) = std::env::var_os(CHILD_ROOT) else { return };
    let trust = TrustFolder::at(std::env::var_os(CHILD_TRUST).unwrap());
    println!("unprivileged: {}", !rustix::process::geteuid().is_root());
    match prepare_tree(&Layout::new(root), &trust) {
        Ok(report) => println!("made {} paths", report.created.len()),
        Err(error) => println!("error: {error}\nhint: {}\n{error:?}", error.hint()),
    }
}
