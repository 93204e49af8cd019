//! The supervisor as a tracer: calls that change modes and times, which Landlock does not cover, are made here instead,
//! and only for files in the program's own folders.
//!
//! The kernel ends every traced process with its tracer, so that nothing survives this process either.

mod calls;

use std::os::fd::AsFd as _;
use std::os::unix::net::UnixStream;
use std::process::Child;
use std::sync::mpsc::Sender;
use std::time::Instant;

use nix::sys::ptrace::{self, Options};
use nix::sys::signal::Signal;
use nix::unistd::Pid;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{WaitOptions, WaitStatus};

use super::SandboxProfile;
use super::supervise::{LEFT_OVER_GRACE, LOOK_EVERY, code_of, complaint, pid_of};
use crate::control::{self, Report};

/// Waits for threads and for what other processes started, too.
const EVERYBODY: u32 = 0x4000_0000;
/// Where the kernel puts the event in a wait status.
const EVENT_SHIFT: i32 = 16;

/// Starts tracing a stage that has no order yet.
pub(super) fn attach(child: &Child) -> Result<(), String> {
    let process = pid_of(child).ok_or("the helper has no number")?;
    let options = Options::PTRACE_O_TRACESECCOMP
        | Options::PTRACE_O_TRACEFORK
        | Options::PTRACE_O_TRACEVFORK
        | Options::PTRACE_O_TRACECLONE
        | Options::PTRACE_O_EXITKILL;
    ptrace::seize(Pid::from_raw(process.as_raw_nonzero().get()), options)
        .map_err(|error| format!("tracing the program: {error}"))
}

/// Serves the traced program until it has ended.
pub(super) fn run(
    control: &UnixStream,
    child: &Child,
    stream: UnixStream,
    profile: &SandboxProfile,
) -> Result<i32, Report> {
    let folders = calls::Folders::of(profile);
    let Some(leader) = pid_of(child) else {
        return Err(Report::Sandbox("the helper has no number".to_owned()));
    };
    let failed = |error: std::io::Error| Report::Sandbox(format!("watching the launch: {error}"));
    let watched = control.try_clone().map_err(failed)?;
    let (sender, became) = std::sync::mpsc::channel();
    std::thread::Builder::new().spawn(move || watch(&watched, stream, &sender)).map_err(failed)?;
    let status = loop {
        match rustix::process::wait(WaitOptions::from_bits_retain(EVERYBODY)) {
            Ok(Some((process, status))) if process == leader && !status.stopped() => break status.as_raw(),
            Ok(Some((process, status))) => step(process.as_raw_nonzero().get(), status, &folders),
            Ok(None) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(Report::Sandbox(format!("waiting for the program: {error}"))),
        }
    };
    // It has ended, so its end of the stream is closed and the answer there.
    if let Ok(Some(failure)) = became.recv() {
        return Err(failure);
    }
    control::report(control, &Report::Ended(status));
    end_left_over(&folders);
    Ok(code_of(status))
}

/// Tells whether the stage became the program; ends this process, and by that everything it traces, when the launch is
/// gone.
fn watch(control: &UnixStream, stream: UnixStream, became: &Sender<Option<Report>>) {
    let failure = complaint(stream);
    let is_running = failure.is_none();
    if became.send(failure).is_err() || !is_running {
        return;
    }
    let mut source = [PollFd::from_borrowed_fd(control.as_fd(), PollFlags::IN | PollFlags::RDHUP)];
    while matches!(poll(&mut source, None), Err(rustix::io::Errno::INTR)) {}
    #[expect(clippy::exit, reason = "the end of the tracer is the end of what it traces")]
    std::process::exit(code_of(rustix::process::Signal::KILL.as_raw()))
}

/// Lets a stopped process go on, after serving its call.
fn step(process: i32, status: WaitStatus, folders: &calls::Folders) {
    let Some(signal) = status.stopping_signal() else { return };
    let event = status.as_raw() >> EVENT_SHIFT;
    let pid = Pid::from_raw(process);
    let deliver = match event {
        0 => Signal::try_from(signal).ok(),
        event => {
            if event == ptrace::Event::PTRACE_EVENT_SECCOMP as i32 {
                calls::serve(pid, folders);
            }
            None
        }
    };
    // Fails only when it was killed meanwhile.
    let _ = ptrace::cont(pid, deliver);
}

/// Gives what is left a moment to end itself, serving it meanwhile.
fn end_left_over(folders: &calls::Folders) {
    let begun = Instant::now();
    let mut asked = false;
    while begun.elapsed() < LEFT_OVER_GRACE {
        match rustix::process::wait(WaitOptions::from_bits_retain(EVERYBODY) | WaitOptions::NOHANG) {
            Ok(Some((process, status))) => step(process.as_raw_nonzero().get(), status, folders),
            Ok(None) if !asked => {
                asked = true;
                let _ = rustix::process::kill_current_process_group(rustix::process::Signal::TERM);
            }
            Ok(None) => std::thread::sleep(LOOK_EVERY),
            Err(rustix::io::Errno::INTR) => {}
            Err(_) => return,
        }
    }
}
