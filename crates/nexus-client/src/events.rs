//! A stream of bus events as the daemon publishes them.

use std::time::Duration;

use http_body_util::BodyExt;
use nexus_protocol::bus::BusEvent;
use nexus_protocol::sse::{Decoder, Frame};
use tokio::time::timeout;

use crate::ClientError;
use crate::connection::{Opened, disconnected};

const WHAT: &str = "GET /api/events/stream";
/// Silence after which the daemon counts as gone; it sends a heartbeat every 15 s.
const SILENCE: Duration = Duration::from_secs(45);

/// The events of a daemon, one by one.
#[derive(Debug)]
pub struct EventStream {
    opened: Opened,
    decoder: Decoder,
    last_seen: Option<u64>,
}

impl EventStream {
    pub(crate) fn new(opened: Opened, after: Option<u64>) -> Self {
        Self { opened, decoder: Decoder::new(), last_seen: after }
    }

    /// Waits for the next event; `None` once the daemon has ended the stream.
    ///
    /// Dropping the future loses nothing: it can wait in a `select!`.
    ///
    /// # Errors
    /// The daemon fell silent or died, or what it sends is not understood. The stream is over
    /// then; a new one after [`EventStream::last_seen`] continues it.
    pub async fn next(&mut self) -> Result<Option<BusEvent>, ClientError> {
        loop {
            while let Some(frame) = self.decoder.next_frame() {
                if let Some(event) = understand(&frame)? {
                    self.last_seen = Some(event.seq);
                    return Ok(Some(event));
                }
            }
            let piece = timeout(SILENCE, self.opened.response.body_mut().frame())
                .await
                .map_err(|_| ClientError::Timeout { what: WHAT, after: SILENCE })?;
            match piece {
                None => return Ok(None),
                Some(Err(error)) => return Err(disconnected(WHAT, error)),
                Some(Ok(piece)) => {
                    if let Some(data) = piece.data_ref() {
                        self.decoder.push(data).map_err(|error| ClientError::BadAnswer {
                            what: WHAT,
                            reason: error.to_string(),
                        })?;
                    }
                }
            }
        }
    }

    /// Returns the number of the last event handed out, to continue after it.
    pub fn last_seen(&self) -> Option<u64> {
        self.last_seen
    }
}

/// Reads a frame; `None` for events that a newer daemon knows and this client does not.
fn understand(frame: &Frame) -> Result<Option<BusEvent>, ClientError> {
    let unreadable =
        |error: serde_json::Error| ClientError::BadAnswer { what: WHAT, reason: error.to_string() };
    match serde_json::from_str(&frame.data) {
        Ok(event) => Ok(Some(event)),
        Err(error) if error.is_data() => {
            let value: serde_json::Value = serde_json::from_str(&frame.data).map_err(unreadable)?;
            // Our events all have these two; without them this is another protocol.
            if value.get("seq").is_some() && value.get("type").is_some() {
                Ok(None)
            } else {
                Err(unreadable(error))
            }
        }
        Err(error) => Err(unreadable(error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(data: &str) -> Frame {
        Frame { data: data.to_owned(), ..Frame::default() }
    }

    #[test]
    fn an_event_of_a_newer_daemon_is_passed_over() {
        let known = frame(r#"{"seq":3,"at":5,"type":"system.config_reloaded"}"#);
        assert_eq!(understand(&known).unwrap().unwrap().seq, 3);
        let newer = frame(r#"{"seq":4,"at":6,"type":"moon.phase","properties":{"full":true}}"#);
        assert_eq!(understand(&newer).unwrap(), None);
        for foreign in [r#"{"hello":1}"#, "[1]", "{", ""] {
            assert!(matches!(understand(&frame(foreign)), Err(ClientError::BadAnswer { .. })), "{foreign}");
        }
    }
}
