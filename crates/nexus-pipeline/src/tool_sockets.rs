//! Sockets of tool calls: opened by the shell that starts a command, served by whoever holds the other end of the channel.

use std::io;
use std::os::unix::net::UnixStream;
use std::sync::Arc;

use nexus_base::id::{RequestId, SessionLabel};
use nexus_identity::Permissions;
use nexus_memory::{Provenance, Viewer};
use nexus_tools::OpenToolSocket;
use tokio::sync::mpsc;

use crate::memory_service;
use crate::sessions::AgentRequest;

/// Most sockets that wait to be served.
const MAX_WAITING: usize = 256;

/// The worker whose command speaks, as it was when the command started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Worker {
    pub session: SessionLabel,
    /// The request that all of its run belongs to.
    pub root: RequestId,
    /// What was decided when its message was let in.
    pub permissions: Permissions,
    /// How much of memory and of what happened it may see.
    pub viewer: Viewer,
    /// Whose words are what it keeps.
    pub provenance: Provenance,
}

/// The daemon's end of one tool call's socket.
#[derive(Debug)]
pub struct ToolCallSocket {
    pub stream: UnixStream,
    pub worker: Worker,
}

/// Opens sockets for tool calls.
#[derive(Debug, Clone)]
pub struct ToolSockets(mpsc::Sender<ToolCallSocket>);

impl ToolSockets {
    /// Returns the end that opens sockets and the one where they are taken up to be served.
    pub fn channel() -> (Self, mpsc::Receiver<ToolCallSocket>) {
        let (sender, receiver) = mpsc::channel(MAX_WAITING);
        (Self(sender), receiver)
    }

    /// Returns what opens the sockets of one agent's commands.
    pub(crate) fn opener(&self, request: &AgentRequest<'_>) -> OpenToolSocket {
        let worker = Worker {
            session: request.session.label.clone(),
            root: request.item.new.root_request_id.clone(),
            permissions: Permissions::of(&request.item.new.permissions),
            viewer: memory_service::viewer(request),
            provenance: Provenance::Untrusted,
        };
        let sender = self.0.clone();
        Arc::new(move |provenance| {
            let (stream, theirs) = UnixStream::pair()?;
            let worker = Worker { provenance, ..worker.clone() };
            sender.try_send(ToolCallSocket { stream, worker }).map_err(|_| {
                io::Error::new(io::ErrorKind::WouldBlock, "too many tool calls wait for the daemon")
            })?;
            Ok(theirs)
        })
    }
}
