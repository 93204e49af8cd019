//! `/ws`: the control plane as frames. This file upgrades, shakes hands and ends; the conversation
//! is in [`session`], what waits to be written in [`outgoing`].

mod handshake;
mod outgoing;
mod session;

use std::sync::Arc;
use std::sync::atomic::Ordering;

use axum::Extension;
use axum::body::Body;
use axum::extract::State;
use axum::extract::ws::rejection::WebSocketUpgradeRejection;
use axum::extract::ws::{WebSocket, WebSocketUpgrade};
use axum::http::{Response, StatusCode};
use futures_util::StreamExt;
use nexus_protocol::error::ErrorCode;
use nexus_protocol::ws::MAX_FRAME_LEN;

use crate::answer::Refusal;
use crate::connections::Place;
use crate::daemon::Daemon;
use crate::gate::Visitor;
use crate::meters::Meters;
use crate::routes::Shared;

use self::outgoing::{Outgoing, write_all};
use self::session::Session;

/// What is read ahead of one socket, in bytes. Frames are small; a thousand sockets are not to cost
/// a hundred megabytes for buffers nobody fills.
const READ_AHEAD: usize = 4 * 1024;

/// Why a socket is closed, as its client sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Goodbye {
    pub(crate) code: u16,
    pub(crate) reason: &'static str,
}

impl Goodbye {
    pub(crate) const STOPPING: Self = Self { code: 1001, reason: "the daemon stops" };
    pub(crate) const NOT_TEXT: Self = Self { code: 1003, reason: "frames must be text" };
    pub(crate) const BAD_TEXT: Self = Self { code: 1007, reason: "frames must be UTF-8" };
    pub(crate) const REFUSED: Self = Self { code: 1008, reason: "refused" };
    pub(crate) const INVALID_TOKEN: Self = Self { code: 1008, reason: "the token is no longer valid" };
    pub(crate) const TOO_LONG: Self = Self { code: 1009, reason: "the frame is too long" };
    pub(crate) const SILENT: Self = Self { code: 1001, reason: "no answer to ping" };
    pub(crate) const TOO_MANY_MISTAKES: Self = Self { code: 1008, reason: "too many malformed frames" };
}

/// Answers the upgrade request. Host, origin and a token in a header were looked at before.
pub(crate) async fn upgrade<D: Daemon>(
    State(shared): State<Shared<D>>,
    Extension(visitor): Extension<Visitor>,
    Extension(place): Extension<Arc<Place>>,
    upgrade: Result<WebSocketUpgrade, WebSocketUpgradeRejection>,
) -> Result<Response<Body>, Refusal> {
    let upgrade = upgrade.map_err(|rejection| {
        Refusal::new(
            ErrorCode::InvalidRequest,
            format!("this route accepts only WebSocket upgrades: {rejection}"),
        )
        .status(StatusCode::UPGRADE_REQUIRED)
    })?;
    // Counted from here on: the server waits for sockets when it closes.
    let counted = shared.tasks.token();
    Ok(upgrade
        .max_message_size(MAX_FRAME_LEN)
        .max_frame_size(MAX_FRAME_LEN)
        .read_buffer_size(READ_AHEAD)
        .write_buffer_size(0)
        .on_upgrade(move |socket| async move {
            let meters = Arc::clone(&shared.meters);
            Meters::count(&meters.sockets_total);
            Meters::count(&meters.sockets_open);
            converse(shared, visitor, &place, socket).await;
            meters.sockets_open.fetch_sub(1, Ordering::Relaxed);
            drop((counted, place));
        }))
}

/// Reads and writes one socket until either side has enough.
async fn converse<D: Daemon>(shared: Shared<D>, visitor: Visitor, place: &Place, socket: WebSocket) {
    let (sink, mut stream) = socket.split();
    let (outgoing, waiting) = Outgoing::new(Arc::clone(&shared.meters));
    let closed = shared.closed.clone();
    let slow = outgoing.slow();
    let talk = async {
        let goodbye = match handshake::shake(&shared, visitor, place, &outgoing, &mut stream).await {
            Ok(agreed) => Session::new(shared.clone(), agreed, outgoing.clone()).run(&mut stream).await,
            Err(goodbye) => goodbye,
        };
        if goodbye == Goodbye::TOO_LONG {
            // Its client is most likely still writing the rest.
            place.linger();
        }
        outgoing.close(goodbye);
        drop(outgoing);
    };
    let talk = std::pin::pin!(talk);
    let write = std::pin::pin!(write_all(sink, waiting));
    tokio::select! {
        // The writer ends after the goodbye, or when the other side is gone.
        ((), ()) = async { tokio::join!(talk, write) } => {}
        () = closed.cancelled() => {}
        () = slow.cancelled() => Meters::count(&shared.meters.slow_dropped),
    }
}
