//! One claimed turn from context to reply: stages five to eight.

use std::sync::Arc;
use std::time::{Duration, Instant};

use nexus_agent::ports::{LedgerError, Progress};
use nexus_agent::{End, Role, TurnInput, TurnOutcome};
use nexus_base::clock::Timestamp;
use nexus_protocol::bus::{BusBody, TurnState};
use nexus_protocol::trace::Stage;
use nexus_store::agents::{
    ClaimedTurn, FinishTurn, Finished, Item, NewReply, OutboxState, SessionRole, TaskStatus, TurnStatus,
    WorkerReport,
};
use tokio_util::sync::CancellationToken;

use crate::broker::Shared;
use crate::convert::past_turn;
use crate::dispatch::TurnDispatch;
use crate::engine::{AgentRequest, Passage};
use crate::ledger::{TurnLedger, ledger_error};
use crate::live::Cause;
use crate::runner;

/// Turns of history handed to a model.
const HISTORY_TURNS: u32 = 200;
/// How long a cancelled turn may take to notice before its task is dropped.
const NOTICE: Duration = Duration::from_secs(5);
/// Longest summary of a call shown while it runs.
const SUMMARY_LENGTH: usize = 120;

const SILENCE: &str = "The turn ended without a reply. Please say it again, perhaps in other words.";

/// Takes the turn and everything that follows from it.
pub(crate) async fn take_turn(shared: &Arc<Shared>, claimed: ClaimedTurn) {
    let Some(last) = claimed.items.last().cloned() else { return };
    announce(shared, &claimed, &last);
    let cancel = CancellationToken::new();
    let items = claimed.items.iter().map(|item| item.new.id.clone()).collect();
    shared.live.begin(&claimed.session.label, items, cancel.clone());
    let outcome = attempt(shared, &claimed, &last, cancel).await;
    let cause = shared.live.finish(&claimed.session.label);
    if cause == Some(Cause::Stopping) {
        // Left pending on purpose: the next start resumes it from the ledger.
        return;
    }
    let finish = match outcome {
        Ok(outcome) => conclude(&claimed, outcome, cause.as_ref()),
        Err(error) => {
            tracing::error!(turn = %claimed.turn.id, %error, "a turn lost its ledger");
            failure(&claimed, &error.to_string())
        }
    };
    end(shared, &claimed, finish).await;
}

/// Ends a turn that was cut off too often, visibly.
pub(crate) async fn give_up(shared: &Arc<Shared>, claimed: ClaimedTurn) {
    let attempts = claimed.turn.attempt.saturating_sub(1);
    let reason =
        format!("the daemon stopped {attempts} times while this was being answered; it is not tried again");
    let finish = failure(&claimed, &reason);
    end(shared, &claimed, finish).await;
}

async fn attempt(
    shared: &Arc<Shared>,
    claimed: &ClaimedTurn,
    last: &Item,
    cancel: CancellationToken,
) -> Result<TurnOutcome, LedgerError> {
    let (started, watch) = (Timestamp::now(), Instant::now());
    let past = match &claimed.turn.parent {
        Some(parent) => shared
            .parts
            .agents
            .history(parent, HISTORY_TURNS)
            .await
            .map_err(|error| ledger_error(&error))?
            .iter()
            .map(past_turn)
            .collect(),
        None => Vec::new(),
    };
    let role = role_of(claimed.session.role);
    let request = AgentRequest { role, session: &claimed.session, item: last };
    let agent = shared.parts.engine.agent(&request).map_err(LedgerError)?;
    passed(shared, &claimed.items, Stage::AssembleContext, started, watch.elapsed());

    let (started, watch) = (Timestamp::now(), Instant::now());
    let ledger = TurnLedger { agents: shared.parts.agents.clone(), turn_id: claimed.turn.id.clone() };
    let dispatch = TurnDispatch::new(shared, claimed, last);
    let progress = |progress: Progress<'_>| show(shared, claimed, last, &progress);
    let input = TurnInput {
        role,
        past,
        current: past_turn(&claimed.turn),
        assignment: None,
        ledger: &ledger,
        dispatch: &dispatch,
        progress: &progress,
        cancel: cancel.clone(),
    };
    let timeout = match role {
        Role::Manager => shared.parts.limits.turn_timeout,
        Role::Worker => shared.parts.limits.worker_timeout,
    };
    let turn = agent.take_turn(input);
    tokio::pin!(turn);
    let outcome = tokio::select! {
        outcome = &mut turn => outcome,
        () = cancel.cancelled() => notice(&mut turn).await,
        () = tokio::time::sleep(timeout) => {
            shared.live.end(&claimed.session.label, Cause::TimedOut);
            notice(&mut turn).await
        }
    };
    passed(shared, &claimed.items, Stage::RunAgent, started, watch.elapsed());
    outcome
}

/// Gives a cancelled turn a moment to put its partial output together.
async fn notice(
    turn: &mut (impl Future<Output = Result<TurnOutcome, LedgerError>> + Unpin),
) -> Result<TurnOutcome, LedgerError> {
    tokio::time::timeout(NOTICE, turn)
        .await
        .unwrap_or_else(|_| Err(LedgerError("a tool did not stop when told to and was dropped".to_owned())))
}

/// Writes the end (S6), delivers what it says (S7), wakes who waits, tells the other files (S8).
async fn end(shared: &Arc<Shared>, claimed: &ClaimedTurn, finish: FinishTurn) {
    let state = turn_state(&finish);
    let finished = match shared.parts.agents.finish_turn(finish).await {
        Ok(finished) => finished,
        Err(error) => {
            // The items stay taken by this boot; the next start resumes the turn from the ledger.
            tracing::error!(turn = %claimed.turn.id, %error, hint = ?error.hint(), "a turn's end could not be written");
            return;
        }
    };
    let Some(last) = finished.items.last() else { return };
    let root = last.new.root_request_id.clone();
    shared.parts.observer.publish(
        &root,
        BusBody::TurnEnded {
            request_id: last.new.request_id.clone(),
            session: claimed.session.label.clone(),
            turn_id: claimed.turn.id.clone(),
            state,
        },
    );
    deliver_and_project(shared, &finished).await;
    if let Some(parent) = &finished.wake {
        shared.parts.observer.publish(
            &root,
            BusBody::WorkerEnded {
                parent: parent.clone(),
                session: claimed.session.label.clone(),
                status: last.outcome.map_or("completed", nexus_store::agents::ItemOutcome::as_str).to_owned(),
            },
        );
        shared.wake_for_result(parent).await;
    }
    shared.changed(&root);
}

async fn deliver_and_project(shared: &Arc<Shared>, finished: &Finished) {
    let (started, watch) = (Timestamp::now(), Instant::now());
    for line in &finished.outbox {
        if let Err(error) = runner::deliver(shared, line).await {
            // Still pending or sending in the outbox: the next start delivers it.
            tracing::error!(line = %line.id, %error, "a reply could not be marked as delivered");
        }
    }
    passed(shared, &finished.items, Stage::DeliverResponse, started, watch.elapsed());
    // Nobody waits for the other files to hear of it: the mark in `agents.db` says who still must.
    let shared = Arc::clone(shared);
    let (items, lines) = (finished.items.clone(), finished.outbox.clone());
    Arc::clone(&shared).tasks.spawn(async move {
        for item in &items {
            let own: Vec<_> =
                lines.iter().filter(|line| line.request_id == item.new.request_id).cloned().collect();
            if let Err(error) = runner::project(&shared, item, &own).await {
                tracing::warn!(request = %item.new.request_id, %error, "an end could not be told; the next start will");
            }
        }
    });
}

fn conclude(claimed: &ClaimedTurn, outcome: TurnOutcome, cause: Option<&Cause>) -> FinishTurn {
    let said = outcome.said.trim().to_owned();
    let parts = outcome.prompt.as_ref().map(|prompt| {
        serde_json::json!({"parts": prompt.parts, "systemBytes": prompt.text.len(), "onboarding": prompt.onboarding})
    });
    let (status, stop_reason, error) = match (&outcome.end, cause) {
        (End::Final, _) => (TurnStatus::Completed, "end_turn", None),
        (End::Waiting, _) => (TurnStatus::Completed, "wait", None),
        (End::Aborted, Some(Cause::TimedOut)) => {
            (TurnStatus::Failed, "timeout", Some("it took too long and was stopped".to_owned()))
        }
        (End::Aborted, Some(Cause::Cancelled { reason })) => {
            (TurnStatus::Aborted, "cancelled", Some(format!("cancelled: {reason}")))
        }
        (End::Aborted, Some(Cause::Interrupted)) => {
            (TurnStatus::Aborted, "aborted", Some("interrupted by a newer message".to_owned()))
        }
        (End::Aborted, Some(Cause::Aborted | Cause::Stopping) | None) => {
            (TurnStatus::Aborted, "aborted", Some("stopped on request".to_owned()))
        }
        (End::Failed { reason }, _) => (TurnStatus::Failed, "error", Some(reason.clone())),
    };
    let (reply, report) = match claimed.session.role {
        SessionRole::Manager => (reply_of(status, &said, error.as_deref()), None),
        SessionRole::Worker => (None, Some(report_of(status, &said, &outcome, error.as_deref(), cause))),
    };
    FinishTurn {
        turn_id: claimed.turn.id.clone(),
        session: claimed.session.label.clone(),
        status,
        stop_reason: stop_reason.to_owned(),
        error,
        provider: outcome.model.provider,
        model: outcome.model.model,
        input_tokens: outcome.usage.input,
        output_tokens: outcome.usage.output,
        cache_read_tokens: outcome.usage.cache_read,
        cache_write_tokens: outcome.usage.cache_write,
        reasoning_tokens: outcome.usage.reasoning,
        context_json: parts.map(|parts| parts.to_string()),
        last_message: outcome.last_message.or_else(|| if_unsaid(&said, reply.as_ref())),
        reply,
        silence: SILENCE.to_owned(),
        report,
    }
}

/// What the model reads later in place of words it never said: what the person was told instead.
fn if_unsaid(said: &str, reply: Option<&NewReply>) -> Option<(String, Option<String>)> {
    reply.filter(|_| said.trim().is_empty()).map(|reply| (reply.text.clone(), None))
}

fn reply_of(status: TurnStatus, said: &str, error: Option<&str>) -> Option<NewReply> {
    match status {
        TurnStatus::Completed if said.is_empty() => None,
        TurnStatus::Completed => Some(NewReply { state: OutboxState::Final, text: said.to_owned() }),
        TurnStatus::Aborted => {
            let text = if said.is_empty() { "(stopped before anything was said)" } else { said };
            Some(NewReply { state: OutboxState::Aborted, text: text.to_owned() })
        }
        TurnStatus::Failed | TurnStatus::Pending => {
            let reason = error.unwrap_or("the turn failed");
            let text = if said.is_empty() {
                format!("I could not answer: {reason}.")
            } else {
                format!("{said}\n\nI could not go on: {reason}.")
            };
            Some(NewReply { state: OutboxState::Error, text })
        }
    }
}

fn report_of(
    status: TurnStatus,
    said: &str,
    outcome: &TurnOutcome,
    error: Option<&str>,
    cause: Option<&Cause>,
) -> WorkerReport {
    let last = outcome.last_message.as_ref().map_or("", |(text, _)| text.trim());
    let words = if last.is_empty() { said } else { last };
    let failed = |word: &str| {
        let reason = error.unwrap_or(word);
        if words.is_empty() {
            format!("The task {word}: {reason}.")
        } else {
            format!("The task {word}: {reason}. So far: {words}")
        }
    };
    match (status, cause) {
        (TurnStatus::Completed, _) => WorkerReport {
            status: TaskStatus::Completed,
            text: if words.is_empty() {
                "The worker ended without a report.".to_owned()
            } else {
                words.to_owned()
            },
        },
        (_, Some(Cause::Cancelled { .. })) => {
            WorkerReport { status: TaskStatus::Cancelled, text: failed("was cancelled") }
        }
        (TurnStatus::Aborted | TurnStatus::Failed | TurnStatus::Pending, _) => {
            WorkerReport { status: TaskStatus::Failed, text: failed("failed") }
        }
    }
}

/// An end for a turn that has no outcome.
fn failure(claimed: &ClaimedTurn, reason: &str) -> FinishTurn {
    let said = past_turn(&claimed.turn).said();
    let (reply, report) = match claimed.session.role {
        SessionRole::Manager => (reply_of(TurnStatus::Failed, said.trim(), Some(reason)), None),
        SessionRole::Worker => (
            None,
            Some(WorkerReport { status: TaskStatus::Failed, text: format!("The task failed: {reason}.") }),
        ),
    };
    FinishTurn {
        turn_id: claimed.turn.id.clone(),
        session: claimed.session.label.clone(),
        status: TurnStatus::Failed,
        stop_reason: "error".to_owned(),
        error: Some(reason.to_owned()),
        provider: "none".to_owned(),
        model: "none".to_owned(),
        input_tokens: 0,
        output_tokens: 0,
        cache_read_tokens: 0,
        cache_write_tokens: 0,
        reasoning_tokens: 0,
        context_json: None,
        last_message: if_unsaid(&said, reply.as_ref()),
        reply,
        silence: SILENCE.to_owned(),
        report,
    }
}

fn turn_state(finish: &FinishTurn) -> TurnState {
    match finish.status {
        TurnStatus::Completed if finish.stop_reason == "wait" => TurnState::Waiting,
        TurnStatus::Completed => TurnState::Final,
        TurnStatus::Aborted => TurnState::Aborted,
        TurnStatus::Failed | TurnStatus::Pending => TurnState::Error,
    }
}

fn announce(shared: &Shared, claimed: &ClaimedTurn, last: &Item) {
    for item in &claimed.items {
        shared.parts.observer.taken(item, &claimed.session);
    }
    shared.parts.observer.publish(
        &last.new.root_request_id,
        BusBody::TurnStarted {
            request_id: last.new.request_id.clone(),
            session: claimed.session.label.clone(),
            turn_id: claimed.turn.id.clone(),
            attempt: claimed.turn.attempt,
        },
    );
}

fn passed(shared: &Shared, items: &[Item], stage: Stage, started: Timestamp, took: Duration) {
    for item in items {
        let (request, root) = (&item.new.request_id, &item.new.root_request_id);
        shared.parts.observer.passed(&Passage { request, root, stage, started, took });
    }
}

fn show(shared: &Shared, claimed: &ClaimedTurn, last: &Item, progress: &Progress<'_>) {
    let session = claimed.session.label.clone();
    let turn_id = claimed.turn.id.clone();
    let body = match progress {
        // What a worker says while it works is its own business; its report is what counts.
        Progress::Text(_) if runner::is_worker(claimed.session.role) => return,
        Progress::Text(text) => BusBody::Delta {
            request_id: last.new.request_id.clone(),
            session,
            turn_id,
            attempt: claimed.turn.attempt,
            text: (*text).to_owned(),
        },
        Progress::CallStarted { call } => BusBody::ToolStarted {
            session,
            turn_id,
            tool_call_id: call.id.clone(),
            tool: call.tool.clone(),
            summary: summary(&call.arguments),
        },
        Progress::CallEnded { call, is_error, milliseconds } => BusBody::ToolEnded {
            session,
            turn_id,
            tool_call_id: call.id.clone(),
            tool: call.tool.clone(),
            is_error: *is_error,
            duration_ms: *milliseconds,
        },
    };
    shared.parts.observer.publish(&last.new.root_request_id, body);
}

/// Shows the argument a person would ask about first.
fn summary(arguments: &serde_json::Value) -> String {
    let told = ["command", "path", "pattern", "query", "op", "text"]
        .iter()
        .find_map(|name| arguments.get(name).and_then(serde_json::Value::as_str))
        .unwrap_or_default();
    let line = told.lines().next().unwrap_or_default();
    line.chars().take(SUMMARY_LENGTH).collect()
}

const fn role_of(role: SessionRole) -> Role {
    match role {
        SessionRole::Manager => Role::Manager,
        SessionRole::Worker => Role::Worker,
    }
}
