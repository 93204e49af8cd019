//! Tokens that were given out: opaque, shown once, known by their hash; what they may do is in
//! their row and nowhere else.

use std::time::Duration;

use nexus_base::clock::Timestamp;
use nexus_base::id::{EntityId, new_ulid, random_hex, to_hex};
use nexus_store::identity::{NewToken, TokenRow};
use nexus_store::{Identity, StoreError};
use sha2::{Digest, Sha256};

use crate::scope::{ScopeError, Scopes};

/// What every token begins with, so that people and scanners know one when they see it.
const MARK: &str = "nxt_";
/// Random bytes of a token.
const BYTES: usize = 24;
/// Letters shown of a token afterwards.
const PREFIX_LEN: usize = 10;
/// Longest label, in bytes.
const MAX_LABEL_LEN: usize = 100;
/// Use is noted at most this often.
const NOTED_EVERY: Duration = Duration::from_secs(60);
/// Longest a token may be good for, when it has an end at all: ten years.
const MAX_LIFE: Duration = Duration::from_secs(3650 * 24 * 3600);
/// The audience of tokens for this control plane.
const AUDIENCE: &str = "control-plane";

/// Somebody who holds a live token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Holder {
    /// The token's id.
    pub id: String,
    /// What it may do.
    pub scopes: Scopes,
    /// When it runs out.
    pub expires_at: Option<Timestamp>,
}

/// What a new token should be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewTokenRequest {
    pub label: Option<String>,
    /// What it may do.
    pub scopes: Vec<String>,
    /// How long it is good for.
    pub lasts: Option<Duration>,
}

/// A token that was just made; the only time it exists outside its holder's hands.
#[derive(Clone)]
pub struct Made {
    pub token: String,
    /// What was stored about it.
    pub row: TokenRow,
}

impl std::fmt::Debug for Made {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Made").field("row", &self.row).finish_non_exhaustive()
    }
}

/// Why there is no token.
#[derive(Debug, thiserror::Error)]
pub enum TokenError {
    /// The scopes are wrong.
    #[error(transparent)]
    Scopes(#[from] ScopeError),
    /// The label is wrong.
    #[error("a label may have at most {MAX_LABEL_LEN} bytes and no control characters")]
    Label,
    /// No live token of that id.
    #[error("no active token has the id {0}")]
    Missing(String),
    /// The database did not answer.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The system has no randomness to give.
    #[error("getting random bytes for a token")]
    Random(#[source] std::io::Error),
}

/// The tokens of a workspace.
#[derive(Debug, Clone)]
pub struct Tokens {
    identity: Identity,
}

impl Tokens {
    /// Works on these rows.
    pub fn new(identity: Identity) -> Self {
        Self { identity }
    }

    /// Says who holds a token; nobody when it is unknown, ended, run out, meant for something else or was given out
    /// under another token of the owner's than the one with the hash `under`.
    pub async fn holder(&self, presented: &str, under: &str) -> Result<Option<Holder>, StoreError> {
        // Nothing else was ever given out, so nothing else is worth a look into the database.
        if !presented.starts_with(MARK) {
            return Ok(None);
        }
        // Looked up by hash: what comparing takes says nothing about the token.
        let Some(row) = self.identity.token_by_hash(&hash_of(presented)).await? else { return Ok(None) };
        let now = Timestamp::now();
        if !row.is_live(now, under) || row.new.audience != AUDIENCE {
            return Ok(None);
        }
        if row.last_used_at.is_none_or(|last| now.since(last) >= NOTED_EVERY) {
            self.identity.token_used_later(row.new.id.clone(), now);
        }
        Ok(Some(Holder {
            scopes: Scopes::stored(&row.new.scopes),
            expires_at: row.new.expires_at,
            id: row.new.id,
        }))
    }

    /// Tells whether the token of this id still opens anything under this owner's token.
    pub async fn is_live(&self, id: &str, under: &str) -> Result<bool, StoreError> {
        Ok(self.identity.token(id).await?.is_some_and(|row| row.is_live(Timestamp::now(), under)))
    }

    /// Gives out a token that is good for as long as the owner's token has the hash `under`.
    pub async fn create(
        &self,
        owner: &EntityId,
        request: &NewTokenRequest,
        under: String,
    ) -> Result<Made, TokenError> {
        let (token, new) = make(owner, request, under)?;
        self.identity.add_token(new.clone()).await?;
        Ok(Made { token, row: TokenRow { new, last_used_at: None, revoked_at: None } })
    }

    /// Ends a token and gives out another with the same label, reach and end.
    pub async fn rotate(&self, id: &str, under: String) -> Result<Made, TokenError> {
        let now = Timestamp::now();
        let missing = || TokenError::Missing(id.to_owned());
        let old =
            self.identity.token(id).await?.filter(|row| row.is_live(now, &under)).ok_or_else(missing)?.new;
        let request = NewTokenRequest { label: old.label.clone(), scopes: old.scopes.clone(), lasts: None };
        let (token, mut new) = make(&old.entity_id, &request, under)?;
        new.expires_at = old.expires_at;
        if !self.identity.replace_token(id, new.clone()).await? {
            return Err(missing());
        }
        Ok(Made { token, row: TokenRow { new, last_used_at: None, revoked_at: None } })
    }

    /// Ends a token.
    pub async fn revoke(&self, id: &str) -> Result<(), TokenError> {
        if self.identity.revoke_token(id).await? { Ok(()) } else { Err(TokenError::Missing(id.to_owned())) }
    }

    /// Ends every token that was given out under another owner's token and returns how many that were.
    pub async fn end_others(&self, under: &str) -> Result<usize, StoreError> {
        self.identity.revoke_tokens_not_under(under).await
    }

    /// Binds tokens of versions that bound them to nothing to this owner's token.
    pub async fn adopt(&self, under: &str) -> Result<(), StoreError> {
        self.identity.bind_tokens(under).await
    }

    /// Returns every token, newest first.
    pub async fn list(&self) -> Result<Vec<TokenRow>, StoreError> {
        self.identity.list_tokens().await
    }
}

/// Returns the form under which a token is kept.
pub fn hash_of(token: &str) -> String {
    to_hex(&Sha256::digest(token.as_bytes()))
}

fn make(
    owner: &EntityId,
    request: &NewTokenRequest,
    under: String,
) -> Result<(String, NewToken), TokenError> {
    let scopes = Scopes::new(&request.scopes)?;
    let is_label = |label: &String| label.len() <= MAX_LABEL_LEN && !label.chars().any(char::is_control);
    if !request.label.as_ref().is_none_or(is_label) {
        return Err(TokenError::Label);
    }
    let token = format!("{MARK}{}", random_hex(BYTES).map_err(TokenError::Random)?);
    let now = Timestamp::now();
    let new = NewToken {
        id: new_ulid(),
        audience: AUDIENCE.to_owned(),
        prefix: token.chars().take(PREFIX_LEN).collect(),
        hash: hash_of(&token),
        issued_under: Some(under),
        entity_id: owner.clone(),
        role: "token".to_owned(),
        scopes: scopes.list().to_vec(),
        label: request.label.clone(),
        created_at: now,
        expires_at: request.lasts.map(|lasts| now.plus(lasts.min(MAX_LIFE))),
    };
    Ok((token, new))
}
