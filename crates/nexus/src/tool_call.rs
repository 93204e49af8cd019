//! `nexus …` inside a tool call: methods are called over the inherited socket, with the permissions of the worker whose
//! call it is. No configuration is read and no token is touched here.

use std::ffi::OsString;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use nexus_base::error::chain;
use nexus_protocol::control::Call;
use nexus_protocol::error::WireError;
use nexus_protocol::methods::Method;
use nexus_protocol::run::{MAX_LINE_LEN, RUN_SOCKET_VARIABLE, RunReply};
use serde_json::Value;

use crate::failure::Failure;

/// Longest a method may take; the call's own deadline is usually shorter.
const CALL_TIMEOUT: Duration = Duration::from_secs(600);
/// Longest answer taken, in bytes; what a tool prints is cut further.
const MAX_ANSWER_LEN: u64 = 16 * 1024 * 1024;
/// What is there instead.
const AVAILABLE: &str = "status, identity, trace, skills list|use, credential list|scan|verify and memory \
                         recall|add|changes|entities|stats are; for the rest ask the owner to run it in a terminal";

/// Tells whether this process runs inside a tool call.
pub(crate) fn is_inside() -> bool {
    descriptor().is_some()
}

/// Makes the failure of a command that only works outside.
pub(crate) fn unavailable() -> Failure {
    let words: Vec<String> =
        std::env::args_os().skip(1).map(|word| word.to_string_lossy().into_owned()).collect();
    Failure::new(format!("`nexus {}` is not available inside a tool call", words.join(" "))).hint(AVAILABLE)
}

/// Has the daemon carry out a method.
pub(crate) fn call(method: Method, params: Value) -> Result<Result<Value, WireError>, Failure> {
    let descriptor = descriptor().unwrap_or_default();
    let number: i32 = descriptor
        .to_str()
        .and_then(|text| text.parse().ok())
        .ok_or_else(|| Failure::new(format!("{RUN_SOCKET_VARIABLE} is not a descriptor number")))?;
    let socket = nexus_process::inherited_socket(number).map_err(|error| unreachable_daemon(&error))?;
    let request = Call { method: method.entry().name.to_owned(), params: Some(params) };
    Ok(match exchange(socket, &request)? {
        RunReply::Done(answer) => Ok(answer),
        RunReply::Failed(error) => Err(error),
    })
}

fn descriptor() -> Option<OsString> {
    std::env::var_os(RUN_SOCKET_VARIABLE).filter(|value| !value.is_empty())
}

fn exchange(mut socket: UnixStream, request: &Call) -> Result<RunReply, Failure> {
    let mut line = serde_json::to_vec(request).map_err(|error| Failure::caused(&error))?;
    if line.len() >= MAX_LINE_LEN {
        return Err(Failure::new(format!("the request is longer than {MAX_LINE_LEN} bytes")));
    }
    line.push(b'\n');
    socket.set_read_timeout(Some(CALL_TIMEOUT)).map_err(|error| unreachable_daemon(&error))?;
    socket.write_all(&line).map_err(|error| unreachable_daemon(&error))?;
    let mut answer = Vec::new();
    BufReader::new(socket.take(MAX_ANSWER_LEN))
        .read_until(b'\n', &mut answer)
        .map_err(|error| unreachable_daemon(&error))?;
    if answer.is_empty() {
        return Err(unreachable_daemon(&io::Error::from(io::ErrorKind::UnexpectedEof)));
    }
    serde_json::from_slice(&answer)
        .map_err(|error| Failure::new(format!("the daemon's answer cannot be read: {}", chain(&error))))
}

fn unreachable_daemon(error: &io::Error) -> Failure {
    Failure::new(format!("the daemon does not answer this tool call: {error}"))
        .hint("`nexus` inside a tool call works only until the call ends")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn one_line_goes_out_and_one_comes_back() {
        let (near, far) = UnixStream::pair().unwrap();
        let daemon = std::thread::spawn(move || {
            let mut reader = BufReader::new(far.try_clone().unwrap());
            let mut line = String::new();
            reader.read_line(&mut line).unwrap();
            let mut far = far;
            far.write_all(b"{\"done\":{\"facts\":[]}}\n").unwrap();
            line
        });
        let request = Call { method: "memory.recall".to_owned(), params: Some(json!({ "query": "x" })) };
        assert_eq!(exchange(near, &request).unwrap(), RunReply::Done(json!({ "facts": [] })));
        assert_eq!(daemon.join().unwrap(), "{\"method\":\"memory.recall\",\"params\":{\"query\":\"x\"}}\n");
    }

    #[test]
    fn a_closed_line_is_an_error_with_a_hint() {
        let (near, far) = UnixStream::pair().unwrap();
        drop(far);
        let request = Call { method: "status".to_owned(), params: None };
        assert!(exchange(near, &request).unwrap_err().advice().is_some());
    }
}
