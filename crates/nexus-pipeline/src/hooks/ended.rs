//! The hook points at the end of a request, fired from where ends are told to the other files (S8): told
//! again after a crash, each trigger is kept once.

use crate::sessions::Ended;
use nexus_automation::{EventFacts, HookPoint, Occasion, PrincipalFacts};
use nexus_base::conversation::Role;
use nexus_base::id::{EntityId, EventId};
use nexus_identity::{DataLevel, Permissions};
use nexus_memory::Viewer;
use nexus_protocol::tool::ToolOutput;
use nexus_store::StoreError;
use nexus_store::agents::{CallStatus, Item, ItemKind, NewItem, TurnRecord};
use nexus_store::events::conversation_key;
use serde_json::{Value, json};

use super::Automations;
use super::turn::command;

/// Who an item's words come from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Sender {
    Owner,
    System,
    Agent,
    /// Somebody else, as far as they are known.
    Person {
        entity: Option<EntityId>,
        name: String,
    },
}

/// Reads who an item's words come from; only what the pipeline wrote at admission counts.
pub(super) fn sender_of(item: &NewItem) -> Sender {
    match item.kind {
        ItemKind::System => return Sender::System,
        ItemKind::Task | ItemKind::WorkerResult | ItemKind::AgentMessage => return Sender::Agent,
        ItemKind::Message => {}
    }
    match item.facts.get(nexus_protocol::framing::key::SENDER) {
        Some("owner") => Sender::Owner,
        Some(name) => {
            let own = item.session.as_str().strip_prefix("dm:").map(EntityId::new);
            Sender::Person { entity: own, name: name.to_owned() }
        }
        None => Sender::Person { entity: None, name: String::new() },
    }
}

impl Sender {
    pub(super) const fn word(&self) -> &'static str {
        match self {
            Self::Owner => "owner",
            Self::System => "system",
            Self::Agent => "agent",
            Self::Person { .. } => "known",
        }
    }

    /// Returns what of memory a request of theirs may see.
    pub(super) fn viewer(&self, item: &Item) -> Viewer {
        let level = Permissions::of(&item.new.permissions).data;
        match self {
            _ if level == DataLevel::None => Viewer::Nobody,
            Self::Owner | Self::System if level == DataLevel::Full => Viewer::Owner,
            Self::Owner | Self::System | Self::Agent => Viewer::Nobody,
            Self::Person { entity, .. } => Viewer::Shared {
                entities: entity.iter().cloned().collect(),
                conversations: [conversation_key("nexus", item.new.session.as_str())].into(),
            },
        }
    }

    fn facts(&self) -> PrincipalFacts {
        let (name, entity_id) = match self {
            Self::Owner | Self::System | Self::Agent => (None, None),
            Self::Person { entity, name } => (Some(name.clone()), entity.as_ref().map(ToString::to_string)),
        };
        PrincipalFacts { kind: self.word().to_owned(), name, entity_id, relationship: None }
    }
}

impl Automations {
    /// Fires what belongs to the end of a request. Repeatable: an error makes the caller tell it again.
    pub(crate) async fn ended(&self, ended: &Ended<'_>) -> Result<(), StoreError> {
        let item = ended.item;
        let occasion = |data: Value| self.end_occasion(item, data);
        if occasion(Value::Null).is_own_work() {
            return Ok(());
        }
        if !ended.lines.is_empty() && self.runner.waits_at(HookPoint::AfterDeliverResponse) {
            let said: Vec<&str> = ended.lines.iter().map(|line| line.text.as_str()).collect();
            let told = occasion(json!({"said": said.join("\n\n")}));
            self.runner.fire_blocking(HookPoint::AfterDeliverResponse, told.clone()).await;
            self.once(HookPoint::AfterDeliverResponse, item, told).await?;
        }
        // A turn that ended, or an event that an automation answered and no agent saw.
        if self.runner.waits_at(HookPoint::AfterRunAgent) {
            self.once(HookPoint::AfterRunAgent, item, occasion(turn_data(ended))).await?;
        }
        if let Some(turn) = ended.turn {
            self.interrupted_commands(item, turn).await?;
        }
        if item.new.kind == ItemKind::Task && self.runner.waits_at(HookPoint::SessionEnd) {
            self.once(HookPoint::SessionEnd, item, occasion(json!({"outcome": outcome(item)}))).await?;
        }
        if self.runner.waits_at(HookPoint::Finalize) {
            self.once(HookPoint::Finalize, item, occasion(json!({"outcome": outcome(item)}))).await?;
        }
        self.introduce().await;
        Ok(())
    }

    /// Returns an ended request as automations are told about it.
    pub(super) fn end_occasion(&self, item: &Item, data: Value) -> Occasion {
        let sender = sender_of(&item.new);
        Occasion {
            request_id: Some(item.new.request_id.clone()),
            event_id: Some(event_of(item)),
            session: Some(item.new.session.clone()),
            principal: Some(sender.facts()),
            event: Some(EventFacts {
                platform: "control-plane".to_owned(),
                kind: item.new.kind.as_str().to_owned(),
                direction: "inbound".to_owned(),
                content: String::new(),
            }),
            data,
        }
    }

    async fn once(&self, hook: HookPoint, item: &Item, occasion: Occasion) -> Result<(), StoreError> {
        self.runner.fire_once(hook, &format!("{}:{}", item.new.id, hook.as_str()), occasion).await
    }

    /// Commands that a crash cut off have no end of their own to be told at.
    async fn interrupted_commands(&self, item: &Item, turn: &TurnRecord) -> Result<(), StoreError> {
        if !self.runner.waits_at(HookPoint::CommandExecute) {
            return Ok(());
        }
        let calls = turn.messages.iter().flat_map(|message| &message.calls);
        for call in calls.filter(|call| call.tool == "bash" && call.status == CallStatus::Interrupted) {
            let arguments: Value = serde_json::from_str(&call.arguments_json).unwrap_or_default();
            let output = ToolOutput::error(call.result.clone().unwrap_or_default());
            let mut data = command(&arguments, &output, None);
            data["outcome"] = json!("unknown");
            let cause = format!("{}:{}", call.id, HookPoint::CommandExecute);
            let occasion = self.end_occasion(item, data);
            self.runner.fire_once(HookPoint::CommandExecute, &cause, occasion).await?;
        }
        Ok(())
    }
}

/// Returns the event a request answers; for what came from no event, the id of its item.
pub(super) fn event_of(item: &Item) -> EventId {
    item.new.source_event_id.clone().unwrap_or_else(|| EventId::new(item.new.id.as_str()))
}

fn outcome(item: &Item) -> Option<&'static str> {
    item.outcome.map(nexus_store::agents::ItemOutcome::as_str)
}

/// Returns what automations are told about a turn that ended.
pub(super) fn turn_data(ended: &Ended<'_>) -> Value {
    let item = ended.item;
    let said: Vec<&str> = ended.lines.iter().map(|line| line.text.as_str()).collect();
    let role = match item.new.session.as_str().starts_with("worker:") {
        true => Role::Worker,
        false => Role::Manager,
    };
    let sender = sender_of(&item.new);
    let (voice, entity, name) = match &sender {
        Sender::Owner => ("owner", String::new(), String::new()),
        Sender::System | Sender::Agent => ("", String::new(), String::new()),
        Sender::Person { entity: Some(entity), name } => ("person", entity.to_string(), name.clone()),
        Sender::Person { entity: None, name } => ("untrusted", String::new(), name.clone()),
    };
    json!({
        "role": role.as_str(),
        "kind": item.new.kind.as_str(),
        "turn_id": item.turn_id,
        "words": item.new.content,
        "said": said.join("\n\n"),
        "voice": voice,
        "entity": entity,
        "name": name,
        "at": item.enqueued_at.as_millis(),
        "outcome": outcome(item),
        "tainted": ended.turn.is_some_and(|turn| turn.taint.is_some()),
        "tool_calls": ended.turn.map_or(0, |turn| turn.messages.iter().map(|message| message.calls.len()).sum()),
    })
}
