//! The calls of one reply: run in order, written down, and after a crash looked at again.

use std::time::Instant;

use nexus_protocol::tool::{Replay, ToolOutput};

use super::{Agent, Role, TurnInput};
use crate::budget::Meter;
use crate::coordination::{self, WAIT};
use crate::history::{OUTCOME_UNKNOWN, PastCall};
use crate::ports::{Call, CallEnd, Gate, LedgerError, Progress};
use crate::scope::{Done, Scope};
use crate::toolbox;

/// How a reply's calls ended.
pub(super) enum Calls {
    /// All have results; the model goes on.
    Done,
    /// The model asked to wait.
    Wait,
    /// A limit was hit.
    Over(String),
}

impl Agent {
    /// Deals with calls that a crash cut off: looks again where looking is all they did, and tells
    /// the model that the outcome of the others is unknown.
    pub(super) async fn settle_open_calls(&self, input: &mut TurnInput<'_>) -> Result<(), LedgerError> {
        for open in input.current.open_calls() {
            let call = Call {
                id: open.id,
                model_call_id: open.model_call_id,
                tool: open.tool,
                arguments: open.arguments,
            };
            match self.parts.toolbox.replay(&call.tool) {
                Replay::Safe | Replay::Transactional => drop(self.run_call(&call, input).await?),
                Replay::Unsafe => {
                    self.answer(&call, ToolOutput::error(OUTCOME_UNKNOWN), CallEnd::Interrupted, input)
                        .await?;
                }
            }
        }
        Ok(())
    }

    /// Runs a reply's calls in order. Once the turn is stopped or a limit is hit no further one begins.
    pub(super) async fn run_calls(
        &self,
        calls: &[Call],
        input: &mut TurnInput<'_>,
        meter: &mut Meter,
    ) -> Result<Calls, LedgerError> {
        let mut outcome = Calls::Done;
        for (number, call) in calls.iter().enumerate() {
            let stopped = if input.cancel.is_cancelled() {
                Some("the turn was stopped before this call".to_owned())
            } else if let Err(reason) = meter.begin_call(&call.tool, &call.arguments) {
                outcome = Calls::Over(reason.clone());
                Some(reason)
            } else {
                None
            };
            if let Some(reason) = stopped {
                for call in &calls[number..] {
                    let output = ToolOutput::error(format!("not run: {reason}"));
                    self.answer(call, output, CallEnd::Ran, input).await?;
                }
                return Ok(outcome);
            }
            if self.run_call(call, input).await? {
                outcome = Calls::Wait;
            }
        }
        Ok(outcome)
    }

    /// Runs one call; returns whether the model asked to wait.
    async fn run_call(&self, call: &Call, input: &mut TurnInput<'_>) -> Result<bool, LedgerError> {
        (input.progress)(Progress::CallStarted { call });
        let started = Instant::now();
        let mut waits = false;
        let mut recorded = false;
        let mut end = CallEnd::Ran;
        let mut ran = false;
        let gate = match toolbox::check_arguments(&call.arguments) {
            Ok(()) => input.hooks.before_call(&input.facts, call).await,
            Err(reason) => Gate::Refused { reason },
        };
        let mut output = if let Gate::Refused { reason } = gate {
            ToolOutput::error(reason)
        } else if call.tool == WAIT && input.role == Role::Manager {
            let output = wait_answer(input).await?;
            waits = !output.is_error;
            output
        } else if coordination::is_coordination(&call.tool) {
            match coordination::parse(&call.tool, &call.arguments) {
                Ok(what) => {
                    let done = input.dispatch.coordinate(&call.id, what).await?;
                    recorded = done.recorded;
                    done.output
                }
                Err(message) => ToolOutput::error(message),
            }
        } else {
            ran = true;
            let scope = Scope {
                call: &call.id,
                turn: &input.facts,
                run: &input.run,
                approve: input.approve,
                look_only: match gate {
                    Gate::LookOnly { reason } => Some(reason),
                    Gate::Open | Gate::Refused { .. } => None,
                },
                cancel: &input.cancel,
            };
            let Done { output, untrusted } = self.parts.toolbox.call(call, &scope).await;
            if untrusted.is_some_and(|source| input.run.taint.add(&source))
                && let Some(sources) = input.run.taint.stored()
            {
                input.ledger.record_taint(&sources).await?;
            }
            if input.cancel.is_cancelled() && output.is_error {
                end = CallEnd::Interrupted;
            }
            output
        };
        let milliseconds = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
        if ran && let Some(more) = input.hooks.after_call(&input.facts, call, &output).await {
            output.text.push('\n');
            output.text.push_str(&more);
        }
        let is_error = output.is_error;
        if recorded {
            input.current.resolve(&call.id, output.text, is_error);
        } else {
            self.answer(call, output, end, input).await?;
        }
        (input.progress)(Progress::CallEnded { call, is_error, milliseconds });
        Ok(waits)
    }

    /// Writes a call's result down, in the ledger and in the turn.
    async fn answer(
        &self,
        call: &Call,
        output: ToolOutput,
        end: CallEnd,
        input: &mut TurnInput<'_>,
    ) -> Result<(), LedgerError> {
        input.ledger.record_result(&call.id, &output, end).await?;
        input.current.resolve(&call.id, output.text, output.is_error);
        Ok(())
    }
}

/// A manager may wait when it has spoken or has workers out; otherwise somebody would sit before silence.
async fn wait_answer(input: &TurnInput<'_>) -> Result<ToolOutput, LedgerError> {
    if !input.current.said().is_empty() || input.dispatch.outstanding().await? > 0 {
        return Ok(ToolOutput::ok("waiting"));
    }
    Ok(ToolOutput::error(
        "nothing to wait for: no worker is out and you have said nothing in this turn; answer first",
    ))
}

impl From<&Call> for PastCall {
    fn from(call: &Call) -> Self {
        Self {
            id: call.id.clone(),
            model_call_id: call.model_call_id.clone(),
            tool: call.tool.clone(),
            arguments: call.arguments.clone(),
            result: None,
        }
    }
}
