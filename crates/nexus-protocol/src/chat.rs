//! `chat.send`, `chat.history`, `chat.wait` and `chat.abort`.

use nexus_base::clock::Timestamp;
pub use nexus_base::conversation::QueueMode;
use nexus_base::id::{EventId, MessageId, RequestId, SessionLabel, TurnId};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Longest message a person can send, in bytes.
pub const MAX_MESSAGE_LEN: usize = 256 * 1024;
/// Longest idempotency key, in bytes.
pub const MAX_IDEMPOTENCY_KEY_LEN: usize = 200;

/// `POST /api/chat`: says something to a session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ChatSend {
    /// What to say.
    pub message: String,
    /// Which session; the owner's direct conversation when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<SessionLabel>,
    /// Same key and same body: the first answer again, and no second run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idempotency_key: Option<String>,
    /// Folder holding a `.nexus/` project for this conversation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub project: Option<String>,
    /// What to do when the session is busy; the configured default when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue_mode: Option<QueueMode>,
    /// Model that answers this message, `provider/model`; the configured one when absent. Workers it sends
    /// off keep theirs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
}

/// The acknowledgement: the message is on disk and will be answered, crash or not.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ChatAccepted {
    /// The request to follow or wait for.
    pub request_id: RequestId,
    /// The stored event.
    pub event_id: EventId,
    /// The session it went to.
    pub session: SessionLabel,
    /// True when this idempotency key had been accepted before.
    pub duplicate: bool,
}

/// Who said a line of history.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Speaker {
    /// The person.
    User,
    /// The assistant.
    Assistant,
    /// The runtime itself: a failure or an abort made visible.
    System,
}

/// One line of a conversation as a person reads it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ChatLine {
    /// The message; clients drop ids they have seen.
    pub message_id: MessageId,
    /// The turn it belongs to.
    pub turn_id: TurnId,
    /// The request that led to it.
    pub request_id: RequestId,
    /// Who said it.
    pub speaker: Speaker,
    /// What was said.
    pub text: String,
    /// When.
    pub at: Timestamp,
}

/// `GET /api/chat/history?session=…&limit=…`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ChatHistory {
    /// The session asked about, aliases followed.
    pub session: SessionLabel,
    /// Oldest first.
    pub lines: Vec<ChatLine>,
}

/// `GET /api/chat/wait?request=…&timeoutMs=…`: answers at quiescence of the request's tree.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ChatWaited {
    /// The request asked about.
    pub request_id: RequestId,
    /// False when the timeout passed first.
    pub quiescent: bool,
    /// Every line said to the person for this request's tree, oldest first.
    pub replies: Vec<ChatLine>,
}

/// `POST /api/chat/abort`: ends the session's running turn, keeping partial output.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ChatAbort {
    /// Which session; the owner's direct conversation when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<SessionLabel>,
    /// Also cancel the workers that the session has out.
    #[serde(default)]
    pub workers: bool,
}

/// Answer to [`ChatAbort`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ChatAborted {
    /// Whether a turn was running.
    pub aborted: bool,
}
