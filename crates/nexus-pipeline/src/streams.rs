//! Replies on their way to the bus, piece by piece. A secret that a model says in two pieces is hidden as
//! one it says at once: what may be the beginning of one waits for the next piece.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use nexus_base::id::TurnId;
use nexus_base::redact::{Redactor, StreamRedactor};
use nexus_protocol::bus::BusBody;

/// The replies that are being said.
#[derive(Debug)]
pub struct Streams {
    redactor: Arc<Redactor>,
    open: Mutex<HashMap<TurnId, Open>>,
}

/// One turn's reply.
#[derive(Debug)]
struct Open {
    text: StreamRedactor,
    /// Its last piece, without the text, to say the rest with.
    last: BusBody,
}

impl Streams {
    pub fn new(redactor: Arc<Redactor>) -> Self {
        Self { redactor, open: Mutex::default() }
    }

    /// Returns what is published for an event: itself, a piece without what waits, or what waited before it.
    pub(crate) fn pass(&self, mut body: BusBody) -> impl Iterator<Item = BusBody> {
        let (before, body) = match body {
            BusBody::Delta { request_id, session, turn_id, attempt, text } => {
                let mut open = self.lock();
                let with = |text| BusBody::Delta {
                    request_id: request_id.clone(),
                    session: session.clone(),
                    turn_id: turn_id.clone(),
                    attempt,
                    text,
                };
                let stream = open
                    .entry(turn_id.clone())
                    .or_insert_with(|| Open { text: StreamRedactor::default(), last: with(String::new()) });
                let shown = stream.text.push(&self.redactor, &text);
                stream.last = with(String::new());
                (None, (!shown.is_empty()).then(|| with(shown)))
            }
            // What an earlier attempt had begun to say is said again.
            BusBody::TurnStarted { ref turn_id, .. } => {
                self.lock().remove(turn_id);
                (None, Some(body))
            }
            // Shortened for show, or cut off when somebody stopped it.
            BusBody::ToolStarted { ref turn_id, summary: ref mut text, .. }
            | BusBody::Reply { ref turn_id, ref mut text, .. } => {
                *text = self.redactor.redact_cut(text);
                (self.rest(turn_id), Some(body))
            }
            BusBody::TurnEnded { ref turn_id, .. } => (self.rest(turn_id), Some(body)),
            other => (None, Some(other)),
        };
        before.into_iter().chain(body)
    }

    /// Ends a stretch of text and returns its last piece.
    fn rest(&self, turn: &TurnId) -> Option<BusBody> {
        let mut ended = self.lock().remove(turn)?;
        let rest = ended.text.finish(&self.redactor);
        if let BusBody::Delta { text, .. } = &mut ended.last {
            *text = rest;
        }
        matches!(&ended.last, BusBody::Delta { text, .. } if !text.is_empty()).then_some(ended.last)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<TurnId, Open>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use nexus_base::id::{RequestId, SessionLabel, ToolCallId};

    use super::*;

    fn delta(text: &str) -> BusBody {
        BusBody::Delta {
            request_id: RequestId::new("r"),
            session: SessionLabel::new("dm:owner"),
            turn_id: TurnId::new("t"),
            attempt: 1,
            text: text.to_owned(),
        }
    }

    fn tool() -> BusBody {
        BusBody::ToolStarted {
            session: SessionLabel::new("dm:owner"),
            turn_id: TurnId::new("t"),
            tool_call_id: ToolCallId::new("c"),
            tool: "read".to_owned(),
            summary: String::new(),
        }
    }

    fn texts(bodies: impl Iterator<Item = BusBody>) -> Vec<String> {
        bodies
            .map(|body| if let BusBody::Delta { text, .. } = body { text } else { "*".to_owned() })
            .collect()
    }

    #[test]
    fn what_waits_comes_before_whatever_ends_the_stretch_and_nothing_is_left() {
        let redactor = Arc::new(Redactor::new());
        redactor.register("open sesame");
        let streams = Streams::new(redactor);
        assert_eq!(texts(streams.pass(delta("Say open se"))), ["Say "]);
        assert_eq!(texts(streams.pass(delta("same!"))), ["[redacted]!"]);
        assert_eq!(texts(streams.pass(delta(" So op"))), [" So "]);
        assert_eq!(texts(streams.pass(delta("e"))), Vec::<String>::new());
        assert_eq!(texts(streams.pass(tool())), ["ope", "*"]);
        assert_eq!(texts(streams.pass(tool())), ["*"]);
        assert!(streams.lock().is_empty());
    }
}
