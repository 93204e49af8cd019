//! One claimed turn from context to reply: stages five to eight.

use std::sync::Arc;
use std::time::{Duration, Instant};

use nexus_agent::history::PastMessage;
use nexus_agent::ports::Progress;
use nexus_agent::{ContextRecord, End, TurnInput, TurnOutcome};
use nexus_base::clock::Timestamp;
use nexus_protocol::bus::BusBody;
use nexus_protocol::framing::key;
use nexus_protocol::trace::Stage;
use nexus_store::StoreError;
use nexus_store::agents::{ClaimedTurn, FinishTurn, Finished, Item, ItemKind, SessionRole, TurnStatus};
use nexus_tools::ports::TurnFacts;
use nexus_tools::{Role, RunFacts};
use tokio_util::sync::CancellationToken;

use crate::sessions::broker::Shared;
use crate::sessions::convert::{past_turn, trimmed};
use crate::sessions::dispatch::TurnDispatch;
use crate::sessions::engine::AgentRequest;
use crate::sessions::ledger::TurnLedger;
use crate::sessions::live::Cause;
use crate::sessions::outcome::{conclude, turn_state};
use crate::sessions::progress::{announce, passed, show};
use crate::sessions::runner::caught;
use crate::sessions::settlement;
use crate::sessions::taint;

/// How long a cancelled turn may take to notice before its task is dropped.
const NOTICE: Duration = Duration::from_secs(5);

/// Takes the turn and everything that follows from it.
pub(crate) async fn take_turn(shared: &Arc<Shared>, claimed: ClaimedTurn) {
    let Some(last) = claimed.items.last().cloned() else { return };
    for root in &claimed.merged {
        shared.waiters.changed(root);
    }
    announce(shared, &claimed, &last);
    let cancel = CancellationToken::new();
    let items = claimed.items.iter().map(|item| item.new.id.clone()).collect();
    shared.live.begin(&claimed.session.label, claimed.turn.id.clone(), items, cancel.clone());
    let attempt = caught(attempt(shared, &claimed, &last, cancel)).await.unwrap_or_else(|panic| {
        tracing::error!(turn = %claimed.turn.id, panic, "a turn broke");
        Attempt::Broke("something broke inside; the log says what".to_owned())
    });
    let cause = shared.live.finish(&claimed.session.label);
    // Whatever ends otherwise than well is read anew.
    shared.pasts.forget(&claimed.session.label);
    let mut outcome = match (attempt, &cause) {
        // Left pending on purpose: the next start resumes it from the ledger.
        (Attempt::Dropped, Some(Cause::Stopping)) => return,
        (Attempt::Gave(outcome), Some(Cause::Stopping)) if outcome.end == End::Aborted => return,
        (Attempt::Gave(outcome), _) => *outcome,
        (Attempt::Dropped, _) => {
            TurnOutcome::without_model(End::Aborted, said_so_far(shared, &claimed).await)
        }
        (Attempt::Broke(reason), _) => {
            TurnOutcome::without_model(End::Failed { reason }, said_so_far(shared, &claimed).await)
        }
    };
    let follows = outcome.follows.take();
    let finish = conclude(&claimed, outcome, cause.as_ref());
    let (status, last) = (finish.status, finish.last_message.as_ref().map(|(text, _)| text.clone()));
    end(shared, &claimed, finish).await;
    if let (TurnStatus::Completed, Some((past, mut turn))) = (status, follows) {
        turn.messages.extend(last.map(|text| PastMessage::Assistant { text, calls: Vec::new() }));
        shared.pasts.keep(&claimed.session.label, past, turn);
    }
}

/// Ends a turn that was cut off too often, visibly.
pub(crate) async fn give_up(shared: &Arc<Shared>, claimed: ClaimedTurn) {
    let attempts = claimed.turn.attempt.saturating_sub(1);
    let reason =
        format!("the daemon stopped {attempts} times while this was being answered; it is not tried again");
    end_without_model(shared, &claimed, End::Failed { reason }, None).await;
}

/// Ends a turn that a restored copy brought along, visibly.
pub(crate) async fn restored(shared: &Arc<Shared>, claimed: ClaimedTurn) {
    let reason = "this was being answered when the backup was made; the original may have gone on, so it is \
                  not run again here. Say it again if it should be"
        .to_owned();
    end_without_model(shared, &claimed, End::Failed { reason }, None).await;
}

/// Ends a left-over turn that somebody interrupted before the daemon ended.
pub(crate) async fn overtaken(shared: &Arc<Shared>, claimed: ClaimedTurn) {
    end_without_model(shared, &claimed, End::Aborted, Some(Cause::Interrupted)).await;
}

/// Ends a left-over turn of a worker that was cancelled before the daemon ended.
pub(crate) async fn cancelled(shared: &Arc<Shared>, claimed: ClaimedTurn) {
    let reason = claimed.session.cancel_reason.clone().unwrap_or_default();
    end_without_model(shared, &claimed, End::Aborted, Some(Cause::Cancelled { reason })).await;
}

async fn end_without_model(shared: &Arc<Shared>, claimed: &ClaimedTurn, how: End, cause: Option<Cause>) {
    let outcome = TurnOutcome::without_model(how, past_turn(&claimed.turn).said());
    end(shared, claimed, conclude(claimed, outcome, cause.as_ref())).await;
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

async fn attempt(
    shared: &Arc<Shared>,
    claimed: &ClaimedTurn,
    last: &Item,
    cancel: CancellationToken,
) -> Attempt {
    let (started, watch) = (Timestamp::now(), Instant::now());
    let past = match shared.pasts.of(&shared.parts.agents, claimed).await {
        Ok(past) => past,
        Err(error) => return Attempt::Broke(error.to_string()),
    };
    let told = match told(shared, claimed).await {
        Ok(told) => told,
        Err(error) => return Attempt::Broke(error.to_string()),
    };
    let role = role_of(claimed.session.role);
    let model = match wanted_model(shared, last, role).await {
        Ok(model) => model,
        Err(error) => return Attempt::Broke(error.to_string()),
    };
    let request = AgentRequest { role, session: &claimed.session, item: last, model };
    let agent = match shared.parts.engine.agent(&request) {
        Ok(agent) => agent,
        Err(reason) => return Attempt::Broke(reason),
    };
    let (hooks, approve) = (shared.parts.engine.hooks(&request), shared.parts.engine.approver(&request));
    let spending = shared.parts.engine.spending(&request);
    passed(shared, &claimed.items, Stage::AssembleContext, started, watch.elapsed());

    let taint = match taint::standing(&shared.parts.agents, claimed, role).await {
        Ok(taint) => taint,
        Err(error) => return Attempt::Broke(error.to_string()),
    };
    let (started, watch) = (Timestamp::now(), Instant::now());
    let ledger = TurnLedger {
        agents: shared.parts.agents.clone(),
        turn_id: claimed.turn.id.clone(),
        session: claimed.session.label.clone(),
    };
    let dispatch = TurnDispatch::new(shared, claimed, last, Arc::clone(&taint));
    let progress = |progress: Progress<'_>| show(shared, claimed, last, &progress);
    let facts = TurnFacts {
        role,
        session: claimed.session.label.clone(),
        request_id: last.new.request_id.clone(),
        words: last.new.content.clone(),
    };
    let trims = past.trims.clone();
    let input = TurnInput {
        role,
        past,
        current: trimmed(past_turn(&claimed.turn), &trims),
        told,
        ledger: &ledger,
        spending: &*spending,
        dispatch: &dispatch,
        facts: facts.clone(),
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
    let turn = agent.take_turn(input);
    tokio::pin!(turn);
    let outcome = tokio::select! {
        outcome = &mut turn => Some(outcome),
        () = cancel.cancelled() => tokio::time::timeout(NOTICE, &mut turn).await.ok(),
        () = tokio::time::sleep(timeout) => {
            shared.live.time_out(&claimed.session.label);
            tokio::time::timeout(NOTICE, &mut turn).await.ok()
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

/// Returns the model that the message named which a manager's turn goes back to.
async fn wanted_model(shared: &Shared, last: &Item, role: Role) -> Result<Option<String>, StoreError> {
    match (role, last.new.kind) {
        (Role::Worker, _) => Ok(None),
        (Role::Manager, ItemKind::Message) => Ok(named_in(last)),
        (Role::Manager, _) => {
            let root = shared.parts.agents.item_of_request(&last.new.root_request_id).await?;
            Ok(root.as_ref().and_then(named_in))
        }
    }
}

fn named_in(item: &Item) -> Option<String> {
    // Written by us; a row that does not parse names nothing.
    let facts: Vec<(String, String)> = serde_json::from_str(&item.new.frame_json).unwrap_or_default();
    facts.into_iter().find(|(name, _)| name == key::MODEL).map(|(_, model)| model)
}

/// Returns what an earlier attempt at the turn was told besides its words.
async fn told(shared: &Shared, claimed: &ClaimedTurn) -> Result<Option<ContextRecord>, StoreError> {
    if claimed.turn.attempt < 2 {
        return Ok(None);
    }
    let kept = shared.parts.agents.turn_context(&claimed.turn.id).await?;
    // Written by us; one that does not parse was still told.
    Ok(kept.map(|text| serde_json::from_str(&text).unwrap_or_default()))
}

/// Returns what a turn without an outcome had said, as far as the ledger knows.
async fn said_so_far(shared: &Shared, claimed: &ClaimedTurn) -> String {
    match shared.parts.agents.turn(&claimed.turn.id).await {
        Ok(Some(turn)) => past_turn(&turn).said(),
        Ok(None) | Err(_) => past_turn(&claimed.turn).said(),
    }
}

/// Writes the end (S6), delivers what it says (S7), wakes who waits, tells the other files (S8).
async fn end(shared: &Arc<Shared>, claimed: &ClaimedTurn, finish: FinishTurn) {
    let state = turn_state(&finish);
    let finish = Arc::new(finish);
    // A session does not go on before its turn has an end: what came after it would lose its place.
    let written =
        settlement::retry_until_ok(shared, "finish", || shared.parts.agents.finish_turn(Arc::clone(&finish)))
            .await;
    let Some(Finished { outbox, items, aftermath }) = written else { return };
    let Some(last) = items.last() else { return };
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
    let (started, watch) = (Timestamp::now(), Instant::now());
    for line in &outbox {
        settlement::retry_until_ok(shared, "deliver", || settlement::deliver(shared, line)).await;
    }
    passed(shared, &items, Stage::DeliverResponse, started, watch.elapsed());
    shared.apply_aftermath(aftermath, "whoever sent it had ended").await;
    shared.waiters.changed(&root);
    if let Ok(Some((root, true))) = shared.parts.agents.quiescence(&root).await {
        shared.parts.observer.publish(&root, BusBody::Quiescent { request_id: root.clone() });
    }
    settlement::project_later(shared, items, outbox);
}

const fn role_of(role: SessionRole) -> Role {
    match role {
        SessionRole::Manager => Role::Manager,
        SessionRole::Worker => Role::Worker,
    }
}
