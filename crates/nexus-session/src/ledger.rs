//! The turn's ledger over `agents.db`.

use async_trait::async_trait;
use nexus_agent::ports::{CallEnd, Ledger, LedgerError, Step};
use nexus_base::id::{ToolCallId, TurnId};
use nexus_protocol::tool::ToolOutput;
use nexus_store::agents::{Agents, CallStatus, NewCall, NewStep};

/// Writes one turn's steps.
#[derive(Debug)]
pub(crate) struct TurnLedger {
    pub(crate) agents: Agents,
    pub(crate) turn_id: TurnId,
}

#[async_trait]
impl Ledger for TurnLedger {
    async fn record_step(&self, step: &Step) -> Result<(), LedgerError> {
        let new = NewStep {
            turn_id: self.turn_id.clone(),
            message_id: step.message_id.clone(),
            text: step.text.clone(),
            thinking: step.thinking.clone(),
            calls: step
                .calls
                .iter()
                .map(|call| NewCall {
                    id: call.id.clone(),
                    model_call_id: call.model_call_id.clone(),
                    tool: call.tool.clone(),
                    arguments_json: call.arguments.to_string(),
                })
                .collect(),
            acts: step.acts,
        };
        self.agents.record_step(new).await.map_err(|error| ledger_error(&error))
    }

    async fn record_result(
        &self,
        call: &ToolCallId,
        output: &ToolOutput,
        end: CallEnd,
    ) -> Result<(), LedgerError> {
        let status = match (end, output.is_error) {
            (CallEnd::Interrupted, _) => CallStatus::Interrupted,
            (CallEnd::Ran, true) => CallStatus::Failed,
            (CallEnd::Ran, false) => CallStatus::Completed,
        };
        self.agents
            .record_result(call, status, output.text.clone())
            .await
            .map_err(|error| ledger_error(&error))
    }
}

pub(crate) fn ledger_error(error: &nexus_store::StoreError) -> LedgerError {
    LedgerError(error.to_string())
}
