//! One daemon under test in a folder of its own, with nothing of the caller's environment.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use nexus_client::Client;
use rustix::process::{Pid, Signal};
use secrecy::SecretString;

/// What the kernel counts processor time in, on every Linux there is.
const MILLISECONDS_A_TICK: u64 = 10;
/// Longest a start or stop may take before the run is given up.
const PATIENCE: Duration = Duration::from_secs(60);
/// Between two looks at a port that does not answer yet; the measured start is off by this much at most.
const LOOK_AGAIN: Duration = Duration::from_micros(250);

/// A workspace, and its daemon while it runs.
#[derive(Debug)]
pub(crate) struct Instance {
    binary: PathBuf,
    folder: tempfile::TempDir,
    port: u16,
    daemon: Option<Child>,
    last_end: Option<std::process::ExitStatus>,
    extra: Vec<(String, String)>,
}

impl Instance {
    /// Makes a workspace with `nexus init`; nothing runs yet.
    pub(crate) fn new(binary: &Path) -> Result<Self> {
        let instance = Self::bare(binary)?;
        let output = instance.nexus(["init", "--json"]).output().context("starting nexus init")?;
        ensure!(output.status.success(), "nexus init: {}", String::from_utf8_lossy(&output.stderr));
        Ok(instance)
    }

    /// Makes an empty folder for a workspace.
    pub(crate) fn bare(binary: &Path) -> Result<Self> {
        let folder = tempfile::Builder::new().prefix("nexus-xtask-").tempdir().context("making a folder")?;
        for name in ["home", "workspace"] {
            std::fs::create_dir(folder.path().join(name)).context("making a folder")?;
        }
        let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
            .context("looking for a free port")?
            .local_addr()?
            .port();
        Ok(Self { binary: binary.to_owned(), folder, port, daemon: None, last_end: None, extra: Vec::new() })
    }

    /// Sets a variable for every process started from here on.
    pub(crate) fn set(&mut self, name: &str, value: &str) {
        self.unset(name);
        self.extra.push((name.to_owned(), value.to_owned()));
    }

    /// Takes a variable back.
    pub(crate) fn unset(&mut self, name: &str) {
        self.extra.retain(|(other, _)| other != name);
    }

    /// Returns the workspace's folder.
    pub(crate) fn workspace(&self) -> PathBuf {
        self.folder.path().join("workspace")
    }

    /// Returns the file that gets everything the daemon prints.
    pub(crate) fn log(&self) -> PathBuf {
        self.folder.path().join("daemon.log")
    }

    /// Prepares a `nexus` command on this workspace.
    pub(crate) fn nexus<I: IntoIterator<Item = S>, S: AsRef<OsStr>>(&self, arguments: I) -> Command {
        let mut command = Command::new(&self.binary);
        command.args(arguments).arg("--workspace").arg(self.workspace());
        self.prepare(&mut command);
        command
    }

    fn prepare(&self, command: &mut Command) {
        command
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", self.folder.path().join("home"))
            .env("LANG", "C.UTF-8")
            .envs(self.extra.iter().map(|(name, value)| (name, value)))
            .current_dir(self.workspace())
            .stdin(Stdio::null());
    }

    /// Starts the daemon and returns how long it took until `/health` said 200.
    pub(crate) fn start(&mut self) -> Result<Duration> {
        self.start_through(None)
    }

    /// Starts the daemon, behind another program if one is named.
    pub(crate) fn start_through(&mut self, wrapper: Option<&[&str]>) -> Result<Duration> {
        let started = self.spawn(wrapper)?;
        self.wait_until_healthy(started)
    }

    /// Starts the daemon without waiting for anything.
    pub(crate) fn spawn(&mut self, wrapper: Option<&[&str]>) -> Result<Instant> {
        ensure!(self.daemon.is_none(), "the daemon runs already");
        let port = self.port.to_string();
        let mut command = self.nexus(["start", "--port", &port]);
        if let Some([program, arguments @ ..]) = wrapper {
            let mut outer = Command::new(program);
            outer.args(arguments).arg(command.get_program()).args(command.get_args());
            self.prepare(&mut outer);
            command = outer;
        }
        let log =
            File::options().append(true).create(true).open(self.log()).context("opening the daemon's log")?;
        let started = Instant::now();
        let child = command.stdout(log.try_clone()?).stderr(log).spawn().context("starting nexus start")?;
        self.daemon = Some(child);
        Ok(started)
    }

    /// Waits for 200 from a daemon started at `started`.
    pub(crate) fn wait_until_healthy(&mut self, started: Instant) -> Result<Duration> {
        loop {
            if health_status(self.port) == Some(200) {
                return Ok(started.elapsed());
            }
            if let Some(status) = self.ended()? {
                bail!("the daemon ended with {status} before it was healthy:\n{}", self.log_tail());
            }
            ensure!(started.elapsed() < PATIENCE, "the daemon is not healthy:\n{}", self.log_tail());
            std::thread::sleep(LOOK_AGAIN);
        }
    }

    /// Returns how the daemon ended, if it did.
    pub(crate) fn ended(&mut self) -> Result<Option<std::process::ExitStatus>> {
        let Some(child) = self.daemon.as_mut() else { return Ok(None) };
        let status = child.try_wait().context("looking after the daemon")?;
        if status.is_some() {
            self.daemon = None;
            self.last_end = status;
        }
        Ok(status)
    }

    /// Says whether the daemon that ended last was killed.
    pub(crate) fn was_killed(&self) -> bool {
        use std::os::unix::process::ExitStatusExt as _;
        self.last_end.and_then(|status| status.signal()) == Some(9)
    }

    /// Ends the daemon as a power switch would.
    pub(crate) fn kill(&mut self) -> Result<()> {
        if let Some(mut child) = self.daemon.take() {
            child.kill().context("killing the daemon")?;
            child.wait().context("waiting for the killed daemon")?;
        }
        Ok(())
    }

    /// Returns the processor time the daemon has taken so far, all threads together.
    pub(crate) fn processor_time(&self) -> Result<Duration> {
        let pid = self.pid().context("no daemon runs")?;
        let path = format!("/proc/{}/stat", pid.as_raw_nonzero());
        let stat = std::fs::read_to_string(&path).with_context(|| format!("reading {path}"))?;
        // The second field is the program's name and may hold anything; what follows its bracket counts.
        let fields: Vec<&str> =
            stat.rsplit_once(')').map(|(_, rest)| rest.split_whitespace().collect()).unwrap_or_default();
        let ticks = |field: usize| fields.get(field).and_then(|text| text.parse::<u64>().ok());
        let (user, system) =
            ticks(11).zip(ticks(12)).with_context(|| format!("{path} is not as expected"))?;
        Ok(Duration::from_millis((user + system) * MILLISECONDS_A_TICK))
    }

    /// Ends the daemon gracefully and returns how long it took.
    pub(crate) fn stop(&mut self) -> Result<Duration> {
        let Some(pid) = self.pid() else { return Ok(Duration::ZERO) };
        let started = Instant::now();
        rustix::process::kill_process(pid, Signal::TERM).context("asking the daemon to stop")?;
        while self.ended()?.is_none() {
            ensure!(started.elapsed() < PATIENCE, "the daemon does not stop:\n{}", self.log_tail());
            std::thread::sleep(LOOK_AGAIN);
        }
        Ok(started.elapsed())
    }

    /// Returns the daemon's resident memory in kilobytes.
    pub(crate) fn resident_kilobytes(&self) -> Result<u64> {
        let pid = self.pid().context("no daemon runs")?.as_raw_nonzero();
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).context("reading /proc")?;
        let line =
            status.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("no VmRSS in /proc")?;
        line.trim().trim_end_matches(" kB").parse().context("VmRSS is not a number")
    }

    /// Returns a client with the owner's token.
    pub(crate) fn client(&self) -> Result<Client> {
        let path = self.workspace().join("state/config.json");
        let text = std::fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
        let config: serde_json::Value = serde_json::from_str(&text).context("reading the configuration")?;
        let token = config["runtime"]["auth"]["token"].as_str().context("no token in the configuration")?;
        Ok(Client::new(self.port, SecretString::from(token)))
    }

    /// Returns the end of what the daemon printed.
    pub(crate) fn log_tail(&self) -> String {
        let bytes = std::fs::read(self.log()).unwrap_or_default();
        let start = bytes.len().saturating_sub(4_000);
        String::from_utf8_lossy(&bytes[start..]).into_owned()
    }

    fn pid(&self) -> Option<Pid> {
        self.daemon.as_ref().map(Pid::from_child)
    }

    /// Keeps the folder for a look at it and returns where it is.
    pub(crate) fn keep(mut self) -> Result<PathBuf> {
        self.kill()?;
        self.folder.disable_cleanup(true);
        Ok(self.folder.path().to_owned())
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        // Nobody is left to tell.
        let _ = self.kill();
    }
}

/// Asks for `/health` over a fresh connection; nothing when nobody answers.
fn health_status(port: u16) -> Option<u16> {
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).ok()?;
    stream.set_read_timeout(Some(Duration::from_secs(5))).ok()?;
    write!(stream, "GET /health HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nConnection: close\r\n\r\n").ok()?;
    let mut answer = [0_u8; 64];
    let length = stream.read(&mut answer).ok()?;
    let line = String::from_utf8_lossy(&answer[..length]).into_owned();
    line.split_whitespace().nth(1)?.parse().ok()
}
