//! Who is calling: the owner with the configured token, the holder of one that was given out, or a worker's command.

use std::sync::Arc;

use nexus_base::clock::Timestamp;
use nexus_base::id::RequestId;
use nexus_identity::{Scopes, hash_of};
use nexus_memory::Viewer;
use nexus_pipeline::tool_sockets::Worker;
use subtle::ConstantTimeEq;
use tokio::sync::watch;

use crate::{Operations, RuntimeError};

/// Somebody whose authority was right when they showed it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Caller {
    authority: Authority,
    scopes: Scopes,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Authority {
    /// The configured token, by its hash.
    Owner { hash: String },
    /// A token that was given out.
    Given { id: String, expires_at: Option<Timestamp> },
    /// A command of a worker's, until its tool call ends.
    Worker(Arc<Worker>),
}

/// What commands inside a tool call may use, some of it only together with the tool that does the same. Nothing here
/// reads a secret, changes a setting, answers for the owner or forgets.
const WORKER_SCOPES: &[(&str, Option<&str>)] = &[
    ("control.agents.read", None),
    ("control.credentials.read", None),
    ("control.credentials.write", None),
    ("control.health.read", None),
    ("control.memory.read", Some("recall")),
    ("control.memory.write", Some("remember")),
    ("control.requests.read", None),
    ("control.skills.read", None),
    ("control.status.read", None),
];

/// What kind of caller somebody is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallerKind {
    Owner,
    /// Holds a token that was given out.
    Token,
    /// Runs `nexus …` inside a tool call.
    Worker,
}

impl CallerKind {
    /// Returns the word that logs use.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Owner => "owner",
            Self::Token => "token",
            Self::Worker => "worker",
        }
    }
}

impl Caller {
    pub fn owner(token: &str) -> Self {
        Self { authority: Authority::Owner { hash: hash_of(token) }, scopes: Scopes::everything() }
    }

    /// The person at the terminal of their own workspace, where no daemon asks for a token.
    pub(crate) fn at_terminal() -> Self {
        Self { authority: Authority::Owner { hash: String::new() }, scopes: Scopes::everything() }
    }

    /// The holder of a token that was given out, with what its row says it may do.
    pub fn given(id: String, scopes: &[String], expires_at: Option<Timestamp>) -> Self {
        Self { authority: Authority::Given { id, expires_at }, scopes: Scopes::stored(scopes) }
    }

    /// A worker's command. What could widen anybody's rights is out of its reach.
    pub(crate) fn worker(worker: Worker) -> Self {
        let may_use = |tool: Option<&str>| tool.is_none_or(|tool| worker.permissions.may_use_tool(tool));
        let scopes = WORKER_SCOPES.iter().filter(|(_, tool)| may_use(*tool));
        let scopes: Vec<String> = scopes.map(|(scope, _)| (*scope).to_owned()).collect();
        Self { authority: Authority::Worker(Arc::new(worker)), scopes: Scopes::stored(&scopes) }
    }

    /// Returns the worker whose command calls, if one does.
    pub(crate) fn as_worker(&self) -> Option<&Worker> {
        match &self.authority {
            Authority::Worker(worker) => Some(worker),
            Authority::Owner { .. } | Authority::Given { .. } => None,
        }
    }

    /// Returns how much of memory they may see. Whoever holds a token with that permission acts for the owner.
    pub(crate) fn viewer(&self) -> Viewer {
        self.as_worker().map_or(Viewer::Owner, |worker| worker.viewer.clone())
    }

    /// Tells whether they may use a credential, as `service/account`.
    pub(crate) fn may_use_credential(&self, reference: &str) -> bool {
        self.as_worker().is_none_or(|worker| worker.permissions.may_use_credential(reference))
    }

    /// Tells whether they may see what happened in the run that began with a request.
    pub(crate) fn may_see_run(&self, root: &RequestId) -> bool {
        self.as_worker().is_none_or(|worker| worker.viewer == Viewer::Owner || worker.root == *root)
    }

    /// Tells whether they have a permission.
    pub fn may(&self, permission: &str) -> bool {
        self.scopes.cover(permission)
    }

    /// Returns what they may do.
    pub fn scopes(&self) -> &[String] {
        self.scopes.list()
    }

    /// Returns the same caller with less reach.
    ///
    /// # Errors
    /// More was asked for than the token has.
    pub fn narrowed(&self, scopes: &[String]) -> Result<Self, RuntimeError> {
        let scopes = self
            .scopes
            .narrowed(scopes)
            .map_err(|error| RuntimeError::Forbidden { reason: error.to_string() })?;
        Ok(Self { authority: self.authority.clone(), scopes })
    }

    /// Returns the name logs and answers carry.
    pub fn name(&self) -> String {
        match &self.authority {
            Authority::Owner { .. } => "owner".to_owned(),
            Authority::Given { id, .. } => format!("token:{id}"),
            Authority::Worker(worker) => format!("session:{}", worker.session),
        }
    }

    /// Returns what kind of caller it is.
    pub const fn kind(&self) -> CallerKind {
        match self.authority {
            Authority::Owner { .. } => CallerKind::Owner,
            Authority::Given { .. } => CallerKind::Token,
            Authority::Worker(_) => CallerKind::Worker,
        }
    }

    /// Tells whether it is the owner with everything their token can do: neither a given-out token, however far it
    /// reaches, nor a connection that asked for less.
    pub fn is_owner(&self) -> bool {
        matches!(self.authority, Authority::Owner { .. }) && self.scopes == Scopes::everything()
    }

    /// Tells whether the token has run out.
    pub fn has_expired(&self) -> bool {
        match &self.authority {
            Authority::Owner { .. } => false,
            Authority::Given { expires_at, .. } => expires_at.is_some_and(|end| end <= Timestamp::now()),
            Authority::Worker(_) => false,
        }
    }
}

impl Operations {
    /// Says who shows this token; nobody when it is none of ours, or no longer.
    pub async fn authenticate(&self, presented: &str) -> Option<Caller> {
        if self.token_matches(presented) {
            return Some(Caller::owner(presented));
        }
        match self.daemon().tokens.book.holder(presented, &self.daemon().owner_token_hash()).await {
            Ok(holder) => holder.map(|holder| {
                // From here on it is a secret like any other.
                self.options().redactor.register(presented);
                Caller::given(holder.id, holder.scopes.list(), holder.expires_at)
            }),
            Err(error) => {
                tracing::warn!(%error, "token lookup failed");
                None
            }
        }
    }

    /// Tells whether a caller's token would still be accepted.
    pub async fn is_still_valid(&self, caller: &Caller) -> bool {
        match &caller.authority {
            Authority::Owner { hash } => self.daemon().owner_token_hash() == *hash,
            // In doubt the socket ends; its client comes back with the token.
            Authority::Given { id, .. } => self
                .daemon()
                .tokens
                .book
                .is_live(id, &self.daemon().owner_token_hash())
                .await
                .unwrap_or(false),
            // It lasts as long as its socket.
            Authority::Worker(_) => true,
        }
    }

    /// Returns what counts up whenever a token may have stopped working.
    pub fn token_changes(&self) -> watch::Receiver<u64> {
        self.daemon().tokens.changes()
    }

    /// Compares a presented token with the configured one in constant time.
    fn token_matches(&self, presented: &str) -> bool {
        let settings = self.daemon().agent_factory.settings();
        let token = settings.runtime.auth.token.expose();
        // An empty configured token matches nobody, not everybody.
        !token.is_empty() && bool::from(presented.as_bytes().ct_eq(token.as_bytes()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_owner_with_all_of_their_reach_is_the_owner() {
        let everything = ["control.*.*".to_owned()];
        let owner = Caller::owner("secret");
        assert!(owner.is_owner() && owner.narrowed(&everything).unwrap().is_owner());
        assert!(!owner.narrowed(&["control.config.admin".to_owned()]).unwrap().is_owner());
        assert!(!Caller::given("1".to_owned(), &everything, None).is_owner());
    }
}
