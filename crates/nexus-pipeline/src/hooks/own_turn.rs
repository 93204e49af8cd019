//! Turns that automations take for themselves, in sessions of their own.
//!
//! Such a turn goes through the same queue and ledger as every other: it survives a crash, counts against
//! the budgets and can be looked at. It belongs to a tree of its own, so nobody who waits for an answer
//! waits for it.

use crate::sessions::{Broker, Quiescence};
use nexus_automation::ports::{Ask, Thought};
use nexus_automation::{Cost, OWN_SESSIONS, RunError};
use nexus_base::conversation::Role;
use nexus_base::id::{QueueItemId, RequestId, SessionLabel};
use nexus_identity::{DataLevel, Names, Permissions, ToolRule};
use nexus_protocol::framing::key;
use nexus_store::agents::{
    ItemFacts, ItemKind, ItemMode, ItemOutcome, MessageRole, NewItem, NewSession, SessionSettings, TurnRecord,
};

/// Name of the fact that says which event facts of this turn come from.
pub(super) const SOURCE: &str = "source";

/// Takes one turn for an automation and waits for its end.
pub(super) async fn take(broker: &Broker, persona: String, ask: Ask) -> Result<Thought, RunError> {
    let agents = &broker.shared.parts.agents;
    let request = RequestId::generate();
    let label = SessionLabel::new(format!("{OWN_SESSIONS}{}:{}", ask.automation, ask.purpose.as_str()));
    let session = NewSession {
        label: label.clone(),
        persona,
        role: Role::Worker,
        origin: "automation",
        settings: SessionSettings::default(),
    };
    let mut facts = vec![("automation", ask.automation.clone())];
    if let Some(because_of) = &ask.because_of {
        facts.push(("because_of", because_of.to_string()));
    }
    if let Some(source) = &ask.source {
        facts.push((SOURCE, source.to_string()));
    }
    if ask.tainted {
        facts.push((key::UNTRUSTED, "text from someone else".to_owned()));
    }
    let item = NewItem {
        id: QueueItemId::new(format!("{OWN_SESSIONS}{request}")),
        session: label.clone(),
        request_id: request.clone(),
        parent_request_id: None,
        root_request_id: request.clone(),
        source_event_id: None,
        kind: ItemKind::System,
        mode: ItemMode::Followup,
        facts: ItemFacts::new(facts),
        content: ask.text,
        permissions: own_permissions().snapshot(),
    };
    let refused = |error: nexus_store::StoreError| RunError(error.to_string());
    broker.admit(session, item).await.map_err(refused)?;
    match broker.wait_quiescent(&request, ask.limit).await.map_err(refused)? {
        Quiescence::Reached => {}
        Quiescence::TimedOut | Quiescence::Unknown => {
            broker.abort(&label);
            return Err(RunError(format!("not finished within {} s", ask.limit.as_secs())));
        }
    }
    let item = agents.item_of_request(&request).await.map_err(refused)?;
    let item = item.ok_or_else(|| RunError("its turn no longer exists".to_owned()))?;
    if item.outcome != Some(ItemOutcome::Completed) {
        return Err(RunError(item.error.unwrap_or_else(|| "its turn did not complete".to_owned())));
    }
    let turn = match &item.turn_id {
        Some(turn) => agents.turn(turn).await.map_err(refused)?,
        None => None,
    };
    Ok(turn.as_ref().map(thought).unwrap_or_default())
}

/// What an automation's own turns may use at most; each purpose has less.
fn own_permissions() -> Permissions {
    let tools = Names::only(["recall", "remember", "read", "write", "edit"]);
    Permissions {
        tools: ToolRule { allow: tools, deny: [].into() },
        credentials: Names::none(),
        data: DataLevel::Full,
    }
}

fn thought(turn: &TurnRecord) -> Thought {
    let replies = || turn.messages.iter().filter(|message| message.role == MessageRole::Assistant);
    let calls = || replies().flat_map(|message| &message.calls);
    let count = |number: usize| u64::try_from(number).unwrap_or(u64::MAX);
    Thought {
        text: replies().next_back().map(|message| message.content.clone()).unwrap_or_default(),
        calls: count(calls().count()),
        cost: Cost {
            llm_calls: count(replies().count()),
            tokens_in: turn.input_tokens,
            tokens_out: turn.output_tokens,
            searches: count(calls().filter(|call| call.tool == "recall").count()),
        },
    }
}
