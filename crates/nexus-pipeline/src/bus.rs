//! The bus: in-memory publish and subscribe for observers. It never carries work.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use nexus_base::clock::Timestamp;
use nexus_base::id::RequestId;
use nexus_protocol::bus::{BusBody, BusEvent};
use tokio::sync::broadcast;

/// Events a slow reader may lag behind before it gets a gap marker instead.
const READER_DEPTH: usize = 1024;
/// Events kept for readers that come back with the number of the last one they saw.
const REPLAY_DEPTH: usize = 1024;

/// Hands every event to every reader.
#[derive(Debug, Clone)]
pub struct Bus {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    order: Mutex<Order>,
    sender: broadcast::Sender<Arc<BusEvent>>,
}

#[derive(Debug, Default)]
struct Order {
    next: u64,
    recent: VecDeque<Arc<BusEvent>>,
}

impl Default for Bus {
    fn default() -> Self {
        Self::new()
    }
}

impl Bus {
    /// Makes a bus without readers.
    pub fn new() -> Self {
        let (sender, _) = broadcast::channel(READER_DEPTH);
        Self { shared: Arc::new(Shared { order: Mutex::new(Order { next: 1, ..Order::default() }), sender }) }
    }

    /// Publishes one event; never waits.
    pub fn publish(&self, root_request_id: Option<RequestId>, body: BusBody) {
        let mut order = self.shared.order.lock().unwrap_or_else(PoisonError::into_inner);
        let event = Arc::new(BusEvent { seq: order.next, at: Timestamp::now(), root_request_id, body });
        order.next += 1;
        order.recent.push_back(Arc::clone(&event));
        if order.recent.len() > REPLAY_DEPTH {
            order.recent.pop_front();
        }
        // Sent under the lock, so that readers see the numbers in order. No reader is no error.
        let _ = self.shared.sender.send(event);
    }

    /// Tells whether anybody reads.
    pub(crate) fn is_watched(&self) -> bool {
        self.shared.sender.receiver_count() > 0
    }

    /// Starts reading, first what was published after `after` and is still kept.
    pub fn subscribe(&self, after: Option<u64>) -> BusReader {
        let order = self.shared.order.lock().unwrap_or_else(PoisonError::into_inner);
        let receiver = self.shared.sender.subscribe();
        let mut replay: VecDeque<Arc<BusEvent>> = VecDeque::new();
        // A number this life has not reached comes from an earlier one: everything since is new.
        let is_stale = after.is_some_and(|after| after >= order.next);
        let after = after.map(|after| if is_stale { 0 } else { after });
        if let Some(after) = after {
            let oldest = order.recent.front().map_or(order.next, |event| event.seq);
            let missed = oldest.saturating_sub(after.saturating_add(1));
            if missed > 0 || is_stale {
                replay.push_back(gap(missed, oldest.saturating_sub(1)));
            }
            replay.extend(order.recent.iter().filter(|event| event.seq > after).cloned());
        }
        BusReader { replay, receiver, last: after.unwrap_or(0) }
    }
}

/// One reader's place on the bus.
#[derive(Debug)]
pub struct BusReader {
    replay: VecDeque<Arc<BusEvent>>,
    receiver: broadcast::Receiver<Arc<BusEvent>>,
    last: u64,
}

impl BusReader {
    /// Waits for the next event; `None` once the daemon is gone.
    pub async fn next(&mut self) -> Option<Arc<BusEvent>> {
        if let Some(event) = self.replay.pop_front() {
            self.last = event.seq;
            return Some(event);
        }
        loop {
            match self.receiver.recv().await {
                // Already replayed.
                Ok(event) if event.seq <= self.last => {}
                Ok(event) => {
                    self.last = event.seq;
                    return Some(event);
                }
                Err(broadcast::error::RecvError::Lagged(missed)) => return Some(gap(missed, self.last)),
                Err(broadcast::error::RecvError::Closed) => return None,
            }
        }
    }
}

fn gap(missed: u64, seq: u64) -> Arc<BusEvent> {
    Arc::new(BusEvent { seq, at: Timestamp::now(), root_request_id: None, body: BusBody::Gap { missed } })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_reader_that_comes_back_gets_what_it_missed() {
        let bus = Bus::new();
        bus.publish(None, BusBody::Stopping);
        bus.publish(None, BusBody::ConfigReloaded);
        let mut reader = bus.subscribe(Some(1));
        assert_eq!(reader.next().await.unwrap().seq, 2);
        bus.publish(None, BusBody::Stopping);
        assert_eq!(reader.next().await.unwrap().seq, 3);
    }

    #[tokio::test]
    async fn a_reader_from_an_earlier_life_gets_a_gap_and_then_everything() {
        let bus = Bus::new();
        bus.publish(None, BusBody::Stopping);
        let mut reader = bus.subscribe(Some(u64::MAX));
        assert!(matches!(reader.next().await.unwrap().body, BusBody::Gap { missed: 0 }));
        assert_eq!(reader.next().await.unwrap().seq, 1);
        bus.publish(None, BusBody::ConfigReloaded);
        assert_eq!(reader.next().await.unwrap().seq, 2);
    }

    #[tokio::test]
    async fn a_slow_reader_learns_how_much_it_missed() {
        let bus = Bus::new();
        let mut reader = bus.subscribe(None);
        for _ in 0..READER_DEPTH + 10 {
            bus.publish(None, BusBody::Stopping);
        }
        assert!(matches!(reader.next().await.unwrap().body, BusBody::Gap { missed: 10 }));
    }
}
