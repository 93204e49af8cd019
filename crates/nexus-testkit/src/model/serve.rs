//! One connection: requests in, replies out, at the pace the script says.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::asked::{Asked, Wire};
use super::reply::Reply;
use super::{Gate, Shared, wire};

/// Time between two looks at a held connection.
const LOOK: Duration = Duration::from_millis(2);
/// Largest body that is read.
const MAX_BODY_SIZE: usize = 64 * 1024 * 1024;

/// Why a reply was not given to its end.
enum Broken {
    /// The script said so, or the client has disconnected.
    Off,
    Io,
}

impl From<io::Error> for Broken {
    fn from(_: io::Error) -> Self {
        Self::Io
    }
}

/// Serves a connection until either side ends it.
pub(crate) fn connection(stream: &TcpStream, shared: &Shared) {
    let _ = stream.set_nodelay(true);
    let mut reader = BufReader::new(stream);
    while let Some(asked) = read(&mut reader) {
        let number = {
            let mut all = shared.asked.lock().unwrap();
            all.push(asked.clone());
            all.len() - 1
        };
        let served = match asked.wire {
            Some(wire) => {
                let reply = shared.reply_to(&asked);
                Talk { stream, shared, asked: &asked, wire }.give(number, &reply)
            }
            None => other(stream, shared, &asked).map_err(Broken::from),
        };
        let is_last = asked.header("connection").is_some_and(|value| value.eq_ignore_ascii_case("close"));
        if served.is_err() || is_last {
            let _ = stream.shutdown(Shutdown::Both);
            return;
        }
    }
}

fn read(reader: &mut BufReader<&TcpStream>) -> Option<Asked> {
    let mut line = String::new();
    reader.read_line(&mut line).ok().filter(|count| *count > 0)?;
    let mut words = line.split_whitespace();
    let (method, path) = (words.next()?.to_owned(), words.next()?.to_owned());
    let mut headers = Vec::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok().filter(|count| *count > 0)?;
        let Some((name, value)) = line.split_once(':') else { break };
        headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
    }
    let length = headers.iter().find(|(name, _)| name == "content-length");
    let length: usize = length.and_then(|(_, value)| value.parse().ok()).unwrap_or(0);
    assert!(length <= MAX_BODY_SIZE, "a request of {length} bytes");
    let mut bytes = vec![0; length];
    reader.read_exact(&mut bytes).ok()?;
    let path = path.trim_end_matches('/').to_owned();
    let wire = match (method.as_str(), path.as_str()) {
        ("POST", path) if path.ends_with("/messages") => Some(Wire::Anthropic),
        ("POST", path) if path.ends_with("/chat/completions") => Some(Wire::OpenAi),
        _ => None,
    };
    Some(Asked {
        wire,
        target: format!("{method} {path}"),
        headers,
        body: serde_json::from_slice(&bytes).unwrap_or(Value::Null),
        bytes,
        sent: Arc::default(),
        gone: Arc::default(),
    })
}

fn other(stream: &TcpStream, shared: &Shared, asked: &Asked) -> io::Result<()> {
    if asked.target.ends_with("/models") {
        let names = shared.models.lock().unwrap().clone();
        let list: Vec<Value> = names
            .iter()
            .map(|name| json!({"id": name, "object": "model", "type": "model", "display_name": name}))
            .collect();
        return whole(stream, 200, &[], &json!({"object": "list", "data": list, "has_more": false}));
    }
    whole(stream, 404, &[], &json!({"error": {"message": "no such route", "type": "not_found_error"}}))
}

fn whole(mut stream: &TcpStream, status: u16, headers: &[(String, String)], body: &Value) -> io::Result<()> {
    let body = body.to_string();
    let more: String = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    write!(
        stream,
        "HTTP/1.1 {status} Scripted\r\ncontent-type: application/json\r\n{more}content-length: {}\r\n\r\n{body}",
        body.len()
    )
}

struct Talk<'a> {
    stream: &'a TcpStream,
    shared: &'a Shared,
    asked: &'a Asked,
    wire: Wire,
}

impl Talk<'_> {
    fn give(&self, number: usize, reply: &Reply) -> Result<(), Broken> {
        if let Some(gate) = &reply.hold_head {
            self.stand_at(gate)?;
        }
        if let Some((status, message)) = &reply.status {
            let body = wire::refusal(self.wire, *status, message);
            return Ok(whole(self.stream, *status, &reply.headers, &body)?);
        }
        let more: String = reply.headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        let head = format!(
            "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n{more}transfer-encoding: chunked\r\n\r\n"
        );
        (&mut &*self.stream).write_all(head.as_bytes())?;
        let events = match &reply.raw {
            Some(raw) => vec![raw.clone()],
            None => wire::events(self.asked, self.wire, number, reply).into_iter().map(Into::into).collect(),
        };
        self.before(0, reply)?;
        for (index, event) in events.iter().enumerate() {
            self.chunks(event, reply.bytes_at_once)?;
            self.asked.sent.lock().unwrap().push(Instant::now());
            self.before(index + 1, reply)?;
        }
        Ok((&mut &*self.stream).write_all(b"0\r\n\r\n")?)
    }

    /// Does what the script wants done after `sent` events.
    fn before(&self, sent: usize, reply: &Reply) -> Result<(), Broken> {
        for (_, gate) in reply.holds.iter().filter(|(after, _)| *after == sent) {
            self.stand_at(gate)?;
        }
        if reply.cut_after == Some(sent) {
            return Err(Broken::Off);
        }
        if let Some((_, message)) = reply.fail_after.as_ref().filter(|(after, _)| *after == sent) {
            self.chunks(wire::failure(self.wire, message).as_bytes(), None)?;
            (&mut &*self.stream).write_all(b"0\r\n\r\n")?;
            return Err(Broken::Off);
        }
        if self.is_gone() { Err(Broken::Off) } else { Ok(()) }
    }

    fn chunks(&self, bytes: &[u8], at_once: Option<usize>) -> io::Result<()> {
        for piece in bytes.chunks(at_once.unwrap_or(bytes.len()).max(1)) {
            let mut chunk = format!("{:x}\r\n", piece.len()).into_bytes();
            chunk.extend_from_slice(piece);
            chunk.extend_from_slice(b"\r\n");
            (&mut &*self.stream).write_all(&chunk)?;
        }
        Ok(())
    }

    fn stand_at(&self, gate: &Gate) -> Result<(), Broken> {
        gate.arrive();
        while !gate.is_open_after(LOOK) {
            if self.is_gone() || self.shared.ended.load(Ordering::Acquire) {
                return Err(Broken::Off);
            }
        }
        Ok(())
    }

    /// Tells whether the client has closed the connection, and writes that down.
    fn is_gone(&self) -> bool {
        let _ = self.stream.set_nonblocking(true);
        let gone = match self.stream.peek(&mut [0]) {
            Ok(count) => count == 0,
            Err(error) => error.kind() != io::ErrorKind::WouldBlock,
        };
        let _ = self.stream.set_nonblocking(false);
        if gone {
            self.asked.gone.store(true, Ordering::Release);
        }
        gone
    }
}
