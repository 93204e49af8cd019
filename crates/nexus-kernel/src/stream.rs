//! Frames off a socket and replies onto it, with bounded buffers. Judges heads only as far as it
//! must to know whether a payload is to be read at all.

use std::io;
use std::os::unix::net::UnixStream;

use rustix::buffer::spare_capacity;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags};

use crate::check;
use crate::code::Reject;
use crate::frame::{ENVELOPE_BYTES, Envelope};

/// How much is asked of the socket at a time.
const CHUNK_BYTES: usize = 8 * 1024;
/// A buffer that grew past this for a large frame is given back once small ones follow.
const KEPT_BYTES: usize = 32 * 1024;

/// What the bytes received so far amount to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Incoming {
    /// A whole frame of this length stands at the front.
    Frame(Envelope, usize),
    /// A head that must be refused before its payload is read.
    BadHead(Envelope, Reject),
    /// More bytes are needed.
    More,
}

/// The receiving half of a connection.
#[derive(Debug, Default)]
pub(crate) struct Input {
    bytes: Vec<u8>,
    start: usize,
    last_len: usize,
}

impl Input {
    /// Looks at what is buffered; no system call.
    pub(crate) fn look(&self) -> Incoming {
        let waiting = &self.bytes[self.start..];
        let Some(envelope) = Envelope::read(waiting) else {
            return Incoming::More;
        };
        if let Err(reject) = check::head(&envelope) {
            return Incoming::BadHead(envelope, reject);
        }
        let len = envelope.frame_len();
        if waiting.len() < len { Incoming::More } else { Incoming::Frame(envelope, len) }
    }

    /// Returns the first envelope's worth of bytes, whatever they say.
    pub(crate) fn first_head(&self) -> Option<Envelope> {
        Envelope::read(&self.bytes[self.start..])
    }

    /// Returns the frame at the front.
    pub(crate) fn frame(&self, len: usize) -> &[u8] {
        &self.bytes[self.start..self.start + len]
    }

    /// Drops the frame at the front.
    pub(crate) fn consume(&mut self, len: usize) {
        self.start += len;
        self.last_len = len;
        if self.start == self.bytes.len() {
            self.bytes.clear();
            self.start = 0;
        }
    }

    /// Waits for more bytes; false at the end of the stream.
    pub(crate) fn fill(&mut self, stream: &UnixStream) -> io::Result<bool> {
        if self.start > 0 {
            self.bytes.drain(..self.start);
            self.start = 0;
        }
        if self.bytes.is_empty() && self.bytes.capacity() > KEPT_BYTES && self.last_len < KEPT_BYTES {
            self.bytes = Vec::new();
        }
        let announced = Envelope::read(&self.bytes).map_or(ENVELOPE_BYTES, |envelope| envelope.frame_len());
        // Reserving costs address space only; memory is used as bytes really come.
        self.bytes.reserve(announced.saturating_sub(self.bytes.len()).max(CHUNK_BYTES));
        loop {
            match rustix::net::recv(stream, spare_capacity(&mut self.bytes), RecvFlags::empty()) {
                Ok((count, _)) => return Ok(count > 0),
                Err(Errno::INTR) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
    }
}

/// A reader that has gone must not end us by signal. Where the flag is missing, the runtime's having
/// switched that signal off is enough.
#[cfg(not(target_vendor = "apple"))]
const SEND: SendFlags = SendFlags::NOSIGNAL;
#[cfg(target_vendor = "apple")]
const SEND: SendFlags = SendFlags::empty();

/// Sends all bytes; a reader that has gone is an error, never a signal.
pub(crate) fn send_all(stream: &UnixStream, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match rustix::net::send(stream, bytes, SEND) {
            Ok(sent) => bytes = &bytes[sent..],
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
    Ok(())
}

/// Ends a connection so that the peer reads our last reply and then a clean end, not a reset: what
/// it had sent beyond is taken off the socket first, as far as it is there already.
pub(crate) fn hang_up(stream: &UnixStream) {
    let _ = rustix::net::shutdown(stream, rustix::net::Shutdown::Write);
    let mut waste = [0_u8; 4096];
    for _ in 0..64 {
        match rustix::net::recv(stream, &mut waste, RecvFlags::DONTWAIT) {
            Ok((count, _)) if count > 0 => {}
            Ok(_) | Err(_) => return,
        }
    }
}
