//! Answers of the methods beyond chat. A method's answer is built from these, so that the committed
//! schemas say what really comes.

use std::collections::BTreeMap;

use nexus_base::clock::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{ApprovalStatus, ApprovalView, GrantView, TokenView, UsageRow};

/// Answer to `status`: where the workspace stands, as `nexus status --json` prints it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WorkspaceStatus {
    /// Root folder.
    pub workspace: String,
    /// State folder.
    pub state_dir: String,
    /// Version of the program.
    pub version: String,
    /// Whose it is: `trusted`, `no_record`, `other_folder` …
    pub trust: String,
    /// Who lives here.
    pub identity: IdentityView,
    /// Whether onboarding is still to come.
    pub bootstrap: BootstrapView,
    /// Whether all three identity files are there.
    pub onboarded: bool,
    /// What else `nexus status` shows: skills, credentials, the daemon, what to do next.
    #[serde(flatten)]
    pub rest: Map<String, Value>,
}

/// Answer to `agent.identity.get`: who the assistant and the person are.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct IdentityView {
    /// Persona folder's name.
    pub agent_id: Option<String>,
    /// What the assistant is called.
    pub agent_name: Option<String>,
    /// What the person is called.
    pub user_name: Option<String>,
    /// Files that exist: `agentIdentity`, `agentSoul`, `userIdentity`.
    pub paths: BTreeMap<String, Option<String>>,
}

/// Whether onboarding is still to come.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct BootstrapView {
    /// No persona has an identity.
    pub needed: bool,
    /// Identity files that a first conversation left unwritten.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<String>,
    /// The onboarding text, while it is needed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt: Option<String>,
}

/// Answer to `logs.tail`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LogLines {
    /// Oldest first.
    pub lines: Vec<LogLine>,
}

/// One line of the log.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LogLine {
    /// When.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ts: Option<String>,
    /// error, warn, info, debug.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub level: Option<String>,
    /// What happened.
    pub msg: String,
    /// Everything else that was noted.
    #[serde(flatten)]
    pub fields: Map<String, Value>,
}

/// Answer to `events.subscribe` and `events.unsubscribe`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Subscribed {
    /// Whether events come from now on.
    pub subscribed: bool,
    /// Whether they came before; with `events.unsubscribe` only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub was: Option<bool>,
}

/// Answer to `agents.list`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Agents {
    /// By name.
    pub agents: Vec<AgentView>,
}

/// One persona.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AgentView {
    /// Its folder's name.
    pub agent: String,
    /// Whether it is the one that answers.
    pub active: bool,
}

/// Answer to `config.get`: one value with where it came from, or all of them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum ConfigGot {
    /// With a key.
    One {
        /// The key.
        key: String,
        /// Its value; secrets are placeholders.
        value: Value,
        /// Where it came from: the file, the environment, a default.
        source: Value,
    },
    /// Without one.
    All {
        /// Every setting with its value and source.
        values: Value,
        /// What is wrong and how to mend it.
        warnings: Vec<Value>,
    },
}

/// Answer to `config.set` and `config.patch`: the keys that were named, as they stand now.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ConfigChanged {
    /// Values by key; null for one that was taken away.
    pub values: Map<String, Value>,
}

/// Answer to `config.reload`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Reloaded {
    /// Always true; a configuration that cannot be used is an error.
    pub reloaded: bool,
}

/// Answer to `config.rotateToken`; the token itself is in the configuration and nowhere else.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OwnerTokenRotated {
    /// Always true.
    pub rotated: bool,
    /// Given-out tokens that ended with it.
    pub tokens_ended: usize,
    /// The file to read the new one from.
    pub config: String,
}

/// Answer to `automations.list`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Automations {
    /// By name.
    pub automations: Vec<AutomationView>,
}

/// One automation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AutomationView {
    /// Its name.
    pub name: String,
    /// What it is for.
    pub description: Option<String>,
    /// Where it runs.
    pub hook_point: String,
    /// active, disabled …
    pub status: String,
    /// Why it is off.
    pub disabled_reason: Option<String>,
    /// How it runs.
    pub mode: String,
    /// Everything else of its row.
    #[serde(flatten)]
    pub rest: Map<String, Value>,
}

/// Answer to `automations.invocations`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Invocations {
    /// Newest first.
    pub invocations: Vec<InvocationView>,
}

/// One run of an automation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct InvocationView {
    /// Its id.
    pub id: String,
    /// The automation.
    pub automation: String,
    /// Where it ran.
    pub hook_point: String,
    /// When it began.
    pub started_at: Timestamp,
    /// What came of it; none while it runs.
    pub outcome: Option<String>,
    /// Everything else of its row.
    #[serde(flatten)]
    pub rest: Map<String, Value>,
}

/// Answer to `automations.remove`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AutomationRemoved {
    /// Its name.
    pub name: String,
    /// Whether it was there.
    pub removed: bool,
}

/// Answer to `automations.test`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AutomationTried {
    /// Its name.
    pub name: String,
    /// ok, error, skipped.
    pub outcome: String,
    /// Milliseconds it took.
    pub duration_ms: u64,
    /// What it decided.
    pub result: Value,
    /// Why it failed.
    pub error: Option<String>,
}

/// Answer to `models.allow` and `models.refuse`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ModelAnswered {
    /// The accounts it was about.
    pub accounts: Vec<String>,
    /// Whether they may be used.
    pub allowed: bool,
    /// The model that answers from now on, `provider/model`.
    pub model: String,
}

/// Answer to `credentials.list`: pointers, never values.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Credentials {
    /// By service and account.
    pub credentials: Vec<CredentialView>,
}

/// One credential.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CredentialView {
    /// `service/account/credential`.
    pub reference: String,
    /// The service.
    pub service: String,
    /// The account.
    pub account: String,
    /// api_key, token, oauth.
    pub kind: String,
    /// Where the secret is, in words.
    pub storage: String,
    /// ready, active, broken, cooldown.
    pub status: String,
    /// Why it last failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_error: Option<String>,
    /// What kind of failure that was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub breakage: Option<String>,
    /// Who saw that: daemon or shell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_by: Option<String>,
    /// Until when it rests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cooldown_until: Option<Timestamp>,
}

/// Answer to `credentials.scan`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ScannedCredentials {
    /// By variable.
    pub findings: Vec<FoundCredential>,
    /// `service/account` of pointers added just now.
    pub imported: Vec<String>,
}

/// One variable that holds, or seems to hold, a secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FoundCredential {
    /// Its name.
    pub variable: String,
    /// Whose secret it is; `unknown` when nothing says so.
    pub service: String,
    /// api_key, token, oauth.
    pub kind: String,
    /// Head and tail of the value.
    pub masked: String,
    /// Whether service and kind are certain enough to import.
    pub known: bool,
    /// Whether a pointer to it exists.
    pub imported: bool,
}

/// Answer to `skills.use`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SkillText {
    /// Which skill.
    pub name: String,
    /// Its SKILL.md.
    pub text: String,
}

/// Answer to `credentials.verify`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct VerifiedCredentials {
    /// By name.
    pub credentials: Vec<VerifiedView>,
}

/// What a test of one credential gave.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct VerifiedView {
    /// `service/account/credential`.
    pub reference: String,
    /// works, present, no_secret, not_visible, refused, third_party, resting, unreachable.
    pub outcome: String,
    /// Why, where there is something to say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// What to do about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

impl VerifiedView {
    /// Tells whether the credential can be used, as far as is known.
    pub fn is_usable(&self) -> bool {
        matches!(self.outcome.as_str(), "works" | "present")
    }
}

/// Answer to `credentials.sync`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CredentialsSynced {
    /// `service/account` of pointers added just now.
    pub added: Vec<String>,
    /// Whether other tools' logins were looked for.
    pub looked_for_logins: bool,
    /// Accounts in all, afterwards.
    pub total: usize,
    /// What could not be looked at, one line each.
    pub problems: Vec<String>,
}

/// Answer to `approvals.request`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Asked {
    /// The question as it stands.
    Question(Box<ApprovalView>),
    /// A consent that stands already answers it.
    #[serde(rename_all = "camelCase")]
    Standing {
        /// Always approved.
        status: ApprovalStatus,
        /// That consent.
        grant_id: String,
    },
}

/// Answer to `grants.list`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Grants {
    /// Newest first.
    pub grants: Vec<GrantView>,
}

/// Answer to `tokens.list`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Tokens {
    /// Newest first.
    pub tokens: Vec<TokenView>,
}

/// Answer to `tokens.revoke` and `grants.revoke`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Revoked {
    /// The id of what ended.
    pub revoked: String,
}

/// Answer to `skills.status`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Skills {
    /// By name.
    pub skills: Vec<SkillView>,
    /// What they make possible, with how the best provider of each stands.
    pub capabilities: Value,
}

/// One skill; `skills.info` also gives what it brings.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SkillView {
    /// Its folder's name.
    pub name: String,
    /// What it says of itself.
    pub description: String,
    /// active, ready, needs-setup, needs-install, unavailable, broken.
    pub status: String,
    /// Whether its owner accepted exactly this content: accepted, new, changed.
    pub consent: String,
    /// What is missing, in words.
    pub missing: Vec<String>,
    /// What it asks for; with `skills.info` only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub permissions: Option<Vec<String>>,
    /// Everything else: kind, capabilities, and with `skills.info` its files, hash and what looks odd.
    #[serde(flatten)]
    pub rest: Map<String, Value>,
}

/// Answer to `usage.cost`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct UsageCost {
    /// First day, `YYYY-MM-DD`.
    pub from: String,
    /// Last day.
    pub to: String,
    /// Sums by model; `day` is the first day.
    pub models: Vec<UsageRow>,
    /// Millionths of a dollar in all.
    pub total_micro_usd: u64,
}
