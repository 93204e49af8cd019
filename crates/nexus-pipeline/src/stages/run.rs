//! Stage six: the turn itself, from its announcement to its end in the ledger (S5, S6).

use std::sync::Arc;
use std::time::{Duration, Instant};

use nexus_agent::history::PastMessage;
use nexus_agent::ports::Progress;
use nexus_agent::{End, TurnInput, TurnOutcome};
use nexus_base::clock::Timestamp;
use nexus_protocol::bus::BusBody;
use nexus_protocol::trace::Stage;
use nexus_store::agents::{ClaimedTurn, FinishTurn, Finished, Item, TurnStatus};
use nexus_tools::ports::TurnFacts;
use nexus_tools::{Role, RunFacts};
use tokio_util::sync::CancellationToken;

use super::context::Context;
use super::{EndedTurn, LeftOver};
use crate::sessions::convert::{past_turn, trimmed};
use crate::sessions::ledger::TurnLedger;
use crate::sessions::live::Cause;
use crate::sessions::outcome::{channel_of, conclude, turn_state};
use crate::sessions::progress::{announce, passed, show};
use crate::sessions::workers::TurnDispatch;
use crate::sessions::{Shared, caught, retry};

/// How long a cancelled turn may take to notice before its task is dropped.
const NOTICE: Duration = Duration::from_secs(5);

/// A turn that others can see, and end.
pub(super) struct BegunTurn<'a> {
    pub(super) claimed: &'a ClaimedTurn,
    /// The newest item it answers.
    pub(super) last: &'a Item,
    pub(super) role: Role,
    cancel: CancellationToken,
}

/// What came of running a turn.
enum Attempt {
    /// It ended by itself or when told to.
    Gave(Box<TurnOutcome>),
    /// It did not end when told to and was dropped.
    Dropped,
    /// It could not be run.
    Broke(String),
}

/// Announces a claimed turn; from here on it can be interrupted.
pub(super) fn begin<'a>(shared: &Shared, claimed: &'a ClaimedTurn) -> Option<BegunTurn<'a>> {
    let last = claimed.items.last()?;
    for root in &claimed.merged {
        shared.waiters.changed(root);
    }
    tracing::debug!(attempt = claimed.turn.attempt, "a turn begins");
    announce(shared, claimed, last);
    let cancel = CancellationToken::new();
    let items = claimed.items.iter().map(|item| item.new.id.clone()).collect();
    shared.live.begin(&claimed.session.label, claimed.turn.id.clone(), items, cancel.clone());
    Some(BegunTurn { claimed, last, role: claimed.session.role, cancel })
}

/// Takes the turn and writes its end; nothing when the daemon stops and the next start is to resume it.
pub(super) async fn run(
    shared: &Arc<Shared>,
    turn: &BegunTurn<'_>,
    context: Result<Context, String>,
) -> Option<EndedTurn> {
    tracing::trace!("stage six: run");
    let (claimed, label) = (turn.claimed, &turn.claimed.session.label);
    let attempt = match context {
        Ok(context) => caught(attempt(shared, turn, context)).await.unwrap_or_else(|panic| {
            tracing::error!(panic, "a turn broke");
            Attempt::Broke("an internal error occurred; the log has the details".to_owned())
        }),
        Err(reason) => Attempt::Broke(reason),
    };
    let cause = shared.live.finish(label);
    // Whatever ends otherwise than well is read anew.
    shared.pasts.forget(label);
    let mut outcome = match (attempt, &cause) {
        // Left pending on purpose: the next start resumes it from the ledger.
        (Attempt::Dropped, Some(Cause::Stopping)) => return None,
        (Attempt::Gave(outcome), Some(Cause::Stopping)) if outcome.end == End::Aborted => return None,
        (Attempt::Gave(outcome), _) => *outcome,
        (Attempt::Dropped, _) => TurnOutcome::without_model(End::Aborted, said_so_far(shared, claimed).await),
        (Attempt::Broke(reason), _) => {
            TurnOutcome::without_model(End::Failed { reason }, said_so_far(shared, claimed).await)
        }
    };
    let follows = outcome.follows.take();
    let finish = conclude(claimed, outcome, cause.as_ref());
    let (status, last) = (finish.status, finish.last_message.as_ref().map(|(text, _)| text.clone()));
    let ended = finish_turn(shared, claimed, finish).await?;
    if let (TurnStatus::Completed, Some((past, mut turn))) = (status, follows) {
        turn.messages.extend(last.map(|text| PastMessage::Assistant { text, calls: Vec::new() }));
        shared.pasts.keep(label, past, turn);
    }
    Some(ended)
}

/// Ends a turn that is not run any more, visibly and without asking a model.
pub(super) async fn end_without_model(
    shared: &Arc<Shared>,
    claimed: &ClaimedTurn,
    why: LeftOver,
) -> Option<EndedTurn> {
    let (end, cause) = match why {
        LeftOver::GivenUp => {
            let attempts = claimed.turn.attempt.saturating_sub(1);
            let reason = format!(
                "the daemon stopped {attempts} times while this was being answered; it will not be tried again"
            );
            (End::Failed { reason }, None)
        }
        LeftOver::Restored => {
            let reason =
                "this was being answered when the backup was made; the original workspace may have continued, so it \
                 is not run again here. Send it again if it should be"
                    .to_owned();
            (End::Failed { reason }, None)
        }
        LeftOver::Overtaken => (End::Aborted, Some(Cause::Interrupted)),
        LeftOver::Cancelled => {
            let reason = claimed.session.cancel_reason.clone().unwrap_or_default();
            (End::Aborted, Some(Cause::Cancelled { reason }))
        }
    };
    let outcome = TurnOutcome::without_model(end, past_turn(&claimed.turn).said());
    finish_turn(shared, claimed, conclude(claimed, outcome, cause.as_ref())).await
}

async fn attempt(shared: &Arc<Shared>, turn: &BegunTurn<'_>, context: Context) -> Attempt {
    let BegunTurn { claimed, last, role, cancel } = turn;
    let Context { agent, hooks, approve, spending, taint, past, told } = context;
    let (started, watch) = (Timestamp::now(), Instant::now());
    let ledger = TurnLedger {
        agents: shared.parts.agents.clone(),
        turn_id: claimed.turn.id.clone(),
        session: claimed.session.label.clone(),
    };
    let dispatch = TurnDispatch::new(shared, claimed, last, Arc::clone(&taint));
    let progress = |progress: Progress<'_>| show(shared, claimed, last, &progress);
    let facts = TurnFacts {
        role: *role,
        session: claimed.session.label.clone(),
        request_id: last.new.request_id.clone(),
        words: last.new.content.clone(),
    };
    let trims = past.trims.clone();
    let input = TurnInput {
        role: *role,
        past,
        current: trimmed(past_turn(&claimed.turn), &trims),
        told,
        ledger: &ledger,
        spending: &*spending,
        dispatch: &dispatch,
        facts: facts.clone(),
        channel: channel_of(claimed),
        run: RunFacts { root_request_id: last.new.root_request_id.clone(), taint },
        hooks: &*hooks,
        approve: &*approve,
        progress: &progress,
        cancel: cancel.clone(),
    };
    let timeout = match role {
        Role::Manager => shared.parts.limits.turn_timeout,
        Role::Worker => shared.parts.limits.worker_timeout,
    };
    let taken = agent.take_turn(input);
    tokio::pin!(taken);
    let outcome = tokio::select! {
        outcome = &mut taken => Some(outcome),
        () = cancel.cancelled() => tokio::time::timeout(NOTICE, &mut taken).await.ok(),
        () = tokio::time::sleep(timeout) => {
            shared.live.time_out(&claimed.session.label);
            tokio::time::timeout(NOTICE, &mut taken).await.ok()
        }
    };
    passed(shared, &claimed.items, Stage::RunAgent, started, watch.elapsed());
    if let Some(Ok(outcome)) = &outcome {
        hooks.turn_ended(&facts, &outcome.said).await;
    }
    match outcome {
        Some(Ok(outcome)) => Attempt::Gave(Box::new(outcome)),
        Some(Err(error)) => Attempt::Broke(error.to_string()),
        None => Attempt::Dropped,
    }
}

/// Returns what a turn without an outcome had said, as far as the ledger knows.
async fn said_so_far(shared: &Shared, claimed: &ClaimedTurn) -> String {
    match shared.parts.agents.turn(&claimed.turn.id).await {
        Ok(Some(turn)) => past_turn(&turn).said(),
        Ok(None) | Err(_) => past_turn(&claimed.turn).said(),
    }
}

/// Writes a turn's end (S6), however often that takes; nothing when the daemon stops first.
async fn finish_turn(shared: &Arc<Shared>, claimed: &ClaimedTurn, finish: FinishTurn) -> Option<EndedTurn> {
    let state = turn_state(&finish);
    let finish = Arc::new(finish);
    // A session does not go on before its turn has an end: what came after it would lose its place.
    let write = || shared.parts.agents.finish_turn(Arc::clone(&finish));
    let Finished { outbox, items, aftermath } = retry::until_ok(shared, "finish", write).await?;
    let last = items.last()?;
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
    tracing::debug!(?state, "turn ended");
    Some(EndedTurn { root, items, lines: outbox, aftermath })
}
