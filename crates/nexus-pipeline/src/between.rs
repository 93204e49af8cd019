//! Requests between their acknowledgement and their queue: who is on the way, and in which order
//! those of one session arrive.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use nexus_base::id::{RequestId, SessionLabel};
use tokio::sync::{oneshot, watch};

/// Everything that is on the way.
#[derive(Debug, Default)]
pub(crate) struct Between {
    state: Mutex<State>,
    moved: watch::Sender<()>,
}

#[derive(Debug, Default)]
struct State {
    requests: HashSet<RequestId>,
    /// The last request on the way to each session, and how one behind it learns that it arrived.
    tails: HashMap<SessionLabel, (RequestId, oneshot::Receiver<()>)>,
}

/// One request on the way; gone when this is dropped, however that comes about.
#[derive(Debug)]
pub(crate) struct Passing {
    between: Arc<Between>,
    request: RequestId,
    place: Option<Place>,
}

#[derive(Debug)]
struct Place {
    session: SessionLabel,
    before: Option<oneshot::Receiver<()>>,
    /// Tells the one behind by being dropped.
    _arrived: oneshot::Sender<()>,
}

impl Between {
    /// Notes that a request is on the way.
    pub(crate) fn enter(self: &Arc<Self>, request: &RequestId) -> Passing {
        self.lock().requests.insert(request.clone());
        Passing { between: Arc::clone(self), request: request.clone(), place: None }
    }

    /// Waits until a request is not on the way, or no longer.
    pub(crate) async fn settled(&self, request: &RequestId) {
        let mut moved = self.moved.subscribe();
        while self.lock().requests.contains(request) {
            if moved.changed().await.is_err() {
                return;
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Passing {
    /// Takes the place behind everything already on the way to the session.
    pub(crate) fn line_up(&mut self, session: &SessionLabel) {
        let (arrived, tail) = oneshot::channel();
        let before = self.between.lock().tails.insert(session.clone(), (self.request.clone(), tail));
        let before = before.map(|(_, tail)| tail);
        self.place = Some(Place { session: session.clone(), before, _arrived: arrived });
    }

    /// Gives its place up without arriving; it is still on the way.
    pub(crate) fn step_aside(&mut self) {
        let Some(place) = self.place.take() else { return };
        let mut state = self.between.lock();
        if state.tails.get(&place.session).is_some_and(|(last, _)| *last == self.request) {
            state.tails.remove(&place.session);
        }
    }

    /// Waits until whatever was before it on the way has arrived or given up.
    pub(crate) async fn my_turn(&mut self) {
        if let Some(before) = self.place.as_mut().and_then(|place| place.before.take()) {
            // Nothing is ever sent; the sender goes when its request does.
            let _ = before.await;
        }
    }
}

impl Drop for Passing {
    fn drop(&mut self) {
        self.step_aside();
        self.between.lock().requests.remove(&self.request);
        self.between.moved.send_replace(());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn those_of_one_session_arrive_in_order_and_leave_nothing_behind() {
        let between = Arc::new(Between::default());
        let (garden, kitchen) = (SessionLabel::new("chat:garden"), SessionLabel::new("chat:kitchen"));
        let pass = |name: &str, session: &SessionLabel| {
            let mut passing = between.enter(&RequestId::new(name));
            passing.line_up(session);
            passing
        };
        let mut first = pass("first", &garden);
        let mut second = pass("second", &garden);
        let mut other = pass("other", &kitchen);
        first.my_turn().await;
        other.my_turn().await;
        {
            let mut waiting = std::pin::pin!(second.my_turn());
            let soon = tokio::time::timeout(std::time::Duration::from_millis(20), waiting.as_mut());
            assert!(soon.await.is_err(), "the second overtook the first");
            drop(first);
            waiting.await;
        }
        between.settled(&RequestId::new("first")).await;
        // One that steps aside lets the next one by and is still on the way.
        let mut third = pass("third", &garden);
        second.step_aside();
        third.my_turn().await;
        assert!(between.lock().requests.contains(&RequestId::new("second")));
        drop(third);
        drop((second, other));
        assert!(between.lock().requests.is_empty() && between.lock().tails.is_empty());
    }
}
