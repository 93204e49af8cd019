//! Parameters and answers of the methods beyond chat: sessions, files, configuration, automations,
//! credentials, consent, tokens, usage.

pub mod answers;
mod sessions;

use nexus_base::clock::Timestamp;
use nexus_base::id::SessionLabel;
use nexus_base::words;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

pub use sessions::{
    CompactionView, CompactionsOf, Preview, PreviewOf, SessionNamed, SessionOf, SessionShortened,
};

/// `POST /api/call`: any method of the table over plain HTTP.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Call {
    /// The method.
    pub method: String,
    /// What it takes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub params: Option<Value>,
}

/// Parameters of methods that take none.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Nothing {}

/// How many rows a listing should give.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Listing {
    /// At most this many, newest first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<usize>,
}

/// Parameters of `credentials.verify`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CredentialsOf {
    /// `service[/account[/credential]]`; all of them when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Only look whether the secret is there; ask no provider.
    #[serde(default)]
    pub look_only: bool,
}

/// Parameters of `credentials.scan`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CredentialsScan {
    /// Also judge unknown variables by their names and values.
    #[serde(default)]
    pub deep: bool,
    /// Remember where those are that were found with certainty.
    #[serde(default)]
    pub import: bool,
}

/// Parameters of `requests.prompt`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PromptOf {
    /// The request.
    #[serde(alias = "request", alias = "requestId")]
    pub id: String,
    /// Also the words of every part that are still kept, known secrets hidden.
    #[serde(default)]
    pub full: bool,
}

/// Something by its name or id.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Named {
    /// The name or id.
    #[serde(alias = "name", alias = "request", alias = "requestId")]
    pub id: String,
}

/// Parameters of `logs.tail`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LogsTail {
    /// At most this many lines.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lines: Option<usize>,
}

/// Parameters of `chat.history`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HistoryOf {
    /// Which session; the owner's direct conversation when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<SessionLabel>,
    /// At most this many lines.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<usize>,
}

/// Parameters of `chat.wait`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct WaitFor {
    /// The request.
    #[serde(alias = "requestId")]
    pub request: String,
    /// Milliseconds to wait at most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
}

/// Parameters of `chat.inject`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ChatInject {
    /// The note.
    pub message: String,
    /// Which session; the owner's direct conversation when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<SessionLabel>,
    /// Same key and same body: the first answer again, and no second run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idempotency_key: Option<String>,
}

/// Whose identity files are meant, and which.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FileOf {
    /// A persona's folder name, or `user` for the person.
    pub agent: String,
    /// File name, such as `SOUL.md`.
    pub file: String,
}

/// Parameters of `agents.files.list`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FilesOf {
    /// A persona's folder name, or `user` for the person.
    pub agent: String,
}

/// Parameters of `agents.files.set`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FileSet {
    /// A persona's folder name, or `user` for the person.
    pub agent: String,
    /// File name, such as `SOUL.md`.
    pub file: String,
    /// The whole new text.
    pub content: String,
}

/// An identity file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FileView {
    /// File name.
    pub file: String,
    /// Bytes.
    pub size: u64,
    /// Its text; absent in listings.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content: Option<String>,
}

/// Parameters of `config.get`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ConfigKey {
    /// Dotted path; everything when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
}

/// Parameters of `config.set`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ConfigSet {
    /// Dotted path.
    pub key: String,
    /// New value; null takes the key away.
    pub value: Value,
}

/// Parameters of `config.patch`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ConfigPatch {
    /// Dotted paths with their new values; null takes a key away.
    pub values: Map<String, Value>,
}

/// Parameters of `automations.invocations`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct InvocationsOf {
    /// Only this automation's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// At most this many, newest first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<usize>,
}

words! {
    /// Where a request for consent stands.
    #[derive(Serialize, Deserialize, JsonSchema)]
    #[serde(rename_all = "snake_case")]
    pub enum ApprovalStatus {
        /// Nobody has answered.
        Pending = "pending",
        /// The owner agreed.
        Approved = "approved",
        /// The owner refused.
        Denied = "denied",
        /// Nobody answered in time, which counts as a refusal.
        Expired = "expired",
    }
}

/// A request for the owner's consent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ApprovalView {
    /// Its id.
    pub id: String,
    /// What kind: `tool`, `exec`, `access`.
    pub kind: String,
    /// Who asks.
    pub requester: String,
    /// What would happen, in full and as it is: not for showing.
    pub summary: String,
    /// The same line by line with everything in it made visible, for showing.
    #[serde(default)]
    pub shown: Vec<String>,
    /// What it would open, such as `exec:/usr/bin/git`.
    pub resources: Vec<String>,
    /// Why they ask.
    pub reason: Option<String>,
    /// The tool, for tool calls.
    pub tool: Option<String>,
    /// The session it happens in.
    pub session: Option<SessionLabel>,
    /// Where it stands.
    pub status: ApprovalStatus,
    /// When it was asked.
    pub created_at: Timestamp,
    /// When silence becomes a refusal.
    pub expires_at: Timestamp,
    /// Who answered.
    pub responder: Option<String>,
    /// When.
    pub responded_at: Option<Timestamp>,
    /// The standing consent that came of it.
    pub grant_id: Option<String>,
}

/// Parameters of `approvals.list`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ApprovalsOf {
    /// Also those that were answered or ran out.
    #[serde(default)]
    pub all: bool,
    /// At most this many, newest first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<usize>,
}

/// Answer to `approvals.list`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Approvals {
    /// Newest first.
    pub approvals: Vec<ApprovalView>,
}

/// Parameters of `approvals.request`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ApprovalRequest {
    /// `tool`, `exec` or `access`.
    pub kind: ApprovalKind,
    /// In a few words.
    pub summary: String,
    /// What it would open.
    pub resources: Vec<String>,
    /// Why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Milliseconds to wait for the answer; at once when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait_ms: Option<u64>,
}

words! {
    /// What consent is asked for.
    #[derive(Serialize, Deserialize, JsonSchema)]
    #[serde(rename_all = "snake_case")]
    pub enum ApprovalKind {
        /// A tool call; silence is a refusal after two minutes.
        Tool = "tool",
        /// A command; as a tool call, and never for more than once.
        Exec = "exec",
        /// Anything else; silence is a refusal after a day.
        Access = "access",
    }
}

/// How long consent holds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ApprovalScope {
    /// This one time.
    #[default]
    Once,
    /// For a day.
    Day,
    /// Until it is taken back.
    Always,
}

/// Parameters of `approvals.approve` and `approvals.deny`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ApprovalAnswer {
    /// The request.
    pub id: String,
    /// How long consent holds; for `approve` only.
    #[serde(default)]
    pub scope: ApprovalScope,
    /// A word to go with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// A standing consent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GrantView {
    /// Its id.
    pub id: String,
    /// Whom it is for.
    pub requester: String,
    /// What it opens.
    pub resources: Vec<String>,
    /// Who gave it.
    pub granted_by: String,
    /// When.
    pub created_at: Timestamp,
    /// When it runs out.
    pub expires_at: Option<Timestamp>,
    /// When it was taken back.
    pub revoked_at: Option<Timestamp>,
}

/// A token that was given out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TokenView {
    /// Its id.
    pub id: String,
    /// Its first letters, to recognise it by.
    pub prefix: String,
    /// What it is for.
    pub label: Option<String>,
    /// What it may do.
    pub scopes: Vec<String>,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it was last used, within a minute.
    pub last_used_at: Option<Timestamp>,
    /// When it runs out.
    pub expires_at: Option<Timestamp>,
    /// When it was ended.
    pub revoked_at: Option<Timestamp>,
}

/// Parameters of `tokens.create`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TokenCreate {
    /// What it is for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// What it may do: permissions such as `control.chat.write`, a part may be `*`.
    pub scopes: Vec<String>,
    /// Milliseconds until it runs out; never when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_in_ms: Option<u64>,
}

/// Answer to `tokens.create` and `tokens.rotate`: the only time the token is shown.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TokenMade {
    /// The token itself.
    pub token: String,
    /// What is known about it from now on.
    pub about: TokenView,
}

impl std::fmt::Debug for TokenMade {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("TokenMade").field("about", &self.about).finish_non_exhaustive()
    }
}

/// Parameters of `usage.status`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct UsageOf {
    /// How many days up to today; seven when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub days: Option<u32>,
}

/// What one model used on one day.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct UsageRow {
    /// `YYYY-MM-DD`.
    pub day: String,
    /// `provider/model`.
    pub model: String,
    /// Calls.
    pub calls: u64,
    /// Tokens sent.
    pub input_tokens: u64,
    /// Tokens produced.
    pub output_tokens: u64,
    /// Cost in millionths of a dollar.
    pub cost_micro_usd: u64,
}
