//! The decision logs: one JSON line per decision, appended, rotated by renaming, never truncated.
//!
//! Lines are written before the reply they tell of is sent, so whoever has the answer can find the
//! line. Every byte a client chose is escaped.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::AsFd as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use nexus_base::clock::Timestamp;
use nexus_base::file::FileError;
use rustix::fs::{Mode, OFlags};

use crate::code::Reject;
use crate::frame::Envelope;

/// A log is renamed away when it has grown past this.
pub(crate) const ROTATE_BYTES: u64 = 16 * 1024 * 1024;
/// How many renamed logs are kept beside the live one.
pub(crate) const KEPT_LOGS: u32 = 4;

/// Which half of the system decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Plane {
    /// The gate.
    Root,
    /// The executor.
    Kernel,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Decision {
    /// A handshake was acknowledged.
    Accept,
    /// Root sent the frame on.
    Forward,
    /// The request was refused or did not work.
    Reject,
    /// The Kernel is about to change something.
    Attempt,
    /// The Kernel did what was asked.
    Done,
}

impl Decision {
    const fn word(self) -> &'static str {
        match self {
            Self::Accept => "ACCEPT",
            Self::Forward => "FORWARD",
            Self::Reject => "REJECT",
            Self::Attempt => "ATTEMPT",
            Self::Done => "OK",
        }
    }
}

/// One line, before it is rendered.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Line<'line> {
    /// Who decided.
    pub(crate) plane: Plane,
    /// The request it was about, if one had come.
    pub(crate) envelope: Option<&'line Envelope>,
    pub(crate) decision: Decision,
    /// Why not, on a refusal.
    pub(crate) reject: Option<Reject>,
    /// The method, once the Kernel knows it.
    pub(crate) method: Option<&'static str>,
    /// The workspace acted on, as the client spelled it.
    pub(crate) target: Option<&'line [u8]>,
    /// The path used, after the jail resolved it.
    pub(crate) path: Option<&'line Path>,
    /// More for people.
    pub(crate) detail: Option<&'line str>,
}

impl<'line> Line<'line> {
    /// Starts a line about a request.
    pub(crate) fn new(plane: Plane, envelope: &'line Envelope, decision: Decision) -> Self {
        let (reject, method, target, path, detail) = (None, None, None, None, None);
        Self { plane, envelope: Some(envelope), decision, reject, method, target, path, detail }
    }

    /// Starts a line about a refused request.
    pub(crate) fn reject(plane: Plane, envelope: &'line Envelope, reject: Reject) -> Self {
        Self { reject: Some(reject), ..Self::new(plane, envelope, Decision::Reject) }
    }

    /// Appends the line, newline included.
    pub(crate) fn render(&self, out: &mut Vec<u8>) {
        let mut text = String::with_capacity(256);
        let plane = match self.plane {
            Plane::Root => "root",
            Plane::Kernel => "kernel",
        };
        // Writing to a String cannot fail.
        let _ = write!(text, r#"{{"ts":"{}","plane":"{plane}","ws_id":""#, Timestamp::now());
        escape(self.envelope.map_or(b"system", Envelope::ws_id_text), &mut text);
        text.push_str(r#"","trace_id":""#);
        escape(self.envelope.map_or(b"", Envelope::trace_id_text), &mut text);
        let command = self.envelope.map_or(0, |envelope| envelope.command_id.get());
        let code = self.reject.map_or(0, |reject| reject.code.number());
        let decision = self.decision.word();
        let _ = write!(text, r#"","command_id":"{command:#06x}","decision":"{decision}","code":{code}"#);
        if let Some(reject) = self.reject {
            let _ = write!(text, r#","reason":"{}""#, reject.reason);
        }
        if let Some(method) = self.method {
            let _ = write!(text, r#","method":"{method}""#);
        }
        for (key, value) in [
            ("target", self.target),
            ("path", self.path.map(|path| path.as_os_str().as_encoded_bytes())),
            ("detail", self.detail.map(str::as_bytes)),
        ] {
            if let Some(value) = value {
                let _ = write!(text, r#","{key}":""#);
                escape(value, &mut text);
                text.push('"');
            }
        }
        text.push_str("}\n");
        out.extend_from_slice(text.as_bytes());
    }
}

/// Renders bytes inside a JSON string: printable ASCII as it is, all else by number.
fn escape(bytes: &[u8], text: &mut String) {
    for &byte in bytes.iter().take(MAX_FIELD_BYTES) {
        match byte {
            b'"' | b'\\' => {
                text.push('\\');
                text.push(char::from(byte));
            }
            b' '..=b'~' => text.push(char::from(byte)),
            other => {
                let _ = write!(text, "\\u{other:04x}");
            }
        }
    }
}

/// No field of a line is longer than this, so that no client can fill the log with one request.
const MAX_FIELD_BYTES: usize = 1024;

/// An append-only file of lines, shared by all connections of a plane.
#[derive(Debug)]
pub(crate) struct DecisionLog {
    path: PathBuf,
    rotate_bytes: u64,
    echo: bool,
    live: Mutex<Live>,
    failures: AtomicU64,
}

#[derive(Debug)]
struct Live {
    file: File,
    size: u64,
    /// The last append failed and may have left half a line.
    is_torn: bool,
}

impl DecisionLog {
    /// Opens or makes the log; `echo` repeats every line on standard error.
    ///
    /// # Errors
    /// The file cannot be opened, for instance because a link stands there.
    pub(crate) fn open(path: &Path, rotate_bytes: u64, echo: bool) -> Result<Self, FileError> {
        let live = open_live(path).map_err(|source| FileError::new("opening", path, source))?;
        let (path, failures) = (path.to_owned(), AtomicU64::new(0));
        Ok(Self { path, rotate_bytes, echo, live: Mutex::new(live), failures })
    }

    /// Renders and appends one line.
    pub(crate) fn write(&self, line: &Line<'_>) {
        let mut bytes = Vec::new();
        line.render(&mut bytes);
        self.append(&bytes);
    }

    /// Appends rendered lines with one system call. A full disk must not stop the workspaces that
    /// could free it from being destroyed, so a failure is counted, not raised.
    pub(crate) fn append(&self, lines: &[u8]) {
        if lines.is_empty() {
            return;
        }
        if self.echo {
            echo(lines);
        }
        let mut live = self.live.lock().unwrap_or_else(PoisonError::into_inner);
        if live.size >= self.rotate_bytes
            && let Ok(fresh) = self.rotate()
        {
            *live = fresh;
        }
        // Half a line stays by itself; what follows starts on a line of its own.
        let written = if live.is_torn { live.file.write_all(b"\n") } else { Ok(()) };
        match written.and_then(|()| live.file.write_all(lines)) {
            Ok(()) => {
                live.size += lines.len() as u64;
                live.is_torn = false;
            }
            Err(_) => {
                live.is_torn = true;
                self.failures.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    /// Returns how many appends did not reach the file.
    pub(crate) fn failures(&self) -> u64 {
        self.failures.load(Ordering::Relaxed)
    }

    fn rotate(&self) -> io::Result<Live> {
        for number in (1..KEPT_LOGS).rev() {
            match std::fs::rename(self.numbered(number), self.numbered(number + 1)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                Ok(()) | Err(_) => {}
            }
        }
        std::fs::rename(&self.path, self.numbered(1))?;
        open_live(&self.path)
    }

    fn numbered(&self, number: u32) -> PathBuf {
        let mut name = self.path.clone().into_os_string();
        name.push(format!(".{number}"));
        name.into()
    }
}

fn open_live(path: &Path) -> io::Result<Live> {
    let flags = OFlags::WRONLY | OFlags::APPEND | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = File::from(rustix::fs::open(path, flags, Mode::RUSR | Mode::WUSR)?);
    let size = file.metadata()?.len();
    Ok(Live { file, size, is_torn: false })
}

/// Repeats lines on standard error, unless its reader has stopped reading: a full pipe must not
/// hold up the server, and the file has the lines anyway.
fn echo(lines: &[u8]) {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let stderr = io::stderr();
    let handle = stderr.as_fd();
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    // A pipe that polls writable has room for this much without blocking.
    for chunk in lines.chunks(4096) {
        let mut waiting = [PollFd::new(&handle, PollFlags::OUT)];
        if !matches!(poll(&mut waiting, Some(&now)), Ok(1)) || !waiting[0].revents().contains(PollFlags::OUT)
        {
            return;
        }
        if rustix::io::write(handle, chunk).is_err() {
            return;
        }
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_is_counted_and_stops_nobody() {
        let log = DecisionLog::open(Path::new("/dev/full"), u64::MAX, false).unwrap();
        for _ in 0..3 {
            log.append(b"{}\n");
        }
        assert_eq!(log.failures(), 3);
    }

    #[test]
    fn a_link_in_the_place_of_a_log_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink("elsewhere", folder.path().join("log")).unwrap();
        assert!(DecisionLog::open(&folder.path().join("log"), 1, false).is_err());
        assert!(!folder.path().join("elsewhere").exists());
    }
}
