//! `nexus …` inside a tool call: the command line goes to the daemon over the inherited socket and
//! runs there with that worker's permissions. No configuration is read and no token is touched here.

use std::ffi::OsString;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::process::ExitCode;
use std::time::Duration;

use nexus_protocol::run::{MAX_LINE_LEN, RUN_SOCKET_VARIABLE, RunReply, RunRequest};

use crate::failure::Failure;
use crate::output;
use nexus_base::error::chain;

/// Longest a command inside a tool call may take; the call's own deadline is usually shorter.
const PATIENCE: Duration = Duration::from_secs(600);

/// Returns the number of the inherited socket when this process runs inside a tool call.
pub(crate) fn descriptor() -> Option<OsString> {
    std::env::var_os(RUN_SOCKET_VARIABLE).filter(|value| !value.is_empty())
}

/// Sends this process's arguments to the daemon, prints its answer, exits as it says.
pub(crate) fn run(descriptor: &OsString) -> ExitCode {
    match ask(descriptor) {
        Ok(reply) => {
            // The tool's output is cut and read by others; a closed stream changes no exit code.
            let _ = io::stdout().lock().write_all(reply.stdout.as_bytes());
            let _ = io::stderr().lock().write_all(reply.stderr.as_bytes());
            ExitCode::from(reply.exit_code)
        }
        Err(failure) => {
            output::failure(&failure);
            ExitCode::from(failure.code())
        }
    }
}

fn ask(descriptor: &OsString) -> Result<RunReply, Failure> {
    let number: i32 = descriptor
        .to_str()
        .and_then(|text| text.parse().ok())
        .ok_or_else(|| Failure::new(format!("{RUN_SOCKET_VARIABLE} is not a file descriptor number")))?;
    let socket = nexus_process::inherited_socket(number).map_err(|error| unreachable_daemon(&error))?;
    let arguments = std::env::args_os()
        .skip(1)
        .map(OsString::into_string)
        .collect::<Result<Vec<_>, _>>()
        .map_err(|argument| Failure::new(format!("argument {argument:?} is not UTF-8")))?;
    exchange(socket, &RunRequest { arguments })
}

fn exchange(mut socket: UnixStream, request: &RunRequest) -> Result<RunReply, Failure> {
    let mut line = serde_json::to_vec(request)?;
    if line.len() >= MAX_LINE_LEN {
        return Err(Failure::new(format!("the command line is longer than {MAX_LINE_LEN} bytes")));
    }
    line.push(b'\n');
    socket.set_read_timeout(Some(PATIENCE)).map_err(|error| unreachable_daemon(&error))?;
    socket.write_all(&line).map_err(|error| unreachable_daemon(&error))?;
    let mut answer = Vec::new();
    BufReader::new(socket.take(MAX_LINE_LEN as u64 + 1))
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
    use super::*;

    #[test]
    fn one_line_goes_out_and_one_comes_back() {
        let (near, far) = UnixStream::pair().unwrap();
        let daemon = std::thread::spawn(move || {
            let mut reader = BufReader::new(far.try_clone().unwrap());
            let mut line = String::new();
            reader.read_line(&mut line).unwrap();
            let mut far = far;
            far.write_all(b"{\"exit_code\":3,\"stdout\":\"out\",\"stderr\":\"\"}\n").unwrap();
            line
        });
        let request = RunRequest { arguments: vec!["credential".into(), "scan".into()] };
        let reply = exchange(near, &request).unwrap();
        assert_eq!(reply, RunReply { exit_code: 3, stdout: "out".into(), stderr: String::new() });
        assert_eq!(daemon.join().unwrap(), "{\"arguments\":[\"credential\",\"scan\"]}\n");
    }

    #[test]
    fn a_closed_line_is_an_error_with_a_hint() {
        let (near, far) = UnixStream::pair().unwrap();
        drop(far);
        assert!(exchange(near, &RunRequest { arguments: vec![] }).unwrap_err().advice().is_some());
    }
}
