//! The one table of control-plane methods: what each is called, which way it goes and which
//! permission it needs.
//!
//! HTTP routes name a method of this table, WebSocket frames carry its name, and whoever carries it
//! out matches on [`Method`] exhaustively: a method without an entry does not compile, and one that
//! nobody answers neither.

use nexus_base::words;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Which way a method goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Path {
    /// Part of the connection itself.
    Transport,
    /// Answered after its permission was checked.
    Iam,
    /// Becomes an event and runs through the pipeline, which decides and records.
    Pipeline,
}

words! {
    /// What a method does to its resource.
    #[derive(Serialize, Deserialize, JsonSchema)]
    #[serde(rename_all = "snake_case")]
    pub enum Action {
        /// Looks.
        Read = "read",
        /// Changes or starts something.
        Write = "write",
        /// Changes who may do what, or how the daemon runs.
        Admin = "admin",
        /// Answers for the owner.
        Approve = "approve",
    }
}

/// A method's place in the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry {
    /// Name on the wire.
    pub name: &'static str,
    /// Which way it goes.
    pub path: Path,
    /// What it is about.
    pub resource: &'static str,
    /// What it does to it.
    pub action: Action,
}

impl Entry {
    /// Returns the permission it needs: `control.<resource>.<action>`.
    pub fn permission(&self) -> String {
        format!("control.{}.{}", self.resource, self.action.as_str())
    }

    /// Returns whether it can change anything.
    pub const fn is_mutating(&self) -> bool {
        match self.action {
            Action::Read => false,
            Action::Write | Action::Admin | Action::Approve => true,
        }
    }
}

macro_rules! methods {
    ($($(#[$doc:meta])* $method:ident = $name:literal $path:ident $resource:literal $action:ident),+ $(,)?) => {
        /// A method of the control plane.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Method { $($(#[$doc])* $method),+ }

        impl Method {
            /// Every method, in the order of the table.
            pub const ALL: &'static [Self] = &[$(Self::$method),+];

            /// Returns its entry.
            pub const fn entry(self) -> Entry {
                match self {
                    $(Self::$method => Entry {
                        name: $name,
                        path: Path::$path,
                        resource: $resource,
                        action: Action::$action,
                    }),+
                }
            }

            /// Returns the method of that name, or the one an older name stands for.
            pub fn find(name: &str) -> Option<Self> {
                match name {
                    $($name => Some(Self::$method),)+
                    _ => ALIASES.iter().find(|(alias, _)| *alias == name).map(|(_, method)| *method),
                }
            }
        }
    };
}

/// Names of the inherited protocol and the methods they stand for; the permission is the method's.
pub const ALIASES: &[(&str, Method)] = &[
    ("acl.requests.list", Method::ApprovalsList),
    ("acl.requests.show", Method::ApprovalsShow),
    ("acl.requests.approve", Method::ApprovalsApprove),
    ("acl.requests.deny", Method::ApprovalsDeny),
    ("acl.approval.request", Method::ApprovalsRequest),
    ("ingress.credentials.list", Method::TokensList),
    ("ingress.credentials.create", Method::TokensCreate),
    ("ingress.credentials.revoke", Method::TokensRevoke),
    ("ingress.credentials.rotate", Method::TokensRotate),
    ("agent.wait", Method::ChatWait),
    ("memory.review.list", Method::MemoryChanges),
    ("memory.review.forget", Method::MemoryForget),
    ("skills.list", Method::SkillsStatus),
];

impl Method {
    /// Returns whether its answer hands over a secret that is shown this once.
    pub const fn hands_over_a_secret(self) -> bool {
        matches!(self, Self::TokensCreate | Self::TokensRotate)
    }
}

methods! {
    /// The handshake; the first frame and no other.
    Connect = "connect" Transport "connection" Write,
    /// The owner's health report.
    Health = "health" Iam "health" Read,
    /// Where the workspace stands.
    Status = "status" Iam "status" Read,
    /// The daemon's figures; over HTTP only, as text.
    Metrics = "metrics" Iam "metrics" Read,
    /// The tools of a project for other programs; over HTTP only, in MCP's own form.
    Mcp = "mcp" Iam "mcp" Write,
    /// The last lines of the daemon's log.
    LogsTail = "logs.tail" Iam "logs" Read,
    /// Says something to a session.
    ChatSend = "chat.send" Pipeline "chat" Write,
    /// Puts a note before a session's assistant that is not the person's words.
    ChatInject = "chat.inject" Pipeline "chat" Write,
    /// The last lines of a session.
    ChatHistory = "chat.history" Iam "chat" Read,
    /// Waits for the end of everything a request led to.
    ChatWait = "chat.wait" Iam "chat" Read,
    /// Ends a session's running turn.
    ChatAbort = "chat.abort" Iam "chat" Write,
    /// The newest requests.
    RequestsList = "requests.list" Iam "requests" Read,
    /// A request and what it led to.
    RequestsGet = "requests.get" Iam "requests" Read,
    /// What a request's model was sent, part by part.
    RequestsPrompt = "requests.prompt" Iam "requests" Read,
    /// Conversations and workers.
    SessionsList = "sessions.list" Iam "sessions" Read,
    /// One session by its label.
    SessionsResolve = "sessions.resolve" Iam "sessions" Read,
    /// The last lines of several sessions.
    SessionsPreview = "sessions.preview" Iam "sessions" Read,
    /// What stands for earlier turns of sessions.
    SessionsCompactions = "sessions.compactions" Iam "sessions" Read,
    /// Sums up a session's earlier turns now.
    SessionsCompact = "sessions.compact" Iam "sessions" Write,
    /// Lets a session begin anew: nothing of what was said before is sent to the model.
    SessionsReset = "sessions.reset" Iam "sessions" Write,
    /// Takes a compaction back.
    SessionsUndo = "sessions.undo" Iam "sessions" Write,
    /// Bus events to this connection.
    EventsSubscribe = "events.subscribe" Iam "events" Read,
    /// No more of them.
    EventsUnsubscribe = "events.unsubscribe" Iam "events" Read,
    /// Personas.
    AgentsList = "agents.list" Iam "agents" Read,
    /// Who the assistant and the person are.
    AgentIdentityGet = "agent.identity.get" Iam "agents" Read,
    /// Identity files of a persona, or of the person.
    AgentsFilesList = "agents.files.list" Iam "agents" Read,
    /// One identity file.
    AgentsFilesGet = "agents.files.get" Iam "agents" Read,
    /// Replaces one identity file.
    AgentsFilesSet = "agents.files.set" Iam "agents" Write,
    /// One value or section of the configuration, or all of it.
    ConfigGet = "config.get" Iam "config" Read,
    /// What the configuration may hold.
    ConfigSchema = "config.schema" Iam "config" Read,
    /// Changes one value.
    ConfigSet = "config.set" Iam "config" Admin,
    /// Changes several values; all or none.
    ConfigPatch = "config.patch" Iam "config" Admin,
    /// Reads the configuration again.
    ConfigReload = "config.reload" Iam "config" Admin,
    /// Gives the owner a new token and ends everything that hangs on an old one.
    ConfigRotateToken = "config.rotateToken" Iam "config" Admin,
    /// Automations.
    AutomationsList = "automations.list" Iam "automations" Read,
    /// One automation.
    AutomationsGet = "automations.get" Iam "automations" Read,
    /// Switches one on.
    AutomationsEnable = "automations.enable" Iam "automations" Write,
    /// Switches one off.
    AutomationsDisable = "automations.disable" Iam "automations" Write,
    /// Registers the owner's own program.
    AutomationsRegister = "automations.register" Iam "automations" Admin,
    /// Removes one of those.
    AutomationsRemove = "automations.remove" Iam "automations" Admin,
    /// Tries one out.
    AutomationsTest = "automations.test" Iam "automations" Write,
    /// When automations ran and what came of it.
    AutomationsInvocations = "automations.invocations" Iam "automations" Read,
    /// Credential pointers; never values.
    CredentialsList = "credentials.list" Iam "credentials" Read,
    /// Tests credentials where they are used: in the daemon.
    CredentialsVerify = "credentials.verify" Iam "credentials" Write,
    /// Looks for logins and variables as the daemon sees them.
    CredentialsSync = "credentials.sync" Iam "credentials" Write,
    /// Looks for keys in the daemon's environment and, if wanted, remembers where they are; values are masked.
    CredentialsScan = "credentials.scan" Iam "credentials" Write,
    /// Requests for the owner's consent.
    ApprovalsList = "approvals.list" Iam "approvals" Read,
    /// One of them.
    ApprovalsShow = "approvals.show" Iam "approvals" Read,
    /// Asks for consent and, if wanted, waits for the answer.
    ApprovalsRequest = "approvals.request" Iam "approvals" Write,
    /// Consents.
    ApprovalsApprove = "approvals.approve" Iam "approvals" Approve,
    /// Refuses.
    ApprovalsDeny = "approvals.deny" Iam "approvals" Approve,
    /// Standing consents.
    GrantsList = "grants.list" Iam "grants" Read,
    /// Takes one back.
    GrantsRevoke = "grants.revoke" Iam "grants" Approve,
    /// Tokens that were given out; never the tokens themselves.
    TokensList = "tokens.list" Iam "tokens" Read,
    /// Gives out a token, shown once.
    TokensCreate = "tokens.create" Iam "tokens" Admin,
    /// Ends a token.
    TokensRevoke = "tokens.revoke" Iam "tokens" Admin,
    /// Ends a token and gives out another with the same reach.
    TokensRotate = "tokens.rotate" Iam "tokens" Admin,
    /// What model calls used, by day.
    UsageStatus = "usage.status" Iam "usage" Read,
    /// What model calls cost, by model.
    UsageCost = "usage.cost" Iam "usage" Read,
    /// Skills, how each stands, and what they make possible.
    SkillsStatus = "skills.status" Iam "skills" Read,
    /// One skill with everything it brings.
    SkillsInfo = "skills.info" Iam "skills" Read,
    /// The instructions of a skill that the owner accepted as it is.
    SkillsUse = "skills.use" Iam "skills" Read,
    /// Finds what is known and what was said.
    MemoryRecall = "memory.recall" Iam "memory" Read,
    /// Keeps a fact as the owner's own words.
    MemoryAdd = "memory.add" Iam "memory" Write,
    /// What was learnt last, and from whom.
    MemoryChanges = "memory.changes" Iam "memory" Read,
    /// Who and what is known.
    MemoryEntities = "memory.entities" Iam "memory" Read,
    /// How much is known.
    MemoryStats = "memory.stats" Iam "memory" Read,
    /// Removes a fact, or with its source everything it came from.
    MemoryForget = "memory.forget" Iam "memory" Admin,
    /// The model in use, why, and what else was looked at.
    ModelsList = "models.list" Iam "models" Read,
    /// Agrees to the use of a credential that was found.
    ModelsAllow = "models.allow" Iam "models" Approve,
    /// Refuses it.
    ModelsRefuse = "models.refuse" Iam "models" Approve,
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_method_is_found_by_its_name_and_has_a_permission() {
        let names: BTreeSet<&str> = Method::ALL.iter().map(|method| method.entry().name).collect();
        assert_eq!(names.len(), Method::ALL.len(), "two methods share a name");
        for method in Method::ALL {
            let entry = method.entry();
            assert_eq!(Method::find(entry.name), Some(*method));
            let permission = entry.permission();
            assert_eq!(permission.split('.').count(), 3, "{permission}");
        }
        assert_eq!(Method::find("chat.Send"), None);
        for (alias, method) in ALIASES {
            assert!(!names.contains(alias), "{alias} is a method itself");
            assert_eq!(Method::find(alias), Some(*method));
        }
    }

    #[test]
    fn whoever_changes_access_needs_more_than_write() {
        for method in Method::ALL {
            let entry = method.entry();
            let about_access = matches!(entry.resource, "config" | "tokens" | "grants");
            assert!(!about_access || entry.action != Action::Write, "{}", entry.name);
        }
    }
}
