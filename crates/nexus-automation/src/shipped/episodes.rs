//! Stretches of conversation: what was said in one session without a long silence becomes an episode.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use nexus_base::clock::Timestamp;
use nexus_base::failpoint;
use nexus_base::id::{EventId, SessionLabel};
use nexus_store::Store;
use nexus_store::memory::NewEpisode;

use crate::quiet::Quiet;

/// The silence that ends a stretch.
const GAP: Duration = Duration::from_secs(90 * 60);
/// Turns after which a stretch ends without one.
const MAX_TURNS: usize = 200;

/// A stretch that ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Episode {
    /// Its id in memory.
    pub id: String,
    /// The session it happened in.
    pub session: SessionLabel,
    /// Its events, in order.
    pub events: Vec<EventId>,
    /// Whether a fact was kept from it.
    pub retained: bool,
}

/// Is told about stretches that ended.
pub type Tell = Box<dyn Fn(Episode) + Send + Sync>;

#[derive(Debug)]
struct Stretch {
    events: Vec<EventId>,
    first: Timestamp,
    last: Timestamp,
    retained: bool,
}

/// Cuts conversations into episodes.
pub(super) struct Episodes {
    store: Store,
    quiet: Arc<Quiet>,
    tell: Tell,
    open: Mutex<HashMap<SessionLabel, Stretch>>,
}

impl Episodes {
    pub(super) fn new(store: Store, quiet: Arc<Quiet>, tell: Tell) -> Self {
        Self { store, quiet, tell, open: Mutex::default() }
    }

    /// Notes a turn; the first one of a stretch also sees to its end.
    pub(super) fn note(self: &Arc<Self>, session: &SessionLabel, event: &EventId, at: Timestamp, kept: bool) {
        let (is_first, is_full, ended) = {
            let mut open = self.lock();
            // A silence that nobody was there to notice, because the daemon did not run.
            let is_over = open.get(session).is_some_and(|stretch| at.since(stretch.last) >= GAP);
            let ended = if is_over { open.remove(session) } else { None };
            let is_first = !open.contains_key(session);
            let begun = || Stretch { events: Vec::new(), first: at, last: at, retained: false };
            let stretch = open.entry(session.clone()).or_insert_with(begun);
            if !stretch.events.contains(event) {
                stretch.events.push(event.clone());
            }
            stretch.retained |= kept;
            stretch.last = stretch.last.max(at);
            (is_first, stretch.events.len() >= MAX_TURNS, ended)
        };
        if let Some(ended) = ended {
            let (episodes, session) = (Arc::clone(self), session.clone());
            self.quiet.spawn(async move { episodes.keep(&session, ended).await });
        }
        let (episodes, session) = (Arc::clone(self), session.clone());
        if is_full {
            self.quiet.spawn(async move { episodes.close(&session).await });
        } else if is_first {
            self.quiet.spawn(async move { episodes.watch(&session).await });
        }
    }

    /// Closes a session's stretch after the silence, or when the daemon stops.
    async fn watch(&self, session: &SessionLabel) {
        loop {
            let Some(last) = self.lock().get(session).map(|stretch| stretch.last) else { return };
            let silence = Timestamp::now().since(last);
            if silence >= GAP || !self.quiet.rest(GAP.saturating_sub(silence)).await {
                return self.close(session).await;
            }
        }
    }

    async fn close(&self, session: &SessionLabel) {
        let Some(stretch) = self.lock().remove(session) else { return };
        self.keep(session, stretch).await;
    }

    async fn keep(&self, session: &SessionLabel, stretch: Stretch) {
        let episode = NewEpisode {
            strategy: "time_gap".to_owned(),
            platform: None,
            thread_id: Some(session.to_string()),
            start: stretch.first,
            end: stretch.last,
            events: stretch.events.clone(),
        };
        match self.store.memory().put_episode(episode).await {
            Ok(id) => {
                failpoint::hit("automation.episode");
                let Stretch { events, retained, .. } = stretch;
                (self.tell)(Episode { id, session: session.clone(), events, retained });
            }
            Err(error) => tracing::warn!(%error, %session, "episode not stored"),
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<SessionLabel, Stretch>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
