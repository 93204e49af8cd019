//! Chat and sessions beyond sending: notes, waiting, looking one session up, previews.

use std::time::Duration;

use nexus_base::id::RequestId;
use nexus_protocol::chat::{ChatAccepted, ChatSend};
use nexus_protocol::control::{ChatInject, Preview, PreviewOf, SessionNamed, WaitFor};
use nexus_protocol::status::Health;
use nexus_store::agents::ItemKind;
use serde_json::{Value, json};

use super::{Caller, MAX_LISTED, invalid, missing, shown};
use crate::{Runtime, RuntimeError};

/// How long `chat.wait` waits when the caller does not say, and at most.
const WAIT: Duration = Duration::from_secs(30);
const MAX_WAIT: Duration = Duration::from_secs(600);
/// Most sessions one preview shows, and lines of each when the caller does not say.
const MAX_PREVIEWS: usize = 50;
const PREVIEW_LINES: usize = 3;

impl Runtime {
    /// Puts a note before a session's assistant, marked as not being the person's words. On disk
    /// when this returns, like a message.
    ///
    /// # Errors
    /// The note is refused, or could not be stored.
    pub async fn chat_inject(
        &self,
        caller: &Caller,
        inject: ChatInject,
    ) -> Result<ChatAccepted, RuntimeError> {
        match self.health() {
            Health::Healthy | Health::Degraded | Health::Unhealthy => {}
            Health::Starting => return Err(RuntimeError::NotServing { state: "starting" }),
            Health::Stopping => return Err(RuntimeError::NotServing { state: "stopping" }),
        }
        let send = ChatSend {
            message: inject.message,
            session: inject.session,
            idempotency_key: inject.idempotency_key,
            project: None,
            queue_mode: None,
            model: None,
        };
        self.shared.pipeline.accept(send, ItemKind::System, &caller.name()).await
    }

    pub(super) async fn wait_for(&self, wait: WaitFor) -> Result<Value, RuntimeError> {
        let timeout = wait.timeout_ms.map_or(WAIT, Duration::from_millis);
        if timeout > MAX_WAIT {
            return Err(invalid(format!("timeoutMs must be at most {}", MAX_WAIT.as_millis())));
        }
        let request = RequestId::new(wait.request);
        tokio::select! {
            waited = self.chat_wait(&request, timeout) => shown(&waited?),
            () = self.stopping() => Err(RuntimeError::NotServing { state: "stopping" }),
        }
    }

    pub(super) async fn session_resolve(&self, named: SessionNamed) -> Result<Value, RuntimeError> {
        // Follows aliases, so the label that comes back may be another one.
        let found = self.shared.store.agents().session(&named.session).await?;
        let label = found.ok_or_else(|| missing("session", named.session.as_str()))?.label;
        let sessions = self.sessions(MAX_LISTED).await?;
        match sessions.into_iter().find(|session| session.session == label) {
            Some(session) => shown(&session),
            None => shown(&json!({ "session": label })),
        }
    }

    pub(super) async fn session_previews(&self, of: PreviewOf) -> Result<Value, RuntimeError> {
        if of.sessions.len() > MAX_PREVIEWS {
            return Err(invalid(format!("at most {MAX_PREVIEWS} sessions at once")));
        }
        let limit = of.limit.unwrap_or(PREVIEW_LINES).clamp(1, 20);
        let mut previews = Vec::with_capacity(of.sessions.len());
        for session in of.sessions {
            previews.push(match self.chat_history(Some(session.clone()), limit).await {
                Ok(history) => Preview { session, found: true, lines: history.lines },
                Err(RuntimeError::NotFound { .. }) => Preview { session, found: false, lines: Vec::new() },
                Err(error) => return Err(error),
            });
        }
        shown(&json!({ "previews": previews }))
    }
}
