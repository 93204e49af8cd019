//! Who is calling: the owner with the configured token, or the holder of one that was given out.

use nexus_base::clock::Timestamp;
use nexus_identity::{Scopes, hash_of};
use tokio::sync::watch;

use crate::{Runtime, RuntimeError};

/// Somebody who showed a token that was right when they showed it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Caller {
    token: Token,
    scopes: Scopes,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Token {
    /// The configured one, by its hash.
    Owner { hash: String },
    /// One that was given out.
    Given { id: String, expires_at: Option<Timestamp> },
}

impl Caller {
    pub fn owner(token: &str) -> Self {
        Self { token: Token::Owner { hash: hash_of(token) }, scopes: Scopes::everything() }
    }

    /// The holder of a token that was given out, with what its row says it may do.
    pub fn given(id: String, scopes: &[String], expires_at: Option<Timestamp>) -> Self {
        Self { token: Token::Given { id, expires_at }, scopes: Scopes::stored(scopes) }
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
        Ok(Self { token: self.token.clone(), scopes })
    }

    /// Returns the name logs and answers carry.
    pub fn name(&self) -> String {
        match &self.token {
            Token::Owner { .. } => "owner".to_owned(),
            Token::Given { id, .. } => format!("token:{id}"),
        }
    }

    /// Returns what kind of caller it is.
    pub const fn kind(&self) -> &'static str {
        match self.token {
            Token::Owner { .. } => "owner",
            Token::Given { .. } => "token",
        }
    }

    /// Tells whether it is the owner with everything their token can do: neither a given-out token, however far it
    /// reaches, nor a connection that asked for less.
    pub fn is_owner(&self) -> bool {
        matches!(self.token, Token::Owner { .. }) && self.scopes == Scopes::everything()
    }

    /// Tells whether the token has run out.
    pub fn has_expired(&self) -> bool {
        match &self.token {
            Token::Owner { .. } => false,
            Token::Given { expires_at, .. } => expires_at.is_some_and(|end| end <= Timestamp::now()),
        }
    }
}

impl Runtime {
    /// Says who shows this token; nobody when it is none of ours, or no longer.
    pub async fn authenticate(&self, presented: &str) -> Option<Caller> {
        if self.token_matches(presented) {
            return Some(Caller::owner(presented));
        }
        match self.shared.control.tokens.holder(presented, &self.owner_token_hash()).await {
            Ok(holder) => holder.map(|holder| {
                // From here on it is a secret like any other.
                self.shared.redactor.register(presented);
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
        match &caller.token {
            Token::Owner { hash } => self.owner_token_hash() == *hash,
            // In doubt the socket ends; its client comes back with the token.
            Token::Given { id, .. } => {
                self.shared.control.tokens.is_live(id, &self.owner_token_hash()).await.unwrap_or(false)
            }
        }
    }

    /// Returns the hash of the owner's token as it is now; tokens given out under another one are worth nothing.
    pub(crate) fn owner_token_hash(&self) -> String {
        hash_of(self.shared.agent_factory.settings().runtime.auth.token.expose())
    }

    /// Returns what counts up whenever a token may have stopped working.
    pub fn token_changes(&self) -> watch::Receiver<u64> {
        self.shared.control.tokens_changed.subscribe()
    }

    /// Makes every connection look again at whether its token still holds.
    pub(crate) fn tokens_changed(&self) {
        self.shared.control.tokens_changed.send_modify(|count| *count += 1);
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
