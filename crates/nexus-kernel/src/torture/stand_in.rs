//! A scripted Kernel for cases in which the real one must misbehave: it records what Root sends and
//! answers as it is told.

use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use zerocopy::IntoBytes as _;

use super::arena::complain;
use crate::frame::Envelope;
use crate::handshake;
use crate::stream::{self, Incoming, Input};

/// What the stand-in does with the frame after the handshake.
#[derive(Debug, Clone)]
pub(super) enum Script {
    /// Sends these bytes.
    Answer(Vec<u8>),
    /// Ends the connection, as a killed process does.
    Die,
    /// Sends part of a frame and then ends the connection.
    DieHalfWay,
    /// Keeps the connection and says nothing.
    Hang,
    /// Ends the connection instead of answering the handshake.
    DieAtHandshake,
}

/// The scripted Kernel; its socket goes with it.
#[derive(Debug)]
pub(super) struct StandIn {
    received: Arc<Mutex<Vec<Vec<u8>>>>,
    listener: UnixListener,
}

impl StandIn {
    /// Listens on the Kernel's socket.
    pub(super) fn listen(socket: &Path, script: &Script) -> Result<Self, String> {
        let _ = std::fs::remove_file(socket);
        let listener = UnixListener::bind(socket).map_err(complain)?;
        let received = Arc::new(Mutex::new(Vec::new()));
        let (accepting, record, script) =
            (listener.try_clone().map_err(complain)?, Arc::clone(&received), script.clone());
        std::thread::Builder::new()
            .name("stand-in".into())
            .spawn(move || {
                // Hung connections are kept until the listener ends.
                let mut kept = Vec::new();
                while let Ok((stream, _)) = accepting.accept() {
                    kept.extend(play(stream, &script, &record));
                }
            })
            .map_err(complain)?;
        Ok(Self { received, listener })
    }

    /// Returns the frames Root sent on, its own handshakes left out.
    pub(super) fn received(&self) -> Vec<Vec<u8>> {
        self.received.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Drop for StandIn {
    fn drop(&mut self) {
        let _ = rustix::net::shutdown(&self.listener, rustix::net::Shutdown::Both);
    }
}

fn play(stream: UnixStream, script: &Script, record: &Mutex<Vec<Vec<u8>>>) -> Option<UnixStream> {
    let mut input = Input::default();
    let (greeting, _) = next_frame(&mut input, &stream)?;
    if matches!(script, Script::DieAtHandshake) {
        return None;
    }
    let mut out = Vec::new();
    greeting.reply_into(handshake::Ack::ready().as_bytes(), &mut out);
    stream::send_all(&stream, &out).ok()?;
    while let Some((_, frame)) = next_frame(&mut input, &stream) {
        record.lock().unwrap_or_else(PoisonError::into_inner).push(frame);
        match script {
            Script::Answer(bytes) => stream::send_all(&stream, bytes).ok()?,
            Script::DieHalfWay => {
                stream::send_all(&stream, &[0x50, 0x49, 0x41, 0x59, 1]).ok()?;
                return None;
            }
            Script::Die | Script::DieAtHandshake => return None,
            Script::Hang => return Some(stream),
        }
    }
    None
}

fn next_frame(input: &mut Input, stream: &UnixStream) -> Option<(Envelope, Vec<u8>)> {
    loop {
        match input.look() {
            Incoming::Frame(envelope, len) => {
                let frame = input.frame(len).to_vec();
                input.consume(len);
                return Some((envelope, frame));
            }
            Incoming::BadHead(..) => return None,
            Incoming::More => {
                if !matches!(input.fill(stream), Ok(true)) {
                    return None;
                }
            }
        }
    }
}
