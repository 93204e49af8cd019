//! What the routes need of the daemon, so that they can be tested without booting one.

use std::time::Duration;

use nexus_protocol::chat::{ChatAbort, ChatAborted, ChatAccepted, ChatHistory, ChatSend, ChatWaited};
use nexus_protocol::status::{Health, HealthReport, SessionView};
use nexus_protocol::trace::{RequestSummary, RequestView};
use nexus_runtime::{BusReader, Runtime, RuntimeError};
use serde::de::DeserializeOwned;
use serde::de::value::{Error as ValueError, StrDeserializer};

/// The daemon as the control plane sees it. Ids come as the text that was sent.
pub(crate) trait Daemon: Clone + Send + Sync + 'static {
    fn chat_send(&self, send: ChatSend) -> impl Future<Output = Result<ChatAccepted, RuntimeError>> + Send;
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
    fn token_matches(&self, presented: &str) -> bool;
    fn stopping(&self) -> impl Future<Output = ()> + Send;
}

impl Daemon for Runtime {
    async fn chat_send(&self, send: ChatSend) -> Result<ChatAccepted, RuntimeError> {
        Self::chat_send(self, send).await
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

    fn token_matches(&self, presented: &str) -> bool {
        Self::token_matches(self, presented)
    }

    async fn stopping(&self) {
        Self::stopping(self).await;
    }
}

/// Makes an id of the kind the callee takes, as the wire format makes it from text.
fn typed<T: DeserializeOwned>(text: &str) -> Result<T, RuntimeError> {
    T::deserialize(StrDeserializer::<ValueError>::new(text))
        .map_err(|error| RuntimeError::Invalid { message: error.to_string(), hint: None })
}
