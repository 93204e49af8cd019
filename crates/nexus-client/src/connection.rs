//! Connections to one daemon: opened when needed, kept alive for the next call, sized and timed.
//! Knows HTTP, not what is asked.

use std::net::Ipv4Addr;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1::{self, SendRequest};
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::ClientError;

/// How long loopback may take to accept.
const CONNECT_WITHIN: Duration = Duration::from_secs(2);
/// Connections kept for the next call. One terminal rarely has more than two calls under way.
const IDLE_KEPT: usize = 4;
/// Longest answer taken, in bytes.
const MAX_ANSWER_LEN: usize = 16 * 1024 * 1024;
/// Longest header block of an answer, in bytes.
const MAX_HEAD_LEN: usize = 32 * 1024;

type Sender = SendRequest<Full<Bytes>>;

/// The connections of one client.
#[derive(Debug)]
pub(crate) struct Connections {
    port: u16,
    idle: Mutex<Vec<Sender>>,
}

/// An answer whose body has not been read.
#[derive(Debug)]
pub(crate) struct Opened {
    pub(crate) response: Response<Incoming>,
    sender: Sender,
}

impl Connections {
    pub(crate) fn new(port: u16) -> Self {
        Self { port, idle: Mutex::new(Vec::new()) }
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// Sends a request and returns the answer's head.
    ///
    /// A kept connection that the daemon has closed meanwhile is noticed before anything is sent;
    /// only then is the request sent again, over a fresh connection.
    pub(crate) async fn open(
        &self,
        what: &'static str,
        mut request: Request<Full<Bytes>>,
    ) -> Result<Opened, ClientError> {
        while let Some(mut sender) = self.take_idle() {
            if sender.ready().await.is_err() {
                continue;
            }
            match sender.try_send_request(request).await {
                Ok(response) => return Ok(Opened { response, sender }),
                Err(mut failure) => match failure.take_message() {
                    Some(unsent) => request = unsent,
                    None => return Err(disconnected(what, failure.into_error())),
                },
            }
        }
        let mut sender = self.connect(what).await?;
        let response = sender.send_request(request).await.map_err(|error| disconnected(what, error))?;
        Ok(Opened { response, sender })
    }

    /// Reads the whole body, then keeps the connection for the next call.
    pub(crate) async fn read(&self, what: &'static str, opened: Opened) -> Result<Bytes, ClientError> {
        let body = read_body(what, opened.response.into_body()).await?;
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        if idle.len() < IDLE_KEPT && !opened.sender.is_closed() {
            idle.push(opened.sender);
        }
        Ok(body)
    }

    fn take_idle(&self) -> Option<Sender> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop()
    }

    async fn connect(&self, what: &'static str) -> Result<Sender, ClientError> {
        let not_running = |_| ClientError::NotRunning { port: self.port };
        let stream = timeout(CONNECT_WITHIN, TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)))
            .await
            .map_err(|_| ClientError::Timeout { what, after: CONNECT_WITHIN })?
            .map_err(not_running)?;
        // Requests are small and each waits for its answer; without this the last part of one
        // could wait for an acknowledgement of the part before it.
        stream.set_nodelay(true).map_err(not_running)?;
        let (sender, connection) = http1::Builder::new()
            .max_header_size(MAX_HEAD_LEN)
            .handshake(TokioIo::new(stream))
            .await
            .map_err(|error| disconnected(what, error))?;
        // Ends by itself once the sender is dropped. What goes wrong here reaches the caller
        // through the request under way.
        nexus_base::task::spawn("connection", async move {
            let _ = connection.await;
        });
        Ok(sender)
    }
}

async fn read_body(what: &'static str, mut body: Incoming) -> Result<Bytes, ClientError> {
    let mut first: Option<Bytes> = None;
    let mut rest = BytesMut::new();
    let mut length = 0;
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| disconnected(what, error))?;
        let Ok(data) = frame.into_data() else { continue };
        length += data.len();
        if length > MAX_ANSWER_LEN {
            return Err(ClientError::BadAnswer {
                what,
                reason: format!("longer than {MAX_ANSWER_LEN} bytes"),
            });
        }
        match &first {
            // Nearly every answer is one piece: no copy then.
            None => first = Some(data),
            Some(piece) => {
                if rest.is_empty() {
                    rest.extend_from_slice(piece);
                }
                rest.extend_from_slice(&data);
            }
        }
    }
    Ok(if rest.is_empty() { first.unwrap_or_default() } else { rest.freeze() })
}

/// Names what a broken connection means to the caller.
pub(crate) fn disconnected(what: &'static str, error: hyper::Error) -> ClientError {
    if error.is_parse() {
        return ClientError::BadAnswer { what, reason: error.to_string() };
    }
    ClientError::Disconnected { what, source: error.into() }
}
