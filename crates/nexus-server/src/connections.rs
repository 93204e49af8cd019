//! Who may hold a connection: any number of strangers may come, a fixed few may stay, and none of
//! them can keep the owner out.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// Connections that have not shown the token and had the time to. When one more comes the oldest goes: a
/// real client shows its token within milliseconds, an idle stranger never does.
const MAX_STRANGERS: usize = 64;
/// How long a connection is given before its place may go to another. Many real clients may come at once,
/// and a request that lies in the socket is not the fault of whoever sent it.
const GRACE: Duration = Duration::from_secs(1);
/// Connections that have not shown the token, those within their grace included. Here the oldest goes
/// whatever its age: a flood must not take every file descriptor.
const MAX_NEWCOMERS: usize = 256;
/// Connections that have shown the token. Below the usual limit of 1024 open files, with room for
/// the databases and child processes.
const MAX_KNOWN: usize = 512;

/// The connections that are open.
#[derive(Debug, Default)]
pub(crate) struct Connections {
    open: Mutex<Open>,
}

#[derive(Debug, Default)]
struct Open {
    next: u64,
    /// Since when each is there, oldest first, and what ends it.
    strangers: BTreeMap<u64, (Instant, CancellationToken)>,
    known: usize,
}

/// One connection's place; given back when dropped.
#[derive(Debug)]
pub(crate) struct Place {
    number: u64,
    connections: Arc<Connections>,
    evicted: CancellationToken,
    is_known: AtomicBool,
    requests: AtomicU64,
    lingers: Arc<AtomicBool>,
}

/// Too many connections have shown the token.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Full;

impl Connections {
    /// Gives a new connection its place, at the cost of the oldest stranger if need be.
    pub(crate) fn enter(self: &Arc<Self>) -> Place {
        let evicted = CancellationToken::new();
        let mut open = self.lock();
        let now = Instant::now();
        while open.is_crowded(now) {
            open.evict_oldest();
        }
        let number = open.next;
        open.next += 1;
        open.strangers.insert(number, (now, evicted.clone()));
        Place {
            number,
            connections: Arc::clone(self),
            evicted,
            is_known: AtomicBool::new(false),
            requests: AtomicU64::new(0),
            lingers: Arc::default(),
        }
    }

    /// Ends the oldest stranger's connection, to get its file descriptor back.
    pub(crate) fn evict_oldest(&self) {
        self.lock().evict_oldest();
    }

    fn lock(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Open {
    /// Tells whether the oldest stranger has to make room for one more.
    fn is_crowded(&self, now: Instant) -> bool {
        let oldest = self.strangers.first_key_value();
        let had_its_time = oldest.is_some_and(|(_, (since, _))| now.duration_since(*since) >= GRACE);
        self.strangers.len() >= MAX_NEWCOMERS || (self.strangers.len() >= MAX_STRANGERS && had_its_time)
    }

    fn evict_oldest(&mut self) {
        if let Some((_, (_, evicted))) = self.strangers.pop_first() {
            evicted.cancel();
        }
    }
}

impl Place {
    /// Notes that the connection's client has shown the token: it will not be evicted.
    pub(crate) fn now_known(&self) -> Result<(), Full> {
        if self.is_known.load(Ordering::Acquire) {
            return Ok(());
        }
        let mut open = self.connections.lock();
        if open.known >= MAX_KNOWN {
            return Err(Full);
        }
        // Gone from the strangers means evicted in this very moment; the connection ends either way.
        if open.strangers.remove(&self.number).is_some() {
            open.known += 1;
            self.is_known.store(true, Ordering::Release);
        }
        Ok(())
    }

    /// Notes one more request.
    pub(crate) fn begin_request(&self) {
        self.requests.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns whether the connection has never carried a request.
    pub(crate) fn is_unused(&self) -> bool {
        self.requests.load(Ordering::Relaxed) == 0
    }

    /// Notes that the connection ends with an answer while its client may still be writing.
    pub(crate) fn linger(&self) {
        self.lingers.store(true, Ordering::Release);
    }

    /// Returns what tells whether the connection should linger.
    pub(crate) fn lingers(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.lingers)
    }

    /// Resolves when somebody newer got the place.
    pub(crate) async fn evicted(&self) {
        self.evicted.cancelled().await;
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut open = self.connections.lock();
        if *self.is_known.get_mut() {
            open.known -= 1;
        } else {
            open.strangers.remove(&self.number);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gone(strangers: &[Place]) -> Vec<usize> {
        (0..strangers.len()).filter(|index| strangers[*index].evicted.is_cancelled()).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn the_oldest_stranger_makes_room_and_the_known_stay() {
        let connections = Arc::new(Connections::default());
        let owner = connections.enter();
        owner.now_known().unwrap();
        let mut strangers: Vec<Place> = (0..MAX_NEWCOMERS).map(|_| connections.enter()).collect();
        assert!(gone(&strangers).is_empty(), "whoever has just come is given a moment");
        strangers.extend((0..3).map(|_| connections.enter()));
        assert_eq!(gone(&strangers), [0, 1, 2], "a flood is not");
        tokio::time::advance(GRACE).await;
        strangers.push(connections.enter());
        let after = gone(&strangers);
        assert_eq!(after.len(), 3 + MAX_NEWCOMERS - MAX_STRANGERS + 1, "those who had theirs make room");
        assert!(!after.contains(&(strangers.len() - 1)));
        assert!(!owner.evicted.is_cancelled());
        drop(strangers);
        drop(owner);
        let open = connections.lock();
        assert_eq!((open.strangers.len(), open.known), (0, 0));
    }

    #[tokio::test]
    async fn even_the_known_have_a_limit() {
        let connections = Arc::new(Connections::default());
        let known_place = |_| {
            let place = connections.enter();
            // With every request anew, and counted once.
            place.now_known().unwrap();
            place.now_known().unwrap();
            place
        };
        let mut known: Vec<Place> = (0..MAX_KNOWN).map(known_place).collect();
        let late = connections.enter();
        assert_eq!(late.now_known(), Err(Full));
        known.pop();
        assert_eq!(late.now_known(), Ok(()));
    }
}
