//! One run of the binary to its end, with everything it wrote, or a process whose output is
//! collected while it lives.

use std::io::{Read, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use crate::until;

/// How long a command may take unless the test says otherwise.
const WITHIN: Duration = Duration::from_secs(60);
/// How long output may follow the end of its process: a child that was left behind may hold the pipe.
const OUTPUT_AFTER_END: Duration = Duration::from_secs(2);

/// How to run the binary.
#[derive(Debug, Clone)]
pub struct Run {
    pub arguments: Vec<String>,
    /// What is piped in; nothing means an empty standard input.
    pub input: Vec<u8>,
    /// Variables beside the workspace's own.
    pub environment: Vec<(String, String)>,
    /// When to give up.
    pub within: Duration,
}

impl Run {
    /// A run with these arguments and nothing else.
    pub fn new(arguments: &[&str]) -> Self {
        Self {
            arguments: arguments.iter().map(|argument| (*argument).to_owned()).collect(),
            input: Vec::new(),
            environment: Vec::new(),
            within: WITHIN,
        }
    }

    /// Pipes `text` in.
    #[must_use]
    pub fn input(mut self, text: impl Into<Vec<u8>>) -> Self {
        self.input = text.into();
        self
    }

    /// Sets a variable.
    #[must_use]
    pub fn variable(mut self, name: &str, value: impl Into<String>) -> Self {
        self.environment.push((name.to_owned(), value.into()));
        self
    }

    /// Sets the time after which the run counts as hanging.
    #[must_use]
    pub fn within(mut self, within: Duration) -> Self {
        self.within = within;
        self
    }
}

/// A finished run.
#[derive(Debug, Clone)]
pub struct Finished {
    /// How it ended.
    pub status: ExitStatus,
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
}

impl Finished {
    /// Returns the exit code; `None` when a signal ended it.
    pub fn code(&self) -> Option<i32> {
        self.status.code()
    }

    /// Returns the run if it exited with 0.
    ///
    /// # Panics
    /// It did not; the message has all it wrote.
    pub fn ok(self) -> Self {
        assert!(self.status.success(), "{}\nstdout:\n{}\nstderr:\n{}", self.status, self.stdout, self.stderr);
        self
    }

    /// Returns standard output as JSON, of a run that exited with 0.
    ///
    /// # Panics
    /// It failed or wrote something else.
    pub fn json(self) -> serde_json::Value {
        let finished = self.ok();
        serde_json::from_str(&finished.stdout)
            .unwrap_or_else(|error| panic!("stdout is no JSON ({error}):\n{}", finished.stdout))
    }
}

/// A process under way whose output is being collected.
#[derive(Debug)]
pub(crate) struct Running {
    child: Child,
    stdout: Collected,
    stderr: Collected,
}

impl Running {
    #[expect(clippy::disallowed_methods, reason = "tests start the binary under test")]
    pub(crate) fn start(
        binary: &Path,
        working_folder: &Path,
        environment: &[(String, String)],
        run: &Run,
    ) -> Self {
        let mut child = Command::new(binary)
            .args(&run.arguments)
            .current_dir(working_folder)
            .env_clear()
            .envs(environment.iter().map(|(name, value)| (name, value)))
            .envs(run.environment.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("starting {}: {error}", binary.display()));
        let stdin = child.stdin.take().expect("stdin is piped");
        feed(stdin, run.input.clone());
        let stdout = Collected::from(child.stdout.take().expect("stdout is piped"));
        let stderr = Collected::from(child.stderr.take().expect("stderr is piped"));
        Self { child, stdout, stderr }
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Returns how the process ended, if it has.
    pub(crate) fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().expect("a child can be waited for")
    }

    /// Waits for the end; `None` when it took longer.
    pub(crate) fn wait(&mut self, within: Duration) -> Option<ExitStatus> {
        let started = Instant::now();
        until("a process to end", within + Duration::from_secs(1), || match self.ended() {
            Some(status) => Some(Some(status)),
            None if started.elapsed() >= within => Some(None),
            None => None,
        })
    }

    pub(crate) fn kill(&mut self) -> ExitStatus {
        // Fails only when it has ended by itself.
        let _ = self.child.kill();
        self.child.wait().expect("a child can be waited for")
    }

    pub(crate) fn output_so_far(&self) -> String {
        self.stdout.text()
    }

    pub(crate) fn errors_so_far(&self) -> String {
        self.stderr.text()
    }

    pub(crate) fn finish(mut self, within: Duration) -> Finished {
        let Some(status) = self.wait(within) else {
            self.kill();
            panic!(
                "hangs for {within:?}\nstdout:\n{}\nstderr:\n{}",
                self.output_so_far(),
                self.errors_so_far()
            );
        };
        self.stdout.wait_for_end(OUTPUT_AFTER_END);
        self.stderr.wait_for_end(OUTPUT_AFTER_END);
        Finished { status, stdout: self.output_so_far(), stderr: self.errors_so_far() }
    }
}

fn feed(mut stdin: ChildStdin, input: Vec<u8>) {
    // In a thread: a process that writes before it reads would otherwise block both.
    std::thread::spawn(move || {
        // A process may end without reading all of it.
        let _ = stdin.write_all(&input);
    });
}

/// The bytes of a pipe so far.
#[derive(Debug)]
struct Collected {
    shared: Arc<(Mutex<Pipe>, Condvar)>,
}

#[derive(Debug, Default)]
struct Pipe {
    bytes: Vec<u8>,
    ended: bool,
}

impl Collected {
    fn from(mut pipe: impl Read + Send + 'static) -> Self {
        let shared: Arc<(Mutex<Pipe>, Condvar)> = Arc::default();
        let filled = Arc::clone(&shared);
        std::thread::spawn(move || {
            let mut buffer = [0u8; 8192];
            loop {
                let count = pipe.read(&mut buffer).unwrap_or(0);
                let mut pipe = filled.0.lock().unwrap();
                pipe.bytes.extend_from_slice(&buffer[..count]);
                pipe.ended = count == 0;
                filled.1.notify_all();
                if count == 0 {
                    return;
                }
            }
        });
        Self { shared }
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.shared.0.lock().unwrap().bytes).into_owned()
    }

    fn wait_for_end(&self, within: Duration) {
        let guard = self.shared.0.lock().unwrap();
        let _ = self.shared.1.wait_timeout_while(guard, within, |pipe| !pipe.ended).unwrap();
    }
}
