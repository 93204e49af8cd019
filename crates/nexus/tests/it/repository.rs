//! A project in a git repository, for tests about what happens to both.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use nexus_base::file::{Durability, create_folder, replace};
use nexus_testkit::{Finished, Run, Workspace};

/// A workspace, and a project beside it with three committed notes and a folder.
pub(crate) struct Repository {
    pub(crate) workspace: Workspace,
    pub(crate) root: PathBuf,
}

impl Repository {
    pub(crate) fn new() -> Self {
        let workspace = Workspace::initialized(env!("CARGO_BIN_EXE_nexus"));
        let root = workspace.home().join("project");
        for name in ["one.md", "two.md", "three.md"] {
            put(&root.join(".nexus/memory").join(name), "old\n", 0o644);
        }
        put(&root.join("folder/file"), "file\n", 0o644);
        let repository = Self { root: root.canonicalize().unwrap(), workspace };
        repository.git(&["init", "-q", "-b", "main"]);
        repository.commit("first");
        repository
    }

    /// Runs git in the project.
    pub(crate) fn git(&self, arguments: &[&str]) -> String {
        git(&self.root, arguments)
    }

    pub(crate) fn commit(&self, message: &str) {
        self.git(&["add", "-A"]);
        self.git(&["commit", "-q", "-m", message]);
    }

    /// Runs `nexus project gc` on it.
    pub(crate) fn gc(&self, arguments: &[&str]) -> Finished {
        gc(&self.workspace, &self.root, arguments)
    }

    pub(crate) fn has(&self, note: &str) -> bool {
        self.root.join(".nexus/memory").join(note).exists()
    }
}

/// Runs `nexus project gc` on any folder.
pub(crate) fn gc(workspace: &Workspace, root: &Path, arguments: &[&str]) -> Finished {
    let project = ["project", "--project", root.to_str().unwrap(), "gc"];
    workspace.run(&Run::new(&[&project[..], arguments].concat()))
}

/// Runs git in a folder, as a person would who has no settings of their own.
pub(crate) fn git(root: &Path, arguments: &[&str]) -> String {
    let output = try_git(root, arguments);
    assert!(output.status.success(), "{arguments:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

/// As [`git`], and it may fail.
#[expect(clippy::disallowed_methods, reason = "the test needs a repository")]
pub(crate) fn try_git(root: &Path, arguments: &[&str]) -> Output {
    Command::new("git")
        .args(["-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "protocol.file.allow=always"])
        .args(arguments)
        .current_dir(root)
        .env("HOME", root)
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .output()
        .unwrap()
}

/// Plants a file, with the folders above it.
pub(crate) fn put(path: &Path, text: &str, mode: u32) {
    create_folder(path.parent().unwrap(), 0o755).unwrap();
    replace(path, text.as_bytes(), mode, Durability::Crash).unwrap();
}
