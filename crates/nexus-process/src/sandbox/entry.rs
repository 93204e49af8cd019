//! The helper's side: receive an order, and supervise, confine or become the program.

use std::ffi::OsStr;
use std::io::{self, Write as _};
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::process::Command;

use rustix::io::FdFlags;

#[cfg(target_os = "linux")]
use super::confine::{confine, end_first_without_memory};
#[cfg(target_os = "linux")]
use super::{init, supervise};
use crate::control::{self, Descriptors, Order, Report, Stage};

/// First argument that makes this program the sandbox helper.
pub const HELPER_ARGUMENT: &str = "__sandbox";

/// Exit code when the helper was started by hand, lost its order or could not carry it out.
const MISUSED: i32 = 125;

/// Becomes the sandbox helper if the first argument says so, else returns.
///
/// Call it first in `main`, before threads, signal handlers or argument parsing.
pub fn run_if_sandbox_helper() {
    if std::env::args_os().nth(1).as_deref() == Some(OsStr::new(HELPER_ARGUMENT)) {
        sandbox_entry();
    }
}

/// Runs as the sandbox helper: reads its order from standard input and carries it out. Never returns.
pub fn sandbox_entry() -> ! {
    let code = match take_control() {
        Ok(control) => serve(&control),
        Err(_) => MISUSED,
    };
    #[expect(clippy::exit, reason = "the helper is a process of its own with nothing to unwind")]
    std::process::exit(code)
}

/// Moves the control socket away from standard input.
fn take_control() -> io::Result<UnixStream> {
    let input = io::stdin();
    rustix::net::sockopt::socket_type(input.as_fd())?;
    Ok(UnixStream::from(input.as_fd().try_clone_to_owned()?))
}

/// Carries the order out; returns the exit code unless it became the program.
fn serve(control: &UnixStream) -> i32 {
    let received = control::receive(control);
    let mut answer = control;
    if answer.write_all(&[control::READY]).is_err() {
        return MISUSED;
    }
    let done = match received {
        Ok((order, descriptors)) => carry_out(control, order, descriptors),
        Err(error) => Err(Report::Sandbox(format!("receiving the order: {error}"))),
    };
    done.unwrap_or_else(|failure| {
        control::report(control, &failure);
        MISUSED
    })
}

#[cfg(target_os = "linux")]
fn carry_out(control: &UnixStream, order: Order, descriptors: Descriptors) -> Result<i32, Report> {
    match order.stage {
        Stage::Supervise => supervise::supervise(control, order, descriptors),
        Stage::Init => init::run(control, &order, descriptors),
        Stage::Become => Err(become_program(control, &order, &descriptors)),
    }
}

/// Without process handles and subreapers there is nothing to supervise with.
#[cfg(not(target_os = "linux"))]
fn carry_out(control: &UnixStream, order: Order, descriptors: Descriptors) -> Result<i32, Report> {
    match order.stage {
        Stage::Supervise | Stage::Init | Stage::Become => Err(become_program(control, &order, &descriptors)),
    }
}

/// Puts the restrictions on and becomes the program; returns only when that did not work.
fn become_program(supervisor: &UnixStream, order: &Order, descriptors: &Descriptors) -> Report {
    let mut command = match command(order, descriptors) {
        Ok(command) => command,
        Err(failure) => return failure,
    };
    if let Err(text) = restrict(supervisor, order) {
        return Report::Sandbox(text);
    }
    not_started(&command.exec())
}

#[cfg(target_os = "linux")]
fn restrict(supervisor: &UnixStream, order: &Order) -> Result<(), String> {
    supervise::bind_to(supervisor)?;
    match &order.profile {
        Some((profile, tier)) => {
            end_first_without_memory()?;
            confine(profile, *tier, &order.protected)
        }
        None => Ok(()),
    }
}

#[cfg(not(target_os = "linux"))]
fn restrict(_supervisor: &UnixStream, order: &Order) -> Result<(), String> {
    match order.profile {
        Some(_) => Err("this system has no sandbox".to_owned()),
        None => Ok(()),
    }
}

/// Makes the program's command: its input in place, its socket open, nothing else inherited.
pub(super) fn command(order: &Order, descriptors: &Descriptors) -> Result<Command, Report> {
    rustix::stdio::dup2_stdin(&descriptors.input)
        .map_err(|error| Report::Sandbox(format!("setting standard input: {error}")))?;
    // What the daemon itself inherited (a log, a lock, a terminal) is no business of a tool.
    close_fds::set_fds_cloexec(3, &[]);
    #[expect(clippy::disallowed_methods, reason = "this crate is the one place that starts processes")]
    let mut command = Command::new(&order.program);
    command.args(&order.arguments);
    if let (Some(variable), Some(socket)) = (&order.socket_variable, &descriptors.socket) {
        let number =
            keep_open(socket).map_err(|error| Report::Sandbox(format!("keeping the run socket: {error}")))?;
        command.env(variable, number.to_string());
    }
    Ok(command)
}

pub(super) fn not_started(error: &io::Error) -> Report {
    Report::Program(error.to_string(), error.raw_os_error())
}

fn keep_open(socket: &OwnedFd) -> io::Result<i32> {
    rustix::io::fcntl_setfd(socket, FdFlags::empty())?;
    Ok(socket.as_raw_fd())
}
