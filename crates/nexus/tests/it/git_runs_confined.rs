//! No program of a repository runs when we run git on it: not through what its settings, attributes and hooks name,
//! nor through what it lacks; and without a sandbox git does not run at all.

use std::path::PathBuf;

use nexus_testkit::{Daemon, DaemonOptions, Run};
use serde_json::json;

use crate::commands_without_a_sandbox::without_landlock;
use crate::repository::{Repository, git, put, try_git};

/// A repository with a program that leaves traces when it runs, confined or not.
struct Trap {
    repository: Repository,
    program: String,
    traces: Vec<PathBuf>,
}

impl Trap {
    fn new() -> Self {
        let repository = Repository::new();
        let traces = ["", "project", "project/.git", "project/.git/objects", "project/.nexus/state/nexus"]
            .map(|folder| repository.workspace.home().join(folder).join("ran"))
            .to_vec();
        let lines: Vec<String> = traces.iter().map(|trace| format!("touch {}", trace.display())).collect();
        let program = repository.root.join("program.sh");
        put(&program, &format!("#!/bin/sh\n{}\nexit 1\n", lines.join("\n")), 0o755);
        Self { program: program.to_str().unwrap().to_owned(), repository, traces }
    }

    fn set(&self, key: &str, value: &str) {
        self.repository.git(&["config", key, value]);
    }

    fn hook(&self, folder: &str, name: &str) {
        put(
            &self.repository.root.join(folder).join(name),
            &format!("#!/bin/sh\nexec {}\n", self.program),
            0o755,
        );
    }

    /// Makes the repository one that lacks a folder of its last commit, which `url` is said to have.
    fn lacks_a_folder(&self, url: &str) {
        let tree = self.repository.git(&["rev-parse", "HEAD:folder"]);
        let (front, rest) = tree.split_at(2);
        std::fs::remove_file(self.repository.root.join(".git/objects").join(front).join(rest)).unwrap();
        for (key, value) in [
            ("core.repositoryFormatVersion", "1"),
            ("extensions.partialClone", "origin"),
            ("remote.origin.promisor", "true"),
            ("remote.origin.url", url),
            ("protocol.allow", "always"),
            ("protocol.ext.allow", "always"),
        ] {
            self.set(key, value);
        }
    }

    /// As [`Trap::lacks_a_folder`], with the trap as the program that is asked for it.
    fn asks_the_program(&self) {
        self.lacks_a_folder("/nowhere");
        self.set("remote.origin.uploadpack", &self.program);
    }

    fn assert_nothing_ran(&self, what: &str) {
        let ran: Vec<_> = self.traces.iter().filter(|trace| trace.exists()).collect();
        assert!(ran.is_empty(), "{what}: a program of the repository ran: {ran:?}");
    }
}

#[test]
fn s2_a_missing_object_starts_no_program_from_the_command_line() {
    let trap = Trap::new();
    trap.asks_the_program();
    let refused = trap.repository.gc(&["one.md"]);
    trap.assert_nothing_ran("nexus project gc");
    assert_eq!(refused.code(), Some(1));
    assert!(refused.stderr.contains("git read-tree: fatal: unable to read tree"), "{}", refused.stderr);
    assert!(trap.repository.has("one.md"), "what could not be committed is not removed");

    // The trap is a good one: git that nobody holds runs into it.
    try_git(&trap.repository.root, &["cat-file", "-p", "HEAD:folder"]);
    assert!(trap.traces[0].exists());
}

#[test]
fn s2_a_missing_object_starts_no_program_in_conversations_and_hooks() {
    let trap = Trap::new();
    trap.asks_the_program();
    let (workspace, root) = (&trap.repository.workspace, &trap.repository.root);
    let payload = json!({ "cwd": root, "prompt": "[m:gc] one.md" }).to_string();
    let hook = Run::new(&["hook", "user_message", "--harness", "claude-code"]).input(payload);
    let told = workspace.run(&hook).ok().stdout;
    trap.assert_nothing_ran("nexus hook");
    assert!(told.contains("unable to read tree"), "{told}");

    let daemon = Daemon::start(workspace, &DaemonOptions::default());
    let chat = ["chat", "--project", root.to_str().unwrap(), "-m", "[m:gc] one.md"];
    let told = workspace.nexus(&chat).ok().stdout;
    trap.assert_nothing_ran("the daemon");
    assert!(told.contains("ot done"), "{told}");
    daemon.stop();
    assert!(trap.repository.has("one.md"));
}

#[test]
fn s2_nothing_a_repository_can_name_is_started() {
    type Set = fn(&Trap);
    // What is named, how, and whether the removal goes through.
    let table: &[(&str, Set, bool)] = &[
        ("ext transport", |trap| trap.lacks_a_folder(&format!("ext::{} %S", trap.program)), false),
        (
            "ssh command",
            |trap| {
                trap.lacks_a_folder("ssh://host.invalid/x");
                trap.set("core.sshCommand", &trap.program);
                trap.set("ssh.variant", "simple");
            },
            false,
        ),
        (
            "git proxy",
            |trap| {
                trap.lacks_a_folder("git://host.invalid/x");
                trap.set("core.gitProxy", &trap.program);
            },
            false,
        ),
        (
            "rewritten address",
            |trap| {
                trap.lacks_a_folder("https://host.invalid/x");
                trap.set(&format!("url.ext::{} .insteadOf", trap.program), "https://");
            },
            false,
        ),
        (
            "credential helper",
            |trap| {
                trap.lacks_a_folder("https://host.invalid/x");
                trap.set("credential.helper", &trap.program);
                trap.set("core.askPass", &trap.program);
            },
            false,
        ),
        (
            "remote helper of another system",
            |trap| {
                trap.lacks_a_folder("/nowhere");
                trap.set("remote.origin.vcs", &format!("ext::{} ", trap.program));
            },
            false,
        ),
        (
            "included settings",
            |trap| {
                trap.lacks_a_folder("/nowhere");
                let text = format!(
                    "[remote \"origin\"]\n\tuploadpack = {0}\n[core]\n\tfsmonitor = {0}\n",
                    trap.program
                );
                put(&trap.repository.root.join("more"), &text, 0o644);
                trap.set("include.path", "../more");
                trap.set("includeIf.gitdir:**.path", "../more");
            },
            false,
        ),
        (
            "settings of the work tree",
            |trap| {
                trap.asks_the_program();
                trap.set("extensions.worktreeConfig", "true");
                let text = format!("[core]\n\tfsmonitor = {}\n", trap.program);
                put(&trap.repository.root.join(".git/config.worktree"), &text, 0o644);
            },
            false,
        ),
        (
            "file monitor",
            |trap| {
                trap.set("core.fsmonitor", &trap.program);
                trap.set("core.fsmonitorHookVersion", "1");
                try_git(&trap.repository.root, &["update-index", "--fsmonitor"]);
                for trace in &trap.traces {
                    let _ = std::fs::remove_file(trace);
                }
            },
            true,
        ),
        (
            "hooks",
            |trap| {
                for name in ["reference-transaction", "post-index-change", "pre-commit", "post-commit"] {
                    trap.hook(".git/hooks", name);
                }
            },
            true,
        ),
        (
            "hooks elsewhere",
            |trap| {
                for name in ["reference-transaction", "post-index-change", "pre-commit", "post-commit"] {
                    trap.hook("hooks", name);
                }
                trap.set("core.hooksPath", "hooks");
            },
            true,
        ),
        (
            "filters, conversions and mergers",
            |trap| {
                for key in [
                    "filter.f.clean",
                    "filter.f.smudge",
                    "filter.f.process",
                    "diff.f.textconv",
                    "diff.f.command",
                    "merge.f.driver",
                    "diff.external",
                ] {
                    trap.set(key, &trap.program);
                }
                trap.set("filter.f.required", "true");
                let text = "* filter=f diff=f merge=f text\n";
                put(&trap.repository.root.join(".gitattributes"), text, 0o644);
                put(&trap.repository.root.join(".git/info/attributes"), text, 0o644);
            },
            true,
        ),
        (
            "signing",
            |trap| {
                for key in ["gpg.program", "gpg.ssh.program", "gpg.ssh.defaultKeyCommand", "gpg.x509.program"]
                {
                    trap.set(key, &trap.program);
                }
                for key in ["commit.gpgSign", "tag.gpgSign"] {
                    trap.set(key, "true");
                }
                trap.set("gpg.format", "ssh");
            },
            true,
        ),
        (
            "editors, pagers and aliases",
            |trap| {
                for key in ["core.editor", "sequence.editor", "core.pager", "pager.rev-parse", "pager.config"]
                {
                    trap.set(key, &trap.program);
                }
                for command in ["rev-parse", "read-tree", "update-ref", "config"] {
                    trap.set(&format!("alias.{command}"), &format!("!{}", trap.program));
                }
            },
            true,
        ),
        (
            "housekeeping",
            |trap| {
                for (key, value) in [
                    ("gc.auto", "1"),
                    ("maintenance.auto", "true"),
                    ("core.alternateRefsCommand", &trap.program),
                ] {
                    trap.set(key, value);
                }
                trap.hook(".git/hooks", "pre-auto-gc");
            },
            true,
        ),
    ];
    for (what, set, goes) in table {
        let trap = Trap::new();
        set(&trap);
        let done = trap.repository.gc(&["one.md"]);
        trap.assert_nothing_ran(what);
        assert_eq!(done.code(), Some(i32::from(!goes)), "{what}: {}", done.stderr);
        assert_eq!(trap.repository.has("one.md"), !goes, "{what}");
    }
}

#[test]
fn s2_a_folder_that_looks_like_a_repository_is_not_used() {
    let trap = Trap::new();
    let inner = trap.repository.root.join("inner");
    git(&trap.repository.root, &["init", "-q", "--bare", "inner"]);
    git(&inner, &["config", "core.bare", "false"]);
    git(&inner, &["config", "core.worktree", "."]);
    git(&inner, &["config", "core.fsmonitor", &trap.program]);
    put(&inner.join(".nexus/memory/one.md"), "old\n", 0o644);
    trap.repository.commit("second");
    let refused = crate::repository::gc(&trap.repository.workspace, &inner, &["one.md"]);
    trap.assert_nothing_ran("a folder that looks like a repository");
    assert!(refused.stderr.contains("cannot use bare repository"), "{}", refused.stderr);
    assert!(inner.join(".nexus/memory/one.md").exists());
}

#[test]
fn s2_a_repository_that_does_not_know_the_project_is_left_alone() {
    let repository = Repository::new();
    let other = repository.workspace.home().join("other");
    put(&other.join(".nexus/memory/one.md"), "old\n", 0o644);
    let before = repository.git(&["rev-parse", "HEAD"]);
    let target = repository.root.join(".git");
    let fake = other.join("fake/worktrees/x");
    let plant: [(&str, &dyn Fn()); 3] = [
        ("a link", &|| std::os::unix::fs::symlink(&target, other.join(".git")).unwrap()),
        ("a file", &|| put(&other.join(".git"), &format!("gitdir: {}\n", target.display()), 0o644)),
        ("a work tree of its own making", &|| {
            put(&other.join(".git"), "gitdir: fake/worktrees/x\n", 0o644);
            put(&fake.join("gitdir"), &format!("{}\n", other.join(".git").display()), 0o644);
            put(&fake.join("commondir"), &format!("{}\n", target.display()), 0o644);
            put(&fake.join("HEAD"), "ref: refs/heads/main\n", 0o644);
        }),
    ];
    for (what, plant) in plant {
        plant();
        let refused = crate::repository::gc(&repository.workspace, &other, &["one.md"]);
        assert_eq!(refused.code(), Some(1), "{what}");
        assert!(refused.stderr.contains("does not name this folder as its work tree"), "{}", refused.stderr);
        assert_eq!(repository.git(&["rev-parse", "HEAD"]), before, "{what}");
        assert!(other.join(".nexus/memory/one.md").exists());
        std::fs::remove_file(other.join(".git")).unwrap();
    }
    // Nor is anything written through links inside a repository.
    let owners = repository.workspace.home().join("owners");
    put(&owners, "mine\n", 0o644);
    std::fs::copy(target.join("index"), target.join("real")).unwrap();
    std::fs::remove_file(target.join("index")).unwrap();
    std::os::unix::fs::symlink(&owners, target.join("index")).unwrap();
    repository.gc(&["one.md"]);
    assert_eq!(std::fs::read_to_string(&owners).unwrap(), "mine\n");
}

#[test]
fn s2_without_a_sandbox_git_does_not_run() {
    let repository = Repository::new();
    let before = repository.git(&["rev-parse", "HEAD"]);
    let refused = without_landlock(|| repository.gc(&["one.md"]));
    assert_eq!(refused.code(), Some(1));
    assert!(
        refused.stderr.contains("git was not run, because a repository can make it start programs")
            && refused.stderr.contains("no Landlock")
            && refused.stderr.contains("run git yourself"),
        "{}",
        refused.stderr
    );
    assert!(repository.has("one.md"));
    assert_eq!(repository.git(&["rev-parse", "HEAD"]), before);
}
