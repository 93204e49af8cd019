//! The way of one message: eight stages, one file each, listed here one below the other.
//!
//! The list has two cuts, and each is a durable row: behind stage one the sender has an acknowledgement, behind
//! stage four the message waits in its session's queue until that session claims it. A daemon that dies goes on
//! behind the last cut it reached, so each part is a function of its own: [`accept`], [`admit`], [`process`].
//! What dies inside a part is done again from the part's beginning ([`crate::recovery`]), or, inside a turn, from
//! its ledger.

mod authorize;
mod automate;
mod context;
mod deliver;
pub(crate) mod finalize;
mod identify;
mod receive;
mod run;

use std::sync::Arc;
use std::time::{Duration, Instant};

use nexus_automation::HookPoint;
use nexus_base::clock::Timestamp;
use nexus_base::id::{RequestId, SessionLabel};
use nexus_identity::Permissions;
use nexus_protocol::chat::ChatSend;
use nexus_protocol::trace::Stage;
use nexus_store::StoreError;
use nexus_store::agents::{Aftermath, Claim, ClaimedTurn, Item, OutboxRecord};
use nexus_store::events::Event;
use nexus_store::runtime::StageTiming;
use serde_json::{Value, json};
use tracing::{Instrument as _, Span};

use self::authorize::Authorized;
pub(crate) use self::receive::{Received, begin_trace};
use crate::RuntimeError;
use crate::pipeline::Pipeline;
use crate::send_options::SendOptions;
use crate::sessions::{Shared, outbox, retry};

/// Stage one. Whoever sent the message is told once this returns; the rest goes on without them.
pub(crate) async fn accept(
    pipeline: &Pipeline,
    send: ChatSend,
    options: SendOptions,
) -> Result<Received, RuntimeError> {
    // 1. Durable behind it (S1, synced): the event, and the inbox row that promises an answer.
    receive::receive(pipeline, send, options).await
}

/// Stages two to four, between acknowledgement and queue. Repeatable: a question is put under the request's own id,
/// and what ends the message closes its promise. A question under that id counts whatever policies say now, so
/// that one about a restored message holds it, too; a message that just came in has none.
pub(crate) async fn admit(
    pipeline: &Pipeline,
    message: &Message,
    asking: Asking,
) -> Result<Decided, StoreError> {
    tracing::trace!("between acknowledgement and queue");
    let hooks = &pipeline.automations;
    let mut said = hooks.stage(HookPoint::AfterReceiveEvent, message, None, Value::Null).await;

    // 2. Nothing durable: who somebody is can be found out again.
    let principal = identify::identify(pipeline, message).await?;
    let who = Some(&principal);
    said.extend(hooks.stage(HookPoint::AfterResolveIdentity, message, who, Value::Null).await);

    // 3. Durable: the question to the owner, if there is one; or the promise closed as denied (S2).
    let access = match authorize::authorize(pipeline, message, &principal, asking).await? {
        Authorized::Yes(access) => access,
        Authorized::Open { question } => return Ok(Decided::Held { question }),
        Authorized::No => return Ok(Decided::Ended),
    };
    let verdict = json!({"decision": access.verdict.decision.as_str(), "policy": access.verdict.policy});
    said.extend(hooks.stage(HookPoint::AfterResolveAccess, message, who, verdict).await);

    // 4. Durable: the promise closed, if an automation dealt with the message (S2). Otherwise nothing yet: its place
    //    in the queue (S3) is taken by `Pipeline::enqueue`, in the order of arrival.
    automate::automate(pipeline, message, &principal, &access, said).await
}

/// Stages five to eight of what a session has claimed (S4).
pub(crate) async fn process(shared: &Arc<Shared>, work: Work) {
    let span = work.span();
    process_work(shared, work).instrument(span).await;
}

async fn process_work(shared: &Arc<Shared>, work: Work) {
    let ended = match work {
        Work::Turn(claimed) => {
            let Some(turn) = run::begin(shared, &claimed) else { return };

            // 5. Durable: what taints the turn before it has read anything.
            let context = context::assemble(shared, &turn).await;

            // 6. Durable: every model step and all its tool calls before the first one runs (S5); at the end the turn,
            //    its session, its queue items and the lines to be said, in one transaction (S6, synced).
            run::run(shared, &turn, context).await
        }
        Work::LeftOver(claimed, why) => run::end_without_model(shared, &claimed, why).await,
    };
    let Some(mut ended) = ended else { return };

    // 7. Durable: each line is marked as being said, then as said (S7).
    deliver::deliver(shared, &mut ended).await;

    // 8. Durable: outbound events, the kept promise, the trace and the triggers of automations, and then that all of
    //    this is told (S8). Nobody waits for it.
    finalize::finalize_later(shared, ended);
}

/// Stages seven and eight of an item that ended without a turn, beside everything else.
pub(crate) fn settle_later(shared: &Arc<Shared>, item: Item, line: Option<OutboxRecord>) {
    let shared = Arc::clone(shared);
    let span = request_span(&item.new.request_id, &item.new.session);
    Arc::clone(&shared).tasks.spawn_in(span, async move {
        if let Some(line) = &line {
            retry::until_ok(&shared, "deliver", || outbox::deliver(&shared, line)).await;
        }
        // Those who waited for it before its tree became part of another one, and those who do now.
        shared.waiters.changed(&item.new.request_id);
        shared.waiters.changed(&item.new.root_request_id);
        retry::until_ok(&shared, "project", || finalize::project(&shared, &item, line.as_slice())).await;
    });
}

/// A message between its acknowledgement and its queue.
#[derive(Debug, Clone)]
pub(crate) struct Message {
    pub(crate) event: Event,
    pub(crate) request: RequestId,
    pub(crate) options: SendOptions,
}

/// What was decided about a message.
#[derive(Debug)]
pub(crate) enum Decided {
    /// It runs.
    Run(Box<Run>),
    /// It waits for the owner's answer to this question.
    Held { question: String },
    /// It ended here and is closed.
    Ended,
}

/// How a message runs.
#[derive(Debug)]
pub(crate) struct Run {
    /// What it may do.
    pub(crate) permissions: Permissions,
    /// Where it goes.
    pub(crate) options: SendOptions,
    /// Who answers, if a policy names somebody.
    pub(crate) persona: Option<String>,
    /// How long after it came in it may begin.
    pub(crate) delay: Option<Duration>,
    /// What automations add to what the model is told about it.
    pub(crate) enrichment: Vec<(String, String)>,
}

/// Whether a question about a message may have been put before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Asking {
    /// It just came in.
    NotYet,
    /// It was held, or an earlier life of the daemon or a restore may have asked.
    Perhaps,
}

/// What a session has claimed.
pub(crate) enum Work {
    /// A turn to be taken, or taken up again.
    Turn(ClaimedTurn),
    /// A turn that is not run any more and still needs an end.
    LeftOver(ClaimedTurn, LeftOver),
}

/// Why a turn is not run any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LeftOver {
    /// It was cut off too often.
    GivenUp,
    /// Somebody interrupted it before the daemon ended.
    Overtaken,
    /// Its worker was cancelled before the daemon ended.
    Cancelled,
    /// A restored copy brought it along.
    Restored,
}

impl Message {
    /// Returns the span of everything that happens to it before its turn.
    pub(crate) fn span(&self) -> Span {
        request_span(&self.request, &self.options.session)
    }
}

/// Begins anew: what led to a request is no part of it.
fn request_span(request: &RequestId, session: &SessionLabel) -> Span {
    tracing::error_span!(parent: None, "request", %request, %session)
}

impl Work {
    /// Returns the span of the turn; the newest of its requests stands for all of them.
    fn span(&self) -> Span {
        let (Self::Turn(claimed) | Self::LeftOver(claimed, _)) = self;
        let turn = &claimed.turn;
        let request = claimed.items.last().map_or(&turn.request_id, |item| &item.new.request_id);
        tracing::error_span!("turn", %request, turn = %turn.id)
    }
}

impl From<Claim> for Work {
    fn from(claim: Claim) -> Self {
        match claim {
            Claim::Fresh(claimed) | Claim::Resumed(claimed) => Self::Turn(claimed),
            Claim::GivenUp(claimed) => Self::LeftOver(claimed, LeftOver::GivenUp),
            Claim::Overtaken(claimed) => Self::LeftOver(claimed, LeftOver::Overtaken),
            Claim::Cancelled(claimed) => Self::LeftOver(claimed, LeftOver::Cancelled),
        }
    }
}

/// A turn whose end is in the ledger.
pub(crate) struct EndedTurn {
    /// The tree it belongs to.
    root: RequestId,
    /// What it answered.
    items: Vec<Item>,
    /// What is to be said.
    lines: Vec<OutboxRecord>,
    aftermath: Aftermath,
}

/// A stage's start, for its timing.
pub(crate) struct StageClock {
    started: Timestamp,
    watch: Instant,
}

impl StageClock {
    pub(crate) fn start() -> Self {
        Self { started: Timestamp::now(), watch: Instant::now() }
    }

    pub(crate) fn stop(&self, stage: Stage) -> StageTiming {
        StageTiming {
            stage: stage.name().to_owned(),
            started_at: self.started,
            duration_us: u64::try_from(self.watch.elapsed().as_micros()).unwrap_or(u64::MAX),
        }
    }
}
