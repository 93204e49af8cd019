//! A workspace with databases, and seeding in a child process that dies.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;

use nexus_automation::{SeedReport, seed};
use nexus_store::{OpenMode, Store};
use nexus_workspace::Layout;

const CHILD_ROOT: &str = "NEXUS_TEST_CHILD_ROOT";

pub(crate) struct Place {
    _folder: tempfile::TempDir,
    pub(crate) layout: Layout,
}

impl Place {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let layout = Layout::new(folder.path());
        std::fs::create_dir_all(layout.automation_workspaces()).unwrap();
        Store::create(&layout.data()).unwrap();
        Self { _folder: folder, layout }
    }

    pub(crate) fn open(&self) -> Store {
        Store::open(&self.layout.data(), OpenMode::ReadWrite).unwrap()
    }

    pub(crate) async fn seed(&self) -> SeedReport {
        let store = self.open();
        let report = seed(&store, &self.layout).await.unwrap();
        store.close().await;
        report
    }

    /// Mode and content of everything in the automations' folders.
    pub(crate) fn picture(&self) -> BTreeMap<String, (u32, String)> {
        let root = self.layout.automation_workspaces();
        let mut found = BTreeMap::new();
        let mut open = vec![root.clone()];
        while let Some(path) = open.pop() {
            let metadata = std::fs::metadata(&path).unwrap();
            let mut content = String::new();
            if metadata.is_dir() {
                open.extend(std::fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
            } else {
                content = std::fs::read_to_string(&path).unwrap();
            }
            let name = path.strip_prefix(&root).unwrap().display().to_string();
            found.insert(name, (metadata.permissions().mode() & 0o777, content));
        }
        found.retain(|name, _| !name.is_empty() && !name.contains(".nexus-tmp-"));
        found
    }
}

#[expect(clippy::disallowed_methods, reason = "a test sets the scene; how durable it is does not matter")]
pub(crate) fn put(path: &Path, text: &str) {
    std::fs::write(path, text).unwrap();
}

/// Seeds in a child process that dies at `step`. Returns whether SIGKILL ended it.
#[expect(
    clippy::disallowed_methods,
    reason = "the test runs itself again; nexus-process is not below this test"
)]
pub(crate) fn seed_in_child(place: &Place, step: &str) -> bool {
    let output = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "support::child_seeds"])
        .env(CHILD_ROOT, place.layout.root())
        .env("NEXUS_FAILPOINT", step)
        .output()
        .unwrap();
    output.status.signal() == Some(9)
}

/// Not a test of its own: the other half of the function above.
#[tokio::test]
async fn child_seeds() {
    let Some(root) = std::env::var_os(CHILD_ROOT) else { return };
    let layout = Layout::new(root);
    let store = Store::open(&layout.data(), OpenMode::ReadWrite).unwrap();
    seed(&store, &layout).await.unwrap();
    store.close().await;
}
