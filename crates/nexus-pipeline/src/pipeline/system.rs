//! Messages in the runtime's own name, such as BOOT.md: the same way in, another principal.

use std::sync::Arc;

use nexus_base::id::SessionLabel;
use nexus_protocol::chat::{ChatAccepted, ChatSend};
use nexus_store::agents::{ItemKind, ItemMode};

use super::Pipeline;
use super::send_options::SendOptions;
use crate::RuntimeError;

/// What the callers of such messages begin with.
const SYSTEM: &str = "system:";

impl Pipeline {
    /// Takes in a text that no person wrote; the same key brings the same text in once.
    pub(crate) async fn accept_system(
        self: &Arc<Self>,
        part: &str,
        key: &str,
        text: &str,
    ) -> Result<ChatAccepted, RuntimeError> {
        let session = SessionLabel::new(format!("{SYSTEM}{part}"));
        let send = ChatSend {
            message: text.to_owned(),
            session: Some(session.clone()),
            idempotency_key: Some(key.to_owned()),
            project: None,
            queue_mode: None,
            model: None,
        };
        let caller = format!("{SYSTEM}{part}");
        let (mode, kind) = (ItemMode::Followup, ItemKind::System);
        let send_options = SendOptions { session, mode, kind, caller, project: None, model: None };
        self.receive(send, send_options).await
    }
}

/// Returns which part of the runtime speaks, if it is the runtime that does. People cannot call
/// themselves that: a caller's name comes from their token.
pub(super) fn part_of(send_options: &SendOptions) -> Option<&str> {
    send_options
        .caller
        .strip_prefix(SYSTEM)
        .filter(|part| send_options.session.as_str() == format!("{SYSTEM}{part}"))
}
