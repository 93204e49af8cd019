//! A throw-away workspace and home, and launches confined to it.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nexus_process::{Confinement, Environment, Helper, Launch, Network, Outcome, SandboxProfile};

/// Set for the helper only. Any name will do that the tests themselves never run under.
pub(crate) const HELPER_VARIABLE: &str = "IT_IS_SANDBOX_HELPER";

/// Ordinary deadline of a test command; far above what any of them needs.
const DEADLINE: Duration = Duration::from_secs(60);

pub(crate) struct Machine {
    _folder: tempfile::TempDir,
    /// The workspace.
    pub(crate) root: PathBuf,
    /// The owner's home, outside the workspace.
    pub(crate) owner: PathBuf,
    /// Private home of the tool.
    pub(crate) private: PathBuf,
    /// Private temporary folder of the tool.
    pub(crate) temp: PathBuf,
}

impl Machine {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let base = folder.path().canonicalize().unwrap();
        let machine = Self {
            root: base.join("workspace"),
            owner: base.join("owner"),
            private: base.join("private"),
            temp: base.join("temp"),
            _folder: folder,
        };
        for path in ["home", "state/data", "state/credentials", "state/agents", "state/user", "skills"] {
            std::fs::create_dir_all(machine.root.join(path)).unwrap();
        }
        for path in [&machine.owner.join(".ssh"), &machine.private, &machine.temp] {
            std::fs::create_dir_all(path).unwrap();
        }
        put(&machine.root.join("state/config.json"), "the-owner-token");
        put(&machine.root.join("AGENTS.md"), "rules");
        put(&machine.owner.join(".ssh/id_ed25519"), "the-private-key");
        machine
    }

    pub(crate) fn task(&self) -> PathBuf {
        self.root.join("home")
    }

    pub(crate) fn profile(&self) -> SandboxProfile {
        SandboxProfile::system()
            .protect(&self.root)
            .protect(&self.owner)
            .read(self.root.join("AGENTS.md"))
            .read(self.root.join("skills"))
            .read(self.root.join("state/agents"))
            .read(self.root.join("state/user"))
            .execute(std::env::current_exe().unwrap())
            .write(self.task())
            .write(&self.private)
            .write(&self.temp)
    }

    pub(crate) fn environment(&self) -> Environment {
        Environment::clean().redirected(&self.private, &self.temp).set(HELPER_VARIABLE, "1").unwrap()
    }

    pub(crate) fn bash(&self, command: &str) -> Launch {
        self.bash_with(command, self.profile())
    }

    pub(crate) fn bash_with(&self, command: &str, profile: SandboxProfile) -> Launch {
        Launch::new("/bin/bash", self.task(), Confinement::Sandbox(profile))
            .arguments(["-c", command])
            .environment(self.environment())
            .helper(helper())
            .deadline(DEADLINE)
    }

    pub(crate) async fn run(&self, command: &str) -> Ran {
        Ran::from(self.bash(command).run().await.unwrap(), &self.profile())
    }

    pub(crate) async fn run_online(&self, command: &str) -> Ran {
        let profile = self.profile().network(Network::On);
        Ran::from(self.bash_with(command, profile.clone()).run().await.unwrap(), &profile)
    }
}

/// An outcome with its output as text, the test runner's own preamble removed.
pub(crate) struct Ran {
    pub(crate) outcome: Outcome,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    pub(crate) remedy: String,
}

impl Ran {
    pub(crate) fn from(outcome: Outcome, profile: &SandboxProfile) -> Self {
        let stdout = outcome.stdout.text();
        // One from each stage of the helper.
        let stdout = stdout.trim_start_matches("\nrunning 1 test\n").to_owned();
        let stderr = outcome.stderr.text();
        let remedy = nexus_process::remedy(&outcome, profile).unwrap_or_default();
        Self { outcome, stdout, stderr, remedy }
    }

    #[track_caller]
    pub(crate) fn must_work(self) -> Self {
        assert!(self.outcome.succeeded(), "{}\n{}\n{}", self.outcome.status, self.stdout, self.stderr);
        self
    }

    #[track_caller]
    pub(crate) fn must_be_denied(self, remedy: &str) -> Self {
        assert!(!self.outcome.succeeded(), "it worked: {}\n{}", self.stdout, self.stderr);
        assert!(
            self.remedy.contains(remedy),
            "remedy {:?}, said {:?} {:?}",
            self.remedy,
            self.stdout,
            self.stderr
        );
        self
    }
}

/// This binary as its own helper. The test runner has a thread that a signal to the group would reach, which a real
/// helper has not, so signals are blocked before it starts.
pub(crate) fn helper() -> Helper {
    let own = std::env::current_exe().unwrap().into_os_string();
    let arguments = ["sandbox_helper", "--exact", "--nocapture", "--quiet", "--test-threads=2"];
    Helper {
        program: "/usr/bin/env".into(),
        arguments: ["--block-signal=TERM".into(), own].into_iter().chain(arguments.map(Into::into)).collect(),
    }
}

pub(crate) fn put(path: &Path, text: &str) {
    nexus_base::file::replace(path, text.as_bytes(), 0o600, nexus_base::file::Durability::Crash).unwrap();
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).unwrap();
}

/// Waits until `condition` holds; panics when it never does.
pub(crate) async fn eventually(what: &str, condition: impl Fn() -> bool) {
    let begun = std::time::Instant::now();
    while !condition() {
        assert!(begun.elapsed() < Duration::from_secs(20), "never happened: {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Returns a number of seconds to sleep by which one test's processes are told from everybody else's. Their own numbers
/// say nothing here: a program may be in a process namespace.
pub(crate) fn unique_sleep() -> String {
    static COUNT: std::sync::atomic::AtomicUsize = std::sync::atomic::AtomicUsize::new(0);
    let count = COUNT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    format!("600.{}{count:04}", std::process::id())
}

/// How many processes live that sleep for so long.
pub(crate) fn sleepers(seconds: &str) -> usize {
    let needle = format!("sleep\0{seconds}\0").into_bytes();
    let Ok(table) = std::fs::read_dir("/proc") else { return 0 };
    table
        .flatten()
        .filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok())
        .filter(|line| line.ends_with(&needle))
        .count()
}
