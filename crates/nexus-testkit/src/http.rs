//! Plain HTTP/1.1 for what the typed client would never send: raw bytes, wrong hosts, no token.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::time::Duration;

/// How long one exchange may take.
const WITHIN: Duration = Duration::from_secs(30);

/// An answer, taken apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// Status code.
    pub status: u16,
    /// Header names in lower case, with their values.
    pub headers: Vec<(String, String)>,
    /// Body, with chunks put together.
    pub body: String,
}

impl Answer {
    /// Returns a header by its lower-case name.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// Returns the body as JSON.
    ///
    /// # Panics
    /// It is something else.
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error} in {self:?}"))
    }
}

/// Sends `GET target` with the right host, and the token if there is one.
///
/// # Errors
/// Nobody answered with HTTP.
pub fn get(port: u16, target: &str, token: Option<&str>) -> io::Result<Answer> {
    exchange(port, &request("GET", port, target, token, ""))
}

/// Sends `POST target` with a JSON body.
///
/// # Errors
/// Nobody answered with HTTP.
pub fn post(port: u16, target: &str, token: Option<&str>, body: &str) -> io::Result<Answer> {
    exchange(port, &request("POST", port, target, token, body))
}

/// Returns the bytes of a request as a well-behaved client sends it.
pub fn request(method: &str, port: u16, target: &str, token: Option<&str>, body: &str) -> Vec<u8> {
    let authorization = token.map(|token| format!("Authorization: Bearer {token}\r\n")).unwrap_or_default();
    let length = body.len();
    format!(
        "{method} {target} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n{authorization}Connection: close\r\n\
         Content-Length: {length}\r\n\r\n{body}"
    )
    .into_bytes()
}

/// Sends these bytes and reads the answer until the other side closes.
///
/// # Errors
/// Nobody listens, or what came back is not HTTP.
pub fn exchange(port: u16, bytes: &[u8]) -> io::Result<Answer> {
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
    stream.set_read_timeout(Some(WITHIN))?;
    stream.set_write_timeout(Some(WITHIN))?;
    // The other side may refuse before it has read everything; its answer counts then.
    let sent = stream.write_all(bytes);
    let mut received = Vec::new();
    let read = stream.read_to_end(&mut received);
    if received.is_empty() {
        sent?;
        read?;
    }
    parse(&received).ok_or_else(|| {
        io::Error::new(
            io::ErrorKind::InvalidData,
            format!("no HTTP: {:?}", String::from_utf8_lossy(&received)),
        )
    })
}

/// Takes an answer apart.
pub fn parse(bytes: &[u8]) -> Option<Answer> {
    let end = bytes.windows(4).position(|window| window == b"\r\n\r\n")?;
    let head = std::str::from_utf8(&bytes[..end]).ok()?;
    let mut lines = head.split("\r\n");
    let status = lines.next()?.strip_prefix("HTTP/1.")?.split(' ').nth(1)?.parse().ok()?;
    let headers: Vec<(String, String)> = lines
        .filter_map(|line| line.split_once(':'))
        .map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()))
        .collect();
    let rest = &bytes[end + 4..];
    let chunked = headers.iter().any(|(name, value)| name == "transfer-encoding" && value == "chunked");
    let body = if chunked { join_chunks(rest) } else { rest.to_vec() };
    Some(Answer { status, headers, body: String::from_utf8_lossy(&body).into_owned() })
}

/// Puts chunks together as far as they came.
fn join_chunks(mut bytes: &[u8]) -> Vec<u8> {
    let mut body = Vec::new();
    while let Some(line) = bytes.windows(2).position(|window| window == b"\r\n") {
        let length =
            std::str::from_utf8(&bytes[..line]).ok().and_then(|text| usize::from_str_radix(text, 16).ok());
        let Some(length) = length.filter(|length| *length > 0) else { break };
        let data = &bytes[line + 2..];
        body.extend_from_slice(&data[..length.min(data.len())]);
        bytes = data.get(length + 2..).unwrap_or_default();
    }
    body
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_come_apart_chunked_or_not() {
        let plain = parse(b"HTTP/1.1 404 Not Found\r\nContent-Length: 2\r\nX-A: b\r\n\r\n{}").unwrap();
        assert_eq!((plain.status, plain.header("x-a"), plain.body.as_str()), (404, Some("b"), "{}"));
        let chunked =
            parse(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n");
        assert_eq!(chunked.unwrap().body, "abcde");
        assert_eq!(parse(b"SSH-2.0\r\n\r\n"), None);
    }
}
