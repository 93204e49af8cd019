//! `GET /api/events/stream`: bus events as server-sent events.
//!
//! What a client has not read yet is bounded twice: the connection takes the next piece only when
//! the last one is written, and the bus gives a reader that fell behind a gap marker in place of
//! what it missed.

use std::convert::Infallible;
use std::pin::Pin;
use std::time::Duration;

use axum::body::Body;
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, HeaderValue, Response};
use bytes::{BufMut, Bytes, BytesMut};
use futures_util::{FutureExt, stream};
use nexus_operations::{BusReader, Caller};
use nexus_protocol::bus::{BusBody, BusEvent};
use nexus_protocol::error::ErrorCode;
use serde::Deserialize;
use tokio::time::{Instant, Sleep};
use tokio_util::sync::CancellationToken;

use crate::answer::Refusal;
use crate::daemon::{Daemon, until_invalid};
use crate::parameters::name;

/// Silence after which a comment is sent, so that both sides notice a dead connection.
const HEARTBEAT: Duration = Duration::from_secs(15);
/// Events that are ready are written together up to this many bytes.
const PIECE: usize = 16 * 1024;
/// Sent at once: the stream is open, and a browser that loses it waits a second.
const OPENING: &[u8] = b": open\nretry: 1000\n\n";
const BEAT: &[u8] = b": still here\n\n";

/// What a client wants to see.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Wanted {
    /// Only this request tree, and what is about the daemon itself.
    pub(crate) root: Option<String>,
    /// Only these kinds, separated by commas.
    pub(crate) types: Option<String>,
}

/// Opens the stream. Whatever is published after this has returned reaches the client.
pub(crate) fn open<D: Daemon>(
    daemon: &D,
    caller: Caller,
    closing: CancellationToken,
    wanted: Wanted,
    headers: &HeaderMap,
) -> Result<Response<Body>, Refusal> {
    let filter = Filter::new(wanted)?;
    let reader = daemon.subscribe(last_event(headers)?);
    let (stopping, redacting) = (daemon.clone(), daemon.clone());
    let feed = Feed {
        reader,
        filter,
        ending: Box::pin(async move {
            tokio::select! {
                () = stopping.stopping() => {}
                () = closing.cancelled() => {}
                () = until_invalid(&stopping, &caller) => {}
            }
        }),
        heartbeat: Box::pin(tokio::time::sleep(HEARTBEAT)),
        stage: Stage::Opening,
        redact: Box::new(move |text| redacting.redact(text)),
    };
    let pieces = stream::unfold(feed, |mut feed| async move {
        let piece = feed.next_piece().await?;
        Some((Ok::<Bytes, Infallible>(piece), feed))
    });
    let mut response = Response::new(Body::from_stream(pieces));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    Ok(response)
}

fn last_event(headers: &HeaderMap) -> Result<Option<u64>, Refusal> {
    let Some(value) = headers.get("last-event-id") else { return Ok(None) };
    // The numbers count events of one boot; nothing near the end of the range can be one.
    let number =
        value.to_str().ok().and_then(|text| text.trim().parse().ok()).filter(|number| *number < u64::MAX / 2);
    number.map(Some).ok_or_else(|| {
        Refusal::new(ErrorCode::InvalidRequest, "Last-Event-ID must be the id of an event of this stream")
    })
}

struct Feed {
    reader: BusReader,
    filter: Filter,
    ending: Pin<Box<dyn Future<Output = ()> + Send>>,
    heartbeat: Pin<Box<Sleep>>,
    stage: Stage,
    redact: Box<dyn Fn(&str) -> String + Send + Sync>,
}

#[derive(PartialEq, Eq)]
enum Stage {
    Opening,
    Running,
    /// The daemon is stopping: what is ready is still sent, nothing is waited for.
    Ending,
    Over,
}

impl Feed {
    async fn next_piece(&mut self) -> Option<Bytes> {
        let mut piece = BytesMut::new();
        match self.stage {
            Stage::Opening => {
                self.stage = Stage::Running;
                return Some(Bytes::from_static(OPENING));
            }
            Stage::Running => {}
            Stage::Ending | Stage::Over => return self.last_piece(piece),
        }
        self.heartbeat.as_mut().reset(Instant::now() + HEARTBEAT);
        while piece.is_empty() {
            tokio::select! {
                biased;
                event = self.reader.next() => match event {
                    Some(event) => self.write(&mut piece, &event),
                    None => {
                        self.stage = Stage::Over;
                        return None;
                    }
                },
                () = &mut self.ending => {
                    self.stage = Stage::Ending;
                    return self.last_piece(piece);
                }
                () = self.heartbeat.as_mut() => return Some(Bytes::from_static(BEAT)),
            }
        }
        self.write_ready(&mut piece);
        Some(piece.freeze())
    }

    fn last_piece(&mut self, mut piece: BytesMut) -> Option<Bytes> {
        if self.stage == Stage::Over {
            return None;
        }
        self.write_ready(&mut piece);
        if piece.is_empty() {
            self.stage = Stage::Over;
            return None;
        }
        Some(piece.freeze())
    }

    /// Adds what is there already, without waiting.
    fn write_ready(&mut self, piece: &mut BytesMut) {
        while piece.len() < PIECE {
            match self.reader.next().now_or_never() {
                Some(Some(event)) => self.write(piece, &event),
                Some(None) | None => return,
            }
        }
    }

    fn write(&self, piece: &mut BytesMut, event: &BusEvent) {
        if !self.filter.takes(event) {
            return;
        }
        // Line feeds cannot occur in compact JSON, so one data line is enough.
        match serde_json::to_string(event) {
            Ok(json) => {
                let (name, json) = (event.body.type_name(), (self.redact)(&json));
                piece.put_slice(format!("id: {}\nevent: {name}\ndata: {json}\n\n", event.seq).as_bytes());
            }
            Err(error) => {
                tracing::error!(%error, seq = event.seq, "event not serialised");
            }
        }
    }
}

/// Which events a client gets.
#[derive(Debug, Default)]
pub(crate) struct Filter {
    root: Option<String>,
    types: Option<Vec<&'static str>>,
}

impl Filter {
    pub(crate) fn new(wanted: Wanted) -> Result<Self, Refusal> {
        if let Some(root) = &wanted.root {
            name("root", root)?;
        }
        let types = wanted.types.map(|types| types.split(',').map(known_type).collect()).transpose()?;
        Ok(Self { root: wanted.root, types })
    }

    pub(crate) fn takes(&self, event: &BusEvent) -> bool {
        // A gap is about the stream itself: whoever missed something must learn it.
        if matches!(event.body, BusBody::Gap { .. }) {
            return true;
        }
        self.root.as_ref().is_none_or(|root| belongs_to(event, root))
            && self.types.as_ref().is_none_or(|types| types.contains(&event.body.type_name()))
    }
}

/// Tells whether an event is of the tree under `root`, or about the daemon as a whole.
fn belongs_to(event: &BusEvent, root: &str) -> bool {
    if let Some(of_event) = &event.root_request_id {
        return of_event.as_str() == root;
    }
    match &event.body {
        BusBody::Started { .. }
        | BusBody::Stopping
        | BusBody::HookFired { .. }
        | BusBody::HookFailed { .. }
        | BusBody::ConfigReloaded
        | BusBody::PermissionRequested { .. }
        | BusBody::PermissionResolved { .. }
        | BusBody::Gap { .. } => true,
        // Published before anybody knew the tree: the request itself may still be the one.
        BusBody::Delta { request_id, .. }
        | BusBody::TurnStarted { request_id, .. }
        | BusBody::TurnEnded { request_id, .. }
        | BusBody::Reply { request_id, .. }
        | BusBody::WorkerDispatched { request_id, .. }
        | BusBody::Stage { request_id, .. }
        | BusBody::RequestEnded { request_id, .. }
        | BusBody::Quiescent { request_id } => request_id.as_str() == root,
        BusBody::Used { .. }
        | BusBody::Compacted { .. }
        | BusBody::Reset { .. }
        | BusBody::ToolStarted { .. }
        | BusBody::ToolEnded { .. }
        | BusBody::WorkerEnded { .. } => false,
    }
}

fn known_type(text: &str) -> Result<&'static str, Refusal> {
    BusBody::TYPES.iter().find(|known| **known == text.trim()).copied().ok_or_else(|| {
        let known = BusBody::TYPES.join(", ");
        Refusal::new(ErrorCode::InvalidRequest, "types names an unknown event")
            .hint(format!("known: {known}"))
    })
}

#[cfg(test)]
mod tests;
