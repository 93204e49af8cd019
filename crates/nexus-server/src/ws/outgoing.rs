//! What waits to be written to one socket: bounded in bytes. Whoever reads too slowly loses the
//! connection, not anybody's memory.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use axum::extract::ws::{CloseFrame, Message, WebSocket};
use futures_util::SinkExt;
use futures_util::stream::SplitSink;
use nexus_protocol::ws::{MAX_BUFFERED, ServerFrame};
use tokio::sync::mpsc;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::Goodbye;
use crate::meters::Meters;

/// How long the last words may take.
const LAST_WORDS: Duration = Duration::from_secs(2);

/// Takes what should be written.
#[derive(Debug, Clone)]
pub(super) struct Outgoing {
    queue: mpsc::UnboundedSender<Message>,
    state: Arc<State>,
}

#[derive(Debug)]
struct State {
    waiting: AtomicUsize,
    slow: CancellationToken,
    meters: Arc<Meters>,
}

/// What waits, for the one who writes.
#[derive(Debug)]
pub(super) struct Waiting {
    queue: mpsc::UnboundedReceiver<Message>,
    state: Arc<State>,
}

impl Outgoing {
    pub(super) fn new(meters: Arc<Meters>) -> (Self, Waiting) {
        let (sender, receiver) = mpsc::unbounded_channel();
        let state = Arc::new(State { waiting: AtomicUsize::new(0), slow: CancellationToken::new(), meters });
        (Self { queue: sender, state: Arc::clone(&state) }, Waiting { queue: receiver, state })
    }

    /// Puts a frame in line; `redact` is the one redactor.
    pub(super) fn frame(&self, frame: &ServerFrame, redact: impl FnOnce(&str) -> String) {
        match serde_json::to_string(frame) {
            Ok(text) => self.push(Message::text(redact(&text))),
            Err(error) => tracing::error!(%error, "frame not serialised"),
        }
    }

    pub(super) fn ping(&self) {
        self.push(Message::Ping(bytes::Bytes::new()));
    }

    /// Puts the last frame in line.
    pub(super) fn close(&self, goodbye: Goodbye) {
        let frame = CloseFrame { code: goodbye.code, reason: goodbye.reason.into() };
        self.push(Message::Close(Some(frame)));
    }

    /// Cancelled when more waits than may.
    pub(super) fn slow(&self) -> CancellationToken {
        self.state.slow.clone()
    }

    fn push(&self, message: Message) {
        let length = length(&message);
        let waiting = self.state.waiting.fetch_add(length, Ordering::AcqRel) + length;
        if waiting > MAX_BUFFERED {
            self.state.slow.cancel();
            return;
        }
        // The writer is gone when the other side is.
        let _ = self.queue.send(message);
    }
}

/// Writes until the goodbye is said, nobody is left to put anything in line, or the other side is gone.
pub(super) async fn write_all(mut sink: SplitSink<WebSocket, Message>, mut waiting: Waiting) {
    while let Some(message) = waiting.queue.recv().await {
        let length = length(&message);
        let is_last = matches!(message, Message::Close(_));
        let sent = if is_last {
            timeout(LAST_WORDS, sink.send(message)).await.unwrap_or(Ok(()))
        } else {
            sink.send(message).await
        };
        waiting.state.waiting.fetch_sub(length, Ordering::AcqRel);
        Meters::count(&waiting.state.meters.frames_out);
        if sent.is_err() || is_last {
            waiting.queue.close();
            return;
        }
    }
}

fn length(message: &Message) -> usize {
    match message {
        Message::Text(text) => text.len(),
        Message::Binary(bytes) | Message::Ping(bytes) | Message::Pong(bytes) => bytes.len(),
        Message::Close(_) => 0,
    }
}
