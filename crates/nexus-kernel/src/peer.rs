//! Who is at the other end of a socket, and what those hear who are not served.

use std::os::unix::net::UnixStream;
use std::time::Duration;

use crate::code;
use crate::frame::{Envelope, command};
use crate::log::{Decision, DecisionLog, Line, Plane};
use crate::stream;

/// How long a stranger may take for the one frame it gets an answer to.
const STRANGER_PATIENCE: Duration = Duration::from_secs(5);
/// How long a client may leave our replies unread before it is given up.
const SEND_PATIENCE: Duration = Duration::from_secs(30);

/// Knows whose processes may speak to the planes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Gatekeeper {
    pub(crate) owner_uid: u32,
}

impl Gatekeeper {
    /// Returns whether the peer is the owner's process, and sets the connection's patience.
    pub(crate) fn admits(self, stream: &UnixStream) -> bool {
        // A client that never reads would otherwise hold its thread for ever.
        let _ = stream.set_write_timeout(Some(SEND_PATIENCE));
        let is_owner = peer_uid(stream).is_none_or(|uid| uid == self.owner_uid);
        if !is_owner {
            let _ = stream.set_read_timeout(Some(STRANGER_PATIENCE));
        }
        is_owner
    }
}

/// Returns the user id of the process that connected.
#[cfg(target_os = "linux")]
fn peer_uid(stream: &UnixStream) -> Option<u32> {
    // No answer means no proof: nobody has this number as user id.
    Some(rustix::net::sockopt::socket_peercred(stream).map_or(u32::MAX, |peer| peer.uid.as_raw()))
}

/// Elsewhere the modes of socket and folder alone keep others out.
#[cfg(not(target_os = "linux"))]
fn peer_uid(_stream: &UnixStream) -> Option<u32> {
    None
}

/// Answers a connection that is one too many. It has sent nothing yet that could be mirrored.
pub(crate) fn turn_away(stream: &UnixStream, log: &DecisionLog, plane: Plane) {
    let envelope = Envelope::request(command::CONTROL, b"system", b"", 0);
    let reject = Some(code::TOO_MANY_CONNECTIONS);
    log.write(&Line { reject, ..Line::new(plane, &envelope, Decision::Reject) });
    let mut out = Vec::new();
    envelope.reject_into(code::TOO_MANY_CONNECTIONS, &mut out);
    let _ = stream.set_write_timeout(Some(Duration::from_millis(100)));
    let _ = stream::send_all(stream, &out);
    stream::hang_up(stream);
}
