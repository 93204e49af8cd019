//! The settings as typed, immutable values. Defaults live in the table, not here.

mod work;

use std::collections::BTreeMap;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

pub use nexus_base::conversation::QueueMode;
use nexus_base::redact::PLACEHOLDER;
use nexus_base::words;
use secrecy::{ExposeSecret, SecretString};
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};

pub use work::{BashNetwork, BashSettings, ProjectSettings, ToolLogPlace, ToolsSettings, WebSettings};

/// Everything the runtime can be told, checked and complete.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Settings {
    /// The control plane.
    pub runtime: RuntimeSettings,
    /// The agent that talks.
    pub agent: AgentSettings,
    /// Limits of agents at work.
    pub agents: AgentsSettings,
    /// Meeting a busy session.
    pub queue: QueueSettings,
    /// Spending limits.
    pub budgets: BudgetSettings,
    /// Models and how patient we are with them.
    pub models: ModelsSettings,
    /// Model providers by name.
    pub providers: BTreeMap<String, ProviderSettings>,
    /// Credential handling.
    pub credentials: CredentialSettings,
    /// Automations.
    pub automations: AutomationSettings,
    /// Access.
    pub acl: AclSettings,
    /// Memory.
    pub memory: MemorySettings,
    /// Tools of agents.
    pub tools: ToolsSettings,
    /// Channel adapters by name, unchecked.
    pub adapters: Map<String, Value>,
    /// MCP servers by name, unchecked.
    pub mcp: Map<String, Value>,
    /// Projects.
    pub project: ProjectSettings,
    /// Logging.
    pub logging: LoggingSettings,
}

/// `runtime.*`
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct RuntimeSettings {
    /// TCP port.
    pub port: u16,
    /// Where to listen.
    pub bind: Bind,
    /// How long a new socket may take to show its token.
    #[serde(rename = "handshake_ms", deserialize_with = "milliseconds")]
    pub handshake: Duration,
    /// Who may call.
    pub auth: AuthSettings,
    /// Which credentials agents may use.
    pub credentials: RuntimeCredentials,
}

/// `runtime.auth.*`
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct AuthSettings {
    /// How callers prove who they are.
    pub mode: AuthMode,
    /// The owner's token.
    pub token: Token,
}

/// How callers prove who they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AuthMode {
    /// With the owner's token.
    Token,
}

/// The owner's token. Never printed; compare it in constant time.
#[derive(Clone)]
pub struct Token(SecretString);

impl Token {
    /// Returns the token itself.
    pub fn expose(&self) -> &str {
        self.0.expose_secret()
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(PLACEHOLDER)
    }
}

// Only for telling whether a reload changed anything; authentication must not use it.
impl PartialEq for Token {
    fn eq(&self, other: &Self) -> bool {
        self.expose() == other.expose()
    }
}

impl Eq for Token {}

impl<'de> Deserialize<'de> for Token {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer).map(|text| Self(SecretString::from(text)))
    }
}

/// Where to listen; always this machine only.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub enum Bind {
    /// 127.0.0.1.
    Loopback,
    /// Another loopback address.
    Address(IpAddr),
}

impl Bind {
    /// Returns the address to listen on.
    pub const fn ip(self) -> IpAddr {
        match self {
            Self::Loopback => IpAddr::V4(Ipv4Addr::LOCALHOST),
            Self::Address(address) => address,
        }
    }
}

impl TryFrom<String> for Bind {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        match text.as_str() {
            "loopback" | "localhost" => Ok(Self::Loopback),
            other => match other.parse::<IpAddr>() {
                Ok(address) if address.is_loopback() => Ok(Self::Address(address)),
                _ => Err("not a loopback address"),
            },
        }
    }
}

/// `runtime.credentials.*`
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct RuntimeCredentials {
    /// 0 all, 1 all but blocked, 2 only allowed, 3 also scopes.
    pub level: u8,
    /// Never given.
    pub blocked: Vec<String>,
    /// Given at level 2 and 3.
    pub allowed: Vec<String>,
    /// Usable scopes at level 3.
    pub scopes: Vec<String>,
}

/// `agent.*`
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct AgentSettings {
    /// Persona in use when there are several.
    pub id: Option<String>,
    /// Model provider.
    pub provider: Option<String>,
    /// Model.
    pub model: Option<String>,
    /// Models to try next.
    pub fallbacks: Vec<String>,
}

/// `agents.*`
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct AgentsSettings {
    /// Earlier turns that are sent whole; older ones are summed up.
    pub history_turns: usize,
    /// How deep workers may dispatch workers.
    pub max_worker_depth: u32,
    /// Workers that run at once.
    pub max_concurrent_workers: usize,
    /// Longest manager turn.
    #[serde(rename = "turn_timeout_ms", deserialize_with = "milliseconds")]
    pub turn_timeout: Duration,
    /// Longest worker task.
    #[serde(rename = "worker_timeout_ms", deserialize_with = "milliseconds")]
    pub worker_timeout: Duration,
}

/// `queue.*`
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct QueueSettings {
    /// What a message does to a busy session.
    pub mode: QueueMode,
    /// Pause before queued items are taken.
    #[serde(rename = "debounce_ms", deserialize_with = "milliseconds")]
    pub debounce: Duration,
    /// Items a session keeps waiting.
    pub cap: usize,
    /// What happens above the cap.
    pub drop_policy: DropPolicy,
}

/// What happens to queued items above the cap.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DropPolicy {
    /// The oldest goes and is mentioned in the next message.
    Summarize,
    /// The oldest goes.
    Oldest,
    /// The new one is refused.
    Reject,
}

/// `budgets.*`
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct BudgetSettings {
    /// Model calls in one turn.
    pub model_steps_per_turn: u32,
    /// Tokens in one turn.
    pub tokens_per_turn: u64,
    /// Tokens in one agent run.
    pub tokens_per_run: u64,
    /// Tokens in one day.
    pub tokens_per_day: u64,
    /// US dollars in one day.
    pub usd_per_day: f64,
    /// Same call with same arguments in one turn.
    pub identical_calls: u32,
    /// Workers that one message may lead to, theirs included.
    pub workers_per_request: u32,
}

/// `models.*`
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct ModelsSettings {
    /// How often a call is tried again before the next credential or model.
    pub retries: u32,
    /// Pause before the first retry.
    #[serde(rename = "retry_pause_ms", deserialize_with = "milliseconds")]
    pub retry_pause: Duration,
    /// How long a model may take to begin its reply.
    #[serde(rename = "first_byte_timeout_ms", deserialize_with = "milliseconds")]
    pub first_byte_timeout: Duration,
    /// How long a reply may pause.
    #[serde(rename = "idle_timeout_ms", deserialize_with = "milliseconds")]
    pub idle_timeout: Duration,
    /// Servers on this machine.
    pub local: LocalModelsSettings,
    /// Context and prices by model; read by the crate that knows models.
    pub table: Map<String, Value>,
    /// Models for roles.
    #[serde(default)]
    pub tiers: TierSettings,
}

/// `models.tiers.*`
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct TierSettings {
    /// Of roles that want the best there is.
    pub high: Option<String>,
    /// Of roles that want an ordinary one.
    pub standard: Option<String>,
}

/// `models.local.*`
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct LocalModelsSettings {
    /// Whether they are looked for.
    pub enabled: bool,
    /// On which ports.
    pub ports: Vec<String>,
}

/// `providers.{name}.*`
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct ProviderSettings {
    /// Where its API is reached; the provider's own address when absent.
    pub base_url: Option<String>,
}

/// `credentials.*`
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CredentialSettings {
    /// Accepted and unused: status never syncs.
    pub sync_on_status: bool,
    /// How long a sync of other tools' logins stays fresh.
    #[serde(rename = "syncTtlMinutes", deserialize_with = "minutes")]
    pub sync_ttl: Duration,
    /// Where `credential add` puts a secret.
    pub default_storage: String,
    /// Which services rotate.
    pub rotation: RotationSettings,
}

/// `credentials.rotation.*`
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct RotationSettings {
    /// Services whose accounts rotate on failure.
    pub enabled: Vec<String>,
}

/// `automations.*`
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct AutomationSettings {
    /// How long their runs stay listed.
    #[serde(rename = "retention_days", deserialize_with = "days")]
    pub retention: Duration,
}

/// `acl.*`
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct AclSettings {
    /// What happens to strangers.
    pub unknown_sender_policy: UnknownSenderPolicy,
    /// Policies beside the built-in ones, unchecked.
    pub policies: Vec<Value>,
}

/// What happens to strangers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UnknownSenderPolicy {
    /// Refused.
    Deny,
    /// The owner is asked.
    Ask,
}

/// `memory.*`
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct MemorySettings {
    /// `memory.embeddings.provider`
    #[serde(rename = "embeddings", deserialize_with = "provider")]
    pub embedding_provider: String,
    /// Who looks things up before workers start.
    pub reader: MemoryAgent,
    /// Who keeps what was said.
    pub writer: MemoryAgent,
    /// How long nothing may happen before the memory automations think.
    #[serde(rename = "quiet_ms", deserialize_with = "milliseconds")]
    pub quiet: Duration,
    /// How often each of them may think about its own work.
    #[serde(rename = "reflection_minutes", deserialize_with = "minutes")]
    pub reflection_interval: Duration,
}

/// Who does a memory automation's work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MemoryAgent {
    /// Rules, in milliseconds.
    Plain,
    /// A model, where there is one.
    Model,
}

/// `logging.*`
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct LoggingSettings {
    /// How much is logged.
    pub level: LogLevel,
}

words! {
    /// How much is logged.
    #[derive(Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub enum LogLevel {
        /// A person must act.
        Error = "error",
        /// Something is degraded.
        Warn = "warn",
        /// Lifecycle.
        Info = "info",
        /// Decisions.
        Debug = "debug",
        /// Everything.
        Trace = "trace",
    }
}

fn milliseconds<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    u64::deserialize(deserializer).map(Duration::from_millis)
}

fn minutes<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    u64::deserialize(deserializer).map(|count| Duration::from_secs(count.saturating_mul(60)))
}

fn days<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    u64::deserialize(deserializer).map(|count| Duration::from_secs(count.saturating_mul(24 * 60 * 60)))
}

fn provider<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    #[derive(Deserialize)]
    struct Embeddings {
        provider: String,
    }
    Embeddings::deserialize(deserializer).map(|embeddings| embeddings.provider)
}
