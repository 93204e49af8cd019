//! A daemon under test: started on a free port, asked, stopped, or killed as a crash would.

use std::fmt;
use std::fs;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::time::{Duration, Instant};

use nexus_base::failpoint;
use nexus_base::file::{Durability, replace};
use nexus_client::Client;
use rustix::process::{Pid, Signal, kill_process};

use crate::run::Running;
use crate::{Run, Workspace, http};

/// What the daemon prints once it knows its port.
const PORT_LINE: &str = "listening on http://127.0.0.1:";
/// How long a daemon may take to stop: what `nexus stop` waits.
const STOP_WITHIN: Duration = Duration::from_secs(45);

/// How to start a daemon.
#[derive(Debug, Clone)]
pub struct DaemonOptions {
    /// Place to die at, as `name` or `name@3`.
    pub failpoint: Option<String>,
    /// Variables beside the workspace's own.
    pub environment: Vec<(String, String)>,
    /// Arguments after `start --port 0`.
    pub arguments: Vec<String>,
    /// How long it may take until `/health` says 200.
    pub ready_within: Duration,
}

impl Default for DaemonOptions {
    fn default() -> Self {
        Self {
            failpoint: None,
            environment: Vec::new(),
            arguments: Vec::new(),
            ready_within: Duration::from_secs(30),
        }
    }
}

impl DaemonOptions {
    /// Options of a daemon that dies at `place`.
    pub fn dying_at(place: &str) -> Self {
        Self { failpoint: Some(place.to_owned()), ..Self::default() }
    }

    /// Sets a variable.
    #[must_use]
    pub fn variable(mut self, name: &str, value: impl Into<String>) -> Self {
        self.environment.push((name.to_owned(), value.into()));
        self
    }
}

/// A daemon that ended, or hung, before it was healthy.
#[derive(Debug)]
pub struct StartFailure {
    /// How it ended; `None` when it was still running and has been killed.
    pub status: Option<ExitStatus>,
    /// Standard output and standard error.
    pub log: String,
}

impl fmt::Display for StartFailure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.status {
            Some(status) => write!(formatter, "the daemon ended with {status} before it was healthy")?,
            None => write!(formatter, "the daemon was not healthy in time")?,
        }
        write!(formatter, "\n{}", self.log)
    }
}

/// A running daemon; killed when dropped.
#[derive(Debug)]
pub struct Daemon {
    process: Running,
    port: u16,
    token: String,
    log_file: PathBuf,
    failure_log: PathBuf,
}

impl Daemon {
    /// Starts a daemon and waits until it is healthy.
    ///
    /// # Panics
    /// It did not become healthy; the message has its log.
    pub fn start(workspace: &Workspace, options: &DaemonOptions) -> Self {
        Self::try_start(workspace, options).unwrap_or_else(|failure| panic!("{failure}"))
    }

    /// Starts a daemon and waits until it is healthy or has ended.
    ///
    /// # Errors
    /// It ended first, as a failpoint during boot makes it, or took too long.
    pub fn try_start(workspace: &Workspace, options: &DaemonOptions) -> Result<Self, StartFailure> {
        let mut run = Run::new(&["start", "--port", "0"]);
        run.arguments.extend(options.arguments.iter().cloned());
        run.environment.clone_from(&options.environment);
        if let Some(failpoint) = &options.failpoint {
            run.environment.push((failpoint::VARIABLE.to_owned(), failpoint.clone()));
        }
        let mut process = workspace.start(&run);
        let deadline = Instant::now() + options.ready_within;
        // It says its port to people and to programs; the first to be there will do.
        let port_said = |process: &Running| {
            let noted = workspace.holder().filter(|holder| holder.pid == process.id());
            port_of(&process.output_so_far()).or_else(|| noted?.note?.trim().parse().ok())
        };
        let Some(port) = poll(deadline, &mut process, port_said) else {
            return Err(failure(process));
        };
        let healthy =
            |_: &Running| http::get(port, "/health", None).ok().filter(|answer| answer.status == 200);
        if poll(deadline, &mut process, healthy).is_none() {
            return Err(failure(process));
        }
        let test = std::thread::current().name().unwrap_or("unnamed").replace("::", ".");
        let place = workspace.binary().ancestors().nth(2).unwrap_or(workspace.root());
        let failure_log = place.join("testkit-failures").join(format!("{test}.log"));
        let log_file = workspace.path("state/logs/nex.log");
        Ok(Self { process, port, token: workspace.token(), log_file, failure_log })
    }

    /// Returns the port it listens on.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Returns its process id.
    pub fn pid(&self) -> u32 {
        self.process.id()
    }

    /// Returns the owner's token.
    pub fn token(&self) -> &str {
        &self.token
    }

    /// Returns a client with the owner's token. Calls need a tokio runtime.
    pub fn client(&self) -> Client {
        Client::new(self.port, self.token.clone().into())
    }

    /// Asks with the owner's token, without the typed client.
    ///
    /// # Panics
    /// No answer came.
    pub fn get(&self, target: &str) -> http::Answer {
        http::get(self.port, target, Some(&self.token))
            .unwrap_or_else(|error| panic!("GET {target}: {error}"))
    }

    /// Posts JSON with the owner's token, without the typed client.
    ///
    /// # Panics
    /// No answer came.
    pub fn post(&self, target: &str, body: &serde_json::Value) -> http::Answer {
        http::post(self.port, target, Some(&self.token), &body.to_string())
            .unwrap_or_else(|error| panic!("POST {target}: {error}"))
    }

    /// Returns what it has written so far: standard output, standard error and log file.
    pub fn log(&self) -> String {
        let file = fs::read_to_string(&self.log_file).unwrap_or_default();
        format!(
            "stdout:\n{}\nstderr:\n{}\nlog:\n{file}",
            self.process.output_so_far(),
            self.process.errors_so_far()
        )
    }

    /// Kills it as a crash would: no handler runs.
    pub fn kill9(mut self) -> ExitStatus {
        self.process.kill()
    }

    /// Sends a signal, such as SIGHUP.
    ///
    /// # Panics
    /// It has ended.
    pub fn signal(&self, signal: Signal) {
        let pid = i32::try_from(self.process.id()).ok().and_then(Pid::from_raw).expect("a process id");
        kill_process(pid, signal).expect("the daemon runs");
    }

    /// Asks it to stop with SIGTERM and waits for the end.
    ///
    /// # Panics
    /// It does not stop; the message has its log.
    pub fn stop(mut self) -> ExitStatus {
        self.signal(Signal::TERM);
        match self.process.wait(STOP_WITHIN) {
            Some(status) => status,
            None => panic!("the daemon does not stop on SIGTERM\n{}", self.log()),
        }
    }

    /// Waits until it ends by itself, as at a failpoint.
    ///
    /// # Panics
    /// It goes on running; the message has its log.
    pub fn wait_for_end(mut self, within: Duration) -> ExitStatus {
        match self.process.wait(within) {
            Some(status) => status,
            None => panic!("the daemon is still running after {within:?}\n{}", self.log()),
        }
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        self.process.kill();
        // A test that failed for its own reasons leaves what the daemon said beside the build.
        if std::thread::panicking() {
            let above = self.failure_log.parent().map(fs::create_dir_all);
            if matches!(above, Some(Ok(()))) {
                let _ = replace(&self.failure_log, self.log().as_bytes(), 0o600, Durability::Crash);
            }
        }
    }
}

/// Looks until something is found, the process has ended or the time is over.
fn poll<T>(
    deadline: Instant,
    process: &mut Running,
    mut look: impl FnMut(&Running) -> Option<T>,
) -> Option<T> {
    let within = deadline.saturating_duration_since(Instant::now());
    crate::until("a daemon to be healthy", within + Duration::from_secs(5), || {
        if let Some(found) = look(process) {
            return Some(Some(found));
        }
        (process.ended().is_some() || Instant::now() >= deadline).then_some(None)
    })
}

fn port_of(output: &str) -> Option<u16> {
    let after = &output[output.find(PORT_LINE)? + PORT_LINE.len()..];
    let line = after.lines().next().filter(|line| after.len() > line.len())?;
    line.split(|character: char| !character.is_ascii_digit()).next()?.parse().ok()
}

fn failure(mut process: Running) -> StartFailure {
    let status = process.ended();
    if status.is_none() {
        process.kill();
    }
    let finished = process.finish(Duration::from_secs(1));
    StartFailure { status, log: format!("stdout:\n{}\nstderr:\n{}", finished.stdout, finished.stderr) }
}

#[cfg(test)]
mod tests {
    use super::port_of;

    #[test]
    fn the_port_is_read_from_a_whole_line_only() {
        assert_eq!(port_of("nexus 0.1.0\nlistening on http://127.0.0.1:4310\nmore"), Some(4310));
        assert_eq!(port_of("listening on http://127.0.0.1:4310/ (ready)\n"), Some(4310));
        assert_eq!(port_of("listening on http://127.0.0.1:43"), None);
        assert_eq!(port_of("nothing"), None);
    }
}
