//! What a person asks of a session between its turns: that its conversation be summed up, or begin anew.
//!
//! The session's own task carries it out, so that no turn runs meanwhile; a running one ends first.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use nexus_agent::{AskedToCompact, Calibration, Shortened};
use nexus_base::conversation::CompactionCause;
use nexus_base::id::{CompactionId, SessionLabel, TurnId};
use nexus_protocol::bus::BusBody;
use nexus_store::StoreError;
use nexus_store::agents::{Compaction, Item, NewCompaction, Past, SessionRecord};
use nexus_tools::ports::TurnFacts;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use crate::sessions::broker::Shared;
use crate::sessions::convert::{past_of, past_turn};
use crate::sessions::engine::AgentRequest;
use crate::sessions::history_cache::is_forgetful;
use crate::sessions::ledger::new_compaction;

/// Wishes that may wait in one session.
const MAX_WAITING: usize = 8;

/// What is asked of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CompactionRequest {
    /// Its earlier turns are summed up.
    Compact,
    /// It begins anew: nothing of what was before is sent.
    Reset,
}

/// What came of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Shortening {
    /// This stands for the earlier turns from now on.
    Done(Box<Compaction>),
    /// There is nothing to leave out.
    Nothing {
        /// Why, for the person.
        why: String,
    },
    /// It was ended before it was done; nothing has changed.
    Stopped,
    /// It may not be done now; nothing has changed.
    Refused {
        /// Why, for the person.
        reason: String,
    },
    /// There is no such session.
    Unknown,
    /// The daemon stops.
    Stopping,
}

struct Waiting {
    request: CompactionRequest,
    answer: oneshot::Sender<Shortening>,
}

/// What is asked of sessions and not yet done. Only in memory: whoever asked waits for the answer.
#[derive(Default)]
pub(crate) struct Wishes {
    waiting: Mutex<HashMap<SessionLabel, Vec<Waiting>>>,
}

impl std::fmt::Debug for Wishes {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Wishes").field("sessions", &self.lock().len()).finish()
    }
}

impl Wishes {
    fn add(&self, label: &SessionLabel, request: CompactionRequest) -> Option<oneshot::Receiver<Shortening>> {
        let mut waiting = self.lock();
        let of_session = waiting.entry(label.clone()).or_default();
        if of_session.len() >= MAX_WAITING {
            return None;
        }
        let (answer, answered) = oneshot::channel();
        of_session.push(Waiting { request, answer });
        Some(answered)
    }

    fn take(&self, label: &SessionLabel) -> Vec<Waiting> {
        self.lock().remove(label).unwrap_or_default()
    }

    /// Lets everybody go who waits for this session.
    pub(crate) fn drop_all(&self, label: &SessionLabel) {
        drop(self.take(label));
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<SessionLabel, Vec<Waiting>>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Asks something of a session and waits until it is done, after the turn that runs.
pub(crate) async fn ask(
    shared: &Arc<Shared>,
    label: &SessionLabel,
    request: CompactionRequest,
) -> Result<Shortening, StoreError> {
    if shared.parts.agents.session(label).await?.is_none() {
        return Ok(Shortening::Unknown);
    }
    let Some(answered) = shared.wishes.add(label, request) else {
        return Ok(Shortening::Refused {
            reason: format!("{MAX_WAITING} such requests are already waiting"),
        });
    };
    shared.wake(label);
    if shared.stopping.is_cancelled() {
        // Its task may never have begun, and then nobody else lets go.
        shared.wishes.drop_all(label);
    }
    Ok(match answered.await {
        Ok(shortening) => shortening,
        Err(_) if shared.stopping.is_cancelled() => Shortening::Stopping,
        Err(_) => Shortening::Refused { reason: "it failed; the log says why".to_owned() },
    })
}

/// Carries out what is asked of a session; false when nothing is.
pub(crate) async fn serve(shared: &Arc<Shared>, label: &SessionLabel) -> bool {
    let wishes = shared.wishes.take(label);
    if wishes.is_empty() {
        return false;
    }
    for Waiting { request, answer } in wishes {
        // Whoever hung up before its turn came has changed their mind; a daemon that stops begins nothing, and
        // letting go of the answer says so.
        if answer.is_closed() || shared.stopping.is_cancelled() {
            continue;
        }
        let done = carry_out(shared, label, request).await.unwrap_or_else(|error| {
            tracing::error!(session = %label, %error, "compaction failed");
            Shortening::Refused { reason: error.to_string() }
        });
        // They may have hung up meanwhile; what is done is in the ledger.
        let _ = answer.send(done);
    }
    true
}

async fn carry_out(
    shared: &Arc<Shared>,
    label: &SessionLabel,
    request: CompactionRequest,
) -> Result<Shortening, StoreError> {
    let agents = &shared.parts.agents;
    let Some(session) = agents.session(label).await? else { return Ok(Shortening::Unknown) };
    let nothing = |why: &str| Ok(Shortening::Nothing { why: why.to_owned() });
    let Some(head) = session.head_turn_id.clone() else {
        return nothing("nothing has been said in that session yet");
    };
    if is_forgetful(label) {
        return nothing("each turn of this session already starts afresh");
    }
    let Some(turn) = agents.turn(&head).await? else {
        return nothing("nothing has been said in that session yet");
    };
    let Some(item) = agents.item_of_request(&turn.request_id).await? else {
        return nothing("nothing has been said in that session yet");
    };
    let past = agents.past(label, &head).await?;
    let shortening = match request {
        CompactionRequest::Compact => {
            let cancel = CancellationToken::new();
            // Whoever stops the session's turn stops this.
            shared.live.begin(label, TurnId::generate(), Vec::new(), cancel.clone());
            if shared.stopping.is_cancelled() {
                // It came too late to be told by those who stop everything.
                cancel.cancel();
            }
            let words = past_turn(&turn).messages.into_iter().find_map(|message| match message {
                nexus_agent::history::PastMessage::User { text, .. } => Some(text),
                nexus_agent::history::PastMessage::Assistant { .. } => None,
            });
            let last = Last { session: &session, item: &item, head: &head, words: words.unwrap_or_default() };
            let done = compact(shared, &last, &past, cancel).await;
            shared.live.finish(label);
            done?
        }
        CompactionRequest::Reset => reset(shared, &session, &head, &past).await?,
    };
    if let Shortening::Done(compaction) = &shortening {
        shared.pasts.forget(label);
        shared.parts.observer.publish(&item.new.root_request_id, told(&compaction.new));
    }
    Ok(shortening)
}

/// Where a session stands.
struct Last<'a> {
    session: &'a SessionRecord,
    /// The newest item its last turn answered.
    item: &'a Item,
    head: &'a TurnId,
    words: String,
}

async fn compact(
    shared: &Arc<Shared>,
    last: &Last<'_>,
    past: &Past,
    cancel: CancellationToken,
) -> Result<Shortening, StoreError> {
    let role = last.session.role;
    let engine = &shared.parts.engine;
    let settings = match &last.session.settings {
        Ok(settings) => settings,
        Err(damage) => {
            return Ok(Shortening::Refused { reason: format!("the ledger is damaged: {damage}") });
        }
    };
    let request = AgentRequest { role, session: last.session, settings, item: last.item, model: None };
    let agent = match engine.agent(&request) {
        Ok(agent) => agent,
        Err(reason) => return Ok(Shortening::Refused { reason }),
    };
    let (hooks, spending) = (engine.hooks(&request), engine.spending(&request));
    let asked = AskedToCompact {
        past: past_of(past),
        facts: TurnFacts {
            role,
            session: last.session.label.clone(),
            request_id: last.item.new.request_id.clone(),
            words: last.words.clone(),
        },
        spending: &*spending,
        hooks: &*hooks,
        cancel,
    };
    let limit = shared.parts.limits.turn_timeout;
    match tokio::time::timeout(limit, agent.compact(asked)).await {
        Ok(Ok(Shortened::To(compacted))) => {
            let new = new_compaction(&compacted, &last.session.label, last.head);
            let kept = shared.parts.agents.record_asked_compaction(new).await?;
            Ok(Shortening::Done(Box::new(kept)))
        }
        Ok(Ok(Shortened::Nothing)) => Ok(Shortening::Nothing {
            why: "nothing to compact: the latest turns are always sent whole, and all earlier ones are already \
                summarised"
                .to_owned(),
        }),
        Ok(Ok(Shortened::Stopped)) => Ok(Shortening::Stopped),
        Ok(Ok(Shortened::Refused { reason })) => Ok(Shortening::Refused { reason }),
        Ok(Err(error)) => Ok(Shortening::Refused { reason: error.to_string() }),
        Err(_) => Ok(Shortening::Refused {
            reason: format!("the model returned no summary within {} s; nothing was changed", limit.as_secs()),
        }),
    }
}

async fn reset(
    shared: &Arc<Shared>,
    session: &SessionRecord,
    head: &TurnId,
    past: &Past,
) -> Result<Shortening, StoreError> {
    let conversation = past_of(past);
    if conversation.turns.is_empty() && conversation.summary.is_none() {
        return Ok(Shortening::Nothing { why: "the conversation already starts afresh".to_owned() });
    }
    let bytes = conversation.turns.iter().map(|turn| turn.bytes()).sum::<usize>()
        + conversation.summary.as_ref().map_or(0, String::len);
    let new = NewCompaction {
        id: CompactionId::generate(),
        session: session.label.clone(),
        turn_id: head.clone(),
        through: Some(head.clone()),
        turns_summarized: u64::try_from(conversation.turns.len()).unwrap_or(u64::MAX),
        summary: None,
        trims: Vec::new(),
        cause: CompactionCause::Reset,
        author: "nobody".to_owned(),
        tokens_before: Calibration::default().tokens(bytes),
        tokens_after: 0,
    };
    let kept = shared.parts.agents.record_asked_compaction(new).await?;
    Ok(Shortening::Done(Box::new(kept)))
}

fn told(new: &NewCompaction) -> BusBody {
    match new.cause {
        CompactionCause::Reset => BusBody::Reset {
            session: new.session.clone(),
            compaction_id: new.id.clone(),
            turns: new.turns_summarized,
        },
        CompactionCause::ContextLimit
        | CompactionCause::Overflow
        | CompactionCause::Length
        | CompactionCause::Asked => BusBody::Compacted {
            session: new.session.clone(),
            turn_id: new.turn_id.clone(),
            compaction_id: new.id.clone(),
            turns: new.turns_summarized,
            tokens_before: new.tokens_before,
            tokens_after: new.tokens_after,
        },
    }
}
