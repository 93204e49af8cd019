//! The turn's ledger over `agents.db`.

use async_trait::async_trait;
use nexus_agent::Compacted;
use nexus_agent::ports::{CallEnd, CallSpan, Ledger, Step};
use nexus_base::id::{SessionLabel, ToolCallId, TurnId};
use nexus_protocol::tool::ToolOutput;
use nexus_store::agents::{Agents, CallStatus, NewCall, NewCompaction, NewStep, Trim};
use nexus_tools::ports::LedgerError;

/// Writes one turn's steps.
#[derive(Debug)]
pub(crate) struct TurnLedger {
    pub(crate) agents: Agents,
    pub(crate) turn_id: TurnId,
    pub(crate) session: SessionLabel,
}

#[async_trait]
impl Ledger for TurnLedger {
    async fn record_step(&self, step: &Step) -> Result<(), LedgerError> {
        tracing::trace!("a step is written down");
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
        span: Option<CallSpan>,
    ) -> Result<(), LedgerError> {
        tracing::trace!("a result is written down");
        let status = match (end, output.is_error) {
            (CallEnd::Interrupted, _) => CallStatus::Interrupted,
            (CallEnd::Ran, true) => CallStatus::Failed,
            (CallEnd::Ran, false) => CallStatus::Completed,
        };
        self.agents
            .record_result(call, status, output.text.clone(), span.map(|span| (span.began, span.took)))
            .await
            .map_err(|error| ledger_error(&error))
    }

    async fn record_enrichment(&self, frame: &str, record: &str) -> Result<(), LedgerError> {
        let written = self.agents.record_enrichment(&self.turn_id, frame.to_owned(), record.to_owned()).await;
        written.map_err(|error| ledger_error(&error))
    }

    async fn record_compaction(&self, compacted: &Compacted) -> Result<(), LedgerError> {
        let new = new_compaction(compacted, &self.session, &self.turn_id);
        self.agents.record_compaction(new).await.map_err(|error| ledger_error(&error))
    }

    async fn record_prompt(&self, id: &str, parts: &str) -> Result<(), LedgerError> {
        self.agents.keep_prompt(id, parts.to_owned()).await.map_err(|error| ledger_error(&error))
    }

    async fn record_taint(&self, sources: &str) -> Result<(), LedgerError> {
        let written = self.agents.taint_turn(&self.turn_id, sources.to_owned()).await;
        written.map_err(|error| ledger_error(&error))
    }
}

/// Returns what is kept of a compaction.
pub(crate) fn new_compaction(compacted: &Compacted, session: &SessionLabel, turn: &TurnId) -> NewCompaction {
    let trims = compacted.trims.iter();
    NewCompaction {
        id: compacted.id.clone(),
        session: session.clone(),
        turn_id: turn.clone(),
        through: compacted.through.clone(),
        turns_summarized: u64::try_from(compacted.turns).unwrap_or(u64::MAX),
        summary: compacted.summary.clone(),
        trims: trims.map(|(call, text)| Trim { call: call.clone(), text: text.clone() }).collect(),
        cause: compacted.cause,
        author: compacted.author.clone(),
        tokens_before: compacted.tokens.0,
        tokens_after: compacted.tokens.1,
    }
}

pub(crate) fn ledger_error(error: &nexus_store::StoreError) -> LedgerError {
    LedgerError(error.to_string())
}
