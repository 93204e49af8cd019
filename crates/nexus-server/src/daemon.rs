//! What the routes need of the daemon, so that they can be tested without booting one.

use std::sync::Arc;
use std::time::Duration;

use nexus_base::id::SessionLabel;
use nexus_operations::{BusReader, Caller, Operations, RuntimeError};
use nexus_protocol::chat::{ChatAbort, ChatAborted, ChatAccepted, ChatHistory, ChatSend, ChatWaited};
use nexus_protocol::control::{HistoryOf, Listing, Named, WaitFor};
use nexus_protocol::methods::Method;
use nexus_protocol::status::{Health, HealthReport};
use nexus_protocol::tool::ToolSource;
use nexus_protocol::trace::RequestView;
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
        caller: &Caller,
        session: Option<&str>,
        limit: usize,
    ) -> impl Future<Output = Result<ChatHistory, RuntimeError>> + Send;
    fn chat_wait(
        &self,
        caller: &Caller,
        request: &str,
        timeout: Duration,
    ) -> impl Future<Output = Result<ChatWaited, RuntimeError>> + Send;
    fn chat_abort(
        &self,
        caller: &Caller,
        abort: ChatAbort,
    ) -> impl Future<Output = Result<ChatAborted, RuntimeError>> + Send;
    fn request(
        &self,
        caller: &Caller,
        id: &str,
    ) -> impl Future<Output = Result<RequestView, RuntimeError>> + Send;
    fn recent_requests(
        &self,
        caller: &Caller,
        limit: usize,
    ) -> impl Future<Output = Result<Value, RuntimeError>> + Send;
    fn sessions(
        &self,
        caller: &Caller,
        limit: usize,
    ) -> impl Future<Output = Result<Value, RuntimeError>> + Send;
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

impl Daemon for Operations {
    async fn chat_send(&self, caller: &Caller, send: ChatSend) -> Result<ChatAccepted, RuntimeError> {
        self.permitted(caller, Method::ChatSend, &send).await
    }

    async fn chat_history(
        &self,
        caller: &Caller,
        session: Option<&str>,
        limit: usize,
    ) -> Result<ChatHistory, RuntimeError> {
        let of = HistoryOf { session: session.map(SessionLabel::new), limit: Some(limit) };
        self.permitted(caller, Method::ChatHistory, &of).await
    }

    async fn chat_wait(
        &self,
        caller: &Caller,
        request: &str,
        timeout: Duration,
    ) -> Result<ChatWaited, RuntimeError> {
        let timeout_ms = u64::try_from(timeout.as_millis()).ok();
        self.permitted(caller, Method::ChatWait, &WaitFor { request: request.to_owned(), timeout_ms }).await
    }

    async fn chat_abort(&self, caller: &Caller, abort: ChatAbort) -> Result<ChatAborted, RuntimeError> {
        self.permitted(caller, Method::ChatAbort, &abort).await
    }

    async fn request(&self, caller: &Caller, id: &str) -> Result<RequestView, RuntimeError> {
        self.permitted(caller, Method::RequestsGet, &Named { id: id.to_owned() }).await
    }

    async fn recent_requests(&self, caller: &Caller, limit: usize) -> Result<Value, RuntimeError> {
        self.permitted(caller, Method::RequestsList, &Listing { limit: Some(limit) }).await
    }

    async fn sessions(&self, caller: &Caller, limit: usize) -> Result<Value, RuntimeError> {
        self.permitted(caller, Method::SessionsList, &Listing { limit: Some(limit) }).await
    }

    fn subscribe(&self, after: Option<u64>) -> BusReader {
        Self::subscribe(self, after)
    }

    fn health(&self) -> Health {
        Self::health(self)
    }

    async fn health_report(&self) -> HealthReport {
        Self::health_report(self)
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
