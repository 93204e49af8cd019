//! Parameters and answers of the methods about sessions.

use nexus_base::clock::Timestamp;
use nexus_base::id::{CompactionId, SessionLabel, TurnId};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::chat::ChatLine;

/// Parameters of `sessions.resolve`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SessionNamed {
    /// Its label.
    pub session: SessionLabel,
}

/// Parameters of `sessions.compactions`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct CompactionsOf {
    /// Only those of this session.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session: Option<SessionLabel>,
    /// How many, newest first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<usize>,
}

/// Parameters of `sessions.compact` and `sessions.reset`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct SessionOf {
    /// Which session; the owner's direct conversation when absent.
    #[serde(alias = "sessionKey", skip_serializing_if = "Option::is_none")]
    pub session: Option<SessionLabel>,
}

/// Answer to `sessions.compact` and `sessions.reset`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SessionShortened {
    /// The session.
    pub session: SessionLabel,
    /// Whether anything is sent otherwise from now on.
    pub changed: bool,
    /// Why nothing is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// What stands for the earlier turns now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compaction: Option<CompactionView>,
}

/// What stands for earlier turns of a session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CompactionView {
    /// Its id.
    pub id: CompactionId,
    /// The session.
    pub session: SessionLabel,
    /// The turn that needed the room, or the last one before somebody asked.
    pub turn_id: TurnId,
    /// How many turns were summed up.
    pub turns: u64,
    /// How many results are sent shortened.
    pub shortened_results: u64,
    /// Why: `context_limit`, `overflow`, `length`, `asked`, `reset`.
    pub cause: String,
    /// Who wrote the summary: a model, `extract` or `head and tail`; `nobody` when there is none.
    pub author: String,
    /// Estimated tokens of the request before.
    pub tokens_before: u64,
    /// Estimated tokens of the request after.
    pub tokens_after: u64,
    /// What is sent in place of the turns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub summary: Option<String>,
    /// When it was taken.
    pub created_at: Timestamp,
    /// When it was taken back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub undone_at: Option<Timestamp>,
}

/// Parameters of `sessions.preview`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PreviewOf {
    /// Labels, at most 50.
    pub sessions: Vec<SessionLabel>,
    /// Lines of each.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<usize>,
}

/// One session of `sessions.preview`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Preview {
    /// The session.
    pub session: SessionLabel,
    /// Whether it exists.
    pub found: bool,
    /// Its last lines.
    pub lines: Vec<ChatLine>,
}
