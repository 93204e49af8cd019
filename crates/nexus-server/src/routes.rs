//! The table of routes and what each of them does: take the request apart, ask the daemon, answer.

use std::time::Duration;

use axum::body::Body;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, Method, Response, StatusCode};
use axum::routing::{MethodRouter, get, post};
use axum::{Extension, Router};
use nexus_protocol::chat::{ChatAbort, ChatSend};
use nexus_protocol::error::ErrorCode;
use nexus_protocol::status::{Health, HealthBrief, SessionView};
use nexus_protocol::trace::RequestSummary;
use nexus_runtime::RuntimeError;
use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;

use crate::answer::{Refusal, json, ok};
use crate::body::JsonBody;
use crate::daemon::Daemon;
use crate::events::{self, Wanted};
use crate::gate::Caller;
use crate::parameters::{Parameters, name, rows};

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
}

/// Who a route answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    Anyone,
    Owner,
}

/// One route. The router is built from the table of these and from nothing else, so a test over
/// the table has seen every way in.
pub(crate) struct Route<D> {
    pub(crate) path: &'static str,
    pub(crate) access: Access,
    handler: MethodRouter<Shared<D>>,
}

impl<D: Daemon> Route<D> {
    fn new(path: &'static str, handler: MethodRouter<Shared<D>>) -> Self {
        Self { path, access: Access::Owner, handler }
    }
}

/// Returns the table. A route answers the owner only, unless it says otherwise here.
pub(crate) fn table<D: Daemon>() -> Vec<Route<D>> {
    vec![
        Route { access: Access::Anyone, ..Route::new("/health", get(health::<D>)) },
        Route::new("/api/chat", post(chat_send::<D>)),
        Route::new("/api/chat/history", get(chat_history::<D>)),
        Route::new("/api/chat/wait", get(chat_wait::<D>)),
        Route::new("/api/chat/abort", post(chat_abort::<D>)),
        Route::new("/api/requests", get(requests::<D>)),
        Route::new("/api/requests/{id}", get(request::<D>)),
        Route::new("/api/sessions", get(sessions::<D>)),
        Route::new("/api/events/stream", get(event_stream::<D>)),
    ]
}

/// Builds the router from the table.
pub(crate) fn router<D: Daemon>(shared: Shared<D>) -> Router {
    table::<D>()
        .into_iter()
        .fold(Router::new(), |router, route| router.route(route.path, route.handler))
        .fallback(no_such_route)
        .method_not_allowed_fallback(wrong_method)
        .with_state(shared)
}

async fn no_such_route() -> Refusal {
    Refusal::new(ErrorCode::NotFound, "no such route")
}

async fn wrong_method(method: Method) -> Refusal {
    Refusal::new(ErrorCode::InvalidRequest, format!("this route does not take {method}"))
        .status(StatusCode::METHOD_NOT_ALLOWED)
}

async fn health<D: Daemon>(
    State(shared): State<Shared<D>>,
    Extension(caller): Extension<Caller>,
) -> Response<Body> {
    match caller {
        Caller::Owner => {
            let report = shared.daemon.health_report().await;
            json(health_status(report.status), &report)
        }
        Caller::Stranger => {
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

async fn chat_send<D: Daemon>(State(shared): State<Shared<D>>, JsonBody(send): JsonBody<ChatSend>) -> Answer {
    let accepted = to_its_end(async move { shared.daemon.chat_send(send).await }).await?;
    Ok(ok(&accepted))
}

async fn chat_abort<D: Daemon>(
    State(shared): State<Shared<D>>,
    JsonBody(abort): JsonBody<ChatAbort>,
) -> Answer {
    let aborted = to_its_end(async move { shared.daemon.chat_abort(abort).await }).await?;
    Ok(ok(&aborted))
}

/// Runs what must not stop halfway. A handler is dropped when its client hangs up; this is not.
async fn to_its_end<T: Send + 'static>(
    work: impl Future<Output = Result<T, RuntimeError>> + Send + 'static,
) -> Result<T, Refusal> {
    match tokio::spawn(work).await {
        Ok(outcome) => Ok(outcome?),
        Err(error) => {
            tracing::error!(%error, "a request ended in a defect");
            Err(Refusal::new(ErrorCode::Internal, "a defect ended this request; the daemon goes on")
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
    Parameters(of): Parameters<HistoryOf>,
) -> Answer {
    let session = of.session.as_deref().map(|session| name("session", session)).transpose()?;
    let history = shared.daemon.chat_history(session, rows(of.limit, HISTORY_LINES)?).await?;
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
    Parameters(wait): Parameters<WaitFor>,
) -> Answer {
    let request = name("request", &wait.request)?;
    let timeout = wait.timeout_ms.map_or(WAIT_DEFAULT, Duration::from_millis);
    if timeout > WAIT_MOST {
        let message = format!("timeoutMs must be at most {}", WAIT_MOST.as_millis());
        return Err(Refusal::new(ErrorCode::InvalidRequest, message));
    }
    tokio::select! {
        waited = shared.daemon.chat_wait(request, timeout) => Ok(ok(&waited?)),
        () = shared.closing.cancelled() => Err(RuntimeError::NotServing { state: "stopping" }.into()),
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Listing {
    limit: Option<usize>,
}

async fn requests<D: Daemon>(
    State(shared): State<Shared<D>>,
    Parameters(listing): Parameters<Listing>,
) -> Answer {
    #[derive(Serialize)]
    struct Requests {
        requests: Vec<RequestSummary>,
    }
    let requests = shared.daemon.recent_requests(rows(listing.limit, LISTED)?).await?;
    Ok(ok(&Requests { requests }))
}

async fn request<D: Daemon>(
    State(shared): State<Shared<D>>,
    id: Result<Path<String>, PathRejection>,
) -> Answer {
    let Path(id) = id.map_err(|rejection| Refusal::new(ErrorCode::InvalidRequest, rejection.body_text()))?;
    let view = shared.daemon.request(name("the request id", &id)?).await?;
    Ok(ok(&view))
}

async fn sessions<D: Daemon>(
    State(shared): State<Shared<D>>,
    Parameters(listing): Parameters<Listing>,
) -> Answer {
    #[derive(Serialize)]
    struct Sessions {
        sessions: Vec<SessionView>,
    }
    let sessions = shared.daemon.sessions(rows(listing.limit, LISTED)?).await?;
    Ok(ok(&Sessions { sessions }))
}

async fn event_stream<D: Daemon>(
    State(shared): State<Shared<D>>,
    Parameters(wanted): Parameters<Wanted>,
    headers: HeaderMap,
) -> Answer {
    events::open(&shared.daemon, shared.closing.clone(), wanted, &headers)
}
