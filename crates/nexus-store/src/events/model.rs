//! The nouns of `events.db`: events, and the promise to deal with one.

use nexus_base::clock::Timestamp;
use nexus_base::id::{EventId, RequestId};
use rusqlite::Row;
use serde_json::Value;

use crate::words::{json, moment, words};

words! {
    /// Which way an event went.
    Direction {
        /// To us.
        Inbound = "inbound",
        /// From us.
        Outbound = "outbound",
        /// Between others, seen by us.
        Observed = "observed",
    }
}

words! {
    /// How the promise behind an acknowledgement stands.
    InboxOutcome {
        /// Open: somebody still has to deal with it.
        Accepted = "accepted",
        /// Dealt with.
        Done = "done",
        /// Its sender may not.
        Denied = "denied",
        /// An automation answered.
        Handled = "handled",
        /// Nothing to do.
        Skipped = "skipped",
        /// Ended with a visible failure.
        Failed = "failed",
    }
}

/// An event as its source gives it.
#[derive(Debug, Clone, PartialEq)]
pub struct NewEvent {
    /// What handed it in, such as `control-plane`; without a colon.
    pub source: String,
    /// The source's own id of it, or an idempotency key.
    pub source_id: String,
    /// message, reaction, worker_result, clock.tick, …
    pub kind: String,
    /// Which way it went.
    pub direction: Direction,
    /// Platform it belongs to.
    pub platform: String,
    /// Our account on that platform.
    pub account_id: Option<String>,
    /// Who sent it, in the platform's terms.
    pub sender_id: String,
    pub to_recipients: Option<Value>,
    /// Server or team.
    pub space_id: Option<String>,
    /// dm, group, channel, direct.
    pub container_kind: Option<String>,
    /// Room it was said in.
    pub container_id: Option<String>,
    /// Thread inside the room.
    pub thread_id: Option<String>,
    /// Event it answers.
    pub reply_to: Option<String>,
    /// The words.
    pub content: String,
    /// text, image, …
    pub content_type: String,
    /// Files that came with it.
    pub attachments: Option<Value>,
    /// The source's time.
    pub timestamp: Timestamp,
    /// Anything else worth keeping.
    pub metadata: Option<Value>,
}

impl NewEvent {
    /// Returns an inbound text message with every optional part left out.
    pub fn message(source: &str, source_id: &str, sender_id: &str, content: &str) -> Self {
        Self {
            source: source.to_owned(),
            source_id: source_id.to_owned(),
            kind: "message".to_owned(),
            direction: Direction::Inbound,
            platform: source.to_owned(),
            account_id: None,
            sender_id: sender_id.to_owned(),
            to_recipients: None,
            space_id: None,
            container_kind: None,
            container_id: None,
            thread_id: None,
            reply_to: None,
            content: content.to_owned(),
            content_type: "text".to_owned(),
            attachments: None,
            timestamp: Timestamp::now(),
            metadata: None,
        }
    }

    /// Returns the id this event has wherever it is stored.
    pub fn id(&self) -> EventId {
        EventId::new(format!("{}:{}", self.source, self.source_id))
    }
}

/// A stored event.
#[derive(Debug, Clone, PartialEq)]
pub struct Event {
    pub id: EventId,
    /// When we stored it.
    pub received_at: Timestamp,
    /// What the source gave.
    pub body: NewEvent,
}

/// A stored event that is still to be dealt with.
#[derive(Debug, Clone, PartialEq)]
pub struct AcceptedEvent {
    pub event: Event,
    /// The request that was promised for it.
    pub request_id: RequestId,
    /// Hash of the body as it came in.
    pub body_hash: String,
    /// When it was promised.
    pub accepted_at: Timestamp,
}

/// Where the promise of an event stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InboxState {
    /// The request that was promised.
    pub request_id: RequestId,
    /// Hash of the body as it came in.
    pub body_hash: String,
    /// How it stands.
    pub outcome: InboxOutcome,
}

/// What receiving an event found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Received {
    /// It was stored and promised now.
    New,
    /// It was there before.
    Duplicate {
        /// The request promised the first time.
        request_id: RequestId,
        /// Whether the body is the one that came the first time.
        same_body: bool,
        /// How the first one stands.
        outcome: InboxOutcome,
    },
}

impl Event {
    pub(super) fn from_row(row: &Row<'_>) -> rusqlite::Result<Self> {
        Ok(Self {
            id: EventId::new(row.get::<_, String>("id")?),
            received_at: moment(row, "received_at")?,
            body: NewEvent {
                source: row.get("source")?,
                source_id: row.get("source_id")?,
                kind: row.get("type")?,
                direction: row.get("direction")?,
                platform: row.get("platform")?,
                account_id: row.get("account_id")?,
                sender_id: row.get("sender_id")?,
                to_recipients: json(row, "to_recipients")?,
                space_id: row.get("space_id")?,
                container_kind: row.get("container_kind")?,
                container_id: row.get("container_id")?,
                thread_id: row.get("thread_id")?,
                reply_to: row.get("reply_to")?,
                content: row.get("content")?,
                content_type: row.get("content_type")?,
                attachments: json(row, "attachments")?,
                timestamp: moment(row, "timestamp")?,
                metadata: json(row, "metadata")?,
            },
        })
    }
}

impl AcceptedEvent {
    pub(super) fn from_row(row: &Row<'_>) -> rusqlite::Result<Self> {
        Ok(Self {
            event: Event::from_row(row)?,
            request_id: RequestId::new(row.get::<_, String>("request_id")?),
            body_hash: row.get("body_hash")?,
            accepted_at: moment(row, "accepted_at")?,
        })
    }
}
