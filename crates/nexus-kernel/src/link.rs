//! The way from Root to the Kernel: the same bytes there and back, whoever is at the other end.

use std::io;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::{AddressFamily, RecvFlags, SocketAddrUnix, SocketType};
use zerocopy::{FromBytes as _, IntoBytes as _};

use crate::code::{self, Reject};
use crate::frame::{self, ENVELOPE_BYTES, Envelope, MAX_PAYLOAD, Role, command};
use crate::handshake;
use crate::kernel::{Kernel, KernelSession};
use crate::stream;

/// The name Root gives in its handshake.
const ROOT_NAME: &str = "nexus-root";

/// Where the Kernel is.
#[derive(Debug, Clone)]
pub(crate) enum Link {
    /// In this process: frames are handed over without a socket between.
    Local(Arc<Kernel>),
    /// Behind its socket.
    Socket(Arc<KernelSocket>),
}

/// The Kernel's socket, and connections to it that no client uses at the moment.
#[derive(Debug)]
pub(crate) struct KernelSocket {
    path: PathBuf,
    patience: Duration,
    idle: Mutex<Vec<UnixStream>>,
}

/// Connections kept for the next client; a frame carries all authority itself, so they are alike.
const MAX_IDLE: usize = 16;

impl KernelSocket {
    fn take(&self) -> Option<UnixStream> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop()
    }

    fn give_back(&self, stream: UnixStream) {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        if idle.len() < MAX_IDLE {
            idle.push(stream);
        }
    }
}

/// One client connection's own way to the Kernel, opened when first needed.
#[derive(Debug)]
pub(crate) enum Attached {
    Local { session: KernelSession, is_ready: bool },
    Socket { kernel: Arc<KernelSocket>, stream: Option<UnixStream> },
}

impl Link {
    /// Names a Kernel in another process and how long its answers may take.
    pub(crate) fn to_socket(path: PathBuf, patience: Duration) -> Self {
        Self::Socket(Arc::new(KernelSocket { path, patience, idle: Mutex::default() }))
    }

    pub(crate) fn attach(&self) -> Attached {
        match self {
            Self::Local(kernel) => {
                Attached::Local { session: KernelSession::new(Arc::clone(kernel)), is_ready: false }
            }
            Self::Socket(kernel) => Attached::Socket { kernel: Arc::clone(kernel), stream: None },
        }
    }
}

impl Attached {
    /// Sends a frame on and appends the Kernel's reply to `out`, both byte for byte.
    pub(crate) fn forward(
        &mut self,
        envelope: &Envelope,
        frame: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), Reject> {
        let before = out.len();
        match self {
            Self::Local { session, is_ready } => {
                if !*is_ready {
                    let greeting = greeting(envelope);
                    session.handle(&greeting.0, &greeting.1, out);
                    out.truncate(before);
                    *is_ready = true;
                }
                session.handle(envelope, frame, out);
                Ok(())
            }
            Self::Socket { kernel, stream } => {
                let held = match stream.take().or_else(|| kernel.take()) {
                    // A Kernel that restarted has closed our end; better to notice before sending than
                    // to answer 500 for a frame that nobody has seen.
                    Some(held) if !is_over(&held) => held,
                    Some(_) | None => connect(&kernel.path, kernel.patience, envelope)?,
                };
                stream::send_all(&held, frame).map_err(|_| code::KERNEL_WRITE_FAILED)?;
                if receive_reply(&held, out).is_err() {
                    out.truncate(before);
                    return Err(code::KERNEL_READ_FAILED);
                }
                // Kept only after a whole exchange, so a late reply can never answer the next frame.
                *stream = Some(held);
                Ok(())
            }
        }
    }

    /// Ends a run of frames: a Kernel in this process writes its log lines before their replies are
    /// sent, and a connection to another process is free for other clients while this one is silent.
    pub(crate) fn rest(&mut self) {
        match self {
            Self::Local { session, .. } => session.flush_log(),
            Self::Socket { kernel, stream } => {
                if let Some(stream) = stream.take() {
                    kernel.give_back(stream);
                }
            }
        }
    }
}

/// Root's own handshake, in the name of the frame it is about to send on.
fn greeting(envelope: &Envelope) -> (Envelope, Vec<u8>) {
    let payload = handshake::Request::named(ROOT_NAME);
    let mut head = Envelope::request(
        command::HANDSHAKE,
        envelope.ws_id_text(),
        envelope.trace_id_text(),
        handshake::REQUEST_BYTES,
    );
    if let Some(role) = Role::from_number(envelope.role.get()) {
        head = head.with_authority(role, envelope.arming == 1);
    }
    (head, frame::frame(&head, payload.as_bytes()))
}

fn connect(path: &Path, patience: Duration, envelope: &Envelope) -> Result<UnixStream, Reject> {
    let stream = open_socket(path, patience).map_err(|_| code::KERNEL_CONNECT_FAILED)?;
    let (_, greeting) = greeting(envelope);
    stream::send_all(&stream, &greeting).map_err(|_| code::KERNEL_HANDSHAKE_WRITE_FAILED)?;
    let mut reply = Vec::new();
    receive_reply(&stream, &mut reply).map_err(|_| code::KERNEL_HANDSHAKE_READ_FAILED)?;
    match handshake::Ack::read_from_bytes(&reply[ENVELOPE_BYTES..]) {
        Ok(ack) if ack.is_ready() => Ok(stream),
        Ok(_) | Err(_) => Err(code::KERNEL_HANDSHAKE_READ_FAILED),
    }
}

/// Connects with the deadline set first: a Kernel that does not accept would hold us otherwise.
pub(crate) fn open_socket(path: &Path, patience: Duration) -> io::Result<UnixStream> {
    let socket = rustix::net::socket(AddressFamily::UNIX, SocketType::STREAM, None)?;
    rustix::io::fcntl_setfd(&socket, rustix::io::FdFlags::CLOEXEC)?;
    let stream = UnixStream::from(socket);
    stream.set_read_timeout(Some(patience))?;
    stream.set_write_timeout(Some(patience))?;
    rustix::net::connect(&stream, &SocketAddrUnix::new(path)?)?;
    Ok(stream)
}

fn is_over(stream: &UnixStream) -> bool {
    let mut probe = [0_u8; 1];
    match rustix::net::recv(stream, &mut probe, RecvFlags::PEEK | RecvFlags::DONTWAIT) {
        Err(Errno::AGAIN) => false,
        // The end, an error, or bytes nobody asked for: none of them is a connection to go on with.
        Ok(_) | Err(_) => true,
    }
}

/// Appends one whole reply frame. The Kernel answers one frame at a time, so bytes beyond it belong to
/// nothing and make the connection unusable.
fn receive_reply(stream: &UnixStream, out: &mut Vec<u8>) -> io::Result<()> {
    let start = out.len();
    let mut chunk = [0_u8; 8192];
    loop {
        if let Some(envelope) = Envelope::read(&out[start..]) {
            let end = start + envelope.frame_len();
            if envelope.payload_len.get() as usize > MAX_PAYLOAD || out.len() > end {
                return Err(io::ErrorKind::InvalidData.into());
            }
            if out.len() == end {
                return Ok(());
            }
        }
        match rustix::net::recv(stream, &mut chunk, RecvFlags::empty()) {
            Ok((0, _)) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok((count, _)) => out.extend_from_slice(&chunk[..count]),
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
}
