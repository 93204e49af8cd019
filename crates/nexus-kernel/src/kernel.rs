//! The Kernel plane: repeats every check, resolves the method, checks authority, acts, answers, logs.
//!
//! It trusts Root with nothing: the same frame sent straight to its socket gets the same answer.

use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Instant;

use zerocopy::IntoBytes as _;

use crate::accept::Serve;
use crate::check;
use crate::code::{self, Reject};
use crate::frame::{ENVELOPE_BYTES, Envelope, Role, command};
use crate::handshake;
use crate::log::{Decision, DecisionLog, Line, Plane};
use crate::peer::{self, Gatekeeper};
use crate::policy::{self, Needs};
use crate::reply::{self, Outcome, Status};
use crate::request::{self, Parsed, Request};
use crate::stream::{self, Incoming, Input};
use crate::workspaces::{Failure, Removal, Workspaces};

/// The executor of one run folder.
#[derive(Debug)]
pub(crate) struct Kernel {
    workspaces: Workspaces,
    log: DecisionLog,
    started: Instant,
}

/// Whether a connection goes on after an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum After {
    Keep,
    Close,
}

/// One connection's state at the Kernel: whether its gate is open, and log lines not yet written.
#[derive(Debug)]
pub(crate) struct KernelSession {
    kernel: Arc<Kernel>,
    is_ready: bool,
    lines: Vec<u8>,
}

impl Kernel {
    pub(crate) fn new(workspaces: Workspaces, log: DecisionLog) -> Self {
        Self { workspaces, log, started: Instant::now() }
    }

    /// Makes writes fail as on a full disk, for the torture suite.
    pub(crate) fn pretend_disk_full(&self, full: bool) {
        self.workspaces.pretend_disk_full(full);
    }

    fn perform(&self, request: &Request, role: Role) -> Result<Outcome, Failure> {
        let workspaces = &self.workspaces;
        Ok(match request {
            Request::Ping => Outcome::Pong,
            Request::Status => Outcome::Status(Status {
                status: "ok",
                version: env!("CARGO_PKG_VERSION"),
                pid: std::process::id(),
                uptime_seconds: self.started.elapsed().as_secs(),
                workspaces: workspaces.list(None)?.len(),
                log_failures: self.log.failures(),
            }),
            Request::Create { id, init } => {
                let created = workspaces.create(id, role, *init)?;
                Outcome::Created { id: id.clone(), created, created_at: None }
            }
            Request::List { after, limit } => Outcome::Listed {
                names: workspaces.list(after.as_deref())?,
                limit: limit.unwrap_or(usize::MAX),
            },
            Request::Show { id } => {
                let (exists, created_at) = workspaces.show(id)?;
                Outcome::Shown { id: id.clone(), exists, created_at }
            }
            Request::Destroy { id, stop } => {
                let removal = workspaces.destroy(id, *stop)?;
                let note = match removal {
                    Removal::Absent => Some("already_absent"),
                    Removal::Gone => None,
                    Removal::Leftover => Some("leftover_until_restart"),
                };
                Outcome::Destroyed { id: id.clone(), destroyed: removal != Removal::Absent, note }
            }
            Request::Reset { id, stop } => {
                workspaces.reset(id, role, *stop)?;
                Outcome::Reset { id: id.clone(), created_at: None }
            }
        })
    }

    /// Fills in what only the call form tells.
    fn date(&self, outcome: Outcome) -> Outcome {
        match outcome {
            Outcome::Created { id, created, created_at: _ } => {
                let created_at = self.workspaces.created_at(&id);
                Outcome::Created { id, created, created_at }
            }
            Outcome::Reset { id, created_at: _ } => {
                let created_at = self.workspaces.created_at(&id);
                Outcome::Reset { id, created_at }
            }
            other @ (Outcome::Pong
            | Outcome::Status(_)
            | Outcome::Listed { .. }
            | Outcome::Shown { .. }
            | Outcome::Destroyed { .. }) => other,
        }
    }
}

impl KernelSession {
    pub(crate) fn new(kernel: Arc<Kernel>) -> Self {
        Self { kernel, is_ready: false, lines: Vec::new() }
    }

    /// Answers one whole frame; appends the reply to `out`.
    pub(crate) fn handle(&mut self, envelope: &Envelope, frame: &[u8], out: &mut Vec<u8>) -> After {
        match self.answer(envelope, &frame[ENVELOPE_BYTES..], out) {
            Ok(()) => After::Keep,
            Err(reject) => {
                self.refuse(envelope, reject, out);
                After::Close
            }
        }
    }

    /// Refuses a frame for what its envelope says.
    pub(crate) fn refuse(&mut self, envelope: &Envelope, reject: Reject, out: &mut Vec<u8>) {
        Line::reject(Plane::Kernel, envelope, reject).render(&mut self.lines);
        envelope.reject_into(reject, out);
    }

    /// Writes the lines of answers that are about to be sent.
    pub(crate) fn flush_log(&mut self) {
        self.kernel.log.append(&self.lines);
        self.lines.clear();
    }

    /// Judges the frame; an error here is about the protocol and ends the connection.
    fn answer(&mut self, envelope: &Envelope, payload: &[u8], out: &mut Vec<u8>) -> Result<(), Reject> {
        check::head(envelope)?;
        let role = check::fields(envelope)?;
        let number = envelope.command_id.get();
        if number == command::HANDSHAKE {
            handshake::check(payload)?;
            self.is_ready = true;
            envelope.reply_into(handshake::Ack::ready().as_bytes(), out);
            return Ok(());
        }
        if !self.is_ready {
            return Err(code::NEED_HANDSHAKE);
        }
        match number {
            // Pings carry whatever payload their sender likes.
            command::PING => {
                Line { method: Some("ping"), ..Line::new(Plane::Kernel, envelope, Decision::Done) }
                    .render(&mut self.lines);
                envelope.reply_into(reply::control(&Outcome::Pong).as_bytes(), out);
            }
            command::CONTROL => {
                let parsed = request::parse_control(payload);
                let text = match self.carry_out(envelope, role, parsed) {
                    Ok(outcome) => reply::control(&outcome),
                    Err(reject) => reject.payload(),
                };
                envelope.reply_into(text.as_bytes(), out);
            }
            command::CONTROL_CALL => {
                let call = request::parse_call(payload, envelope.ws_id_text());
                let trace = envelope.trace_id_text();
                let text = match self.carry_out(envelope, role, call.parsed) {
                    Ok(outcome) => reply::call(&self.kernel.date(outcome), &call.command_id, trace),
                    Err(reject) => reply::call_reject(reject, &call.command_id, trace),
                };
                envelope.reply_into(text.as_bytes(), out);
            }
            other => {
                let is_privileged = other & command::PRIVILEGED_CLASS == command::PRIVILEGED_CLASS;
                let needs = if is_privileged { Needs::Authority } else { Needs::Handshake };
                let refused = policy::check(needs, role, envelope.arming == 1).err();
                self.refuse(envelope, refused.unwrap_or(code::UNKNOWN_COMMAND), out);
            }
        }
        Ok(())
    }

    /// Does what a payload asks for, if its sender may; an error here keeps the connection.
    fn carry_out(
        &mut self,
        envelope: &Envelope,
        role: Role,
        parsed: Result<Parsed, Reject>,
    ) -> Result<Outcome, Reject> {
        let refused = |reject| Line::reject(Plane::Kernel, envelope, reject);
        let parsed = parsed.inspect_err(|&reject| refused(reject).render(&mut self.lines))?;
        let (method, target) = (Some(parsed.method.as_str()), parsed.target.as_deref().map(str::as_bytes));
        let request = policy::check(parsed.method.needs(), role, envelope.arming == 1)
            .and(parsed.request)
            .inspect_err(|&reject| Line { method, target, ..refused(reject) }.render(&mut self.lines))?;

        let path = match &request {
            Request::Create { id, .. } | Request::Destroy { id, .. } | Request::Reset { id, .. } => {
                Some(self.kernel.workspaces.path(id))
            }
            Request::Ping | Request::Status | Request::List { .. } | Request::Show { .. } => None,
        };
        let path = path.as_deref();
        if path.is_some() {
            let attempt = Line::new(Plane::Kernel, envelope, Decision::Attempt);
            Line { method, target, path, ..attempt }.render(&mut self.lines);
            // The attempt is on record before anything changes.
            self.flush_log();
        }
        match self.kernel.perform(&request, role) {
            Ok(outcome) => {
                let done = Line::new(Plane::Kernel, envelope, Decision::Done);
                Line { method, target, path, ..done }.render(&mut self.lines);
                Ok(outcome)
            }
            Err(Failure { reject, detail }) => {
                let line = Line { method, target, path, detail: Some(&detail), ..refused(reject) };
                line.render(&mut self.lines);
                Err(reject)
            }
        }
    }
}

/// The Kernel behind its own socket.
#[derive(Debug)]
pub(crate) struct KernelService {
    pub(crate) kernel: Arc<Kernel>,
    pub(crate) gatekeeper: Gatekeeper,
}

impl Serve for KernelService {
    fn serve(&self, stream: &Arc<UnixStream>) {
        let mut session = KernelSession::new(Arc::clone(&self.kernel));
        let (mut input, mut out) = (Input::default(), Vec::new());
        let is_owner = self.gatekeeper.admits(stream);
        loop {
            let stranger = if is_owner { None } else { input.first_head() };
            let incoming = match stranger {
                Some(envelope) => Incoming::BadHead(envelope, code::PEER_NOT_OWNER),
                None => input.look(),
            };
            let after = match incoming {
                Incoming::Frame(envelope, len) => {
                    let after = session.handle(&envelope, input.frame(len), &mut out);
                    nexus_base::failpoint::hit("kernel.reply");
                    input.consume(len);
                    after
                }
                Incoming::BadHead(envelope, reject) => {
                    session.refuse(&envelope, reject, &mut out);
                    After::Close
                }
                Incoming::More => {
                    session.flush_log();
                    if stream::send_all(stream, &out).is_err() {
                        return;
                    }
                    out.clear();
                    match input.fill(stream) {
                        Ok(true) => After::Keep,
                        Ok(false) | Err(_) => return,
                    }
                }
            };
            if after == After::Close {
                session.flush_log();
                let _ = stream::send_all(stream, &out);
                stream::hang_up(stream);
                return;
            }
        }
    }

    fn turn_away(&self, stream: &Arc<UnixStream>) {
        peer::turn_away(stream, &self.kernel.log, Plane::Kernel);
    }
}
