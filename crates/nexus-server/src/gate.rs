//! The one way in. Every request passes here, in this order: is it addressed to us and from nobody
//! else's page, who is asking, may they; then the route; then the headers every answer carries.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Instant;

use axum::Router;
use axum::body::Body;
use axum::http::header::{
    AUTHORIZATION, CACHE_CONTROL, CONNECTION, CONTENT_LENGTH, CONTENT_SECURITY_POLICY, CONTENT_TYPE,
    REFERRER_POLICY,
};
use axum::http::header::{X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS};
use axum::http::{HeaderMap, HeaderValue, Request, Response};
use axum::response::IntoResponse;
use futures_util::FutureExt;
use http_body_util::BodyExt;
use nexus_operations::Caller;
use nexus_protocol::error::ErrorCode;
use tower_service::Service;

use crate::answer::{Refusal, ShownOnce};
use crate::connections::{Full, Place};
use crate::daemon::Daemon;
use crate::meters::Meters;
use crate::own_names::OwnNames;
use crate::routes::{self, Access, Route, Shared};
use crate::throttle::Throttle;

/// Longest token compared, in bytes.
const MAX_TOKEN_LEN: usize = 512;

/// Who is asking; every handler can rely on it having been decided.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Visitor {
    /// Showed a token that is right.
    Known(Caller),
    /// Shows none, or a wrong one.
    Stranger,
}

/// The gate and what lies behind it.
#[derive(Debug)]
pub(crate) struct Gate<D> {
    daemon: D,
    names: OwnNames,
    throttle: Arc<Throttle>,
    open_paths: Vec<(&'static str, Access)>,
    meters: Arc<Meters>,
    router: Router,
}

impl<D: Daemon> Gate<D> {
    pub(crate) fn new(shared: Shared<D>, port: u16) -> Self {
        let is_open = |route: &Route<D>| matches!(route.access, Access::Anyone | Access::Handshake);
        Self {
            meters: Arc::clone(&shared.meters),
            daemon: shared.daemon.clone(),
            names: OwnNames::new(port),
            throttle: Arc::clone(&shared.throttle),
            open_paths: routes::table::<D>()
                .iter()
                .filter(|route| is_open(route))
                .map(|route| (route.path, route.access))
                .collect(),
            router: routes::router(shared),
        }
    }

    /// Answers one request, whatever it is.
    pub(crate) async fn answer(&self, place: &Arc<Place>, request: Request<Body>) -> Response<Body> {
        let begun = Instant::now();
        place.begin_request();
        let method = request.method().clone();
        // Without the query: what stands there is nobody's business but the caller's.
        let path = request.uri().path().to_owned();
        let mut response = match self.admit(place, request).await {
            Ok(request) => self.route(request).await,
            Err(refusal) => refusal.into_response(),
        };
        response = self.without_secrets(response).await;
        add_headers(response.headers_mut());
        if response.headers().contains_key(CONNECTION) && !response.status().is_informational() {
            place.linger();
        }
        self.meters.answered(response.status());
        tracing::debug!(
            %method,
            path,
            status = response.status().as_u16(),
            duration_us = u64::try_from(begun.elapsed().as_micros()).unwrap_or(u64::MAX),
            "answered"
        );
        response
    }

    async fn admit(&self, place: &Arc<Place>, mut request: Request<Body>) -> Result<Request<Body>, Refusal> {
        self.names.check(&request)?;
        let visitor = self.identify(request.headers()).await;
        let access = self.open_paths.iter().find(|(path, _)| *path == request.uri().path());
        let shows_a_token = request.headers().contains_key(AUTHORIZATION);
        match (&visitor, access) {
            (Visitor::Known(_), _) => place.now_known().map_err(|Full| full())?,
            (Visitor::Stranger, Some((_, Access::Anyone))) => {}
            // The token may come in the first frame; but a wrong one that came already is wrong.
            (Visitor::Stranger, Some((_, Access::Handshake))) if !shows_a_token => {}
            (Visitor::Stranger, _) => {
                return Err(Refusal::new(ErrorCode::Unauthorized, "the owner's token is required")
                    .hint("send it as Authorization: Bearer; it is runtime.auth.token in state/config.json")
                    .closing());
            }
        }
        request.extensions_mut().insert(visitor);
        request.extensions_mut().insert(Arc::clone(place));
        Ok(request)
    }

    /// Compares the token. A wrong one waits before anything is answered, on every route: an open
    /// route that told right from wrong at once would be the place to guess at.
    async fn identify(&self, headers: &HeaderMap) -> Visitor {
        let Some(token) = presented_token(headers) else { return Visitor::Stranger };
        if let Some(caller) = self.daemon.authenticate(token).await {
            return Visitor::Known(caller);
        }
        self.meters.wrong_token();
        tokio::time::sleep(self.throttle.penalty(tokio::time::Instant::now())).await;
        Visitor::Stranger
    }

    /// The one way out: every answer that is text passes the redactor. Streams and sockets pass it
    /// frame by frame.
    async fn without_secrets(&self, response: Response<Body>) -> Response<Body> {
        let is_text = response.headers().get(CONTENT_TYPE).is_some_and(|kind| {
            kind.as_bytes().starts_with(b"application/json") || kind.as_bytes().starts_with(b"text/plain")
        });
        if !is_text || response.extensions().get::<ShownOnce>().is_some() {
            return response;
        }
        let (mut parts, body) = response.into_parts();
        // The router wrote it down; what is hidden has another length.
        parts.headers.remove(CONTENT_LENGTH);
        // Whole in memory already: every such answer is made from one text.
        match body.collect().await.map(|body| String::from_utf8(body.to_bytes().to_vec())) {
            Ok(Ok(text)) => Response::from_parts(parts, Body::from(self.daemon.redact(&text))),
            Ok(Err(_)) | Err(_) => Refusal::new(ErrorCode::Internal, "answer is not text").into_response(),
        }
    }

    async fn route(&self, request: Request<Body>) -> Response<Body> {
        // A router is always ready, and cloning it counts a reference.
        let routed = self.router.clone().call(request);
        match AssertUnwindSafe(routed).catch_unwind().await {
            Ok(Ok(response)) => response,
            Ok(Err(impossible)) => match impossible {},
            Err(_) => Refusal::new(
                ErrorCode::Internal,
                "this request ended in an internal error; the daemon is \
                still running",
            )
            .hint("the log has the details")
            .into_response(),
        }
    }
}

/// Too many clients that showed a token are there.
pub(crate) fn full() -> Refusal {
    Refusal::new(ErrorCode::Unavailable, "too many connections are open")
        .hint("close clients that are no longer needed")
        .closing()
}

fn presented_token(headers: &HeaderMap) -> Option<&str> {
    let mut values = headers.get_all(AUTHORIZATION).iter();
    let value = values.next()?;
    if values.next().is_some() {
        return None;
    }
    let (scheme, token) = value.to_str().ok()?.split_once(' ')?;
    let token = token.trim();
    let is_bearer = scheme.eq_ignore_ascii_case("bearer");
    (is_bearer && !token.is_empty() && token.len() <= MAX_TOKEN_LEN).then_some(token)
}

fn add_headers(headers: &mut HeaderMap) {
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    headers.insert(X_FRAME_OPTIONS, HeaderValue::from_static("DENY"));
    headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static("default-src 'none'"));
}
