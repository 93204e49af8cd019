//! From ledger records to the agent's view of earlier turns.

use std::sync::Arc;

use nexus_agent::history::{Past, PastCall, PastMessage, PastTurn};
use nexus_store::agents::{self, CallRecord, CallStatus, MessageRecord, MessageRole, TurnRecord};
use serde_json::Value;

/// Turns the ledger's answer into what a turn follows on, with results shortened as they are sent.
pub(crate) fn past_of(past: &agents::Past) -> Past {
    let compaction = past.compaction.as_ref().map(|compaction| &compaction.new);
    let trims: Vec<_> = compaction
        .map(|new| new.trims.iter().map(|trim| (trim.call.clone(), trim.text.clone())).collect())
        .unwrap_or_default();
    Past {
        summary: compaction.and_then(|new| new.summary.clone()),
        through: compaction.and_then(|new| new.through.clone()),
        turns: past.turns.iter().map(|turn| Arc::new(trimmed(past_turn(turn), &trims))).collect(),
        trims,
    }
}

/// Puts the shortened results in place of the whole ones.
pub(crate) fn trimmed(mut turn: PastTurn, trims: &[(nexus_base::id::ToolCallId, String)]) -> PastTurn {
    if trims.is_empty() {
        return turn;
    }
    for message in &mut turn.messages {
        let PastMessage::Assistant { calls, .. } = message else { continue };
        for call in calls {
            if let (Some((text, _)), Some((_, short))) =
                (&mut call.result, trims.iter().find(|(id, _)| *id == call.id))
            {
                text.clone_from(short);
            }
        }
    }
    turn
}

pub(crate) fn past_turn(turn: &TurnRecord) -> PastTurn {
    PastTurn { id: Some(turn.id.clone()), messages: turn.messages.iter().map(past_message).collect() }
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
