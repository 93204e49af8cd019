//! From ledger records to the agent's view of earlier turns.

use nexus_agent::history::{PastCall, PastMessage, PastTurn};
use nexus_store::agents::{CallRecord, CallStatus, MessageRecord, MessageRole, TurnRecord};
use serde_json::Value;

pub(crate) fn past_turn(turn: &TurnRecord) -> PastTurn {
    PastTurn { messages: turn.messages.iter().map(past_message).collect() }
}

fn past_message(message: &MessageRecord) -> PastMessage {
    match message.role {
        MessageRole::User => PastMessage::User {
            frame: message.frame.clone().unwrap_or_default(),
            text: message.content.clone(),
        },
        MessageRole::Assistant => PastMessage::Assistant {
            text: message.content.clone(),
            calls: message.calls.iter().map(past_call).collect(),
        },
    }
}

fn past_call(call: &CallRecord) -> PastCall {
    let result = match call.status {
        CallStatus::Intended => None,
        CallStatus::Completed => Some((call.result.clone().unwrap_or_default(), false)),
        CallStatus::Failed | CallStatus::Interrupted => Some((call.result.clone().unwrap_or_default(), true)),
    };
    PastCall {
        id: call.id.clone(),
        model_call_id: call.model_call_id.clone(),
        tool: call.tool.clone(),
        // Written by us from a parsed value; a hand-edited row becomes an empty object, not a crash.
        arguments: serde_json::from_str(&call.arguments_json)
            .unwrap_or_else(|_| Value::Object(serde_json::Map::new())),
        result,
    }
}
