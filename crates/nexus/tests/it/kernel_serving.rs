//! A process of ours that serves until it is stopped or dies at a failpoint, `nexus kernel serve` first.

use std::io::{BufRead as _, BufReader, Read as _};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use nexus_testkit::{Workspace, until};
use rustix::process::{Pid, Signal, kill_process};

/// The process; ended when dropped.
pub(crate) struct Serving {
    child: Child,
    errors: Option<std::thread::JoinHandle<String>>,
}

impl Serving {
    /// Starts `nexus kernel serve` and waits until it says that it serves.
    pub(crate) fn start(workspace: &Workspace, arguments: &[&str], failpoint: Option<&str>) -> Self {
        let arguments = [&["kernel", "serve"], arguments].concat();
        Self::command(workspace, &arguments, failpoint, "serving ")
    }

    /// Starts a command and waits for a line that begins with `ready`.
    #[expect(clippy::disallowed_methods, reason = "tests start the binary under test")]
    pub(crate) fn command(
        workspace: &Workspace,
        arguments: &[&str],
        failpoint: Option<&str>,
        ready: &str,
    ) -> Self {
        let mut child = Command::new(workspace.binary())
            .args(arguments)
            .env_clear()
            .envs(workspace.environment().iter().map(|(name, value)| (name, value)))
            .envs(failpoint.map(|place| (nexus_base::failpoint::VARIABLE, place)))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the binary starts");
        let mut stderr = child.stderr.take().expect("stderr is piped");
        let errors = std::thread::spawn(move || {
            let mut text = String::new();
            // What could be read counts; the process may be killed half way through a line.
            let _ = stderr.read_to_string(&mut text);
            text
        });
        let mut line = String::new();
        let stdout = child.stdout.take().expect("stdout is piped");
        BufReader::new(stdout).read_line(&mut line).expect("a line");
        let mut serving = Self { child, errors: Some(errors) };
        assert!(line.starts_with(ready), "it said {line:?} and {}", serving.said());
        serving
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Ends it gracefully; returns what it said on stderr.
    pub(crate) fn stop(mut self) -> String {
        self.signal(Signal::TERM);
        self.wait();
        self.said()
    }

    /// Waits for its end.
    pub(crate) fn wait(&mut self) -> std::process::ExitStatus {
        until("the server to end", Duration::from_secs(30), || {
            self.child.try_wait().expect("a child can be waited for")
        })
    }

    fn signal(&self, signal: Signal) {
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw).expect("a process id");
        let _ = kill_process(pid, signal);
    }

    fn said(&mut self) -> String {
        self.signal(Signal::TERM);
        self.errors.take().map(|reader| reader.join().expect("stderr is read")).unwrap_or_default()
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
