//! Which model a turn asks for, read off its session, its message and who sent it.

use crate::sessions::AgentRequest;
use nexus_models::ModelRequest;
use nexus_store::agents::ItemKind;
use nexus_tools::Role;

/// Reads it off one request.
pub(crate) fn of(request: &AgentRequest<'_>) -> ModelRequest {
    let settings = &request.session.settings_json;
    ModelRequest {
        wanted: request.model.clone().or_else(|| named_in(settings)),
        preferred: setting(settings, "tier_model"),
        is_owners_word: request.role == Role::Manager
            && request.item.new.kind == ItemKind::Message
            && is_owner(&request.item.new.frame_json),
    }
}

/// Returns the model a session was made with, if one was named.
pub(crate) fn named_in(settings: &str) -> Option<String> {
    setting(settings, "model")
}

fn setting(settings: &str, name: &str) -> Option<String> {
    let settings: serde_json::Value = serde_json::from_str(settings).ok()?;
    settings.get(name)?.as_str().filter(|text| !text.is_empty()).map(str::to_owned)
}

fn is_owner(frame: &str) -> bool {
    let facts: Vec<(String, String)> = serde_json::from_str(frame).unwrap_or_default();
    facts.iter().any(|(name, value)| name == nexus_protocol::framing::key::SENDER && value == "owner")
}
