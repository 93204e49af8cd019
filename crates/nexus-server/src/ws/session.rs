//! One socket after its handshake: requests in order, answers and events out, signs of life.

use std::time::Duration;

use axum::extract::ws::{Message, WebSocket};
use futures_util::StreamExt;
use futures_util::stream::SplitStream;
use nexus_operations::{BusReader, Caller, RuntimeError};
use nexus_protocol::control::answers::Subscribed;
use nexus_protocol::error::{ErrorCode, WireError};
use nexus_protocol::methods::Method;
use nexus_protocol::ws::{
    EventFrame, FrameError, RequestFrame, ResponseFrame, ServerFrame, Subscribe, TICK_MS, read_request,
};
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior, interval_at};

use super::Goodbye;
use super::handshake::Agreed;
use super::outgoing::Outgoing;
use crate::daemon::{Daemon, until_invalid};
use crate::events::{Filter, Wanted};
use crate::meters::Meters;
use crate::routes::{Shared, short};

/// Calls of one socket that wait for something at the same time.
const MAX_WAITING: usize = 64;
/// Malformed frames one socket may send.
const MAX_MISTAKES: u32 = 16;

/// A socket whose caller is known.
pub(super) struct Session<D> {
    shared: Shared<D>,
    caller: Caller,
    outgoing: Outgoing,
    feed: Option<(BusReader, Filter)>,
    waits: JoinSet<()>,
    mistakes: u32,
    first_subscription: Option<Subscribe>,
}

impl<D: Daemon> Session<D> {
    pub(super) fn new(shared: Shared<D>, agreed: Agreed, outgoing: Outgoing) -> Self {
        Self {
            shared,
            caller: agreed.caller,
            outgoing,
            feed: None,
            waits: JoinSet::new(),
            mistakes: 0,
            first_subscription: agreed.subscribe,
        }
    }

    /// Serves until somebody has enough; returns what to say then.
    pub(super) async fn run(mut self, stream: &mut SplitStream<WebSocket>) -> Goodbye {
        if let Some(wanted) = self.first_subscription.take()
            && let Err(error) = self.subscribe(wanted)
        {
            self.answer(ResponseFrame::failed(None, error));
        }
        let every = Duration::from_millis(TICK_MS);
        let mut tick = interval_at(Instant::now() + every, every);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let (daemon, caller) = (self.shared.daemon.clone(), self.caller.clone());
        let mut invalid = std::pin::pin!(async move { until_invalid(&daemon, &caller).await });
        let (closing, stopping) = (self.shared.closing.clone(), self.shared.daemon.clone());
        let mut ending = std::pin::pin!(async move {
            tokio::select! {
                () = closing.cancelled() => {}
                () = stopping.stopping() => {}
            }
        });
        let mut silent_ticks = 0;
        loop {
            tokio::select! {
                biased;
                () = &mut invalid => return Goodbye::INVALID_TOKEN,
                () = &mut ending => return Goodbye::STOPPING,
                message = stream.next() => {
                    silent_ticks = 0;
                    match self.take(message).await {
                        Ok(()) => {}
                        Err(goodbye) => return goodbye,
                    }
                }
                event = next_event(&mut self.feed) => self.pass_on(event),
                Some(_) = self.waits.join_next(), if !self.waits.is_empty() => {}
                _ = tick.tick() => {
                    silent_ticks += 1;
                    if silent_ticks > 2 {
                        return Goodbye::SILENT;
                    }
                    self.outgoing.ping();
                    let payload = Some(json!({ "ts": nexus_base::clock::Timestamp::now() }));
                    self.event(EventFrame { event: "tick".to_owned(), payload, seq: None });
                }
            }
        }
    }

    async fn take(&mut self, message: Option<Result<Message, axum::Error>>) -> Result<(), Goodbye> {
        let text = match message {
            None => return Err(Goodbye::REFUSED),
            Some(Err(error)) => {
                let Some((response, goodbye)) = mistake_of(&error) else { return Err(Goodbye::REFUSED) };
                self.answer(response);
                return Err(goodbye);
            }
            Some(Ok(Message::Text(text))) => text,
            Some(Ok(Message::Binary(_))) => {
                self.answer(FrameError::NotText.to_response());
                return Err(Goodbye::NOT_TEXT);
            }
            Some(Ok(Message::Close(_))) => return Err(Goodbye::STOPPING),
            Some(Ok(Message::Ping(_) | Message::Pong(_))) => return Ok(()),
        };
        Meters::count(&self.shared.meters.frames_in);
        match read_request(text.as_bytes()) {
            Ok(request) => {
                self.handle(request).await;
                Ok(())
            }
            Err(error) => {
                self.mistakes += 1;
                self.answer(error.to_response());
                if self.mistakes >= MAX_MISTAKES { Err(Goodbye::TOO_MANY_MISTAKES) } else { Ok(()) }
            }
        }
    }

    /// Answers in the order of asking, so that two messages sent one after the other arrive so;
    /// only what waits by its nature is answered when it is ready.
    async fn handle(&mut self, request: RequestFrame) {
        let RequestFrame { id, method: name, params, .. } = request;
        let Some(method) = Method::find(&name) else {
            let message = format!("no method named {:?}", short(&name));
            return self.answer(failed(id, ErrorCode::NotFound, &message));
        };
        match method {
            Method::Connect => {
                self.answer(failed(
                    id,
                    ErrorCode::InvalidRequest,
                    "this connection has already completed its handshake",
                ));
            }
            Method::EventsSubscribe => {
                let outcome = self.subscribe_as_asked(params);
                self.answer(response(id, outcome));
            }
            Method::EventsUnsubscribe => {
                let was_on = self.feed.take().is_some();
                self.answer(ResponseFrame::done(
                    id,
                    json!(Subscribed { subscribed: false, was: Some(was_on) }),
                ));
            }
            Method::ChatWait | Method::ApprovalsRequest | Method::SessionsCompact | Method::SessionsReset => {
                self.wait(id, method, params)
            }
            _ => {
                let (daemon, caller) = (self.shared.daemon.clone(), self.caller.clone());
                // To its end, also when the client hangs up halfway.
                let work =
                    nexus_base::task::spawn(
                        "call",
                        async move { daemon.call(&caller, method, params).await },
                    );
                let outcome = work.await.unwrap_or_else(|error| Err(defect(&error)));
                let is_shown_once = method.hands_over_a_secret() && outcome.is_ok();
                let answer = response(id, outcome.map_err(|error| error.to_wire()));
                if is_shown_once {
                    self.outgoing.frame(&ServerFrame::Response(answer), str::to_owned);
                } else {
                    self.answer(answer);
                }
            }
        }
    }

    fn wait(&mut self, id: String, method: Method, params: Option<Value>) {
        if self.waits.len() >= MAX_WAITING {
            let message = format!("{MAX_WAITING} calls on this connection are already waiting");
            return self.answer(failed(id, ErrorCode::Unavailable, &message));
        }
        let (daemon, caller, outgoing) =
            (self.shared.daemon.clone(), self.caller.clone(), self.outgoing.clone());
        self.waits.spawn(async move {
            let outcome = daemon.call(&caller, method, params).await;
            let answer = response(id, outcome.map_err(|error| error.to_wire()));
            outgoing.frame(&ServerFrame::Response(answer), |text| daemon.redact(text));
        });
    }

    fn subscribe_as_asked(&mut self, params: Option<Value>) -> Result<Value, WireError> {
        self.shared.daemon.permit(&self.caller, Method::EventsSubscribe).map_err(|error| error.to_wire())?;
        let wanted: Subscribe =
            serde_json::from_value(params.unwrap_or_else(|| json!({}))).map_err(|error| WireError {
                code: ErrorCode::InvalidRequest,
                message: format!("params: {error}"),
                hint: None,
            })?;
        self.subscribe(wanted)?;
        Ok(json!(Subscribed { subscribed: true, was: None }))
    }

    fn subscribe(&mut self, wanted: Subscribe) -> Result<(), WireError> {
        let types = wanted.types.map(|types| types.join(","));
        let filter =
            Filter::new(Wanted { root: wanted.root, types }).map_err(|refusal| refusal.into_wire())?;
        self.feed = Some((self.shared.daemon.subscribe(wanted.after), filter));
        Ok(())
    }

    fn pass_on(&mut self, event: Option<std::sync::Arc<nexus_protocol::bus::BusEvent>>) {
        let Some(event) = event else {
            self.feed = None;
            return;
        };
        let takes = self.feed.as_ref().is_some_and(|(_, filter)| filter.takes(&event));
        if takes {
            let name = event.body.type_name().to_owned();
            self.event(EventFrame { event: name, payload: Some(json!(*event)), seq: Some(event.seq) });
        }
    }

    fn answer(&self, response: ResponseFrame) {
        self.outgoing.frame(&ServerFrame::Response(response), |text| self.shared.daemon.redact(text));
    }

    fn event(&self, event: EventFrame) {
        self.outgoing.frame(&ServerFrame::Event(event), |text| self.shared.daemon.redact(text));
    }
}

/// Waits for ever while nothing is subscribed to.
async fn next_event(
    feed: &mut Option<(BusReader, Filter)>,
) -> Option<std::sync::Arc<nexus_protocol::bus::BusEvent>> {
    match feed {
        Some((reader, _)) => reader.next().await,
        None => std::future::pending().await,
    }
}

/// Says what a frame that could not even be read gets for an answer. Nothing for a broken line.
pub(super) fn mistake_of(error: &axum::Error) -> Option<(ResponseFrame, Goodbye)> {
    let text = error.to_string();
    // The library's error is a string to us; its three causes are told apart by their wording.
    if text.contains("too long") || text.contains("Space limit") || text.contains("too big") {
        let error = FrameError::TooLong { length: nexus_protocol::ws::MAX_FRAME_LEN + 1 };
        return Some((error.to_response(), Goodbye::TOO_LONG));
    }
    if text.contains("UTF-8") {
        return Some((FrameError::NotText.to_response(), Goodbye::BAD_TEXT));
    }
    if text.contains("protocol error") || text.contains("WebSocket protocol") {
        let error =
            FrameError::NotARequest { reason: "it breaks the WebSocket protocol".to_owned(), id: None };
        return Some((error.to_response(), Goodbye::REFUSED));
    }
    None
}

fn response(id: String, outcome: Result<Value, WireError>) -> ResponseFrame {
    match outcome {
        Ok(payload) => ResponseFrame::done(id, payload),
        Err(error) => ResponseFrame::failed(Some(id), error),
    }
}

fn failed(id: String, code: ErrorCode, message: &str) -> ResponseFrame {
    ResponseFrame::failed(Some(id), WireError { code, message: message.to_owned(), hint: None })
}

fn defect(error: &tokio::task::JoinError) -> RuntimeError {
    tracing::error!(%error, "request ended in a panic");
    RuntimeError::Internal {
        message: "this request ended in an internal error; the daemon is still running".to_owned(),
    }
}
