//! From what a turn gave to how it ends: status, reply and report.

use nexus_agent::{Channel, End, Quoted, TurnOutcome};
use nexus_base::conversation::Role;
use nexus_protocol::bus::TurnState;
use nexus_protocol::framing::key;
use nexus_store::agents::{
    ClaimedTurn, FinishTurn, NewReply, OutboxState, TaskStatus, TurnStatus, WorkerReport,
};

use crate::sessions::live::Cause;

/// Decides what a turn's outcome means for its session, its person and its parent.
pub(crate) fn conclude(claimed: &ClaimedTurn, outcome: TurnOutcome, cause: Option<&Cause>) -> FinishTurn {
    let channel = channel_of(claimed);
    let (said, quoted) = match &channel {
        Some(_) => Channel::strip_tags(outcome.said.trim()),
        None => (outcome.said.trim().to_owned(), None),
    };
    // Texts and numbers only, which always become JSON.
    let context = outcome.context.as_ref().and_then(|record| serde_json::to_string(record).ok());
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
        Role::Manager => {
            let reply = reply_of(status, &said, error.as_deref());
            (reply.map(|reply| NewReply { reply_to: quoted_id(claimed, quoted), ..reply }), None)
        }
        // A worker that is told something more goes on with its task.
        Role::Worker if cause == Some(&Cause::Interrupted) && status == TurnStatus::Aborted => (None, None),
        Role::Worker => (None, Some(report_of(status, &said, &outcome, error.as_deref(), cause))),
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
        context_json: context,
        last_message: outcome.last_message.or_else(|| if_unsaid(&said, reply.as_ref())),
        reply,
        report,
        may_be_silent: channel.is_some_and(|channel| channel.is_group),
    }
}

/// Returns where a manager's turn is said, if not on the control plane.
pub(crate) fn channel_of(claimed: &ClaimedTurn) -> Option<Channel> {
    if claimed.session.role == Role::Worker {
        return None;
    }
    let platform = claimed.items.last().and_then(|item| item.new.facts.get(key::PLATFORM));
    Channel::of(&claimed.session.label, platform)
}

/// Returns what a reply quotes: a message of the platform, or the event that led to it.
fn quoted_id(claimed: &ClaimedTurn, quoted: Option<Quoted>) -> Option<String> {
    match quoted? {
        Quoted::Message(id) => Some(id),
        Quoted::Current => claimed.items.last()?.new.source_event_id.as_ref().map(ToString::to_string),
    }
}

/// What the model reads later in place of words it never said: what the person was told instead.
fn if_unsaid(said: &str, reply: Option<&NewReply>) -> Option<(String, Option<String>)> {
    reply.filter(|_| said.trim().is_empty()).map(|reply| (reply.text.clone(), None))
}

fn reply_of(status: TurnStatus, said: &str, error: Option<&str>) -> Option<NewReply> {
    match status {
        TurnStatus::Completed if said.is_empty() => None,
        TurnStatus::Completed => {
            Some(NewReply { state: OutboxState::Final, text: said.to_owned(), reply_to: None })
        }
        TurnStatus::Aborted => {
            let text = if said.is_empty() { "(stopped before any text was written)" } else { said };
            Some(NewReply { state: OutboxState::Aborted, text: text.to_owned(), reply_to: None })
        }
        TurnStatus::Failed | TurnStatus::Pending => {
            let reason = error.unwrap_or("the turn failed");
            let text = if said.is_empty() {
                format!("I could not answer: {reason}.")
            } else {
                format!("{said}\n\nI could not continue: {reason}.")
            };
            Some(NewReply { state: OutboxState::Error, text, reply_to: None })
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

/// Says how a turn's end looks from outside.
pub(crate) fn turn_state(finish: &FinishTurn) -> TurnState {
    match finish.status {
        TurnStatus::Completed if finish.stop_reason == "wait" => TurnState::Waiting,
        TurnStatus::Completed => TurnState::Final,
        TurnStatus::Aborted => TurnState::Aborted,
        TurnStatus::Failed | TurnStatus::Pending => TurnState::Error,
    }
}
