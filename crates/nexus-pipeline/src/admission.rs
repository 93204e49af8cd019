//! Requests between their acknowledgement and their queue: who is on the way, and in which order
//! those of one session arrive.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use nexus_base::id::{RequestId, SessionLabel};
use tokio::sync::{oneshot, watch};

/// Everything that is on the way.
#[derive(Debug, Default)]
pub(crate) struct AdmissionOrder {
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
pub(crate) struct Ticket {
    admission: Arc<AdmissionOrder>,
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

impl AdmissionOrder {
    /// Notes that a request is on the way.
    pub(crate) fn enter(self: &Arc<Self>, request: &RequestId) -> Ticket {
        self.lock().requests.insert(request.clone());
        Ticket { admission: Arc::clone(self), request: request.clone(), place: None }
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

impl Ticket {
    /// Takes the place behind everything already on the way to the session.
    pub(crate) fn enqueue(&mut self, session: &SessionLabel) {
        let (arrived, tail) = oneshot::channel();
        let before = self.admission.lock().tails.insert(session.clone(), (self.request.clone(), tail));
        let before = before.map(|(_, tail)| tail);
        self.place = Some(Place { session: session.clone(), before, _arrived: arrived });
    }

    /// Gives its place up without arriving; it is still on the way.
    pub(crate) fn yield_place(&mut self) {
        let Some(place) = self.place.take() else { return };
        let mut state = self.admission.lock();
        if state.tails.get(&place.session).is_some_and(|(last, _)| *last == self.request) {
            state.tails.remove(&place.session);
        }
    }

    /// Waits until whatever was before it on the way has arrived or given up.
    pub(crate) async fn wait(&mut self) {
        if let Some(before) = self.place.as_mut().and_then(|place| place.before.take()) {
            // Nothing is ever sent; the sender goes when its request does.
            let _ = before.await;
        }
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.yield_place();
        self.admission.lock().requests.remove(&self.request);
        self.admission.moved.send_replace(());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn those_of_one_session_arrive_in_order_and_leave_nothing_behind() {
        let admission = Arc::new(AdmissionOrder::default());
        let (garden, kitchen) = (SessionLabel::new("chat:garden"), SessionLabel::new("chat:kitchen"));
        let pass = |name: &str, session: &SessionLabel| {
            let mut ticket = admission.enter(&RequestId::new(name));
            ticket.enqueue(session);
            ticket
        };
        let mut first = pass("first", &garden);
        let mut second = pass("second", &garden);
        let mut other = pass("other", &kitchen);
        first.wait().await;
        other.wait().await;
        {
            let mut waiting = std::pin::pin!(second.wait());
            let soon = tokio::time::timeout(std::time::Duration::from_millis(20), waiting.as_mut());
            assert!(soon.await.is_err(), "the second overtook the first");
            drop(first);
            waiting.await;
        }
        admission.settled(&RequestId::new("first")).await;
        // One that steps aside lets the next one by and is still on the way.
        let mut third = pass("third", &garden);
        second.yield_place();
        third.wait().await;
        assert!(admission.lock().requests.contains(&RequestId::new("second")));
        drop(third);
        drop((second, other));
        assert!(admission.lock().requests.is_empty() && admission.lock().tails.is_empty());
    }
}
