//! The calls of one reply: run in order, written down, and after a crash looked at again.

mod together;

use std::time::Instant;

use nexus_base::clock::Timestamp;
use nexus_protocol::tool::{Replay, ToolOutput};
use tracing::Instrument as _;

use super::{Agent, TurnInput};
use crate::budget::Meter;
use crate::history::{OUTCOME_UNKNOWN, PastCall};
use crate::ports::{CallEnd, CallSpan, Gate, Progress};
use nexus_tools::Role;
use nexus_tools::TaintLevel as Level;
use nexus_tools::coordination::{self, WAIT};
use nexus_tools::ports::{Call, LedgerError};
use nexus_tools::toolbox;
use nexus_tools::{Done, Scope};

use self::together::together;

/// The most calls of one reply that run side by side.
const MAX_AT_ONCE: usize = 8;
/// Why a call did not begin.
const STOPPED: &str = "the turn was stopped before this call";

/// How a reply's calls ended.
pub(super) enum Calls {
    /// All have results; the model goes on.
    Done,
    /// The model asked to wait.
    Wait,
    /// A limit was hit.
    Over(String),
}

/// What a call gave.
struct Ran {
    output: ToolOutput,
    /// Where words in it come from that nobody vouches for.
    untrusted: Option<String>,
    /// A tool had a part in it.
    used_tool: bool,
    /// It ended because the turn did.
    was_cut_off: bool,
    /// The result is in the ledger already.
    recorded: bool,
    /// The model asked to wait.
    waits: bool,
    span: CallSpan,
}

impl Ran {
    fn own(output: ToolOutput) -> Self {
        Self {
            output,
            untrusted: None,
            used_tool: false,
            was_cut_off: false,
            recorded: false,
            waits: false,
            span: CallSpan::nothing(),
        }
    }
}

fn not_run(reason: &str) -> ToolOutput {
    ToolOutput::error(format!("not run: {reason}"))
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
                Replay::Safe | Replay::Transactional => {
                    // Whether it waits is seen in the ledger, as after any reply.
                    let _waits = self.run_group(std::slice::from_ref(&call), input).await?;
                }
                Replay::Unsafe => {
                    self.parts.toolbox.settle(&call, &input.run).await?;
                    let unknown = ToolOutput::error(OUTCOME_UNKNOWN);
                    self.answer(&call, unknown, CallEnd::Interrupted, None, input).await?;
                }
            }
        }
        Ok(())
    }

    /// Runs a reply's calls in order, those that only look and follow each other side by side. Once the turn
    /// is stopped or a limit is hit no further one begins.
    pub(super) async fn run_calls(
        &self,
        calls: &[Call],
        input: &mut TurnInput<'_>,
        meter: &mut Meter,
    ) -> Result<Calls, LedgerError> {
        let mut outcome = Calls::Done;
        let mut rest = calls;
        while !rest.is_empty() {
            let (mut group, after) = rest.split_at(self.side_by_side(rest));
            let mut stopped = None;
            for (number, call) in group.iter().enumerate() {
                if input.cancel.is_cancelled() {
                    stopped = Some(STOPPED.to_owned());
                } else if let Err(reason) = meter.begin_call(&call.tool, &call.arguments) {
                    outcome = Calls::Over(reason.clone());
                    stopped = Some(reason);
                }
                if stopped.is_some() {
                    group = &group[..number];
                    break;
                }
            }
            if self.run_group(group, input).await? {
                outcome = Calls::Wait;
            }
            if let Some(reason) = stopped {
                for call in &rest[group.len()..] {
                    let span = Some(CallSpan::nothing());
                    self.answer(call, not_run(&reason), CallEnd::Ran, span, input).await?;
                }
                return Ok(outcome);
            }
            rest = after;
        }
        Ok(outcome)
    }

    /// Returns how many of the next calls may run side by side: those that only look, up to the first that
    /// does not.
    fn side_by_side(&self, calls: &[Call]) -> usize {
        let looks = |call: &&Call| self.parts.toolbox.replay(&call.tool) == Replay::Safe;
        calls.iter().take_while(looks).count().max(1)
    }

    /// Runs calls side by side; what stands around them is asked, and results are written, in their order.
    /// Returns whether the model asked to wait.
    async fn run_group(&self, calls: &[Call], input: &mut TurnInput<'_>) -> Result<bool, LedgerError> {
        let mut gates = Vec::with_capacity(calls.len());
        for call in calls {
            gates.push(match toolbox::check_arguments(&call.arguments) {
                Ok(()) => input.hooks.before_call(&input.facts, call).await,
                Err(reason) => Gate::Refused { reason },
            });
        }
        // None of these calls was made by somebody who had read what another of them brings.
        let level = input.run.taint.level();
        let shared = &*input;
        let work = calls.iter().zip(gates).map(|(call, gate)| {
            let span = tracing::error_span!("call", tool = call.tool, call = %call.id);
            self.run_call(call, gate, level, shared).instrument(span)
        });
        let mut waits = false;
        for (call, ran) in calls.iter().zip(together(work, MAX_AT_ONCE).await) {
            waits |= self.conclude(call, ran?, input).await?;
        }
        Ok(waits)
    }

    /// Runs one call.
    async fn run_call(
        &self,
        call: &Call,
        gate: Gate,
        level: Level,
        input: &TurnInput<'_>,
    ) -> Result<Ran, LedgerError> {
        // It may have waited for its turn.
        if input.cancel.is_cancelled() {
            return Ok(Ran::own(not_run(STOPPED)));
        }
        tracing::debug!("calling a tool");
        (input.progress)(Progress::CallStarted { call });
        let (began, started) = (Timestamp::now(), Instant::now());
        let mut ran = if let Gate::Refused { reason } = gate {
            Ran::own(ToolOutput::error(reason))
        } else if let Some(reason) = self.parts.toolbox.refusal(&call.tool) {
            Ran::own(ToolOutput::error(reason))
        } else if call.tool == WAIT && input.role == Role::Manager {
            let output = wait_answer(input).await?;
            Ran { waits: !output.is_error, ..Ran::own(output) }
        } else if coordination::is_coordination(&call.tool) {
            match coordination::parse(&call.tool, &call.arguments) {
                Ok(what) => {
                    let done = input.dispatch.coordinate(&call.id, what).await?;
                    Ran { recorded: done.recorded, ..Ran::own(done.output) }
                }
                Err(message) => Ran::own(ToolOutput::error(message)),
            }
        } else {
            let scope = Scope {
                call: &call.id,
                turn: &input.facts,
                run: &input.run,
                level,
                approve: input.approve,
                look_only: match gate {
                    Gate::LookOnly { reason } => Some(reason),
                    Gate::Open | Gate::Refused { .. } => None,
                },
                cancel: &input.cancel,
            };
            let Done { output, untrusted } = self.parts.toolbox.call(call, &scope).await;
            let was_cut_off = input.cancel.is_cancelled() && output.is_error;
            Ran { used_tool: true, was_cut_off, untrusted, ..Ran::own(output) }
        };
        ran.span = CallSpan { began, took: started.elapsed() };
        Ok(ran)
    }

    /// Writes down what a call gave; returns whether the model asked to wait.
    async fn conclude(&self, call: &Call, ran: Ran, input: &mut TurnInput<'_>) -> Result<bool, LedgerError> {
        let Ran { mut output, untrusted, used_tool, was_cut_off, recorded, waits, span } = ran;
        if untrusted.is_some_and(|source| input.run.taint.add(&source))
            && let Some(sources) = input.run.taint.stored()
        {
            input.ledger.record_taint(&sources).await?;
        }
        if used_tool && let Some(more) = input.hooks.after_call(&input.facts, call, &output).await {
            output.text.push('\n');
            output.text.push_str(&more);
        }
        let is_error = output.is_error;
        if recorded {
            input.current.resolve(&call.id, output.text, is_error);
        } else {
            let end = if was_cut_off { CallEnd::Interrupted } else { CallEnd::Ran };
            self.answer(call, output, end, Some(span), input).await?;
        }
        let milliseconds = u64::try_from(span.took.as_millis()).unwrap_or(u64::MAX);
        (input.progress)(Progress::CallEnded { call, is_error, milliseconds });
        Ok(waits)
    }

    /// Writes a call's result down, in the ledger and in the turn.
    async fn answer(
        &self,
        call: &Call,
        output: ToolOutput,
        end: CallEnd,
        span: Option<CallSpan>,
        input: &mut TurnInput<'_>,
    ) -> Result<(), LedgerError> {
        input.ledger.record_result(&call.id, &output, end, span).await?;
        input.current.resolve(&call.id, output.text, output.is_error);
        Ok(())
    }
}

/// A manager may wait when it has spoken or has workers out; otherwise somebody would sit before silence. In a group
/// nobody does.
async fn wait_answer(input: &TurnInput<'_>) -> Result<ToolOutput, LedgerError> {
    let may_be_silent = input.channel.as_ref().is_some_and(|channel| channel.is_group);
    if may_be_silent || !input.current.said().is_empty() || input.dispatch.outstanding().await? > 0 {
        return Ok(ToolOutput::ok("waiting"));
    }
    Ok(ToolOutput::error(
        "nothing to wait for: no worker is running and you have said nothing in this turn; answer first",
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
