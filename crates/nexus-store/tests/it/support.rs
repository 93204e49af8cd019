//! A store in a temporary folder, SQL behind its back, and this test binary as a child process.

use std::ffi::OsStr;
use std::path::Path;
use std::process::{Command, Output};

use nexus_store::{OpenMode, Store};

/// A made store that goes away with the test.
pub(crate) struct Made {
    pub(crate) folder: tempfile::TempDir,
}

impl Made {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        Store::create(folder.path()).unwrap();
        Self { folder }
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn open(&self) -> Store {
        Store::open(self.path(), OpenMode::ReadWrite).unwrap()
    }
}

/// Runs SQL on a database file, as a person with the `sqlite3` tool would.
#[expect(clippy::disallowed_methods, reason = "the tests tamper with files behind the store's back")]
pub(crate) fn sql(path: &Path, text: &str) {
    rusqlite::Connection::open(path).unwrap().execute_batch(text).unwrap();
}

/// Variables that tell a child what to do and where.
pub(crate) const CHILD_TASK: &str = "NEXUS_STORE_TEST_TASK";
pub(crate) const CHILD_FOLDER: &str = "NEXUS_STORE_TEST_FOLDER";

/// Starts this binary so that it does `task` in `folder`, through `wrapper` if there is one.
pub(crate) fn child(task: &str, folder: &Path, wrapper: &[&str], failpoint: Option<&str>) -> Output {
    let binary = std::env::current_exe().unwrap();
    let mut words: Vec<&OsStr> = wrapper.iter().map(OsStr::new).collect();
    words.push(binary.as_os_str());
    words.extend(["child::task", "--exact", "--nocapture"].map(OsStr::new));
    #[expect(
        clippy::disallowed_methods,
        reason = "the test starts itself, with other rights or to be killed"
    )]
    let mut command = Command::new(words[0]);
    command.args(&words[1..]).env(CHILD_TASK, task).env(CHILD_FOLDER, folder);
    if let Some(place) = failpoint {
        command.env("NEXUS_FAILPOINT", place);
    }
    command.output().unwrap_or_else(|error| panic!("starting {words:?}: {error}"))
}

/// What a child said and how it ended, for messages.
pub(crate) fn told(output: &Output) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    format!("{}\n{}{}", output.status, text(&output.stdout), text(&output.stderr))
}

/// Whether the tests run as root.
pub(crate) fn is_root() -> bool {
    use std::os::unix::fs::MetadataExt;
    std::fs::metadata("/proc/self").is_ok_and(|status| status.uid() == 0)
}
