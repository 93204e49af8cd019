//! The table of routes and what each of them does: take the request apart, ask the daemon, answer.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::Request;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, Method, Response, StatusCode};
use axum::middleware::{self, Next};
use axum::routing::{MethodRouter, get, post};
use axum::{Extension, Router};
use nexus_base::task::Tasks;
use nexus_operations::{Caller, Operations, RuntimeError};
use nexus_protocol::chat::{ChatAbort, ChatSend};
use nexus_protocol::control::Call;
use nexus_protocol::error::ErrorCode;
use nexus_protocol::methods::Method as Name;
use nexus_protocol::status::{Health, HealthBrief};
use serde::Deserialize;
use tokio_util::sync::CancellationToken;

use crate::answer::{Refusal, ShownOnce, json, ok};
use crate::body::JsonBody;
use crate::daemon::{Daemon, until_invalid};
use crate::events::{self, Wanted};
use crate::gate::Visitor;
use crate::meters::Meters;
use crate::parameters::{Parameters, name, rows};
use crate::throttle::Throttle;
use crate::ws;

/// Lines of history given when the client does not say.
const HISTORY_LINES: usize = 50;
/// Requests and sessions listed when the client does not say.
const LISTED: usize = 50;
/// How long `wait` waits when the client does not say, and at most.
const WAIT_DEFAULT: Duration = Duration::from_secs(30);
const WAIT_MOST: Duration = Duration::from_secs(600);

type Answer = Result<Response<Body>, Refusal>;

/// What handlers share.
#[derive(Debug, Clone)]
pub(crate) struct Shared<D> {
    pub(crate) daemon: D,
    /// Cancelled when the server closes: nothing may wait any longer then.
    pub(crate) closing: CancellationToken,
    /// Cancelled when the time for ending by themselves is over.
    pub(crate) closed: CancellationToken,
    /// What the server waits for when it closes.
    pub(crate) tasks: Tasks,
    pub(crate) meters: Arc<Meters>,
    pub(crate) throttle: Arc<Throttle>,
}

/// Who a route answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    /// Anybody, who gets little.
    Anyone,
    /// Whoever shows a token in the first frame.
    Handshake,
    /// Holders of a token; the method called decides the rest.
    PerCall,
    /// Holders of a token with this method's permission.
    Method(Name),
}

/// One route. The router is built from the table of these and from nothing else, so a test over
/// the table has seen every way in.
pub(crate) struct Route<D> {
    pub(crate) path: &'static str,
    pub(crate) verb: &'static str,
    pub(crate) access: Access,
    handler: MethodRouter<Shared<D>>,
}

impl<D: Daemon> Route<D> {
    fn get(path: &'static str, access: Access, handler: MethodRouter<Shared<D>>) -> Self {
        Self { path, verb: "GET", access, handler }
    }

    fn post(path: &'static str, access: Access, handler: MethodRouter<Shared<D>>) -> Self {
        Self { path, verb: "POST", access, handler }
    }
}

/// A route as others see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RouteInfo {
    pub path: &'static str,
    /// The HTTP method it takes.
    pub verb: &'static str,
    /// The permission it needs; none for the open route and for those that decide per call.
    pub permission: Option<String>,
    /// Whether it can change anything.
    pub is_mutating: bool,
}

/// Returns every route of the router.
pub fn routes() -> Vec<RouteInfo> {
    let info = |route: Route<Operations>| {
        let entry = match route.access {
            Access::Method(method) => Some(method.entry()),
            Access::Anyone | Access::Handshake | Access::PerCall => None,
        };
        RouteInfo {
            path: route.path,
            verb: route.verb,
            permission: entry.map(|entry| entry.permission()),
            // Frames and calls can carry any method.
            is_mutating: match route.access {
                Access::Anyone => false,
                Access::Handshake | Access::PerCall => true,
                Access::Method(method) => method.entry().is_mutating(),
            },
        }
    };
    table::<Operations>().into_iter().map(info).collect()
}

pub(crate) fn table<D: Daemon>() -> Vec<Route<D>> {
    use Access::Method;
    vec![
        Route::get("/health", Access::Anyone, get(health::<D>)),
        Route::get("/ws", Access::Handshake, get(ws::upgrade::<D>)),
        Route::post("/api/call", Access::PerCall, post(call::<D>)),
        Route::post("/api/chat", Method(Name::ChatSend), post(chat_send::<D>)),
        Route::get("/api/chat/history", Method(Name::ChatHistory), get(chat_history::<D>)),
        Route::get("/api/chat/wait", Method(Name::ChatWait), get(chat_wait::<D>)),
        Route::post("/api/chat/abort", Method(Name::ChatAbort), post(chat_abort::<D>)),
        Route::get("/api/requests", Method(Name::RequestsList), get(requests::<D>)),
        Route::get("/api/requests/{id}", Method(Name::RequestsGet), get(request::<D>)),
        Route::get("/api/sessions", Method(Name::SessionsList), get(sessions::<D>)),
        Route::get("/api/events/stream", Method(Name::EventsSubscribe), get(event_stream::<D>)),
        Route::get("/metrics", Method(Name::Metrics), get(metrics::<D>)),
        Route::post("/mcp", Method(Name::Mcp), post(mcp::<D>)),
    ]
}

/// Builds the router from the table; the permission stands before each handler.
pub(crate) fn router<D: Daemon>(shared: Shared<D>) -> Router {
    let guarded = |route: Route<D>| match route.access {
        Access::Method(method) => {
            let guard = (shared.daemon.clone(), method);
            (route.path, route.handler.route_layer(middleware::from_fn_with_state(guard, permitted::<D>)))
        }
        Access::Anyone | Access::Handshake | Access::PerCall => (route.path, route.handler),
    };
    table::<D>()
        .into_iter()
        .map(guarded)
        .fold(Router::new(), |router, (path, handler)| router.route(path, handler))
        .fallback(no_such_route)
        .method_not_allowed_fallback(wrong_method)
        .with_state(shared)
}

async fn permitted<D: Daemon>(
    State((daemon, method)): State<(D, Name)>,
    Extension(visitor): Extension<Visitor>,
    request: Request,
    next: Next,
) -> Answer {
    daemon.permit(&known(visitor)?, method)?;
    Ok(next.run(request).await)
}

/// The gate lets nobody else this far; said again here, where it would hurt.
fn known(visitor: Visitor) -> Result<Caller, Refusal> {
    match visitor {
        Visitor::Known(caller) => Ok(caller),
        Visitor::Stranger => Err(Refusal::new(ErrorCode::Unauthorized, "a token is required").closing()),
    }
}

/// Any method of the table, as the WebSocket would carry it.
async fn call<D: Daemon>(
    State(shared): State<Shared<D>>,
    Extension(visitor): Extension<Visitor>,
    JsonBody(call): JsonBody<Call>,
) -> Answer {
    let caller = known(visitor)?;
    let method = Name::find(&call.method).ok_or_else(|| {
        Refusal::new(ErrorCode::NotFound, format!("no method named {:?}", short(&call.method)))
    })?;
    let answer = to_its_end(async move {
        tokio::select! {
            answer = shared.daemon.call(&caller, method, call.params) => answer,
            () = shared.closed.cancelled() => Err(RuntimeError::NotServing { state: "stopping" }),
        }
    })
    .await?;
    let mut response = ok(&answer);
    if method.hands_over_a_secret() {
        response.extensions_mut().insert(ShownOnce);
    }
    Ok(response)
}

/// What a caller named, cut, for an answer to repeat.
pub(crate) fn short(text: &str) -> String {
    text.chars().take(64).collect()
}

async fn metrics<D: Daemon>(State(shared): State<Shared<D>>) -> Response<Body> {
    let mut response = Response::new(Body::from(shared.daemon.metrics() + &shared.meters.render()));
    let kind = axum::http::HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
    response.headers_mut().insert(axum::http::header::CONTENT_TYPE, kind);
    response
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ToolsOf {
    project: Option<String>,
}

/// The tools of a project in MCP's own form. The gate has checked token, host and origin by now, and
/// redacts the answer, which is one JSON text.
async fn mcp<D: Daemon>(
    State(shared): State<Shared<D>>,
    Parameters(of): Parameters<ToolsOf>,
    request: Request,
) -> Answer {
    let mut endpoint = nexus_mcp::endpoint(shared.daemon.tools(of.project.as_deref())?);
    let answered = tower_service::Service::call(&mut endpoint, request).await;
    let response = match answered {
        Ok(response) => response,
        Err(impossible) => match impossible {},
    };
    Ok(response.map(Body::new))
}

async fn no_such_route() -> Refusal {
    Refusal::new(ErrorCode::NotFound, "no such route")
}

async fn wrong_method(method: Method) -> Refusal {
    Refusal::new(ErrorCode::InvalidRequest, format!("this route does not accept {method}"))
        .status(StatusCode::METHOD_NOT_ALLOWED)
}

async fn health<D: Daemon>(
    State(shared): State<Shared<D>>,
    Extension(visitor): Extension<Visitor>,
) -> Response<Body> {
    match visitor {
        Visitor::Known(caller) if shared.daemon.permit(&caller, Name::Health).is_ok() => {
            let report = shared.daemon.health_report().await;
            json(health_status(report.status), &report)
        }
        Visitor::Known(_) | Visitor::Stranger => {
            let status = shared.daemon.health();
            json(health_status(status), &HealthBrief { status })
        }
    }
}

fn health_status(health: Health) -> StatusCode {
    match health {
        Health::Healthy | Health::Degraded => StatusCode::OK,
        Health::Starting | Health::Unhealthy | Health::Stopping => StatusCode::SERVICE_UNAVAILABLE,
    }
}

async fn chat_send<D: Daemon>(
    State(shared): State<Shared<D>>,
    Extension(visitor): Extension<Visitor>,
    JsonBody(send): JsonBody<ChatSend>,
) -> Answer {
    tracing::trace!("a message comes in");
    let caller = known(visitor)?;
    let accepted = to_its_end(async move { shared.daemon.chat_send(&caller, send).await }).await?;
    Ok(ok(&accepted))
}

async fn chat_abort<D: Daemon>(
    State(shared): State<Shared<D>>,
    Extension(visitor): Extension<Visitor>,
    JsonBody(abort): JsonBody<ChatAbort>,
) -> Answer {
    let caller = known(visitor)?;
    let aborted = to_its_end(async move { shared.daemon.chat_abort(&caller, abort).await }).await?;
    Ok(ok(&aborted))
}

/// Runs what must not stop halfway. A handler is dropped when its client hangs up; this is not.
async fn to_its_end<T: Send + 'static>(
    work: impl Future<Output = Result<T, RuntimeError>> + Send + 'static,
) -> Result<T, Refusal> {
    match nexus_base::task::spawn("call", work).await {
        Ok(outcome) => Ok(outcome?),
        Err(error) => {
            tracing::error!(%error, "request ended in a panic");
            Err(Refusal::new(
                ErrorCode::Internal,
                "this request ended in an internal error; the daemon is still \
                running",
            )
            .hint("the log has the details"))
        }
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct HistoryOf {
    session: Option<String>,
    limit: Option<usize>,
}

async fn chat_history<D: Daemon>(
    State(shared): State<Shared<D>>,
    Extension(visitor): Extension<Visitor>,
    Parameters(of): Parameters<HistoryOf>,
) -> Answer {
    let session = of.session.as_deref().map(|session| name("session", session)).transpose()?;
    let history =
        shared.daemon.chat_history(&known(visitor)?, session, rows(of.limit, HISTORY_LINES)?).await?;
    Ok(ok(&history))
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct WaitFor {
    request: String,
    timeout_ms: Option<u64>,
}

async fn chat_wait<D: Daemon>(
    State(shared): State<Shared<D>>,
    Extension(visitor): Extension<Visitor>,
    Parameters(wait): Parameters<WaitFor>,
) -> Answer {
    let caller = known(visitor)?;
    let request = name("request", &wait.request)?;
    let timeout = wait.timeout_ms.map_or(WAIT_DEFAULT, Duration::from_millis);
    if timeout > WAIT_MOST {
        let message = format!("timeoutMs must be at most {}", WAIT_MOST.as_millis());
        return Err(Refusal::new(ErrorCode::InvalidRequest, message));
    }
    tokio::select! {
        waited = shared.daemon.chat_wait(&caller, request, timeout) => Ok(ok(&waited?)),
        () = shared.closing.cancelled() => Err(RuntimeError::NotServing { state: "stopping" }.into()),
        () = until_invalid(&shared.daemon, &caller) => {
            Err(Refusal::new(ErrorCode::Unauthorized, "the token is no longer valid").closing())
        }
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Listing {
    limit: Option<usize>,
}

async fn requests<D: Daemon>(
    State(shared): State<Shared<D>>,
    Extension(visitor): Extension<Visitor>,
    Parameters(listing): Parameters<Listing>,
) -> Answer {
    Ok(ok(&shared.daemon.recent_requests(&known(visitor)?, rows(listing.limit, LISTED)?).await?))
}

async fn request<D: Daemon>(
    State(shared): State<Shared<D>>,
    Extension(visitor): Extension<Visitor>,
    id: Result<Path<String>, PathRejection>,
) -> Answer {
    let Path(id) = id.map_err(|rejection| Refusal::new(ErrorCode::InvalidRequest, rejection.body_text()))?;
    let view = shared.daemon.request(&known(visitor)?, name("the request id", &id)?).await?;
    Ok(ok(&view))
}

async fn sessions<D: Daemon>(
    State(shared): State<Shared<D>>,
    Extension(visitor): Extension<Visitor>,
    Parameters(listing): Parameters<Listing>,
) -> Answer {
    Ok(ok(&shared.daemon.sessions(&known(visitor)?, rows(listing.limit, LISTED)?).await?))
}

async fn event_stream<D: Daemon>(
    State(shared): State<Shared<D>>,
    Extension(visitor): Extension<Visitor>,
    Parameters(wanted): Parameters<Wanted>,
    headers: HeaderMap,
) -> Answer {
    events::open(&shared.daemon, known(visitor)?, shared.closing.clone(), wanted, &headers)
}
