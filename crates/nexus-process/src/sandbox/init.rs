//! The first process of new namespaces: rebuilds the mounts, confines itself, starts the program and reaps orphans.
//!
//! It stays between supervisor and program because a shell as first process would ignore signals and leave zombies.
//! When it ends, by itself or with its supervisor, the kernel ends everything in the namespace.

use std::os::unix::net::UnixStream;
use std::time::Instant;

use rustix::process::{DumpableBehavior, Pid, Signal, WaitOptions};

use super::confine::{confine, end_first_without_memory};
use super::supervise::{LEFT_OVER_GRACE, LOOK_EVERY, bind_to, code_of, pid_of};
use super::{Tier, descendants, entry, mounts};
use crate::control::{self, Descriptors, Order, Report};

/// Runs the program and returns its exit code once it and what it left has ended.
pub(super) fn run(
    supervisor: &UnixStream,
    order: &Order,
    mut descriptors: Descriptors,
) -> Result<i32, Report> {
    let report = descriptors.report.take().map(UnixStream::from);
    let Some(report) = report else { return Err(Report::Sandbox("nobody to report to".to_owned())) };
    // Only the launch is told; the supervisor just waits for our end.
    Ok(program(supervisor, &report, order, descriptors).unwrap_or_else(|failure| {
        control::report(&report, &failure);
        code_of(Signal::KILL.as_raw())
    }))
}

fn program(
    supervisor: &UnixStream,
    report: &UnixStream,
    order: &Order,
    descriptors: Descriptors,
) -> Result<i32, Report> {
    let failed = |what: &str, error: &dyn std::fmt::Display| Report::Sandbox(format!("{what}: {error}"));
    bind_to(supervisor).map_err(Report::Sandbox)?;
    let Some((profile, _)) = &order.profile else {
        return Err(Report::Sandbox("namespaces without restrictions make no sense".to_owned()));
    };
    end_first_without_memory().map_err(Report::Sandbox)?;
    mounts::rebuild(profile).map_err(Report::Sandbox)?;
    // Neither its memory nor what it holds open is for the program, which runs as the same user.
    rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable)
        .map_err(|error| failed("closing its memory", &error))?;
    let mut command = entry::command(order, &descriptors)?;
    confine(profile, Tier::Namespaces, &[]).map_err(Report::Sandbox)?;
    let child = command.spawn().map_err(|error| entry::not_started(&error))?;
    drop((command, descriptors));
    let Some(leader) = pid_of(&child) else {
        return Err(Report::Sandbox("the program has no number".to_owned()));
    };
    let status = reap_until(leader);
    control::report(report, &Report::Ended(status));
    end_left_over();
    Ok(code_of(status))
}

/// Reaps whatever ends until the program does; returns its wait status.
fn reap_until(leader: Pid) -> i32 {
    loop {
        match rustix::process::wait(WaitOptions::empty()) {
            Ok(Some((process, status))) if process == leader => return status.as_raw(),
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            // It cannot be gone unseen; if it is, nothing is left to wait for.
            Err(_) => return 0,
        }
    }
}

/// Gives what is left a moment to end itself; our own end does the rest.
fn end_left_over() {
    if !descendants::any_left() {
        return;
    }
    // Everybody in this namespace but us.
    let _ = nix::sys::signal::kill(nix::unistd::Pid::from_raw(-1), nix::sys::signal::Signal::SIGTERM);
    let begun = Instant::now();
    while begun.elapsed() < LEFT_OVER_GRACE && descendants::any_left() {
        std::thread::sleep(LOOK_EVERY);
    }
}
