//! The one way in. Every request passes here, in this order: is it addressed to us and from nobody
//! else's page, who is asking, may they; then the route; then the headers every answer carries.

use std::panic::AssertUnwindSafe;
use std::time::Instant;

use axum::Router;
use axum::body::Body;
use axum::http::header::{AUTHORIZATION, CACHE_CONTROL, CONTENT_SECURITY_POLICY, REFERRER_POLICY};
use axum::http::header::{X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS};
use axum::http::{HeaderMap, HeaderValue, Request, Response};
use axum::response::IntoResponse;
use futures_util::FutureExt;
use nexus_protocol::error::ErrorCode;
use tower_service::Service;

use crate::answer::Refusal;
use crate::connections::{Full, Place};
use crate::daemon::Daemon;
use crate::own_names::OwnNames;
use crate::routes::{self, Access, Route, Shared};
use crate::throttle::Throttle;

/// Longest token compared, in bytes.
const LONGEST_TOKEN: usize = 512;

/// Who is asking; every handler can rely on it having been decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Caller {
    /// Holds the token.
    Owner,
    /// Shows none, or a wrong one.
    Stranger,
}

/// The gate and what lies behind it.
#[derive(Debug)]
pub(crate) struct Gate<D> {
    daemon: D,
    names: OwnNames,
    throttle: Throttle,
    open_paths: Vec<&'static str>,
    router: Router,
}

impl<D: Daemon> Gate<D> {
    pub(crate) fn new(shared: Shared<D>, port: u16) -> Self {
        let is_open = |route: &Route<D>| route.access == Access::Anyone;
        Self {
            daemon: shared.daemon.clone(),
            names: OwnNames::new(port),
            throttle: Throttle::default(),
            open_paths: routes::table::<D>()
                .iter()
                .filter(|route| is_open(route))
                .map(|route| route.path)
                .collect(),
            router: routes::router(shared),
        }
    }

    /// Answers one request, whatever it is.
    pub(crate) async fn answer(&self, place: &Place, request: Request<Body>) -> Response<Body> {
        let begun = Instant::now();
        place.begin_request();
        let method = request.method().clone();
        // Without the query: what stands there is nobody's business but the caller's.
        let path = request.uri().path().to_owned();
        let mut response = match self.admit(place, request).await {
            Ok(request) => self.route(request).await,
            Err(refusal) => refusal.into_response(),
        };
        add_headers(response.headers_mut());
        tracing::debug!(
            %method,
            path,
            status = response.status().as_u16(),
            duration_us = u64::try_from(begun.elapsed().as_micros()).unwrap_or(u64::MAX),
            "answered"
        );
        response
    }

    async fn admit(&self, place: &Place, mut request: Request<Body>) -> Result<Request<Body>, Refusal> {
        self.names.check(&request)?;
        let caller = self.identify(request.headers()).await;
        match caller {
            Caller::Owner => place.now_known().map_err(|Full| {
                Refusal::new(ErrorCode::Unavailable, "too many connections are open")
                    .hint("close clients that are no longer needed")
                    .closing()
            })?,
            Caller::Stranger if self.open_paths.contains(&request.uri().path()) => {}
            Caller::Stranger => {
                return Err(Refusal::new(ErrorCode::Unauthorized, "the owner's token is needed")
                    .hint("send it as Authorization: Bearer; it stands in state/config.json as runtime.auth.token")
                    .closing());
            }
        }
        request.extensions_mut().insert(caller);
        Ok(request)
    }

    /// Compares the token. A wrong one waits before anything is answered, on every route: an open
    /// route that told right from wrong at once would be the place to guess at.
    async fn identify(&self, headers: &HeaderMap) -> Caller {
        let Some(token) = presented_token(headers) else { return Caller::Stranger };
        if self.daemon.token_matches(token) {
            return Caller::Owner;
        }
        tokio::time::sleep(self.throttle.penalty(tokio::time::Instant::now())).await;
        Caller::Stranger
    }

    async fn route(&self, request: Request<Body>) -> Response<Body> {
        // A router is always ready, and cloning it counts a reference.
        let routed = self.router.clone().call(request);
        match AssertUnwindSafe(routed).catch_unwind().await {
            Ok(Ok(response)) => response,
            Ok(Err(impossible)) => match impossible {},
            Err(_) => Refusal::new(ErrorCode::Internal, "a defect ended this request; the daemon goes on")
                .hint("the log has the details")
                .into_response(),
        }
    }
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
    (is_bearer && !token.is_empty() && token.len() <= LONGEST_TOKEN).then_some(token)
}

fn add_headers(headers: &mut HeaderMap) {
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    headers.insert(X_FRAME_OPTIONS, HeaderValue::from_static("DENY"));
    headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static("default-src 'none'"));
}
