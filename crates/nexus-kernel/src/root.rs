//! The Root plane: validates envelopes, gates on the handshake, sends frames on, relays, logs.
//!
//! It never looks into a payload, changes no byte in either direction and checks no authority: all
//! workspace methods share one command id, so only the Kernel can know what a frame asks for.

use std::os::unix::net::UnixStream;
use std::sync::Arc;

use zerocopy::IntoBytes as _;

use crate::accept::Serve;
use crate::check;
use crate::code::{self, Reject};
use crate::frame::{ENVELOPE_BYTES, Envelope, command};
use crate::handshake;
use crate::kernel::After;
use crate::link::{Attached, Link};
use crate::log::{Decision, DecisionLog, Line, Plane};
use crate::peer::{self, Gatekeeper};
use crate::stream::{self, Incoming, Input};

/// Replies waiting to be sent are flushed when they are this many bytes.
const MAX_HELD_REPLIES: usize = 64 * 1024;

/// The gate of one run folder.
#[derive(Debug)]
pub(crate) struct Root {
    pub(crate) link: Link,
    pub(crate) log: Arc<DecisionLog>,
    pub(crate) gatekeeper: Gatekeeper,
}

/// One client's connection.
struct Session<'root> {
    root: &'root Root,
    stream: &'root UnixStream,
    kernel: Attached,
    is_ready: bool,
    out: Vec<u8>,
    lines: Vec<u8>,
}

impl Serve for Root {
    fn serve(&self, stream: &Arc<UnixStream>) {
        let is_owner = self.gatekeeper.admits(stream);
        let mut session = Session {
            root: self,
            stream,
            kernel: self.link.attach(),
            is_ready: false,
            out: Vec::new(),
            lines: Vec::new(),
        };
        session.run(is_owner);
    }

    fn turn_away(&self, stream: &Arc<UnixStream>) {
        peer::turn_away(stream, &self.log, Plane::Root);
    }
}

impl Session<'_> {
    fn run(&mut self, is_owner: bool) {
        let mut input = Input::default();
        loop {
            if !is_owner && let Some(envelope) = input.first_head() {
                self.refuse(&envelope, code::PEER_NOT_OWNER);
                return;
            }
            match input.look() {
                Incoming::Frame(envelope, len) => {
                    if let Err(reject) = self.handle(&envelope, input.frame(len)) {
                        self.refuse(&envelope, reject);
                        return;
                    }
                    input.consume(len);
                    if self.out.len() >= MAX_HELD_REPLIES && self.flush() == After::Close {
                        return;
                    }
                }
                Incoming::BadHead(envelope, reject) => {
                    self.refuse(&envelope, reject);
                    return;
                }
                Incoming::More => {
                    // Replies to frames that came in one piece leave in one piece.
                    if self.flush() == After::Close || !matches!(input.fill(self.stream), Ok(true)) {
                        return;
                    }
                }
            }
        }
    }

    /// Judges and serves one whole frame; an error refuses it and ends the connection.
    fn handle(&mut self, envelope: &Envelope, frame: &[u8]) -> Result<(), Reject> {
        check::fields(envelope)?;
        let number = envelope.command_id.get();
        if number == command::HANDSHAKE {
            handshake::check(&frame[ENVELOPE_BYTES..])?;
            self.is_ready = true;
            Line::new(Plane::Root, envelope, Decision::Accept).render(&mut self.lines);
            envelope.reply_into(handshake::Ack::ready().as_bytes(), &mut self.out);
            return Ok(());
        }
        if !self.is_ready {
            return Err(code::NEED_HANDSHAKE);
        }
        if number != command::PING && !self.out.is_empty() && self.flush() == After::Close {
            // What follows may take long, and answers that are ready should not wait for it. A client
            // that has gone still gets what it asked for: the frame was sent, and it is forwarded.
            self.out.clear();
        }
        Line::new(Plane::Root, envelope, Decision::Forward).render(&mut self.lines);
        self.kernel.forward(envelope, frame, &mut self.out)
    }

    fn refuse(&mut self, envelope: &Envelope, reject: Reject) {
        Line::reject(Plane::Root, envelope, reject).render(&mut self.lines);
        envelope.reject_into(reject, &mut self.out);
        self.flush();
        stream::hang_up(self.stream);
    }

    /// Writes log lines, then the replies they tell of.
    fn flush(&mut self) -> After {
        self.root.log.append(&self.lines);
        self.lines.clear();
        self.kernel.rest();
        if self.out.is_empty() {
            return After::Keep;
        }
        let sent = stream::send_all(self.stream, &self.out);
        self.out.clear();
        if sent.is_ok() { After::Keep } else { After::Close }
    }
}
