//! The talk between a launch and its sandbox helper, over a socket pair that is the helper's standard input.
//!
//! The launch sends one order with the descriptors the program shall have. The helper answers with one byte that
//! it has understood, then with one [`Report`] once the program ended or could not be started. The socket stays
//! open for as long as the program may run: when the launch closes its end, or dies, the helper ends everything.

use std::ffi::OsString;
use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags,
};
use serde::{Deserialize, Serialize};

use crate::sandbox::{SandboxProfile, Tier};

/// The longest order accepted; the arguments of a program are bounded by the kernel at a similar size.
const ORDER_LIMIT: usize = 2 * 1024 * 1024;
/// Standard input, the run socket and the way to the launch.
const MAX_DESCRIPTORS: usize = 3;

/// The helper's first byte: it is a helper and has its order.
pub(crate) const READY: u8 = b'R';
/// How long a helper may leave its order unread before the launch gives it up.
const SEND_TIMEOUT: Duration = Duration::from_secs(10);

/// Descriptors that arrive are the helper's own until it says otherwise.
#[cfg(target_os = "linux")]
const RECEIVE_FLAGS: RecvFlags = RecvFlags::CMSG_CLOEXEC;
#[cfg(not(target_os = "linux"))]
const RECEIVE_FLAGS: RecvFlags = RecvFlags::empty();

/// What a helper does with its order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Stage {
    /// Start the next stage, and end everything when the launch goes away.
    Supervise,
    /// Be the first process of new namespaces: mounts, restrictions, the program, its orphans.
    Init,
    /// Put the restrictions on and become the program.
    Become,
}

/// What the helper shall start.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Order {
    pub(crate) stage: Stage,
    pub(crate) program: OsString,
    pub(crate) arguments: Vec<OsString>,
    /// The restrictions and how they are enforced, or `None` when only supervision was wanted.
    pub(crate) profile: Option<(SandboxProfile, Tier)>,
    /// Name of the variable that tells the program the number of its run socket, when there is one.
    pub(crate) socket_variable: Option<String>,
    /// Processes that must not be signalled, where the kernel cannot scope signals itself.
    pub(crate) protected: Vec<i32>,
}

/// What became of the program.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Report {
    /// It ran and ended, with this wait status.
    Ended(i32),
    /// A restriction could not be put in place.
    Sandbox(String),
    /// The program itself could not be started; the number is the system's error code.
    Program(String, Option<i32>),
}

/// The descriptors that travel with an order.
#[derive(Debug)]
pub(crate) struct Descriptors {
    pub(crate) input: OwnedFd,
    pub(crate) socket: Option<OwnedFd>,
    /// Where the next stage reports to, when it is not the socket the order comes on.
    pub(crate) report: Option<OwnedFd>,
}

/// Sends the order; waits for the helper to read it when it exceeds the socket's buffer.
pub(crate) fn send(mut stream: &UnixStream, order: &Order, descriptors: &Descriptors) -> io::Result<()> {
    let body = serde_json::to_vec(order)?;
    if body.len() > ORDER_LIMIT {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            format!("program and arguments have {} bytes; {ORDER_LIMIT} are allowed", body.len()),
        ));
    }
    let length = u32::try_from(body.len()).map_err(io::Error::other)?.to_be_bytes();
    let has = |descriptor: &Option<OwnedFd>| u8::from(descriptor.is_some());
    let [a, b, c, d] = length;
    let head = [a, b, c, d, has(&descriptors.socket), has(&descriptors.report)];
    stream.set_write_timeout(Some(SEND_TIMEOUT))?;
    let mut handles: Vec<BorrowedFd<'_>> = vec![descriptors.input.as_fd()];
    handles.extend(descriptors.socket.as_ref().map(AsFd::as_fd));
    handles.extend(descriptors.report.as_ref().map(AsFd::as_fd));
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_DESCRIPTORS))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    control.push(SendAncillaryMessage::ScmRights(&handles));
    rustix::net::sendmsg(stream, &[IoSlice::new(&head)], &mut control, SendFlags::empty())?;
    stream.write_all(&body)
}

pub(crate) fn receive(mut stream: &UnixStream) -> io::Result<(Order, Descriptors)> {
    let mut head = [0u8; 6];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_DESCRIPTORS))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let received =
        rustix::net::recvmsg(stream, &mut [IoSliceMut::new(&mut head)], &mut control, RECEIVE_FLAGS)?;
    let mut handles = control
        .drain()
        .filter_map(|message| match message {
            RecvAncillaryMessage::ScmRights(handles) => Some(handles),
            _ => None,
        })
        .flatten()
        .collect::<Vec<_>>()
        .into_iter();
    if received.bytes != head.len() {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    let [a, b, c, d, has_socket, has_report] = head;
    let length = u32::from_be_bytes([a, b, c, d]) as usize;
    if length > ORDER_LIMIT {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let mut body = vec![0u8; length];
    stream.read_exact(&mut body)?;
    let order = serde_json::from_slice(&body)?;
    let mut next = |is_there: u8| if is_there == 0 { None } else { handles.next() };
    let input = next(1).ok_or_else(|| io::Error::other("no standard input came with the order"))?;
    Ok((order, Descriptors { input, socket: next(has_socket), report: next(has_report) }))
}

/// Tells what became of the program. Nobody is left to tell when this fails; the exit code remains.
pub(crate) fn report(mut stream: &UnixStream, report: &Report) {
    if let Ok(text) = serde_json::to_vec(report) {
        let _ = stream.write_all(&text);
    }
}
