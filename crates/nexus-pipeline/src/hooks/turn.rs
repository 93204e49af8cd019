//! What stands around one turn: the hook points between its context and its end.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use crate::sessions::AgentRequest;
use async_trait::async_trait;
use nexus_agent::ports::{Enrichment, Gate, Hooks};
use nexus_automation::{HookPoint, Merged, Occasion, PrincipalFacts, view};
use nexus_base::id::{EventId, RequestId, ToolCallId, to_hex};
use nexus_memory::Viewer;
use nexus_protocol::tool::ToolOutput;
use nexus_tools::Role;
use nexus_tools::ports::{Call, TurnFacts};
use nexus_workspace::persona;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::Automations;
use super::ended::sender_of;

/// The tool that runs commands.
const SHELL: &str = "bash";

/// The hook points around one turn.
pub(crate) struct TurnHooks {
    automations: Arc<Automations>,
    event: Option<EventId>,
    root: RequestId,
    /// The session has taken no turn before.
    is_first: bool,
    /// When commands that run now began.
    begun: Mutex<HashMap<ToolCallId, Instant>>,
}

impl TurnHooks {
    pub(super) fn new(automations: Arc<Automations>, request: &AgentRequest<'_>) -> Self {
        Self {
            automations,
            event: request.item.new.source_event_id.clone(),
            root: request.item.new.root_request_id.clone(),
            is_first: request.session.head_turn_id.is_none(),
            begun: Mutex::default(),
        }
    }

    fn occasion(&self, turn: &TurnFacts, data: Value) -> Occasion {
        Occasion {
            request_id: Some(turn.request_id.clone()),
            event_id: self.event.clone(),
            session: Some(turn.session.clone()),
            principal: Some(PrincipalFacts { kind: "agent".to_owned(), ..PrincipalFacts::default() }),
            event: None,
            data,
        }
    }

    /// Returns what a worker's start is told: its task, whose memory it may see, and the words that led
    /// to it, which are no news to anybody.
    async fn worker_data(&self, turn: &TurnFacts) -> Value {
        let root = self.automations.store.agents().item_of_request(&self.root).await;
        let root = root.ok().flatten();
        let viewer = root.as_ref().map_or(Viewer::Nobody, |item| sender_of(&item.new).viewer(item));
        let since = root.as_ref().map(|item| item.enqueued_at.as_millis());
        let except: Vec<EventId> = root.into_iter().filter_map(|item| item.new.source_event_id).collect();
        let stage = persona::onboarding(&self.automations.settings.layout);
        let onboarding = stage.is_ok_and(|stage| stage.is_needed());
        json!({
            "task": turn.words,
            "memory": view(&viewer),
            "except": except,
            "since": since,
            "onboarding": onboarding,
        })
    }
}

#[async_trait]
impl Hooks for TurnHooks {
    async fn context_ready(&self, turn: &TurnFacts) -> Vec<Enrichment> {
        let automations = &self.automations;
        automations.quiet.disturb();
        let role = turn.role.as_str();
        let mut merged = Merged::default();
        if self.is_first {
            automations.detached(HookPoint::SessionStart, || self.occasion(turn, json!({"role": role})));
        }
        if turn.role == Role::Manager {
            automations.warm_memory();
        }
        if self.is_first && turn.role == Role::Manager {
            if self.event.is_some() {
                automations.commanded(HookPoint::CommandNew, &turn.session);
            }
            let more =
                automations.fire(HookPoint::AgentBootstrap, || self.occasion(turn, json!({"role": role})));
            merged.extend(more.await);
        }
        let more = automations.fire(HookPoint::AfterAssembleContext, || {
            self.occasion(turn, json!({"role": role, "words": turn.words}))
        });
        merged.extend(more.await);
        if turn.role == Role::Worker && automations.runner.waits_at(HookPoint::WorkerPreExecution) {
            let data = self.worker_data(turn).await;
            merged
                .extend(automations.fire(HookPoint::WorkerPreExecution, || self.occasion(turn, data)).await);
        }
        merged.enrich.into_iter().map(|(source, text)| Enrichment { source, text }).collect()
    }

    async fn before_call(&self, _turn: &TurnFacts, call: &Call) -> Gate {
        if call.tool == SHELL && self.automations.runner.waits_at(HookPoint::CommandExecute) {
            let mut begun = self.begun.lock().unwrap_or_else(PoisonError::into_inner);
            begun.insert(call.id.clone(), Instant::now());
        }
        Gate::Open
    }

    async fn after_call(&self, turn: &TurnFacts, call: &Call, output: &ToolOutput) -> Option<String> {
        let begun = {
            let mut begun = self.begun.lock().unwrap_or_else(PoisonError::into_inner);
            begun.remove(&call.id)
        };
        let begun = begun.filter(|_| call.tool == SHELL)?;
        let milliseconds = u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX);
        let data = command(&call.arguments, output, Some(milliseconds));
        self.automations.detached(HookPoint::CommandExecute, || self.occasion(turn, data));
        None
    }

    async fn compacted(&self, turn: &TurnFacts) -> Vec<Enrichment> {
        self.automations.commanded(HookPoint::CommandCompact, &turn.session);
        Vec::new()
    }

    async fn turn_ended(&self, turn: &TurnFacts, said: &str) {
        self.automations.quiet.disturb();
        if !self.automations.runner.waits_at(HookPoint::AfterRunAgent) {
            return;
        }
        let data = json!({"role": turn.role.as_str(), "words": turn.words, "said": said});
        let occasion = self.occasion(turn, data);
        self.automations.runner.fire_blocking(HookPoint::AfterRunAgent, occasion).await;
    }
}

/// Returns what is told about a command that was run.
pub(super) fn command(arguments: &Value, output: &ToolOutput, milliseconds: Option<u64>) -> Value {
    let code = exit_code(output);
    let outcome = match code {
        Some(0) => "completed",
        Some(_) => "failed",
        None => "ended",
    };
    json!({
        "tool": SHELL,
        "command": arguments.get("command").and_then(Value::as_str).unwrap_or_default(),
        "exit_code": code,
        "outcome": outcome,
        "duration_ms": milliseconds,
        "output_sha256": to_hex(&Sha256::digest(output.text.as_bytes())),
        "output_bytes": output.text.len(),
    })
}

/// Reads how a command ended from its last marked line; none when it was ended from outside or never ran.
fn exit_code(output: &ToolOutput) -> Option<i32> {
    if !output.is_error {
        return Some(0);
    }
    let lines = output.text.lines().rev().take(4);
    let mut codes =
        lines.filter_map(|line| line.strip_prefix("[exit code ")?.strip_suffix(']')?.parse().ok());
    codes.next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn how_a_command_ended_is_read_from_its_last_line() {
        assert_eq!(exit_code(&ToolOutput::ok("[exit code 3]")), Some(0));
        assert_eq!(exit_code(&ToolOutput::error("x\n[exit code 3]\n[sandbox] way out")), Some(3));
        assert_eq!(exit_code(&ToolOutput::error("[ended by signal 9 after 1.5 s]")), None);
        let told = command(&json!({"command": "ls"}), &ToolOutput::error("a\n[exit code 2]"), Some(7));
        assert_eq!(told["outcome"], "failed");
        assert_eq!(told["command"], "ls");
        assert_eq!(told["duration_ms"], 7);
    }
}
