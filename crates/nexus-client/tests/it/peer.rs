//! A peer that speaks just enough HTTP to say what a test wants said.

use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// What the peer does with one connection's next request.
#[derive(Debug, Clone)]
pub(crate) enum Act {
    /// Answers with these bytes and keeps the connection.
    Say(Vec<u8>),
    /// Answers with these pieces, flushed one by one, then closes.
    SayInPieces(Vec<Vec<u8>>),
    /// Closes without a word.
    HangUp,
    /// Says nothing and keeps the connection open.
    Silence,
}

#[derive(Debug, Clone, Default)]
pub(crate) struct Seen {
    pub(crate) connections: usize,
    pub(crate) requests: Vec<String>,
}

#[derive(Debug)]
pub(crate) struct Peer {
    pub(crate) port: u16,
    seen: Arc<Mutex<Seen>>,
}

impl Peer {
    /// Answers requests in the order of `script`, whichever connection they come over.
    pub(crate) async fn start(script: Vec<Act>) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let seen = Arc::new(Mutex::new(Seen::default()));
        let script = Arc::new(Mutex::new(script.into_iter()));
        let record = Arc::clone(&seen);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                record.lock().unwrap().connections += 1;
                let (script, record) = (Arc::clone(&script), Arc::clone(&record));
                tokio::spawn(async move {
                    let mut stream = stream;
                    while let Some(request) = read_request(&mut stream).await {
                        record.lock().unwrap().requests.push(request);
                        let act = script.lock().unwrap().next().unwrap_or(Act::HangUp);
                        match act {
                            Act::Say(bytes) => stream.write_all(&bytes).await.unwrap(),
                            Act::SayInPieces(pieces) => {
                                for piece in pieces {
                                    if stream.write_all(&piece).await.is_err() {
                                        return;
                                    }
                                    stream.flush().await.unwrap();
                                    tokio::task::yield_now().await;
                                }
                                return;
                            }
                            Act::HangUp => return,
                            Act::Silence => std::future::pending().await,
                        }
                    }
                });
            }
        });
        Self { port, seen }
    }

    pub(crate) fn seen(&self) -> Seen {
        self.seen.lock().unwrap().clone()
    }
}

pub(crate) fn answer(status: &str, body: &str) -> Vec<u8> {
    format!(
        "HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )
    .into_bytes()
}

async fn read_request(stream: &mut TcpStream) -> Option<String> {
    let mut bytes = Vec::new();
    loop {
        let text = String::from_utf8_lossy(&bytes).into_owned();
        if let Some(end) = text.find("\r\n\r\n") {
            let length: usize = text
                .lines()
                .find_map(|line| {
                    line.to_ascii_lowercase().strip_prefix("content-length: ").map(str::to_owned)
                })
                .map_or(0, |length| length.parse().unwrap());
            if bytes.len() >= end + 4 + length {
                return Some(text);
            }
        }
        if stream.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
    }
}
