//! The control plane over a WebSocket: one connection, many requests, and events as they happen.
//! For those who follow along; a single question is cheaper over plain HTTP.

use std::collections::VecDeque;
use std::time::Duration;

use futures_util::{SinkExt, StreamExt};
use nexus_protocol::error::WireError;
use nexus_protocol::methods::Method;
use nexus_protocol::ws::{
    ClientInfo, Connect, EventFrame, HelloOk, PROTOCOL, RequestFrame, RequestKind, ResponseFrame,
    ServerFrame, Subscribe,
};
use secrecy::{ExposeSecret, SecretString};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::http::HeaderValue;
use tokio_tungstenite::tungstenite::{self, Message};
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream, connect_async};

use crate::ClientError;

/// What errors call this connection.
const WHAT: &str = "WS /ws";
/// How long the handshake may take.
const SHAKE_WITHIN: Duration = Duration::from_secs(15);
/// Events kept for [`Socket::event`] while an answer is waited for; the oldest go first.
const KEPT_EVENTS: usize = 4_096;

/// A connection whose handshake is done.
#[derive(Debug)]
pub struct Socket {
    stream: WebSocketStream<MaybeTlsStream<TcpStream>>,
    hello: Option<HelloOk>,
    next: u64,
    events: VecDeque<EventFrame>,
}

impl Socket {
    /// Connects to the daemon on this port. The token goes in the upgrade's header and nowhere else.
    pub async fn connect(
        port: u16,
        token: &SecretString,
        client: &str,
        subscribe: Option<Subscribe>,
    ) -> Result<Self, ClientError> {
        timeout(SHAKE_WITHIN, Self::shake(port, token, client, subscribe))
            .await
            .unwrap_or(Err(ClientError::Timeout { what: WHAT, after: SHAKE_WITHIN }))
    }

    async fn shake(
        port: u16,
        token: &SecretString,
        client: &str,
        subscribe: Option<Subscribe>,
    ) -> Result<Self, ClientError> {
        let mut request =
            format!("ws://127.0.0.1:{port}/ws").into_client_request().map_err(|error| broken(port, error))?;
        let bearer = HeaderValue::try_from(format!("Bearer {}", token.expose_secret()))
            .map_err(|_| bad("the token cannot be sent as a header"))?;
        request.headers_mut().insert("authorization", bearer);
        let (stream, _) = connect_async(request).await.map_err(|error| broken(port, error))?;
        let mut socket = Self { stream, hello: None, next: 0, events: VecDeque::new() };
        let challenge = socket.receive().await?;
        let ServerFrame::Event(EventFrame { event, payload: Some(payload), .. }) = challenge else {
            return Err(bad("the daemon did not start with a challenge"));
        };
        if event != "connect.challenge" {
            return Err(bad("the daemon did not start with a challenge"));
        }
        let connect = Connect {
            min_protocol: PROTOCOL,
            max_protocol: PROTOCOL,
            client: Some(ClientInfo { id: client.to_owned(), ..ClientInfo::default() }),
            role: None,
            scopes: None,
            auth: None,
            nonce: payload["nonce"].as_str().map(str::to_owned),
            subscribe,
        };
        socket.hello = Some(socket.call(Method::Connect, &connect).await?);
        Ok(socket)
    }

    /// Returns what the daemon said at the start.
    pub fn hello(&self) -> Option<&HelloOk> {
        self.hello.as_ref()
    }

    /// Asks one thing and waits for its answer; events that come meanwhile are kept.
    pub async fn call<T: DeserializeOwned>(
        &mut self,
        method: Method,
        params: &impl Serialize,
    ) -> Result<T, ClientError> {
        let id = self.send(method, params).await?;
        loop {
            match self.receive().await? {
                ServerFrame::Response(response) if response.id.as_deref() == Some(&id) => {
                    return outcome(response);
                }
                // A refusal without an id is about the connection.
                ServerFrame::Response(response) if response.id.is_none() => return outcome(response),
                ServerFrame::Response(_) => {}
                ServerFrame::Event(event) => self.keep(event),
            }
        }
    }

    /// Sends a request without waiting; returns the id its answer will carry.
    pub async fn send(&mut self, method: Method, params: &impl Serialize) -> Result<String, ClientError> {
        self.next += 1;
        let id = self.next.to_string();
        let params = serde_json::to_value(params).map_err(|error| bad(&error.to_string()))?;
        let frame = RequestFrame {
            kind: RequestKind::Request,
            id: id.clone(),
            method: method.entry().name.to_owned(),
            params: Some(params),
        };
        let text = serde_json::to_string(&frame).map_err(|error| bad(&error.to_string()))?;
        self.stream.send(Message::text(text)).await.map_err(lost)?;
        Ok(id)
    }

    /// Waits for the next frame, whatever it is.
    pub async fn receive(&mut self) -> Result<ServerFrame, ClientError> {
        loop {
            match self.stream.next().await {
                Some(Ok(Message::Text(text))) => {
                    return serde_json::from_str(&text).map_err(|error| bad(&error.to_string()));
                }
                Some(Ok(Message::Ping(_) | Message::Pong(_) | Message::Binary(_) | Message::Frame(_))) => {}
                Some(Ok(Message::Close(_))) | None => {
                    return Err(lost(tungstenite::Error::ConnectionClosed));
                }
                Some(Err(error)) => return Err(lost(error)),
            }
        }
    }

    /// Waits for the next event.
    pub async fn event(&mut self) -> Result<EventFrame, ClientError> {
        if let Some(event) = self.events.pop_front() {
            return Ok(event);
        }
        loop {
            if let ServerFrame::Event(event) = self.receive().await? {
                return Ok(event);
            }
        }
    }

    fn keep(&mut self, event: EventFrame) {
        if self.events.len() >= KEPT_EVENTS {
            self.events.pop_front();
        }
        self.events.push_back(event);
    }
}

fn outcome<T: DeserializeOwned>(response: ResponseFrame) -> Result<T, ClientError> {
    if let Some(fault) = response.error {
        let error = WireError { code: fault.code, message: fault.message, hint: fault.hint };
        // No HTTP status belongs to a frame.
        return Err(ClientError::Wire(error, 0));
    }
    serde_json::from_value(response.payload.unwrap_or_default()).map_err(|error| bad(&error.to_string()))
}

fn bad(reason: &str) -> ClientError {
    ClientError::BadAnswer { what: WHAT, reason: reason.to_owned() }
}

fn lost(error: tungstenite::Error) -> ClientError {
    ClientError::Disconnected { what: WHAT, source: error.into() }
}

fn broken(port: u16, error: tungstenite::Error) -> ClientError {
    match error {
        tungstenite::Error::Io(_) => ClientError::NotRunning { port },
        tungstenite::Error::Http(response) => {
            let status = response.status().as_u16();
            bad(&format!("the upgrade was refused with status {status}"))
        }
        other => lost(other),
    }
}
