//! The life of a started program: start, wait, end, clean up.
//!
//! The leader is reaped last. Until then its number, which is also the group's, cannot be given to another
//! process, so every signal to the group hits what we started or nothing.

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
use crate::control::{self, Descriptors, Failure, Order};
use crate::group::{GroupRecord, LiveGroup, kill_marked};
use crate::launch::{Confinement, Helper, Input, Launch, LaunchError, Outcome, Status};

/// How long processes left in the group by a finished leader get to end themselves.
const BACKGROUND_GRACE: Duration = Duration::from_millis(200);
/// How long output is awaited after everything was killed.
const LAST_WORDS: Duration = Duration::from_millis(500);
/// The longest complaint accepted from a helper.
const COMPLAINT_LIMIT: u64 = 64 * 1024;

/// Why waiting for the leader ended.
enum End {
    Exited,
    TimedOut,
    Cancelled,
}

pub(crate) async fn run(
    mut launch: Launch,
    started: &(dyn Fn(&LiveGroup) + Send + Sync),
) -> Result<Outcome, LaunchError> {
    let begun = Instant::now();
    let expires = tokio::time::Instant::now() + launch.deadline;
    let mark = nexus_base::id::new_ulid();
    launch.environment.mark(&mark);
    let program = launch.program.clone();
    let (cancel, grace, limit) = (launch.cancel.clone(), launch.grace, launch.output_limit);
    let record = launch.record.clone();

    let Started { mut running, stdout, stderr, control, input } =
        tokio::task::spawn_blocking(move || start(launch, mark, record))
            .await
            .map_err(|error| LaunchError::Setup { reason: error.to_string() })??;

    started(&running.group);

    let captures = [Capture::new(limit), Capture::new(limit)];
    let [out, err] = captures.clone();
    let mut reading = nexus_base::task::spawn("command-output", async move {
        tokio::join!(drain(out, stdout), drain(err, stderr));
    });
    let feeding = input.map(|(pipe, bytes)| nexus_base::task::spawn("command-input", feed(pipe, bytes)));
    // Dropped on every way out, so neither task outlives the run.
    let _tasks = AbortOnDrop([Some(reading.abort_handle()), feeding.map(|task| task.abort_handle())]);

    // Waiting covers the start too: a helper that hangs ends like a program that hangs.
    let living = async {
        if let Some(failure) = complaint(control).await {
            return Some(failure);
        }
        running.exited().await;
        None
    };
    let end = tokio::select! {
        failure = living => match failure {
            None => End::Exited,
            Some(Failure::Sandbox(reason)) => return Err(LaunchError::Setup { reason }),
            Some(Failure::Program(text, code)) => return Err(LaunchError::Program {
                program,
                source: code.map_or_else(|| io::Error::other(text), io::Error::from_raw_os_error),
            }),
        },
        () = cancel.cancelled() => End::Cancelled,
        () = tokio::time::sleep_until(expires) => End::TimedOut,
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
    }
    running.signal(Signal::KILL);
    running.exited().await;
    let (strays, exit) = running.finish().await;
    if !reading.is_finished() {
        let _ = tokio::time::timeout(LAST_WORDS, &mut reading).await;
    }
    let status = match end {
        End::TimedOut => Status::TimedOut,
        End::Cancelled => Status::Cancelled,
        End::Exited => match (exit.code(), exit.signal()) {
            (Some(code), _) => Status::Exited(code),
            (None, signal) => Status::Signaled(signal.unwrap_or(0)),
        },
    };
    let [stdout, stderr] = captures.map(|capture| capture.take());
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
fn start(launch: Launch, mark: String, record: Option<Arc<dyn GroupRecord>>) -> Result<Started, LaunchError> {
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
        Confinement::Sandbox(profile) => Some(profile),
        Confinement::Unsandboxed => None,
    };
    // Handing over a socket takes the helper too: only it can leave a descriptor open without racing against
    // every other process this one starts.
    let (mut command, order) = if profile.is_some() || launch.tool_socket.is_some() {
        let helper = launch.helper.map_or_else(Helper::this_program, Ok).map_err(failed)?;
        let (socket_variable, socket) = launch.tool_socket.unzip();
        let order = Order {
            program: launch.program.into(),
            arguments: launch.arguments,
            profile,
            socket_variable,
            protected_process: i32::try_from(std::process::id()).unwrap_or(i32::MAX),
        };
        let mut command = command(&helper.program);
        command.args(&helper.arguments);
        (command, Some((order, Descriptors { input: standard_input, socket })))
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
    let running = Running { child: Some(child), group, record, waiting: None };
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
        let (mark, record) = (self.group.mark.clone(), self.record.take());
        tokio::task::spawn_blocking(move || clean_up(child, &mark, record.as_deref()))
            .await
            .unwrap_or_else(|_| unknown())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.signal(Signal::KILL);
        let Some(child) = self.child.take() else { return };
        let (mark, record) = (self.group.mark.clone(), self.record.take());
        // A thread, since there may be no runtime any more, and waiting here could hold up others.
        let reaper = std::thread::Builder::new().name("nexus-reaper".to_owned());
        let _ = reaper.spawn(move || clean_up(child, &mark, record.as_deref()));
    }
}

fn clean_up(
    mut child: Child,
    mark: &str,
    record: Option<&dyn GroupRecord>,
) -> (usize, std::process::ExitStatus) {
    let strays = kill_marked(mark);
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

/// Reads the helper's complaint; `None` when it became the program or there is no helper.
async fn complaint(control: Option<UnixStream>) -> Option<Failure> {
    let control = control?;
    let read = async {
        control.set_nonblocking(true)?;
        let mut text = Vec::new();
        tokio::net::UnixStream::from_std(control)?.take(COMPLAINT_LIMIT).read_to_end(&mut text).await?;
        io::Result::Ok(text)
    };
    match read.await {
        Ok(text) => match text.split_first() {
            Some((&control::READY, [])) => None,
            Some((&control::READY, failure)) => Some(serde_json::from_slice(failure).unwrap_or_else(|_| {
                Failure::Sandbox("the sandbox helper gave an invalid answer".to_owned())
            })),
            // Without this, a program that is no helper at all would count as one that did its work.
            Some(_) | None => Some(Failure::Sandbox("the sandbox helper did not answer".to_owned())),
        },
        Err(error) => Some(Failure::Sandbox(format!("the sandbox helper has ended: {error}"))),
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
