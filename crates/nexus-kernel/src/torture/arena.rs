//! A clean run folder with a server in it, and the few things every case does there.

use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::Value;
use zerocopy::little_endian::{U16, U32};

use super::Check;
use crate::client::{Authority, Client, ClientError, Reply};
use crate::code::Reject;
use crate::frame::{self, Envelope, command};
use crate::link;
use crate::run_dir::RunDir;
use crate::server::{ServeOptions, Server};

/// How long anything may take before it counts as hanging.
pub(super) const MAX_WAIT: Duration = Duration::from_secs(20);

/// The scene of one case.
#[derive(Debug)]
pub(super) struct Arena {
    folder: tempfile::TempDir,
    pub(super) run_dir: RunDir,
    pub(super) server: Option<Server>,
}

/// What must be true of a connection after a reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Then {
    Open,
    Closed,
}

impl Arena {
    /// Makes the scene and starts a server with the defaults.
    pub(super) fn new(place: Option<&Path>) -> Result<Self, String> {
        let folder = scene(place)?;
        let run_dir = RunDir::new(folder.path().join("run"));
        let mut arena = Self { folder, run_dir, server: None };
        arena.restart(|_| {})?;
        Ok(arena)
    }

    /// Stops the server, if one runs, and starts another.
    pub(super) fn restart(&mut self, change: impl FnOnce(&mut ServeOptions)) -> Check {
        self.server = None;
        let mut options = ServeOptions::new(self.run_dir.clone());
        change(&mut options);
        self.server = Some(Server::start(options).map_err(|error| format!("starting: {error}"))?);
        Ok(())
    }

    pub(super) fn stop(&mut self) {
        self.server = None;
    }

    /// Returns a place beside the run folder, outside the jail.
    pub(super) fn outside(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Returns a place in the run folder.
    pub(super) fn inside(&self, name: &str) -> PathBuf {
        self.run_dir.path().join(name)
    }

    /// Connects to Root and says nothing.
    pub(super) fn raw(&self) -> Result<Client, String> {
        raw(&self.run_dir.root_socket())
    }

    /// Connects to Root and shakes hands.
    pub(super) fn ready(&self) -> Result<Client, String> {
        let mut client = self.raw()?;
        client.handshake(Authority::USER).map_err(|error| error.to_string())?;
        Ok(client)
    }

    /// Connects to the Kernel's own socket and shakes hands.
    pub(super) fn kernel(&self) -> Result<Client, String> {
        let mut client = raw(&self.run_dir.kernel_socket())?;
        client.handshake(Authority::USER).map_err(|error| error.to_string())?;
        Ok(client)
    }

    /// Checks that Root still answers.
    pub(super) fn is_alive(&self) -> Check {
        self.ready()?.ping(Authority::USER).map(drop).map_err(|error| format!("no pong: {error}"))
    }

    /// Names what lies in the run folder beside the planes' folders.
    pub(super) fn leavings(&self) -> Result<Vec<String>, String> {
        let entries = std::fs::read_dir(self.run_dir.path()).map_err(|error| error.to_string())?;
        let mut names: Vec<String> = entries
            .filter_map(Result::ok)
            .map(|entry| entry.file_name().to_string_lossy().into_owned())
            .filter(|name| !matches!(name.as_str(), "root" | "kernel"))
            .collect();
        names.sort();
        Ok(names)
    }

    /// Checks that nothing lies in the run folder but the planes' folders.
    pub(super) fn nothing_made(&self) -> Check {
        let leavings = self.leavings()?;
        ensure(leavings.is_empty(), || format!("left behind: {leavings:?}"))
    }

    /// Returns the lines of a log that carry this trace id.
    pub(super) fn lines(&self, log: &Path, trace: &str) -> Result<Vec<Value>, String> {
        let text = std::fs::read_to_string(log).map_err(|error| format!("{}: {error}", log.display()))?;
        let mut found = Vec::new();
        for line in text.lines() {
            let value: Value = serde_json::from_str(line).map_err(|error| format!("{line:?}: {error}"))?;
            if value["trace_id"] == trace {
                found.push(value);
            }
        }
        Ok(found)
    }

    /// Checks the decisions and codes a log has for this trace id, in order.
    pub(super) fn logged(&self, log: &Path, trace: &str, expected: &[(&str, u64)]) -> Check {
        let lines = self.lines(log, trace)?;
        let found: Vec<(&str, u64)> = lines
            .iter()
            .map(|line| (line["decision"].as_str().unwrap_or(""), line["code"].as_u64().unwrap_or(9999)))
            .collect();
        ensure(found == expected, || format!("{} says {found:?} of {trace}, not {expected:?}", log.display()))
    }
}

/// Makes a new folder: where told, else in memory, because ten thousand workspaces on a busy disk
/// take longer than all other cases together, else where temporary files go.
fn scene(place: Option<&Path>) -> Result<tempfile::TempDir, String> {
    let temporary = std::env::temp_dir();
    let places = match place {
        Some(place) => vec![place],
        None => vec![Path::new("/dev/shm"), &temporary, Path::new("/tmp")],
    };
    let mut why = String::new();
    for place in places {
        match tempfile::Builder::new().prefix("nxk-").rand_bytes(8).tempdir_in(place) {
            // A long path leaves no room for the name of a socket.
            Ok(folder) if folder.path().as_os_str().len() < 70 => return Ok(folder),
            Ok(folder) => why = format!("{} is too long a path", folder.path().display()),
            Err(error) => why = format!("making a folder in {}: {error}", place.display()),
        }
    }
    Err(why)
}

pub(super) fn raw(socket: &Path) -> Result<Client, String> {
    link::open_socket(socket, MAX_WAIT).map(Client::over).map_err(|error| format!("connecting: {error}"))
}

/// A request head by an armed operator.
pub(super) fn head(number: u32, trace: &str, payload_len: usize) -> Envelope {
    let mut envelope = Envelope::request(number, b"system", trace.as_bytes(), payload_len);
    (envelope.role, envelope.arming) = (U16::new(2), 1);
    envelope
}

/// A whole ping by an armed operator.
pub(super) fn ping(trace: &str) -> Vec<u8> {
    frame::frame(&head(command::PING, trace, 0), b"")
}

/// A whole `CONTROL` frame.
pub(super) fn control(trace: &str, authority: (u16, u8), payload: &str) -> Vec<u8> {
    let mut envelope = head(command::CONTROL, trace, payload.len());
    (envelope.role, envelope.arming) = (U16::new(authority.0), authority.1);
    frame::frame(&envelope, payload.as_bytes())
}

/// A whole handshake with this envelope version and client version.
pub(super) fn handshake(trace: &str, version: u32, client_version: u32) -> Vec<u8> {
    use zerocopy::IntoBytes as _;
    let mut request = crate::handshake::Request::named("torture");
    request.client_version = U32::new(client_version);
    let mut envelope = head(command::HANDSHAKE, trace, crate::handshake::REQUEST_BYTES);
    envelope.version = U32::new(version);
    frame::frame(&envelope, request.as_bytes())
}

/// The operator who means it, as a frame carries it.
pub(super) const OPERATOR: (u16, u8) = (2, 1);

pub(super) fn create(id: &str) -> String {
    format!(r#"{{"method":"ws_create","params":{{"ws_id":"{id}"}}}}"#)
}

pub(super) fn destroy(id: &str) -> String {
    format!(r#"{{"method":"ws_destroy","params":{{"ws_id":"{id}"}}}}"#)
}

/// Sends bytes and takes one reply.
pub(super) fn shoot(client: &mut Client, bytes: &[u8]) -> Result<Reply, String> {
    client.send(bytes).map_err(|error| error.to_string())?;
    client.receive().map_err(|error| format!("no reply: {error}"))
}

/// Sends bytes that must be refused with exactly this payload.
pub(super) fn refused(client: &mut Client, bytes: &[u8], reject: Reject, then: Then) -> Check {
    let reply = shoot(client, bytes)?;
    ensure(reply.is(reject), || format!("wanted {reject}, got {}", text(&reply)))?;
    let sent = Envelope::read(bytes).ok_or("half a frame was sent")?;
    ensure(reply.envelope.trace_id_text() == cut(sent.trace_id_text()), || "another trace id".to_owned())?;
    ensure(reply.envelope.ws_id_text() == cut(sent.ws_id_text()), || "another ws_id".to_owned())?;
    match then {
        Then::Closed => is_closed(client),
        Then::Open => pongs(client),
    }
}

/// Sends a `CONTROL` payload as armed operator that must be answered with exactly this text.
pub(super) fn answered(client: &mut Client, trace: &str, payload: &str, expected: &str) -> Check {
    let reply = shoot(client, &control(trace, OPERATOR, payload))?;
    ensure(reply.payload == expected.as_bytes(), || format!("wanted {expected}, got {}", text(&reply)))
}

pub(super) fn is_closed(client: &mut Client) -> Check {
    match client.receive() {
        Err(ClientError::Closed) => Ok(()),
        Err(error) => Err(format!("not closed: {error}")),
        Ok(reply) => Err(format!("not closed but answered {}", text(&reply))),
    }
}

pub(super) fn pongs(client: &mut Client) -> Check {
    let reply = shoot(client, &ping("still-there"))?;
    ensure(reply.payload == br#"{"status":"pong"}"#, || format!("no pong but {}", text(&reply)))
}

pub(super) fn text(reply: &Reply) -> String {
    reply.payload.escape_ascii().to_string()
}

pub(super) fn ensure(holds: bool, complaint: impl FnOnce() -> String) -> Check {
    if holds { Ok(()) } else { Err(complaint()) }
}

/// Polls until something holds.
pub(super) fn until(what: &str, mut holds: impl FnMut() -> bool) -> Check {
    let deadline = Instant::now() + MAX_WAIT;
    while !holds() {
        if Instant::now() > deadline {
            return Err(format!("never happened: {what}"));
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    Ok(())
}

/// Turns any error into a complaint.
pub(super) fn complain(error: impl std::fmt::Display) -> String {
    error.to_string()
}

pub(super) fn send_only(stream: &UnixStream, bytes: &[u8]) -> Check {
    crate::stream::send_all(stream, bytes).map_err(complain)
}

fn cut(id: &[u8]) -> &[u8] {
    &id[..id.len().min(frame::ID_FIELD_BYTES - 1)]
}
