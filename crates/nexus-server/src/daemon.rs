//! What the routes need of the daemon, so that they can be tested without booting one.

use std::sync::Arc;
use std::time::Duration;

use nexus_protocol::chat::{ChatAbort, ChatAborted, ChatAccepted, ChatHistory, ChatSend, ChatWaited};
use nexus_protocol::methods::Method;
use nexus_protocol::status::{Health, HealthReport, SessionView};
use nexus_protocol::tool::ToolSource;
use nexus_protocol::trace::{RequestSummary, RequestView};
use nexus_runtime::{BusReader, Caller, Runtime, RuntimeError};
use serde::de::DeserializeOwned;
use serde::de::value::{Error as ValueError, StrDeserializer};
use serde_json::Value;
use tokio::sync::watch;

/// The daemon as the control plane sees it. Ids come as the text that was sent.
pub(crate) trait Daemon: Clone + Send + Sync + 'static {
    fn chat_send(
        &self,
        caller: &Caller,
        send: ChatSend,
    ) -> impl Future<Output = Result<ChatAccepted, RuntimeError>> + Send;
    fn chat_history(
        &self,
        session: Option<&str>,
        limit: usize,
    ) -> impl Future<Output = Result<ChatHistory, RuntimeError>> + Send;
    fn chat_wait(
        &self,
        request: &str,
        timeout: Duration,
    ) -> impl Future<Output = Result<ChatWaited, RuntimeError>> + Send;
    fn chat_abort(&self, abort: ChatAbort) -> impl Future<Output = Result<ChatAborted, RuntimeError>> + Send;
    fn request(&self, id: &str) -> impl Future<Output = Result<RequestView, RuntimeError>> + Send;
    fn recent_requests(
        &self,
        limit: usize,
    ) -> impl Future<Output = Result<Vec<RequestSummary>, RuntimeError>> + Send;
    fn sessions(&self, limit: usize) -> impl Future<Output = Result<Vec<SessionView>, RuntimeError>> + Send;
    fn subscribe(&self, after: Option<u64>) -> BusReader;
    fn health(&self) -> Health;
    fn health_report(&self) -> impl Future<Output = HealthReport> + Send;
    fn authenticate(&self, presented: &str) -> impl Future<Output = Option<Caller>> + Send;
    fn is_still_valid(&self, caller: &Caller) -> impl Future<Output = bool> + Send;
    /// Counts up whenever a token may have stopped working.
    fn token_changes(&self) -> watch::Receiver<u64>;
    fn permit(&self, caller: &Caller, method: Method) -> Result<(), RuntimeError>;
    fn call(
        &self,
        caller: &Caller,
        method: Method,
        params: Option<Value>,
    ) -> impl Future<Output = Result<Value, RuntimeError>> + Send;
    fn redact(&self, text: &str) -> String;
    fn metrics(&self) -> String;
    fn tools(&self, project: Option<&str>) -> Result<Arc<dyn ToolSource>, RuntimeError>;
    /// How long a new socket may take to show its token.
    fn handshake_within(&self) -> Duration;
    fn stopping(&self) -> impl Future<Output = ()> + Send;
}

impl Daemon for Runtime {
    async fn chat_send(&self, caller: &Caller, send: ChatSend) -> Result<ChatAccepted, RuntimeError> {
        Self::chat_send(self, caller, send).await
    }

    async fn chat_history(&self, session: Option<&str>, limit: usize) -> Result<ChatHistory, RuntimeError> {
        Self::chat_history(self, session.map(typed).transpose()?, limit).await
    }

    async fn chat_wait(&self, request: &str, timeout: Duration) -> Result<ChatWaited, RuntimeError> {
        Self::chat_wait(self, &typed(request)?, timeout).await
    }

    async fn chat_abort(&self, abort: ChatAbort) -> Result<ChatAborted, RuntimeError> {
        Self::chat_abort(self, abort).await
    }

    async fn request(&self, id: &str) -> Result<RequestView, RuntimeError> {
        Self::request(self, &typed(id)?).await
    }

    async fn recent_requests(&self, limit: usize) -> Result<Vec<RequestSummary>, RuntimeError> {
        Self::recent_requests(self, limit).await
    }

    async fn sessions(&self, limit: usize) -> Result<Vec<SessionView>, RuntimeError> {
        Self::sessions(self, limit).await
    }

    fn subscribe(&self, after: Option<u64>) -> BusReader {
        Self::subscribe(self, after)
    }

    fn health(&self) -> Health {
        Self::health(self)
    }

    async fn health_report(&self) -> HealthReport {
        Self::health_report(self).await
    }

    async fn authenticate(&self, presented: &str) -> Option<Caller> {
        Self::authenticate(self, presented).await
    }

    async fn is_still_valid(&self, caller: &Caller) -> bool {
        Self::is_still_valid(self, caller).await
    }

    fn token_changes(&self) -> watch::Receiver<u64> {
        Self::token_changes(self)
    }

    fn permit(&self, caller: &Caller, method: Method) -> Result<(), RuntimeError> {
        Self::permit(self, caller, method)
    }

    async fn call(
        &self,
        caller: &Caller,
        method: Method,
        params: Option<Value>,
    ) -> Result<Value, RuntimeError> {
        Self::call(self, caller, method, params).await
    }

    fn redact(&self, text: &str) -> String {
        Self::redact(self, text)
    }

    fn metrics(&self) -> String {
        Self::metrics(self)
    }

    fn tools(&self, project: Option<&str>) -> Result<Arc<dyn ToolSource>, RuntimeError> {
        Self::tools(self, project)
    }

    fn handshake_within(&self) -> Duration {
        Self::handshake_within(self)
    }

    async fn stopping(&self) {
        Self::stopping(self).await;
    }
}

/// How often a token that runs out is looked at.
const EXPIRY_LOOK: Duration = Duration::from_secs(1);

/// Resolves once a caller's token no longer opens anything: replaced, ended or run out.
pub(crate) async fn until_invalid<D: Daemon>(daemon: &D, caller: &Caller) {
    let mut changes = daemon.token_changes();
    let mut look = tokio::time::interval(EXPIRY_LOOK);
    // Looked at right away: the change may have come between showing the token and this.
    while daemon.is_still_valid(caller).await {
        loop {
            tokio::select! {
                changed = changes.changed() => {
                    if changed.is_err() {
                        return std::future::pending().await;
                    }
                    break;
                }
                _ = look.tick() => {
                    if caller.has_expired() {
                        return;
                    }
                }
            }
        }
    }
}

/// Makes an id of the kind the callee takes, as the wire format makes it from text.
fn typed<T: DeserializeOwned>(text: &str) -> Result<T, RuntimeError> {
    T::deserialize(StrDeserializer::<ValueError>::new(text))
        .map_err(|error| RuntimeError::Invalid { message: error.to_string(), hint: None })
}
