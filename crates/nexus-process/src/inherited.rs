//! Taking over a socket that the parent left open under a known descriptor number.

use std::io;
use std::os::unix::net::UnixStream;

/// Returns an own handle on the socket inherited as descriptor `number`.
///
/// # Errors
/// No such descriptor is open, it is no socket, or the system cannot copy it.
pub fn inherited_socket(number: i32) -> io::Result<UnixStream> {
    if number <= 2 {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, format!("{number} is a standard stream")));
    }
    let handle = copy_descriptor(number)?;
    rustix::net::sockopt::socket_type(&handle)?;
    Ok(UnixStream::from(handle))
}

/// A bare number proves nothing about ownership, so instead of claiming it (which would be `unsafe`) the
/// kernel is asked for a copy of it through a handle on this very process.
#[cfg(target_os = "linux")]
fn copy_descriptor(number: i32) -> io::Result<std::os::fd::OwnedFd> {
    use rustix::process::{PidfdFlags, PidfdGetfdFlags};
    let own = rustix::process::pidfd_open(rustix::process::getpid(), PidfdFlags::empty())?;
    Ok(rustix::process::pidfd_getfd(&own, number, PidfdGetfdFlags::empty())?)
}

/// Opening `/dev/fd/N` copies the descriptor on the BSD family, sockets included.
#[cfg(not(target_os = "linux"))]
fn copy_descriptor(number: i32) -> io::Result<std::os::fd::OwnedFd> {
    use rustix::fs::{Mode, OFlags};
    Ok(rustix::fs::open(format!("/dev/fd/{number}"), OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?)
}
