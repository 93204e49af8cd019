//! The supervisor: starts the next stage, waits for its end or for the launch to go away, and leaves nothing behind.
//!
//! It is not confined itself, so that nothing inside can end it, and it takes no signal of its group: those are
//! for the program.

use std::io::{self, Read as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::SigSet;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open};

use super::{Tier, descendants, namespaces};
use crate::control::{self, Descriptors, Order, READY, Report, Stage};

/// How long what a finished program left running gets to end itself.
pub(super) const LEFT_OVER_GRACE: Duration = Duration::from_millis(200);
/// How often the left-over processes are looked at meanwhile.
pub(super) const LOOK_EVERY: Duration = Duration::from_millis(2);

/// Carries an order out and returns the exit code once nothing of it is left.
pub(super) fn supervise(
    control: &UnixStream,
    mut order: Order,
    mut descriptors: Descriptors,
) -> Result<i32, Report> {
    let failed = |what: &str, error: &dyn std::fmt::Display| Report::Sandbox(format!("{what}: {error}"));
    SigSet::all().thread_block().map_err(|error| failed("blocking signals", &error))?;
    close_fds::set_fds_cloexec(3, &[]);
    let tier = order.profile.as_ref().map(|(_, tier)| *tier);
    if tier == Some(Tier::Namespaces) {
        namespaces::enter().map_err(Report::Sandbox)?;
        order.stage = Stage::Init;
        descriptors.report =
            Some(control.try_clone().map_err(|error| failed("copying the control socket", &error))?.into());
    } else {
        let own = rustix::process::getpid();
        rustix::process::set_child_subreaper(Some(own))
            .map_err(|error| failed("becoming the parent of orphans", &error))?;
        order.stage = Stage::Become;
        order.protected.push(own.as_raw_nonzero().get());
    }
    let (child, stream) = start().map_err(|error| failed("starting the helper", &error))?;
    if tier == Some(Tier::Broker) {
        attach(&child).map_err(Report::Sandbox)?;
    }
    control::send(&stream, &order, &descriptors).map_err(|error| failed("sending the order on", &error))?;
    // Its copies would keep pipes and sockets open.
    drop(descriptors);
    match tier {
        Some(Tier::Namespaces) => first_process(control, child, &stream),
        Some(Tier::Broker) => traced(control, &child, stream, &order),
        Some(Tier::Landlock) | None => family(control, child, stream),
    }
}

/// Starts this program again, to be sent its order.
fn start() -> io::Result<(Child, UnixStream)> {
    let (ours, theirs) = UnixStream::pair()?;
    #[expect(clippy::disallowed_methods, reason = "this crate is the one place that starts processes")]
    let mut command = Command::new("/proc/self/exe");
    let child =
        command.args(std::env::args_os().skip(1)).stdin(Stdio::from(OwnedFd::from(theirs))).spawn()?;
    // Its copy of the other end would hide the end of the stage.
    drop(command);
    Ok((child, ours))
}

#[cfg(target_arch = "x86_64")]
fn attach(child: &Child) -> Result<(), String> {
    super::broker::attach(child)
}

#[cfg(target_arch = "x86_64")]
fn traced(control: &UnixStream, child: &Child, stream: UnixStream, order: &Order) -> Result<i32, Report> {
    match &order.profile {
        Some((profile, _)) => super::broker::run(control, child, stream, profile),
        None => Err(Report::Sandbox("tracing without restrictions makes no sense".to_owned())),
    }
}

/// Registers have other names elsewhere, and nobody has tried.
#[cfg(not(target_arch = "x86_64"))]
fn attach(_child: &Child) -> Result<(), String> {
    Err("programs are not traced on this architecture".to_owned())
}

#[cfg(not(target_arch = "x86_64"))]
fn traced(_control: &UnixStream, _child: &Child, stream: UnixStream, _order: &Order) -> Result<i32, Report> {
    Err(complaint(stream).unwrap_or_else(|| Report::Sandbox("programs are not traced here".to_owned())))
}

/// Waits for the first process of the namespaces, which reports by itself. With it everything in them ends; the
/// stream stays open for it to see whether we live.
fn first_process(control: &UnixStream, mut child: Child, _stream: &UnixStream) -> Result<i32, Report> {
    if wait_or_end(control, &child) == Waited::LaunchGone {
        // Fails only when it ended in this very moment.
        let _ = child.kill();
    }
    let status =
        child.wait().map_err(|error| Report::Sandbox(format!("waiting for the program: {error}")))?;
    Ok(code_of(status.into_raw()))
}

/// Waits for the program, then ends all its descendants: as their subreaper we are the parent of every orphan.
fn family(control: &UnixStream, mut child: Child, stream: UnixStream) -> Result<i32, Report> {
    if let Some(failure) = complaint(stream) {
        return Err(failure);
    }
    if wait_or_end(control, &child) == Waited::LaunchGone {
        descendants::end_all();
        return Ok(code_of(Signal::KILL.as_raw()));
    }
    let status =
        child.wait().map_err(|error| Report::Sandbox(format!("waiting for the program: {error}")))?;
    control::report(control, &Report::Ended(status.into_raw()));
    ask_left_over();
    descendants::end_all();
    Ok(code_of(status.into_raw()))
}

/// Gives what is left in the program's group a moment to end itself.
fn ask_left_over() {
    if !descendants::any_left() {
        return;
    }
    // Our own group; we take no signals.
    let _ = rustix::process::kill_current_process_group(Signal::TERM);
    let begun = Instant::now();
    while begun.elapsed() < LEFT_OVER_GRACE && descendants::any_left() {
        std::thread::sleep(LOOK_EVERY);
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Waited {
    ChildEnded,
    LaunchGone,
}

/// Waits until the child ended or the launch closed its end, without reaping.
fn wait_or_end(control: &UnixStream, child: &Child) -> Waited {
    let Some(handle) = pid_of(child).and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok()) else {
        return Waited::LaunchGone;
    };
    loop {
        let mut sources = [
            PollFd::from_borrowed_fd(handle.as_fd(), PollFlags::IN),
            PollFd::from_borrowed_fd(control.as_fd(), PollFlags::IN | PollFlags::RDHUP),
        ];
        match poll(&mut sources, None) {
            Ok(_) if !sources[0].revents().is_empty() => return Waited::ChildEnded,
            // The launch says nothing after its order, so whatever comes is its end.
            Ok(_) if !sources[1].revents().is_empty() => return Waited::LaunchGone,
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(_) => return Waited::LaunchGone,
        }
    }
}

/// Reads why the next stage did not become the program; its end closes by itself when it did.
pub(super) fn complaint(mut stream: UnixStream) -> Option<Report> {
    let mut text = Vec::new();
    let broken = |what: &str| Some(Report::Sandbox(format!("the sandbox helper {what}")));
    match stream.read_to_end(&mut text) {
        Ok(_) => match text.split_first() {
            Some((&READY, [])) => None,
            Some((&READY, failure)) => {
                serde_json::from_slice(failure).ok().or_else(|| broken("gave an invalid answer"))
            }
            Some(_) | None => broken("did not answer"),
        },
        Err(error) => broken(&format!("has ended: {error}")),
    }
}

/// Makes the kernel end this process with its supervisor, makes sure that it has not ended before, and takes signals
/// again, which the supervisor does not.
pub(super) fn bind_to(supervisor: &UnixStream) -> Result<(), String> {
    SigSet::empty().thread_set_mask().map_err(|error| format!("unblocking signals: {error}"))?;
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))
        .map_err(|error| format!("binding it to its supervisor: {error}"))?;
    let mut source = [PollFd::from_borrowed_fd(supervisor.as_fd(), PollFlags::RDHUP)];
    let now = rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 };
    match poll(&mut source, Some(&now)) {
        Ok(_) if !source[0].revents().intersects(PollFlags::HUP | PollFlags::RDHUP) => Ok(()),
        Ok(_) | Err(_) => Err("the supervisor is gone".to_owned()),
    }
}

pub(super) fn pid_of(child: &Child) -> Option<Pid> {
    Pid::from_raw(i32::try_from(child.id()).ok()?)
}

/// The exit code by which a shell would tell of a wait status.
pub(super) fn code_of(status: i32) -> i32 {
    let status = std::process::ExitStatus::from_raw(status);
    status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0))
}
