//! What led to a hook point: the request, the person, the event and whatever belongs to that place.

use nexus_base::id::{EventId, RequestId, SessionLabel};
use serde::Serialize;
use serde_json::Value;

/// Sessions in which automations work for themselves. No automation runs around those: the memory writer
/// would write down its own writing, for ever.
pub const OWN_SESSIONS: &str = "meeseeks:";

/// One passage of one hook point, as automations are told about it.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Occasion {
    /// The request it belongs to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request_id: Option<RequestId>,
    /// The event that led to the request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub event_id: Option<EventId>,
    /// The session it happens in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session: Option<SessionLabel>,
    /// Who wants something.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub principal: Option<PrincipalFacts>,
    /// What arrived.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub event: Option<EventFacts>,
    /// What belongs to this hook point: a task, a reply, a command.
    #[serde(skip_serializing_if = "Value::is_null")]
    pub data: Value,
}

/// Who wants something.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct PrincipalFacts {
    /// owner, known, unknown, system, webhook or agent.
    #[serde(rename = "type")]
    pub kind: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// What they are to the owner.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub relationship: Option<String>,
    /// Who they are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub entity_id: Option<String>,
}

/// What arrived.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct EventFacts {
    /// Where it came from.
    pub platform: String,
    #[serde(rename = "type")]
    pub kind: String,
    /// `inbound` or `outbound`.
    pub direction: String,
    /// Its words.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub content: String,
}

impl Occasion {
    /// Tells whether it happens where an automation works for itself.
    pub fn is_own_work(&self) -> bool {
        self.session.as_ref().is_some_and(|session| session.as_str().starts_with(OWN_SESSIONS))
    }
}
