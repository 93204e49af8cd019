//! The table of keys. A new setting is one row here, which also says who may change it, and one field in
//! `settings.rs`.

use serde_json::{Value, json};

/// What a key may hold.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Kind {
    /// True or false.
    Boolean,
    /// A whole number in a closed range.
    Integer { least: u64, most: u64 },
    /// A number in a closed range.
    Number { least: f64, most: f64 },
    /// Text of at most so many bytes, without control characters.
    Text { longest: usize },
    /// One of these words.
    Word(&'static [&'static str]),
    /// Texts, at most so many.
    Texts { most: usize },
    /// An `http` or `https` address.
    Address,
    /// Where to listen.
    Bind,
    /// How callers prove who they are.
    AuthMode,
    /// The owner's token.
    Token,
    /// An object whose content another crate checks.
    Object,
    /// A list whose content another crate checks.
    List,
}

/// What a key is when nobody set it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Unset {
    /// Absent.
    Nothing,
    /// This flag.
    Flag(bool),
    /// This whole number.
    Count(u64),
    /// This number.
    Amount(f64),
    /// This text.
    Text(&'static str),
    /// These texts.
    Texts(&'static [&'static str]),
    /// An empty object.
    Object,
    /// An empty list.
    List,
}

impl Unset {
    /// Returns the default as a JSON value.
    pub(crate) fn value(self) -> Option<Value> {
        match self {
            Self::Nothing => None,
            Self::Flag(flag) => Some(json!(flag)),
            Self::Count(count) => Some(json!(count)),
            Self::Amount(amount) => Some(json!(amount)),
            Self::Text(text) => Some(json!(text)),
            Self::Texts(texts) => Some(json!(texts)),
            Self::Object => Some(json!({})),
            Self::List => Some(json!([])),
        }
    }
}

/// Whether a file that came with the workspace may say this.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Needs {
    /// Harmless in any workspace.
    Nothing,
    /// Honoured only when the workspace is trusted.
    Trust,
}

/// Who may change a value over the control plane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ChangedBy {
    /// Nobody but the owner: it decides who gets in, what leaves the machine, which program runs, which
    /// credential is used, or what is done unasked.
    Owner,
    /// Also the holder of a token with `control.config.admin`.
    ConfigAdmin,
}

/// One key.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Field {
    /// Dotted path; `*` stands for any one name.
    pub(crate) key: &'static str,
    pub(crate) kind: Kind,
    pub(crate) unset: Unset,
    pub(crate) needs: Needs,
    pub(crate) changed_by: ChangedBy,
    /// One line for the schema and for people.
    pub(crate) about: &'static str,
}

/// A key that the owner alone changes.
const fn owner(key: &'static str, kind: Kind, unset: Unset, about: &'static str) -> Field {
    Field { key, kind, unset, needs: Needs::Nothing, changed_by: ChangedBy::Owner, about }
}

/// A key that the owner alone changes, and that counts only where they trust the workspace.
const fn trusted(key: &'static str, kind: Kind, unset: Unset, about: &'static str) -> Field {
    Field { needs: Needs::Trust, ..owner(key, kind, unset, about) }
}

/// A key that a token with `control.config.admin` may change, too.
const fn admin(key: &'static str, kind: Kind, unset: Unset, about: &'static str) -> Field {
    Field { changed_by: ChangedBy::ConfigAdmin, ..owner(key, kind, unset, about) }
}

const fn count(least: u64, most: u64) -> Kind {
    Kind::Integer { least, most }
}

/// Longest ordinary text value.
const TEXT: Kind = Kind::Text { longest: 200 };
const MINUTE_MS: u64 = 60_000;
const DAY_MS: u64 = 24 * 60 * MINUTE_MS;

/// Sections that must be right for the daemon to start at all.
pub(crate) const REQUIRED_SECTIONS: &[&str] = &["runtime"];

/// Sections that other programs of this family write and that we leave alone.
pub(crate) const TOLERATED_SECTIONS: &[&str] = &["hooks", "automation", "channels", "ui", "cortex"];

/// Every key there is.
#[rustfmt::skip] // One row per key reads as a table; broken over five lines it does not.
pub(crate) const FIELDS: &[Field] = &[
    owner("runtime.port", count(1, 65_535), Unset::Count(18_789), "TCP port of the control plane"),
    owner("runtime.bind", Kind::Bind, Unset::Text("loopback"), "address to listen on; only loopback is accepted"),
    admin("runtime.handshake_ms", count(100, 60_000), Unset::Count(10_000), "how long a new WebSocket may take to present its token"),
    owner("runtime.auth.mode", Kind::AuthMode, Unset::Text("token"), "how callers authenticate; a token is the only way"),
    owner("runtime.auth.token", Kind::Token, Unset::Nothing, "the owner's token, created by init"),
    owner("runtime.credentials.level", count(0, 3), Unset::Count(1), "which credentials agents may use: 0 all, 1 all but the blocked ones, 2 only the allowed ones, 3 also only the allowed scopes"),
    owner("runtime.credentials.blocked", Kind::Texts { most: 256 }, Unset::Texts(&[]), "credentials that agents never get, as service/account"),
    owner("runtime.credentials.allowed", Kind::Texts { most: 256 }, Unset::Texts(&[]), "credentials that agents may get at levels 2 and 3"),
    owner("runtime.credentials.scopes", Kind::Texts { most: 256 }, Unset::Texts(&[]), "scopes that agents may use at level 3, as type:value"),
    admin("agent.id", TEXT, Unset::Nothing, "persona to use if there are several"),
    owner("agent.provider", TEXT, Unset::Nothing, "model provider; discovered if unset"),
    owner("agent.model", TEXT, Unset::Nothing, "model; the provider's default if unset"),
    owner("agent.fallbacks", Kind::Texts { most: 16 }, Unset::Texts(&[]), "models to try next, as provider/model"),
    admin("agents.history_turns", count(6, 10_000), Unset::Count(200), "earlier turns sent whole; older ones are summarised"),
    admin("agents.max_worker_depth", count(1, 10), Unset::Count(3), "how deeply workers may be nested"),
    admin("agents.max_concurrent_workers", count(1, 256), Unset::Count(8), "workers that may run at once"),
    admin("agents.turn_timeout_ms", count(1_000, DAY_MS), Unset::Count(5 * MINUTE_MS), "time limit of a manager's turn"),
    admin("agents.worker_timeout_ms", count(1_000, DAY_MS), Unset::Count(30 * MINUTE_MS), "time limit of a worker's task"),
    admin("queue.mode", Kind::Word(&["interrupt", "steer", "followup", "collect", "queue"]), Unset::Text("interrupt"), "what a message does to a busy session: interrupt the turn, steer it, follow it, be collected with others, or queue"),
    admin("queue.debounce_ms", count(0, MINUTE_MS), Unset::Count(1_000), "pause before queued items are taken up"),
    admin("queue.cap", count(1, 1_000), Unset::Count(20), "items that may wait in a session's queue"),
    admin("queue.drop_policy", Kind::Word(&["summarize", "oldest", "reject"]), Unset::Text("summarize"), "what happens to items above the cap"),
    admin("budgets.model_steps_per_turn", count(1, 10_000), Unset::Count(50), "model calls in one turn"),
    admin("budgets.tokens_per_turn", count(1_000, 1_000_000_000), Unset::Count(400_000), "tokens in one turn"),
    admin("budgets.tokens_per_run", count(1_000, 1_000_000_000), Unset::Count(2_000_000), "tokens in one agent run"),
    admin("budgets.tokens_per_day", count(1_000, 100_000_000_000), Unset::Count(10_000_000), "tokens in one day"),
    admin("budgets.usd_per_day", Kind::Number { least: 0.0, most: 1_000_000.0 }, Unset::Amount(10.0), "US dollars in one day"),
    admin("budgets.identical_calls", count(2, 1_000), Unset::Count(5), "calls of one tool with the same arguments in one turn"),
    admin("budgets.workers_per_request", count(1, 10_000), Unset::Count(200), "workers that one message may lead to, including those that workers start"),
    admin("models.retries", count(0, 10), Unset::Count(2), "how often a failed model call is retried before the next model is tried"),
    admin("models.retry_pause_ms", count(1, MINUTE_MS), Unset::Count(500), "pause before the first retry; doubled each time"),
    admin("models.first_byte_timeout_ms", count(50, 60 * MINUTE_MS), Unset::Count(2 * MINUTE_MS), "how long a model may take to start its reply"),
    admin("models.idle_timeout_ms", count(50, 60 * MINUTE_MS), Unset::Count(90_000), "how long a reply may pause before it is given up"),
    owner("models.local.enabled", Kind::Boolean, Unset::Flag(true), "whether to look for model servers on this machine"),
    owner("models.local.ports", Kind::Texts { most: 16 }, Unset::Texts(&["11434", "8080", "1234"]), "ports on which to look for model servers"),
    admin("models.table", Kind::Object, Unset::Object, "context size (tokens) and prices (USD per million tokens) by model"),
    owner("models.tiers.high", TEXT, Unset::Nothing, "model for roles that want the best one, as provider/model; the usual one if unset"),
    owner("models.tiers.standard", TEXT, Unset::Nothing, "model for roles that want an ordinary one, as provider/model; the usual one if unset"),
    trusted("providers.*.base_url", Kind::Address, Unset::Nothing, "address of the provider's API"),
    admin("credentials.syncOnStatus", Kind::Boolean, Unset::Flag(false), "accepted but not used: status never syncs"),
    admin("credentials.syncTtlMinutes", count(0, 1_440), Unset::Count(15), "how long the last sync of other tools' logins counts as current"),
    owner("credentials.defaultStorage", Kind::Word(&["keychain", "file", "env"]), Unset::Text("keychain"), "where `credential add` stores a secret"),
    owner("credentials.rotation.enabled", Kind::Texts { most: 64 }, Unset::Texts(&["anthropic", "openai", "gemini"]), "services whose accounts rotate on failure"),
    admin("automations.retention_days", count(1, 3_650), Unset::Count(30), "how long runs of automations are kept"),
    owner("acl.unknown_sender_policy", Kind::Word(&["deny", "ask"]), Unset::Text("deny"), "what happens to messages from strangers"),
    trusted("acl.policies", Kind::List, Unset::List, "access policies in addition to the built-in ones"),
    admin("memory.reader", Kind::Word(&["plain", "model"]), Unset::Text("plain"), "how facts are looked up before a worker starts: by search alone, or with a model"),
    admin("memory.writer", Kind::Word(&["plain", "model"]), Unset::Text("model"), "how facts are stored after a turn: by rules alone, or with a model where there is one"),
    admin("memory.quiet_ms", count(0, DAY_MS), Unset::Count(20_000), "how long nothing may happen before the memory automations use a model"),
    admin("memory.reflection_minutes", count(0, 100_000), Unset::Count(10), "minimum time between two reflections of one automation"),
    admin("memory.embeddings.provider", Kind::Word(&["local"]), Unset::Text("local"), "what turns text into vectors; the built-in embedder is the only choice"),
    trusted("adapters", Kind::Object, Unset::Object, "channel adapters by name"),
    trusted("mcp", Kind::Object, Unset::Object, "MCP servers by name"),
    trusted("tools.bash.network", Kind::Word(&["ask", "allow"]), Unset::Text("ask"), "whether agents' commands may use the network without asking"),
    trusted("tools.web.allow", Kind::Texts { most: 64 }, Unset::Texts(&[]), "base URLs of your own hosts that web_fetch may reach; public hosts need no entry"),
    owner("tools.approval_timeout_ms", count(100, 10 * MINUTE_MS), Unset::Count(2 * MINUTE_MS), "how long a call waits for your consent"),
    trusted("project.catalog", Kind::Text { longest: 2_000 }, Unset::Nothing, "folder of a package with roles and skills to use instead of the built-in ones"),
    admin("project.tool_log", Kind::Word(&["shared", "harness"]), Unset::Text("shared"), "whether harnesses share a project's tool-log.jsonl or have one each"),
    admin("logging.level", Kind::Word(&["error", "warn", "info", "debug", "trace"]), Unset::Text("info"), "how much is logged"),
];

impl Field {
    /// Returns the key's first part.
    pub(crate) fn section(&self) -> &'static str {
        self.key.split('.').next().unwrap_or(self.key)
    }

    /// Tells whether the value is never shown.
    pub(crate) fn is_secret(&self) -> bool {
        matches!(self.kind, Kind::Token)
    }

    /// Tells whether setting or removing `path` can change this field: it is the field, a section around it, or,
    /// where the field holds an object, something inside it.
    fn touches(&self, path: &str) -> bool {
        let (mut pattern, mut parts) = (self.key.split('.'), path.split('.'));
        loop {
            match (pattern.next(), parts.next()) {
                (_, None) => return true,
                (None, Some(_)) => return self.kind == Kind::Object,
                (Some(expected), Some(part)) if expected == "*" || expected == part => {}
                (Some(_), Some(_)) => return false,
            }
        }
    }

    /// Tells whether `key`, which has no `*`, is this field.
    pub(crate) fn covers(&self, key: &str) -> bool {
        let mut pattern = self.key.split('.');
        let mut parts = key.split('.');
        loop {
            match (pattern.next(), parts.next()) {
                (None, None) => return true,
                (Some(expected), Some(part)) if expected == "*" || expected == part => {}
                _ => return false,
            }
        }
    }
}

/// Tells whether nobody but the owner may set or remove what stands at a dotted path.
///
/// Closed by default: a path is open to others only if everything it names, itself, what it lies in or what lies in
/// it, is a key of the table that is. A spelling the table does not know is the owner's.
pub fn is_owner_only(path: &str) -> bool {
    let mut touched = FIELDS.iter().filter(|field| field.touches(path)).peekable();
    touched.peek().is_none() || touched.any(|field| field.changed_by == ChangedBy::Owner)
}

/// Finds the field that `key` is, if the table has it.
pub(crate) fn find(key: &str) -> Option<&'static Field> {
    FIELDS.iter().find(|field| field.covers(key))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_owner_s_settings_are_recognised_however_they_are_named() {
        for path in [
            "",
            ".",
            "runtime",
            "runtime.",
            "runtime.auth",
            "runtime.auth.token",
            "runtime.auth.token.x",
            "runtime.auth.",
            "runtime..auth",
            "RUNTIME.auth",
            "\"runtime\".auth",
            "runtime[auth]",
            "runtime/auth",
            "runtime.auth\u{200b}",
            "run\u{202e}time",
            "runtime.credentials",
            "acl",
            "acl.policies",
            "acl.policies.0",
            "providers",
            "providers.anthropic",
            "providers.anthropic.base_url",
            "providers.anthropic.headers",
            "mcp",
            "mcp.x.command",
            "adapters.x",
            "tools",
            "tools.bash.network",
            "agent",
            "agent.provider",
            "models",
            "models.tiers",
            "credentials",
            "hooks",
            "hooks.x",
            "nobody.knows",
            "queue.nobody",
        ] {
            assert!(is_owner_only(path), "{path:?}");
        }
        for path in [
            "queue",
            "queue.cap",
            "budgets",
            "models.table",
            "models.table.m.context",
            "agents",
            "logging.level",
        ] {
            assert!(!is_owner_only(path), "{path:?}");
        }
    }
}
