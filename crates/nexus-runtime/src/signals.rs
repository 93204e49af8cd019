//! What the outside world can tell the daemon: stop, and read the configuration again.

use tokio::signal::unix::{Signal, SignalKind, signal};

/// One thing the outside asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ask {
    /// End gracefully.
    Stop,
    /// Read the configuration again.
    Reload,
}

/// Listens for signals from the moment it is made.
#[derive(Debug)]
pub(crate) struct Signals {
    terminate: Signal,
    interrupt: Signal,
    hangup: Signal,
}

impl Signals {
    pub(crate) fn listen() -> std::io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hangup: signal(SignalKind::hangup())?,
        })
    }

    pub(crate) async fn next(&mut self) -> Ask {
        tokio::select! {
            _ = self.terminate.recv() => Ask::Stop,
            _ = self.interrupt.recv() => Ask::Stop,
            _ = self.hangup.recv() => Ask::Reload,
        }
    }
}
