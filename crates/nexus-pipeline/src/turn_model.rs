//! Which model a turn asks for, read off its session, its message and who sent it.

use crate::sessions::AgentRequest;
use nexus_models::ModelRequest;
use nexus_protocol::framing::key;
use nexus_store::agents::{ItemKind, SessionRecord, SessionSettings};
use nexus_tools::Role;

/// Reads it off one request.
pub(crate) fn of(request: &AgentRequest<'_>) -> ModelRequest {
    ModelRequest {
        wanted: request.model.clone().or_else(|| named_in(request.settings)),
        preferred: request.settings.tier_model.clone().filter(|name| !name.is_empty()),
        is_owners_word: request.role == Role::Manager
            && request.item.new.kind == ItemKind::Message
            && request.item.new.facts.get(key::SENDER) == Some("owner"),
    }
}

/// Reads it off a worker's session; one whose settings are damaged names nothing.
pub(crate) fn of_worker(session: &SessionRecord) -> ModelRequest {
    let settings = session.settings.as_ref().ok();
    ModelRequest {
        wanted: settings.and_then(named_in),
        preferred: settings.and_then(|settings| settings.tier_model.clone()).filter(|name| !name.is_empty()),
        is_owners_word: false,
    }
}

/// Returns the model a session was made with, if one was named.
pub(crate) fn named_in(settings: &SessionSettings) -> Option<String> {
    settings.model.clone().filter(|name| !name.is_empty())
}
