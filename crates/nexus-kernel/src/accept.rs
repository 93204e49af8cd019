//! A listening socket and the threads behind it: one per live connection, a few waiting in `accept`.
//!
//! A thread that accepts serves that connection itself, so no hand-over lies between a client and
//! its answer, and a slow or idle client occupies nobody but its own thread.

use std::collections::HashMap;
use std::io;
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Threads that wait in `accept` when nothing happens.
const WAITING_THREADS: usize = 4;
/// Address space of a thread's stack; memory is used as it is touched.
const STACK_BYTES: usize = 512 * 1024;

/// What is done with a connection.
pub(crate) trait Serve: Send + Sync + 'static {
    /// Serves it until it ends.
    fn serve(&self, stream: &Arc<UnixStream>);
    /// Turns it away because there are too many.
    fn turn_away(&self, stream: &Arc<UnixStream>);
}

/// A running listener.
#[derive(Debug)]
pub(crate) struct Acceptor {
    shared: Arc<Shared>,
}

struct Shared {
    listener: UnixListener,
    service: Box<dyn Serve>,
    max_connections: usize,
    stopping: AtomicBool,
    waiting: AtomicUsize,
    live: Mutex<LiveSet>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct LiveSet {
    threads: usize,
    next: u64,
    connections: HashMap<u64, Arc<UnixStream>>,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Shared").field("listener", &self.listener).finish_non_exhaustive()
    }
}

impl Acceptor {
    /// Starts accepting.
    ///
    /// # Errors
    /// No thread could be started.
    pub(crate) fn start(
        listener: UnixListener,
        service: impl Serve,
        max_connections: usize,
    ) -> io::Result<Self> {
        let shared = Arc::new(Shared {
            listener,
            service: Box::new(service),
            max_connections,
            stopping: AtomicBool::new(false),
            waiting: AtomicUsize::new(0),
            live: Mutex::default(),
            changed: Condvar::new(),
        });
        for _ in 0..WAITING_THREADS {
            spawn(&shared)?;
        }
        Ok(Self { shared })
    }

    /// Returns how many connections are open now.
    pub(crate) fn connections(&self) -> usize {
        self.shared.lock().connections.len()
    }

    /// Stops accepting, lets requests under way finish, and waits for the threads up to `patience`. A
    /// client that does not take its replies is cut off half way through that.
    pub(crate) fn stop(&self, patience: Duration) {
        self.shared.stopping.store(true, Ordering::SeqCst);
        // Wakes the threads that wait in `accept`.
        let _ = rustix::net::shutdown(&self.shared.listener, rustix::net::Shutdown::Both);
        // First the reading half only: a reply under way still goes out.
        for half in [Shutdown::Read, Shutdown::Both] {
            let deadline = Instant::now() + patience / 2;
            let mut live = self.shared.lock();
            for connection in live.connections.values() {
                let _ = connection.shutdown(half);
            }
            while live.threads > 0 {
                let left = deadline.saturating_duration_since(Instant::now());
                if left.is_zero() {
                    break;
                }
                let changed = self.shared.changed.wait_timeout(live, left);
                (live, _) = changed.unwrap_or_else(PoisonError::into_inner);
            }
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, LiveSet> {
        self.live.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn spawn(shared: &Arc<Shared>) -> io::Result<()> {
    shared.lock().threads += 1;
    // Counted before it runs, so that two accepting threads do not both see nobody waiting.
    shared.waiting.fetch_add(1, Ordering::SeqCst);
    let own = Arc::clone(shared);
    let started =
        std::thread::Builder::new().name("kernel".into()).stack_size(STACK_BYTES).spawn(move || {
            work(&own);
            own.lock().threads -= 1;
            own.changed.notify_all();
        });
    if let Err(error) = started {
        shared.waiting.fetch_sub(1, Ordering::SeqCst);
        shared.lock().threads -= 1;
        return Err(error);
    }
    Ok(())
}

/// Accepts and serves until there are enough others doing so. Enters counted as waiting.
fn work(shared: &Arc<Shared>) {
    loop {
        let accepted = shared.listener.accept();
        let was_waiting = shared.waiting.fetch_sub(1, Ordering::SeqCst);
        if shared.stopping.load(Ordering::SeqCst) {
            return;
        }
        match accepted {
            Ok((stream, _)) => {
                // Nobody else waits in `accept`. If no thread can be had for that, serving this client
                // would mean serving nobody else, so it is turned away.
                if was_waiting == 1 && spawn(shared).is_err() {
                    shared.service.turn_away(&Arc::new(stream));
                } else {
                    serve_one(shared, stream);
                }
            }
            // Out of descriptors: those in use will come back; asking at once again would spin.
            Err(_) => std::thread::sleep(Duration::from_millis(5)),
        }
        if shared.stopping.load(Ordering::SeqCst) {
            return;
        }
        if shared.waiting.fetch_add(1, Ordering::SeqCst) >= WAITING_THREADS {
            shared.waiting.fetch_sub(1, Ordering::SeqCst);
            return;
        }
    }
}

fn serve_one(shared: &Arc<Shared>, stream: UnixStream) {
    let stream = Arc::new(stream);
    let number = {
        let mut live = shared.lock();
        if live.connections.len() >= shared.max_connections {
            None
        } else {
            live.next += 1;
            let number = live.next;
            live.connections.insert(number, Arc::clone(&stream));
            Some(number)
        }
    };
    let Some(number) = number else {
        shared.service.turn_away(&stream);
        return;
    };
    // `stop` may have walked the table just before this connection entered it.
    if !shared.stopping.load(Ordering::SeqCst) {
        // A defect in one request must not cost the thread its place in the pool.
        let _ = std::panic::catch_unwind(AssertUnwindSafe(|| shared.service.serve(&stream)));
    }
    // The last handle goes here, which closes the socket.
    shared.lock().connections.remove(&number);
}
