//! A workspace in a temporary home: nothing of the machine's own home, state or variables reaches it.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use nexus_base::file::{Durability, replace};
use nexus_base::lock::{Holder, inspect};
use serde_json::Value;
use tempfile::TempDir;

use crate::run::Running;
use crate::{Finished, Run};

/// A temporary home with a place for one workspace; all of it goes away with this value.
#[derive(Debug)]
pub struct Workspace {
    binary: PathBuf,
    folder: TempDir,
    root: PathBuf,
    environment: Vec<(String, String)>,
}

impl Workspace {
    /// Makes the home; `binary` is `env!("CARGO_BIN_EXE_nexus")`, which only the binary's own tests
    /// have. The workspace folder itself does not exist yet: see [`Workspace::init`].
    pub fn new(binary: impl Into<PathBuf>) -> Self {
        let folder = tempfile::Builder::new().prefix("nexus-test-").tempdir().expect("a temporary folder");
        let path = folder.path().canonicalize().expect("a temporary folder has a path");
        let mut environment = vec![
            ("PATH".to_owned(), std::env::var("PATH").unwrap_or_else(|_| "/usr/bin:/bin".to_owned())),
            ("LANG".to_owned(), "C.UTF-8".to_owned()),
            ("NO_COLOR".to_owned(), "1".to_owned()),
        ];
        for (variable, name) in [
            ("HOME", "home"),
            ("TMPDIR", "tmp"),
            ("XDG_CONFIG_HOME", "home/.config"),
            ("XDG_STATE_HOME", "home/.local/state"),
            ("XDG_DATA_HOME", "home/.local/share"),
            ("XDG_CACHE_HOME", "home/.cache"),
            ("XDG_RUNTIME_DIR", "run"),
        ] {
            let place = path.join(name);
            fs::create_dir_all(&place).expect("folders in a temporary folder");
            fs::set_permissions(&place, fs::Permissions::from_mode(0o700)).expect("own folder");
            environment.push((variable.to_owned(), place.to_string_lossy().into_owned()));
        }
        let root = path.join("workspace");
        environment.push(("NEXUS_ROOT".to_owned(), root.to_string_lossy().into_owned()));
        Self { binary: binary.into(), folder, root, environment }
    }

    /// Makes the home and the workspace in it, with `nexus init`.
    pub fn initialized(binary: impl Into<PathBuf>) -> Self {
        let workspace = Self::new(binary);
        workspace.init();
        workspace
    }

    /// Runs `nexus init`.
    ///
    /// # Panics
    /// It did not exit with 0.
    pub fn init(&self) -> Finished {
        self.nexus(&["init"]).ok()
    }

    /// Returns the workspace's root, which is also `NEXUS_ROOT` of everything run here.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Returns the temporary home, which is `HOME` of everything run here.
    pub fn home(&self) -> PathBuf {
        self.folder.path().join("home")
    }

    /// Returns the binary under test.
    pub fn binary(&self) -> &Path {
        &self.binary
    }

    /// Returns the variables everything here runs with; nothing else is inherited.
    pub fn environment(&self) -> &[(String, String)] {
        &self.environment
    }

    /// Sets a variable for every later run, such as a key the machine is supposed to have.
    pub fn set_variable(&mut self, name: &str, value: impl Into<String>) {
        self.environment.retain(|(known, _)| known != name);
        self.environment.push((name.to_owned(), value.into()));
    }

    /// Runs the binary to its end with nothing on standard input.
    ///
    /// # Panics
    /// It hangs for a minute.
    pub fn nexus(&self, arguments: &[&str]) -> Finished {
        self.run(&Run::new(arguments))
    }

    /// Runs the binary to its end.
    ///
    /// # Panics
    /// It takes longer than it may.
    pub fn run(&self, run: &Run) -> Finished {
        self.start(run).finish(run.within)
    }

    /// Returns the path of a file in the workspace, by its path from the root.
    pub fn path(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    /// Returns a file of the workspace as text.
    ///
    /// # Panics
    /// It cannot be read.
    pub fn file(&self, name: &str) -> String {
        let path = self.path(name);
        fs::read_to_string(&path).unwrap_or_else(|error| panic!("reading {}: {error}", path.display()))
    }

    /// Returns a file of the workspace as JSON.
    ///
    /// # Panics
    /// It cannot be read, or is something else.
    pub fn json(&self, name: &str) -> Value {
        serde_json::from_str(&self.file(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
    }

    /// Writes a file of the workspace, with the folders above it.
    ///
    /// # Panics
    /// It cannot be written.
    pub fn write(&self, name: &str, content: &str) {
        let path = self.path(name);
        let above = path.parent().expect("a file in the workspace lies in a folder");
        fs::create_dir_all(above).unwrap_or_else(|error| panic!("making {}: {error}", above.display()));
        replace(&path, content.as_bytes(), 0o600, Durability::Crash)
            .unwrap_or_else(|error| panic!("{error}: {}", error.source));
    }

    /// Changes the configuration file. A daemon that runs needs a reload to see it.
    ///
    /// # Panics
    /// There is none yet, or it cannot be written.
    pub fn edit_config(&self, change: impl FnOnce(&mut Value)) {
        let mut config = self.json("state/config.json");
        change(&mut config);
        self.write("state/config.json", &format!("{config:#}\n"));
    }

    /// Returns the owner's token from the configuration.
    ///
    /// # Panics
    /// There is none.
    pub fn token(&self) -> String {
        let config = self.json("state/config.json");
        let token = config.pointer("/runtime/auth/token").and_then(Value::as_str);
        token.unwrap_or_else(|| panic!("no runtime.auth.token in state/config.json")).to_owned()
    }

    pub(crate) fn start(&self, run: &Run) -> Running {
        Running::start(&self.binary, &self.home(), &self.environment, run)
    }

    /// Returns the process that holds the workspace and the port it serves on, if there is one.
    pub fn holder(&self) -> Option<Holder> {
        inspect(&self.path("state/nex.pid"))
    }

    /// Ends a daemon that a command such as `nexus up` left behind: whoever holds the lock of a
    /// workspace that only this value knows.
    fn end_leftover(&self) -> Option<()> {
        let pid = self.holder()?.pid;
        if pid != std::process::id() {
            let pid = rustix::process::Pid::from_raw(i32::try_from(pid).ok()?)?;
            rustix::process::kill_process(pid, rustix::process::Signal::KILL).ok()?;
        }
        Some(())
    }
}

impl Drop for Workspace {
    fn drop(&mut self) {
        // Nothing to end is the ordinary case.
        let _ = self.end_leftover();
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn nothing_of_the_machine_reaches_a_run() {
        let mut workspace = Workspace::new("/bin/sh");
        workspace.set_variable("PLANTED", "yes");
        let script = "cat; echo \"$HOME|$PLANTED|$ONCE|${CARGO_PKG_NAME:-unset}\"; echo err >&2; exit 7";
        let run =
            Run::new(&["-c", script]).input("in:").variable("ONCE", "1").within(Duration::from_secs(20));
        let finished = workspace.run(&run);
        assert_eq!(finished.code(), Some(7));
        assert_eq!(finished.stdout, format!("in:{}|yes|1|unset\n", workspace.home().display()));
        assert_eq!(finished.stderr, "err\n");
    }

    #[test]
    #[should_panic(expected = "hangs for")]
    fn a_run_that_hangs_is_killed_and_named() {
        let run = Run::new(&["-c", "echo begun; exec sleep 600"]).within(Duration::from_millis(50));
        Workspace::new("/bin/sh").run(&run);
    }

    #[test]
    fn files_are_named_from_the_root() {
        let workspace = Workspace::new("/bin/sh");
        workspace.write("state/config.json", r#"{"runtime":{"auth":{"token":"t"}}}"#);
        assert_eq!(workspace.token(), "t");
        assert_eq!(workspace.path("state"), workspace.root().join("state"));
    }
}
