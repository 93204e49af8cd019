//! The life of a started program: start, wait, end, clean up.
//!
//! The leader is reaped last. Until then its number, which is also the group's, cannot be given to another
//! process, so every signal to the group hits what we started or nothing. Where a helper leads the group, it ends
//! the rest when its control socket closes; killing it would only take away who knows them all.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::unix::pipe;

use crate::capture::Capture;
use crate::control::{self, Descriptors, Order, Report, Stage};
use crate::disk::DiskWatch;
use crate::group::{GroupRecord, LiveGroup, kill_marked};
use crate::launch::{Confinement, Helper, Input, Launch, LaunchError, Outcome, Status};
use crate::sandbox::Tier;

/// How long processes left in the group by a finished leader get to end themselves.
const BACKGROUND_GRACE: Duration = Duration::from_millis(200);
/// How long output is awaited after everything was killed.
const LAST_WORDS: Duration = Duration::from_millis(500);
/// The longest report accepted from a helper.
const REPORT_LIMIT: u64 = 64 * 1024;
/// How long a helper may take to end what it started before it is killed itself.
const HELPER_GRACE: Duration = Duration::from_secs(15);
const HELPER_LOOK: Duration = Duration::from_millis(2);

/// Why waiting for the leader ended.
enum End {
    Exited,
    TimedOut,
    Cancelled,
    DiskFull,
}

pub(crate) async fn run(
    mut launch: Launch,
    tier: Option<Tier>,
    started: &(dyn Fn(&LiveGroup) + Send + Sync),
) -> Result<Outcome, LaunchError> {
    let begun = Instant::now();
    let expires = tokio::time::Instant::now() + launch.deadline;
    let mark = nexus_base::id::new_ulid();
    launch.environment.mark(&mark);
    let program = launch.program.clone();
    let (cancel, grace, output) = (launch.cancel.clone(), launch.grace, launch.output.clone());
    let disks = match &launch.confinement {
        Confinement::Sandbox(profile) => DiskWatch::of(profile.writable()),
        Confinement::Unsandboxed => DiskWatch::default(),
    };
    let record = launch.record.clone();

    let Started { mut running, stdout, stderr, control, input } =
        tokio::task::spawn_blocking(move || start(launch, tier, mark, record))
            .await
            .map_err(|error| LaunchError::Setup { reason: error.to_string() })??;

    started(&running.group);

    let [out, err] = output.streams.clone();
    let mut reading = nexus_base::task::spawn("command-output", async move {
        tokio::join!(drain(out, stdout), drain(err, stderr));
    });
    let feeding = input.map(|(pipe, bytes)| nexus_base::task::spawn("command-input", feed(pipe, bytes)));
    // Dropped on every way out, so neither task outlives the run.
    let _tasks = AbortOnDrop([Some(reading.abort_handle()), feeding.map(|task| task.abort_handle())]);

    // Waiting covers the start too: a helper that hangs ends like a program that hangs.
    let mut told = None;
    let living = async {
        let report = read_report(control).await?;
        running.exited().await;
        Ok(report)
    };
    let end = tokio::select! {
        report = living => match report {
            Ok(status) => {
                told = status;
                End::Exited
            }
            Err(Report::Program(text, code)) => return Err(LaunchError::Program {
                program,
                source: code.map_or_else(|| io::Error::other(text), io::Error::from_raw_os_error),
            }),
            Err(Report::Sandbox(reason)) => return Err(LaunchError::Setup { reason }),
            Err(Report::Ended(_)) => End::Exited,
        },
        () = cancel.cancelled() => End::Cancelled,
        () = tokio::time::sleep_until(expires) => End::TimedOut,
        () = disks.ran_low() => End::DiskFull,
    };
    running.signal(Signal::TERM);
    match end {
        End::Exited => {
            // Something in the background may still hold the pipes.
            let _ = tokio::time::timeout(BACKGROUND_GRACE, &mut reading).await;
        }
        End::TimedOut | End::Cancelled => {
            let _ = tokio::time::timeout(grace, running.exited()).await;
        }
        // Every moment of grace is another hundred megabytes.
        End::DiskFull => {}
    }
    running.end().await;
    let (strays, exit) = running.finish().await;
    if !reading.is_finished() {
        let _ = tokio::time::timeout(LAST_WORDS, &mut reading).await;
    }
    // A helper tells how the program ended; its own end says less.
    let exit = told.map_or(exit, std::process::ExitStatus::from_raw);
    let status = match end {
        End::TimedOut => Status::TimedOut,
        End::Cancelled => Status::Cancelled,
        End::DiskFull => Status::DiskFull,
        End::Exited => match (exit.code(), exit.signal()) {
            (Some(code), _) => Status::Exited(code),
            (None, signal) => Status::Signaled(signal.unwrap_or(0)),
        },
    };
    let [stdout, stderr] = output.so_far();
    Ok(Outcome { status, stdout, stderr, duration: begun.elapsed(), strays })
}

struct Started {
    running: Running,
    stdout: OwnedFd,
    stderr: OwnedFd,
    control: Option<UnixStream>,
    input: Option<(OwnedFd, Vec<u8>)>,
}

/// Starts the program or its helper. Blocks for as long as the kernel needs.
fn start(
    launch: Launch,
    tier: Option<Tier>,
    mark: String,
    record: Option<Arc<dyn GroupRecord>>,
) -> Result<Started, LaunchError> {
    let program = launch.program.clone();
    let failed = |source| LaunchError::Program { program: program.clone(), source };
    let (standard_input, input) = match launch.input {
        Input::Null => (OwnedFd::from(std::fs::File::open("/dev/null").map_err(failed)?), None),
        Input::Bytes(bytes) => {
            let (reader, writer) = io::pipe().map_err(failed)?;
            (reader.into(), Some((writer.into(), bytes)))
        }
    };
    let (out_reader, out_writer) = io::pipe().map_err(failed)?;
    let (err_reader, err_writer) = io::pipe().map_err(failed)?;

    let profile = match launch.confinement {
        Confinement::Sandbox(profile) => tier.map(|tier| (profile, tier)),
        Confinement::Unsandboxed => None,
    };
    // Handing over a socket takes the helper too: only it can leave a descriptor open without racing against
    // every other process this one starts.
    let (mut command, order) = if profile.is_some() || launch.tool_socket.is_some() {
        let helper = launch.helper.map_or_else(Helper::this_program, Ok).map_err(failed)?;
        let (socket_variable, socket) = launch.tool_socket.unzip();
        let order = Order {
            stage: Stage::Supervise,
            program: launch.program.into(),
            arguments: launch.arguments,
            profile,
            socket_variable,
            protected: vec![i32::try_from(std::process::id()).unwrap_or(i32::MAX)],
        };
        let mut command = command(&helper.program);
        command.args(&helper.arguments);
        (command, Some((order, Descriptors { input: standard_input, socket, report: None })))
    } else {
        let mut command = command(&launch.program);
        command.args(&launch.arguments).stdin(Stdio::from(standard_input));
        (command, None)
    };
    let control = order.is_some().then(UnixStream::pair).transpose().map_err(failed)?;
    let control = control.map(|(ours, theirs)| {
        command.stdin(Stdio::from(OwnedFd::from(theirs)));
        ours
    });
    command
        .env_clear()
        .envs(launch.environment.pairs())
        .current_dir(&launch.folder)
        .stdout(Stdio::from(OwnedFd::from(out_writer)))
        .stderr(Stdio::from(OwnedFd::from(err_writer)))
        .process_group(0);

    // Written down before it exists: a crash between the two leaves a record of nothing, not a process
    // nobody knows of.
    let mut group = LiveGroup::new(mark);
    if let Some(record) = &record {
        record.live(&group);
    }
    let child = match command.spawn() {
        Ok(child) => child,
        Err(source) => {
            if let Some(record) = &record {
                record.ended(&group.mark);
            }
            return Err(failed(source));
        }
    };
    // Its copies of our pipe ends would keep the pipes open.
    drop(command);
    group.led_by(i32::try_from(child.id()).unwrap_or(0));
    if let Some(record) = &record {
        record.live(&group);
    }
    let end_of = control.as_ref().map(UnixStream::try_clone).transpose().map_err(failed)?;
    let running = Running { child: Some(child), group, record, waiting: None, control: end_of };
    if let (Some((order, descriptors)), Some(control)) = (order, &control) {
        control::send(control, &order, &descriptors).map_err(|error| LaunchError::Setup {
            reason: format!("sending the order to the sandbox helper: {error}"),
        })?;
    }
    Ok(Started { running, stdout: out_reader.into(), stderr: err_reader.into(), control, input })
}

fn command(program: &std::path::Path) -> Command {
    #[expect(clippy::disallowed_methods, reason = "this crate is the one place that starts processes")]
    Command::new(program)
}

/// A started leader that is not reaped yet.
struct Running {
    child: Option<Child>,
    group: LiveGroup,
    record: Option<Arc<dyn GroupRecord>>,
    waiting: Option<tokio::task::JoinHandle<()>>,
    /// The way to the helper that leads the group, if one does.
    control: Option<UnixStream>,
}

impl Running {
    fn leader(&self) -> Option<Pid> {
        Pid::from_raw(i32::try_from(self.child.as_ref()?.id()).ok()?)
    }

    fn signal(&self, signal: Signal) {
        if let Some(leader) = self.leader() {
            // Fails only when everybody in the group is gone.
            let _ = rustix::process::kill_process_group(leader, signal);
        }
    }

    /// Ends everything and returns once the leader has ended.
    async fn end(&mut self) {
        if self.hang_up() {
            let _ = tokio::time::timeout(HELPER_GRACE, self.exited()).await;
        }
        self.signal(Signal::KILL);
        self.exited().await;
    }

    /// Tells the helper to end everything; `false` where there is none.
    fn hang_up(&self) -> bool {
        // Fails only when the helper is gone.
        self.control.as_ref().is_some_and(|control| control.shutdown(std::net::Shutdown::Both).is_ok())
    }

    /// Returns once the leader has ended, without reaping it.
    async fn exited(&mut self) {
        let Some(leader) = self.leader() else { return };
        // A thread waits: a readiness handle on the process would be cheaper, but registering one with the
        // runtime takes `unsafe`. Commands are few and the thread sleeps in the kernel.
        let waiting = self
            .waiting
            .get_or_insert_with(|| tokio::task::spawn_blocking(move || wait_without_reaping(leader)));
        if !waiting.is_finished() {
            let _ = waiting.await;
        }
    }

    /// Ends strays, reaps the leader and closes the record.
    async fn finish(mut self) -> (usize, std::process::ExitStatus) {
        let unknown = || (0, std::process::ExitStatus::from_raw(0));
        let Some(child) = self.child.take() else { return unknown() };
        let (mark, record, has_helper) =
            (self.group.mark.clone(), self.record.take(), self.control.is_some());
        tokio::task::spawn_blocking(move || clean_up(child, &mark, has_helper, record.as_deref()))
            .await
            .unwrap_or_else(|_| unknown())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let Some(leader) = self.leader() else { return };
        let has_helper = self.hang_up();
        if !has_helper {
            self.signal(Signal::KILL);
        }
        let Some(child) = self.child.take() else { return };
        let (mark, record) = (self.group.mark.clone(), self.record.take());
        // A thread, since there may be no runtime any more, and waiting here could hold up others.
        let reaper = std::thread::Builder::new().name("nexus-reaper".to_owned());
        let _ = reaper.spawn(move || {
            if has_helper {
                wait_for_helper(leader);
            }
            clean_up(child, &mark, has_helper, record.as_deref())
        });
    }
}

fn clean_up(
    mut child: Child,
    mark: &str,
    has_helper: bool,
    record: Option<&dyn GroupRecord>,
) -> (usize, std::process::ExitStatus) {
    // A helper that came to its end has ended everything; one that was killed may not have.
    let strays = if has_helper && ended_by_itself(&child) { 0 } else { kill_marked(mark) };
    let exit = child.wait().unwrap_or_else(|_| std::process::ExitStatus::from_raw(0));
    if let Some(record) = record {
        record.ended(mark);
    }
    (strays, exit)
}

fn wait_without_reaping(leader: Pid) {
    use rustix::process::{WaitId, WaitIdOptions, waitid};
    while let Err(rustix::io::Errno::INTR) =
        waitid(WaitId::Pid(leader), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT)
    {}
}

fn ended_by_itself(child: &Child) -> bool {
    use rustix::process::{WaitId, WaitIdOptions, waitid};
    let Some(process) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) else { return false };
    let look = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG;
    matches!(waitid(WaitId::Pid(process), look), Ok(Some(status)) if status.exited())
}

/// Waits for a helper that was told to end everything; kills the group when that takes too long.
fn wait_for_helper(leader: Pid) {
    use rustix::process::{WaitId, WaitIdOptions, waitid};
    let begun = Instant::now();
    while begun.elapsed() < HELPER_GRACE {
        let look = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG;
        match waitid(WaitId::Pid(leader), look) {
            Ok(None) | Err(rustix::io::Errno::INTR) => std::thread::sleep(HELPER_LOOK),
            Ok(Some(_)) | Err(_) => break,
        }
    }
    let _ = rustix::process::kill_process_group(leader, Signal::KILL);
}

/// Reads what became of the program: its wait status, or `None` where the leader itself is the program or its helper
/// was killed. Reports that are failures come as such.
async fn read_report(control: Option<UnixStream>) -> Result<Option<i32>, Report> {
    let Some(control) = control else { return Ok(None) };
    let broken = |what: &str| Report::Sandbox(format!("the sandbox helper {what}"));
    let read = async {
        control.set_nonblocking(true)?;
        let mut text = Vec::new();
        tokio::net::UnixStream::from_std(control)?.take(REPORT_LIMIT).read_to_end(&mut text).await?;
        io::Result::Ok(text)
    };
    let text = read.await.map_err(|error| broken(&format!("has ended: {error}")))?;
    match text.split_first() {
        Some((&control::READY, [])) => Ok(None),
        Some((&control::READY, report)) => match serde_json::from_slice(report) {
            Ok(Report::Ended(status)) => Ok(Some(status)),
            Ok(failure) => Err(failure),
            Err(_) => Err(broken("gave an invalid answer")),
        },
        // Without this, a program that is no helper at all would count as one that did its work.
        Some(_) | None => Err(broken("did not answer")),
    }
}

async fn drain(capture: Capture, stream: OwnedFd) {
    if let Ok(stream) = pipe::Receiver::from_owned_fd(stream) {
        capture.drain(stream).await;
    }
}

async fn feed(stream: OwnedFd, bytes: Vec<u8>) {
    if let Ok(mut stream) = pipe::Sender::from_owned_fd(stream) {
        // A program need not read what it is given.
        let _ = stream.write_all(&bytes).await;
    }
}

struct AbortOnDrop([Option<tokio::task::AbortHandle>; 2]);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        for handle in self.0.iter().flatten() {
            handle.abort();
        }
    }
}
