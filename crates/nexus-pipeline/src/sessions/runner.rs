//! One session's task: claim, run, finish, until nothing waits.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use nexus_base::id::SessionLabel;
use nexus_base::task;

use crate::sessions::broker::Shared;
use crate::sessions::shorten;
use crate::stages;

/// Pause after a round went wrong, before the next one.
const PAUSE: Duration = Duration::from_secs(1);

/// What one round of a session came to.
enum Round {
    Worked,
    NothingToDo,
    LedgerRefused,
}

/// Takes a session's work until there is none.
pub(crate) async fn run_session(shared: Arc<Shared>, label: SessionLabel) {
    while !shared.stopping.is_cancelled() {
        match caught(round(&shared, &label)).await {
            Ok(Round::Worked) => {}
            Ok(Round::NothingToDo) if shared.live.may_end(&label) => return,
            Ok(Round::NothingToDo) => {}
            Ok(Round::LedgerRefused) => drop(shared.pause(PAUSE).await),
            Err(panic) => {
                // The turn is still taken; the next round finds it and counts the attempt.
                tracing::error!(session = %label, panic, "session loop panicked");
                shared.pause(PAUSE).await;
            }
        }
    }
    shared.live.remove(&label);
    shared.wishes.drop_all(&label);
}

async fn round(shared: &Arc<Shared>, label: &SessionLabel) -> Round {
    tracing::trace!("a session looks for work");
    // A worker takes its slot before it claims, so that a claimed turn is always a running one.
    let is_worker = label.as_str().starts_with("worker:");
    let _slot = if is_worker {
        tokio::select! {
            slot = Arc::clone(&shared.worker_slots).acquire_owned() => slot.ok(),
            () = shared.stopping.cancelled() => return Round::Worked,
        }
    } else {
        None
    };
    shared.live.look(label);
    if shorten::serve(shared, label).await {
        return Round::Worked;
    }
    let worker = match is_worker {
        true => shared.parts.agents.session(label).await,
        false => Ok(None),
    };
    let worker = match worker {
        Ok(worker) => worker,
        Err(error) => {
            tracing::error!(session = %label, %error, hint = ?error.hint(), "the ledger could not be read");
            return Round::LedgerRefused;
        }
    };
    // It lists the skills that are there.
    let engine = Arc::clone(&shared.parts.engine);
    let Ok(frame) = task::blocking(move || engine.framer(worker.as_ref())).await else {
        return Round::LedgerRefused;
    };
    // Right before the claim: a report that comes in between would be taken alone.
    match shared.waits_for_siblings(label).await {
        Ok(true) => return Round::NothingToDo,
        Ok(false) => {}
        Err(error) => {
            tracing::error!(session = %label, %error, hint = ?error.hint(), "ledger not read");
            return Round::LedgerRefused;
        }
    }
    match shared.parts.agents.claim(label, &shared.parts.boot, frame).await {
        Ok(Some(claim)) => stages::process(shared, claim.into()).await,
        Ok(None) => return Round::NothingToDo,
        Err(error) => {
            tracing::error!(session = %label, %error, hint = ?error.hint(), "ledger refused a claim");
            return Round::LedgerRefused;
        }
    }
    Round::Worked
}

/// Runs a future and turns a panic inside it into its message.
pub(crate) async fn caught<T>(future: impl Future<Output = T>) -> Result<T, String> {
    let mut future = std::pin::pin!(future);
    std::future::poll_fn(move |context| {
        // After a panic the future is not polled again, and what it shared is behind locks that
        // recover from poisoning or in the ledger.
        match catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(context))) {
            Ok(Poll::Pending) => Poll::Pending,
            Ok(Poll::Ready(value)) => Poll::Ready(Ok(value)),
            Err(payload) => Poll::Ready(Err(message_of(payload.as_ref()))),
        }
    })
    .await
}

fn message_of(payload: &(dyn std::any::Any + Send)) -> String {
    let text = payload.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| payload.downcast_ref::<String>().cloned()).unwrap_or_else(|| "no message".to_owned())
}
