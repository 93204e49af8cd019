//! The calls: one method per route of the control plane.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http_body_util::Full;
use hyper::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HOST, HeaderValue};
use hyper::{Method, Request};
use nexus_base::id::{RequestId, SessionLabel, new_ulid};
use nexus_protocol::chat::{ChatAbort, ChatAborted, ChatAccepted, ChatHistory, ChatSend, ChatWaited};
use nexus_protocol::control::{SessionOf, SessionShortened};
use nexus_protocol::error::{ErrorBody, ErrorCode, WireError};
use nexus_protocol::methods::Method as Named;
use nexus_protocol::status::{HealthBrief, HealthReport, SessionView};
use nexus_protocol::trace::{RequestSummary, RequestView};
use secrecy::{ExposeSecret, SecretString};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use tokio::time::timeout;

use crate::connection::{Connections, Opened};
use crate::query::Target;
use crate::{ClientError, EventStream};

/// How long an ordinary call may take. Accepting a message waits for the disk, which can be slow.
const ANSWER_WITHIN: Duration = Duration::from_secs(30);
/// How long one `wait` call is held by the daemon before it is asked again.
const WAIT_ROUND: Duration = Duration::from_secs(60);
/// How much longer than its round a `wait` answer may take to arrive.
const WAIT_GRACE: Duration = Duration::from_secs(10);
/// How long a conversation may take to become shorter: the turn that runs, then a model's summary.
const SHORTENED_WITHIN: Duration = Duration::from_secs(30 * 60);
/// How long `probe` waits.
const PROBE_WITHIN: Duration = Duration::from_secs(2);

/// A client of one daemon; cheap to clone, and clones share connections.
#[derive(Clone)]
pub struct Client {
    shared: Arc<Shared>,
}

struct Shared {
    connections: Connections,
    host: HeaderValue,
    authorization: Option<HeaderValue>,
}

impl fmt::Debug for Client {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Client").field("port", &self.port()).finish_non_exhaustive()
    }
}

/// Asks whether a daemon serves on `port`, without showing a token to whoever listens there.
///
/// # Errors
/// Nobody listens, or what answers is no daemon.
pub async fn probe(port: u16) -> Result<HealthBrief, ClientError> {
    const WHAT: &str = "GET /health";
    let client = Client::with_authorization(port, None);
    client.health_answer(WHAT, PROBE_WITHIN).await
}

impl Client {
    /// Makes a client for the daemon on `port` of this machine; connects with the first call.
    pub fn new(port: u16, token: SecretString) -> Self {
        // A token with characters no header can carry matches nothing; the daemon says so.
        let authorization =
            HeaderValue::try_from(format!("Bearer {}", token.expose_secret())).ok().map(|mut value| {
                value.set_sensitive(true);
                value
            });
        // Zeroed here; the header above is the only copy left.
        drop(token);
        Self::with_authorization(port, authorization)
    }

    /// Returns the daemon's port.
    pub fn port(&self) -> u16 {
        self.shared.connections.port()
    }

    /// Returns the daemon's full report, also while it is starting, stopping or unhealthy.
    pub async fn health(&self) -> Result<HealthReport, ClientError> {
        self.health_answer("GET /health", ANSWER_WITHIN).await
    }

    /// Says something; returns once it is on the daemon's disk.
    ///
    /// Without an idempotency key one is made, so that a lost acknowledgement cannot lead to the
    /// message being taken twice.
    pub async fn send(&self, mut send: ChatSend) -> Result<ChatAccepted, ClientError> {
        const WHAT: &str = "POST /api/chat";
        send.idempotency_key.get_or_insert_with(new_ulid);
        let body = encode(WHAT, &send)?;
        match self.post(WHAT, "/api/chat", body.clone()).await {
            // The key makes a second try harmless, and the daemon may have closed an idle
            // connection in the very moment it was used.
            Err(ClientError::Disconnected { .. }) => self.post(WHAT, "/api/chat", body).await,
            outcome => outcome,
        }
    }

    /// Returns a session's last lines; `None` means the owner's direct conversation.
    pub async fn history(
        &self,
        session: Option<&SessionLabel>,
        limit: Option<usize>,
    ) -> Result<ChatHistory, ClientError> {
        let target = Target::new("/api/chat/history").optional("session", session.map(SessionLabel::as_str));
        self.get("GET /api/chat/history", with_limit(target, limit), ANSWER_WITHIN).await
    }

    /// Waits until nothing of the request's tree is queued, running or undelivered, at most `within`.
    pub async fn wait(&self, request: &RequestId, within: Duration) -> Result<ChatWaited, ClientError> {
        let started = Instant::now();
        loop {
            let left = within.saturating_sub(started.elapsed());
            let round = left.min(WAIT_ROUND);
            let target = Target::new("/api/chat/wait")
                .parameter("request", request.as_str())
                .parameter("timeoutMs", &round.as_millis().to_string());
            let waited: ChatWaited =
                self.get("GET /api/chat/wait", target, round.saturating_add(WAIT_GRACE)).await?;
            if waited.quiescent || started.elapsed() >= within {
                return Ok(waited);
            }
        }
    }

    /// Calls any method of the control plane's table.
    pub async fn call<T: DeserializeOwned>(
        &self,
        method: Named,
        params: &impl serde::Serialize,
    ) -> Result<T, ClientError> {
        self.call_within(method, params, ANSWER_WITHIN).await
    }

    async fn call_within<T: DeserializeOwned>(
        &self,
        method: Named,
        params: &impl serde::Serialize,
        limit: Duration,
    ) -> Result<T, ClientError> {
        const WHAT: &str = "POST /api/call";
        let params = serde_json::to_value(params).map_err(|error| ClientError::BadAnswer {
            what: WHAT,
            reason: format!("building the request: {error}"),
        })?;
        let call =
            nexus_protocol::control::Call { method: method.entry().name.to_owned(), params: Some(params) };
        let request = self.build(WHAT, Method::POST, "/api/call", encode(WHAT, &call)?)?;
        self.exchange(WHAT, request, limit).await
    }

    /// Sums up a session's earlier turns now, or lets the session begin anew. A turn that runs ends first
    /// and a model may write the summary, so the answer can take minutes.
    pub async fn shorten(
        &self,
        session: Option<&SessionLabel>,
        anew: bool,
    ) -> Result<SessionShortened, ClientError> {
        let method = if anew { Named::SessionsReset } else { Named::SessionsCompact };
        self.call_within(method, &SessionOf { session: session.cloned() }, SHORTENED_WITHIN).await
    }

    /// Ends a session's running turn.
    pub async fn abort(&self, abort: &ChatAbort) -> Result<ChatAborted, ClientError> {
        const WHAT: &str = "POST /api/chat/abort";
        self.post(WHAT, "/api/chat/abort", encode(WHAT, abort)?).await
    }

    /// Returns the newest requests.
    pub async fn requests(&self, limit: Option<usize>) -> Result<Vec<RequestSummary>, ClientError> {
        #[derive(Deserialize)]
        struct Listing {
            requests: Vec<RequestSummary>,
        }
        let target = with_limit(Target::new("/api/requests"), limit);
        let listing: Listing = self.get("GET /api/requests", target, ANSWER_WITHIN).await?;
        Ok(listing.requests)
    }

    /// Returns one request with everything it led to.
    pub async fn request(&self, id: &RequestId) -> Result<RequestView, ClientError> {
        let target = Target::new("/api/requests").segment(id.as_str());
        self.get("GET /api/requests/{id}", target, ANSWER_WITHIN).await
    }

    /// Returns the sessions, most recently used first.
    pub async fn sessions(&self, limit: Option<usize>) -> Result<Vec<SessionView>, ClientError> {
        #[derive(Deserialize)]
        struct Listing {
            sessions: Vec<SessionView>,
        }
        let target = with_limit(Target::new("/api/sessions"), limit);
        let listing: Listing = self.get("GET /api/sessions", target, ANSWER_WITHIN).await?;
        Ok(listing.sessions)
    }

    /// Follows the daemon's events: all of them or one request tree's, from now on or after the
    /// given number. Events published once this has returned are not missed.
    pub async fn events(
        &self,
        root: Option<&RequestId>,
        after: Option<u64>,
    ) -> Result<EventStream, ClientError> {
        const WHAT: &str = "GET /api/events/stream";
        let target = Target::new("/api/events/stream").optional("root", root.map(RequestId::as_str));
        let mut request = self.build(WHAT, Method::GET, &target.into_text(), Bytes::new())?;
        request.headers_mut().insert(ACCEPT, HeaderValue::from_static("text/event-stream"));
        if let Some(after) = after {
            request.headers_mut().insert("last-event-id", HeaderValue::from(after));
        }
        let call = async {
            let opened = self.shared.connections.open(WHAT, request).await?;
            if !opened.response.status().is_success() {
                return Err(self.refusal(WHAT, opened).await);
            }
            let is_stream = opened.response.headers().get(CONTENT_TYPE).is_some_and(|kind| {
                kind.as_bytes().get(..17).is_some_and(|kind| kind.eq_ignore_ascii_case(b"text/event-stream"))
            });
            if !is_stream {
                return Err(ClientError::BadAnswer { what: WHAT, reason: "not an event stream".to_owned() });
            }
            Ok(EventStream::new(opened, after))
        };
        within(WHAT, ANSWER_WITHIN, call).await
    }

    fn with_authorization(port: u16, authorization: Option<HeaderValue>) -> Self {
        // Digits and dots always make a header value.
        let host = HeaderValue::try_from(format!("127.0.0.1:{port}"))
            .unwrap_or_else(|_| HeaderValue::from_static("127.0.0.1"));
        Self { shared: Arc::new(Shared { connections: Connections::new(port), host, authorization }) }
    }

    /// `/health` carries its report with status 503 as well; everywhere else 503 is an error.
    async fn health_answer<T: DeserializeOwned>(
        &self,
        what: &'static str,
        limit: Duration,
    ) -> Result<T, ClientError> {
        let request = self.build(what, Method::GET, "/health", Bytes::new())?;
        let call = async {
            let opened = self.shared.connections.open(what, request).await?;
            let status = opened.response.status();
            let body = self.shared.connections.read(what, opened).await?;
            match serde_json::from_slice(&body) {
                Ok(answer) => Ok(answer),
                Err(_) if !status.is_success() => Err(refusal_of(what, status.as_u16(), &body)),
                // The daemon tells strangers one word and the owner everything.
                Err(_) if serde_json::from_slice::<HealthBrief>(&body).is_ok() => Err(ClientError::Wire(
                    WireError {
                        code: ErrorCode::Unauthorized,
                        message: "the daemon rejected the token".to_owned(),
                        hint: Some("the daemon on this port may serve another workspace".to_owned()),
                    },
                    401,
                )),
                Err(error) => Err(ClientError::BadAnswer { what, reason: error.to_string() }),
            }
        };
        within(what, limit, call).await
    }

    async fn get<T: DeserializeOwned>(
        &self,
        what: &'static str,
        target: Target,
        limit: Duration,
    ) -> Result<T, ClientError> {
        let target = target.into_text();
        let request = self.build(what, Method::GET, &target, Bytes::new())?;
        match self.exchange(what, request, limit).await {
            // Reading twice changes nothing; see `send` for when this happens.
            Err(ClientError::Disconnected { .. }) => {
                let request = self.build(what, Method::GET, &target, Bytes::new())?;
                self.exchange(what, request, limit).await
            }
            outcome => outcome,
        }
    }

    async fn post<T: DeserializeOwned>(
        &self,
        what: &'static str,
        path: &str,
        body: Bytes,
    ) -> Result<T, ClientError> {
        let request = self.build(what, Method::POST, path, body)?;
        self.exchange(what, request, ANSWER_WITHIN).await
    }

    async fn exchange<T: DeserializeOwned>(
        &self,
        what: &'static str,
        request: Request<Full<Bytes>>,
        limit: Duration,
    ) -> Result<T, ClientError> {
        let call = async {
            let opened = self.shared.connections.open(what, request).await?;
            if !opened.response.status().is_success() {
                return Err(self.refusal(what, opened).await);
            }
            let body = self.shared.connections.read(what, opened).await?;
            serde_json::from_slice(&body)
                .map_err(|error| ClientError::BadAnswer { what, reason: error.to_string() })
        };
        within(what, limit, call).await
    }

    async fn refusal(&self, what: &'static str, opened: Opened) -> ClientError {
        let status = opened.response.status().as_u16();
        match self.shared.connections.read(what, opened).await {
            Ok(body) => refusal_of(what, status, &body),
            Err(error) => error,
        }
    }

    fn build(
        &self,
        what: &'static str,
        method: Method,
        target: &str,
        body: Bytes,
    ) -> Result<Request<Full<Bytes>>, ClientError> {
        let mut request = Request::builder().method(method).uri(target).header(HOST, &self.shared.host);
        if let Some(authorization) = &self.shared.authorization {
            request = request.header(AUTHORIZATION, authorization);
        }
        if !body.is_empty() {
            request = request.header(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        }
        request.body(Full::new(body)).map_err(|error| ClientError::BadAnswer {
            what,
            reason: format!("building the request: {error}"),
        })
    }
}

fn with_limit(target: Target, limit: Option<usize>) -> Target {
    target.optional("limit", limit.map(|limit| limit.to_string()).as_deref())
}

fn encode(what: &'static str, body: &impl serde::Serialize) -> Result<Bytes, ClientError> {
    serde_json::to_vec(body)
        .map(Bytes::from)
        .map_err(|error| ClientError::BadAnswer { what, reason: format!("building the request: {error}") })
}

fn refusal_of(what: &'static str, status: u16, body: &[u8]) -> ClientError {
    match serde_json::from_slice::<ErrorBody>(body) {
        Ok(ErrorBody { error }) => ClientError::Wire(error, status),
        Err(_) => ClientError::BadAnswer { what, reason: format!("status {status} without an error body") },
    }
}

async fn within<T>(
    what: &'static str,
    limit: Duration,
    call: impl Future<Output = Result<T, ClientError>>,
) -> Result<T, ClientError> {
    timeout(limit, call).await.unwrap_or(Err(ClientError::Timeout { what, after: limit }))
}
