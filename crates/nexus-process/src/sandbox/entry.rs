//! The helper's side: receive an order, confine this process, become the program.

use std::ffi::OsStr;
use std::io::{self, Write as _};
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::process::Command;

use rustix::io::FdFlags;

#[cfg(target_os = "linux")]
use super::confine::confine;
use crate::control::{self, Failure};

/// First argument that makes this program the sandbox helper.
pub const HELPER_ARGUMENT: &str = "__sandbox";

/// Exit code when the helper was started by hand or lost its order.
const MISUSED: i32 = 125;

/// Becomes the sandbox helper if the first argument says so, else returns.
///
/// Call it first in `main`, before threads, signal handlers or argument parsing.
pub fn run_if_sandbox_helper() {
    if std::env::args_os().nth(1).as_deref() == Some(OsStr::new(HELPER_ARGUMENT)) {
        sandbox_entry();
    }
}

/// Runs as the sandbox helper: reads its order from standard input, confines the calling thread and replaces
/// this process by the ordered program. Never returns.
pub fn sandbox_entry() -> ! {
    let failure = match take_control() {
        Ok(control) => {
            let failure = serve(&control);
            if let Ok(text) = serde_json::to_vec(&failure) {
                // Nobody is left to tell when this fails; the exit code remains.
                let _ = (&control).write_all(&text);
            }
            MISUSED
        }
        Err(_) => MISUSED,
    };
    #[expect(clippy::exit, reason = "the helper is a process of its own with nothing to unwind")]
    std::process::exit(failure)
}

/// Moves the control socket away from standard input.
fn take_control() -> io::Result<UnixStream> {
    let input = io::stdin();
    rustix::net::sockopt::socket_type(input.as_fd())?;
    Ok(UnixStream::from(input.as_fd().try_clone_to_owned()?))
}

/// Carries the order out; returns only when that did not work.
fn serve(control: &UnixStream) -> Failure {
    let received = control::receive(control);
    let mut answer = control;
    if let Err(error) = answer.write_all(&[control::READY]) {
        return Failure::Sandbox(format!("answering: {error}"));
    }
    let (order, descriptors) = match received {
        Ok(received) => received,
        Err(error) => return Failure::Sandbox(format!("receiving the order: {error}")),
    };
    if let Err(error) = rustix::stdio::dup2_stdin(&descriptors.input) {
        return Failure::Sandbox(format!("setting standard input: {error}"));
    }
    drop(descriptors.input);
    // What the daemon itself inherited (a log, a lock, a terminal) is no business of a tool.
    close_fds::set_fds_cloexec(3, &[]);
    #[expect(clippy::disallowed_methods, reason = "this crate is the one place that starts processes")]
    let mut command = Command::new(&order.program);
    command.args(&order.arguments);
    if let (Some(variable), Some(socket)) = (&order.socket_variable, &descriptors.socket) {
        match keep_open(socket) {
            Ok(number) => command.env(variable, number.to_string()),
            Err(error) => return Failure::Sandbox(format!("keeping the run socket: {error}")),
        };
    }
    if let Some(profile) = &order.profile
        && let Err(text) = confine(profile, order.protected_process)
    {
        return Failure::Sandbox(text);
    }
    let error = command.exec();
    Failure::Program(error.to_string(), error.raw_os_error())
}

fn keep_open(socket: &OwnedFd) -> io::Result<i32> {
    rustix::io::fcntl_setfd(socket, FdFlags::empty())?;
    Ok(socket.as_raw_fd())
}

#[cfg(not(target_os = "linux"))]
fn confine(_profile: &super::SandboxProfile, _protected_process: i32) -> Result<(), String> {
    Err("this system has no sandbox".to_owned())
}
