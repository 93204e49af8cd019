//! The helper's side: receive an order, confine this process, become the program.

use std::ffi::OsStr;
use std::io::{self, Write as _};
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::process::Command;

use rustix::io::FdFlags;
use rustix::process::{Resource, Rlimit};

use super::{Limits, SandboxProfile};
use crate::control::{self, Failure, Order};

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
        && let Err(text) = confine(profile, &order)
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

#[cfg(target_os = "linux")]
fn confine(profile: &SandboxProfile, order: &Order) -> Result<(), String> {
    let failed = |what: &'static str| move |error| format!("{what}: {error}");
    rustix::thread::set_no_new_privs(true).map_err(failed("giving up new privileges"))?;
    let truncate_is_guarded = super::support().landlock_abi.is_some_and(|abi| abi >= 3);
    limit(&profile.limits)?;
    super::rules::apply(profile)?;
    drop_capabilities().map_err(failed("dropping capabilities"))?;
    super::filter::apply(profile.network, order.protected_process, truncate_is_guarded)
}

#[cfg(not(target_os = "linux"))]
fn confine(_profile: &SandboxProfile, _order: &Order) -> Result<(), String> {
    Err("this system has no sandbox".to_owned())
}

/// Root keeps only what file work needs; everybody else has nothing to lose here.
#[cfg(target_os = "linux")]
fn drop_capabilities() -> rustix::io::Result<()> {
    use rustix::thread::{CapabilitySet, capabilities, clear_ambient_capability_set, set_capabilities};
    let kept =
        CapabilitySet::CHOWN | CapabilitySet::DAC_OVERRIDE | CapabilitySet::FOWNER | CapabilitySet::FSETID;
    let mut sets = capabilities(None)?;
    sets.effective &= kept;
    sets.permitted &= kept;
    sets.inheritable = CapabilitySet::empty();
    // The ambient set would survive exec; it cannot be cleared only where it does not exist.
    let _ = clear_ambient_capability_set();
    set_capabilities(None, sets)
}

fn limit(limits: &Limits) -> Result<(), String> {
    // Destructured so that a new limit cannot be forgotten here.
    let Limits { cpu_seconds, data_bytes, file_bytes, open_files, processes } = limits;
    let processes = if rustix::process::getuid().is_root() { &None } else { processes };
    for (resource, value) in [
        (Resource::Core, &Some(0)),
        (Resource::Cpu, cpu_seconds),
        (Resource::Data, data_bytes),
        (Resource::Fsize, file_bytes),
        (Resource::Nofile, open_files),
        (Resource::Nproc, processes),
    ] {
        let Some(value) = value else { continue };
        // A limit that is tighter already stays.
        let ceiling = rustix::process::getrlimit(resource).maximum;
        let value = Some(ceiling.map_or(*value, |ceiling| ceiling.min(*value)));
        rustix::process::setrlimit(resource, Rlimit { current: value, maximum: value })
            .map_err(|error| format!("limiting {resource:?}: {error}"))?;
    }
    Ok(())
}
