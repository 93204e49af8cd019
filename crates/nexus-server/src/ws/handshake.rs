//! The first two frames of a socket: our challenge, and a `connect` that shows a token in time.

use axum::extract::ws::{Message, WebSocket};
use futures_util::StreamExt;
use futures_util::stream::SplitStream;
use nexus_operations::Caller;
use nexus_protocol::bus::BusBody;
use nexus_protocol::error::{ErrorCode, WireError};
use nexus_protocol::methods::Method;
use nexus_protocol::status::HealthBrief;
use nexus_protocol::ws::{
    Challenge, Connect, EventFrame, Features, FrameError, HelloKind, HelloOk, Limits, PROTOCOL, RequestFrame,
    ResponseFrame, ServerFrame, ServerInfo, Subscribe, read_request,
};
use serde_json::json;
use tokio::time::{Instant, timeout};

use super::Goodbye;
use super::outgoing::Outgoing;
use super::session::mistake_of;
use crate::connections::{Full, Place};
use crate::daemon::Daemon;
use crate::gate::Visitor;
use crate::meters::Meters;
use crate::routes::Shared;

/// What both sides agreed on.
#[derive(Debug)]
pub(super) struct Agreed {
    pub(super) caller: Caller,
    pub(super) connection: String,
    pub(super) subscribe: Option<Subscribe>,
}

/// Shakes hands, or says why not.
pub(super) async fn shake<D: Daemon>(
    shared: &Shared<D>,
    visitor: Visitor,
    place: &Place,
    outgoing: &Outgoing,
    stream: &mut SplitStream<WebSocket>,
) -> Result<Agreed, Goodbye> {
    let nonce = nexus_base::id::new_ulid();
    let challenge = json!(Challenge { nonce: nonce.clone(), ts: nexus_base::clock::Timestamp::now() });
    let event = EventFrame { event: "connect.challenge".to_owned(), payload: Some(challenge), seq: None };
    outgoing.frame(&ServerFrame::Event(event), str::to_owned);
    let first = tokio::select! {
        first = timeout(shared.daemon.handshake_within(), first_frame(shared, stream)) => first.unwrap_or(Err(First::Goodbye(Goodbye::SILENT))),
        () = place.evicted() => return Err(Goodbye::REFUSED),
        () = shared.closing.cancelled() => return Err(Goodbye::STOPPING),
    };
    let refuse = |id: Option<String>, error: WireError| {
        outgoing.frame(&ServerFrame::Response(ResponseFrame::failed(id, error)), |text| {
            shared.daemon.redact(text)
        });
        Goodbye::REFUSED
    };
    let request = match first {
        Ok(request) => request,
        Err(First::Goodbye(goodbye)) => return Err(goodbye),
        Err(First::Mistake(response, goodbye)) => {
            outgoing.frame(&ServerFrame::Response(*response), |text| shared.daemon.redact(text));
            return Err(goodbye);
        }
    };
    let id = Some(request.id.clone());
    match agree(shared, visitor, place, &nonce, request).await {
        Ok((agreed, id)) => {
            let hello = hello(shared, &agreed);
            let response = ResponseFrame::done(id, json!(hello));
            outgoing.frame(&ServerFrame::Response(response), |text| shared.daemon.redact(text));
            Ok(agreed)
        }
        Err(error) => Err(refuse(id, error)),
    }
}

enum First {
    Goodbye(Goodbye),
    Mistake(Box<ResponseFrame>, Goodbye),
}

async fn first_frame<D: Daemon>(
    shared: &Shared<D>,
    stream: &mut SplitStream<WebSocket>,
) -> Result<RequestFrame, First> {
    loop {
        let message = match stream.next().await {
            Some(Ok(message)) => message,
            Some(Err(error)) => {
                let (response, goodbye) = mistake_of(&error).ok_or(First::Goodbye(Goodbye::REFUSED))?;
                return Err(First::Mistake(Box::new(response), goodbye));
            }
            None => return Err(First::Goodbye(Goodbye::REFUSED)),
        };
        Meters::count(&shared.meters.frames_in);
        match message {
            Message::Text(text) => {
                return read_request(text.as_bytes())
                    .map_err(|error| First::Mistake(Box::new(error.to_response()), Goodbye::REFUSED));
            }
            Message::Binary(_) => {
                return Err(First::Mistake(Box::new(FrameError::NotText.to_response()), Goodbye::NOT_TEXT));
            }
            Message::Close(_) => return Err(First::Goodbye(Goodbye::REFUSED)),
            Message::Ping(_) | Message::Pong(_) => {}
        }
    }
}

async fn agree<D: Daemon>(
    shared: &Shared<D>,
    visitor: Visitor,
    place: &Place,
    nonce: &str,
    request: RequestFrame,
) -> Result<(Agreed, String), WireError> {
    let wrong = |message: String| WireError { code: ErrorCode::InvalidRequest, message, hint: None };
    if Method::find(&request.method) != Some(Method::Connect) {
        return Err(WireError {
            hint: Some("answer connect.challenge with connect before anything else".to_owned()),
            ..wrong("the first request must be connect".to_owned())
        });
    }
    // The parser may quote what it did not expect, and a token may stand anywhere.
    let connect: Connect = serde_json::from_value(request.params.unwrap_or_default()).map_err(|_| {
        wrong(
            "connect accepts minProtocol, maxProtocol, client, scopes, auth.token, nonce and subscribe"
                .to_owned(),
        )
    })?;
    if !(connect.min_protocol..=connect.max_protocol).contains(&PROTOCOL) {
        let (min, max) = (connect.min_protocol, connect.max_protocol);
        return Err(WireError {
            hint: Some("update the client or the daemon".to_owned()),
            ..wrong(format!("the daemon speaks protocol {PROTOCOL} and the client {min} to {max}"))
        });
    }
    if connect.nonce.as_deref().is_some_and(|said| said != nonce) {
        return Err(wrong("the nonce does not belong to this connection".to_owned()));
    }
    let caller = match (connect.auth, visitor) {
        (Some(auth), _) => shared.daemon.authenticate(&auth.token).await,
        (None, Visitor::Known(caller)) => Some(caller),
        (None, Visitor::Stranger) => None,
    };
    let Some(caller) = caller else {
        shared.meters.wrong_token();
        tokio::time::sleep(shared.throttle.penalty(Instant::now())).await;
        return Err(WireError {
            code: ErrorCode::Unauthorized,
            message: "the token is missing or wrong".to_owned(),
            hint: Some("send it as auth.token of connect, or as Authorization: Bearer".to_owned()),
        });
    };
    let caller = match &connect.scopes {
        Some(scopes) => caller.narrowed(scopes).map_err(|error| error.to_wire())?,
        None => caller,
    };
    if connect.subscribe.is_some() {
        shared.daemon.permit(&caller, Method::EventsSubscribe).map_err(|error| error.to_wire())?;
    }
    place.now_known().map_err(|Full| WireError {
        code: ErrorCode::Unavailable,
        message: "too many connections are open".to_owned(),
        hint: Some("close clients that are no longer needed".to_owned()),
    })?;
    let connection = nexus_base::id::new_ulid();
    tracing::debug!(connection, caller = caller.name(), "a socket was agreed on");
    Ok((Agreed { caller, connection, subscribe: connect.subscribe }, request.id))
}

fn hello<D: Daemon>(shared: &Shared<D>, agreed: &Agreed) -> HelloOk {
    let methods = Method::ALL.iter().map(|method| method.entry());
    HelloOk {
        kind: HelloKind::HelloOk,
        protocol: PROTOCOL,
        server: ServerInfo {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            conn_id: agreed.connection.clone(),
        },
        features: Features {
            methods: methods
                .filter(|entry| agreed.caller.may(&entry.permission()))
                .map(|entry| entry.name.to_owned())
                .collect(),
            events: BusBody::TYPES.iter().map(|name| (*name).to_owned()).collect(),
        },
        scopes: agreed.caller.scopes().to_vec(),
        snapshot: HealthBrief { status: shared.daemon.health() },
        policy: Limits::CURRENT,
    }
}
