//! Tokens that are given out to other programs.

use std::time::Duration;

use nexus_identity::{Made, NewTokenRequest, TokenError, Tokens as TokenBook};
use nexus_protocol::control::answers::{Revoked, Tokens};
use nexus_protocol::control::{Named, Nothing, TokenCreate, TokenMade, TokenView};
use nexus_store::identity::{OWNER_ID, TokenRow};
use nexus_store::{Store, StoreError};
use tokio::sync::watch;

use crate::RuntimeError;
use crate::call::{Call, internal, missing};

/// Where the hash of the owner's token is kept, to notice one that was replaced while we slept.
const OWNER_TOKEN_HASH: &str = "auth.owner_token_hash";

/// The tokens that were given out, and a count of when one may have stopped working.
#[derive(Debug)]
pub struct TokenAccess {
    pub(crate) book: TokenBook,
    changed: watch::Sender<u64>,
}

impl TokenAccess {
    pub fn new(identity: &nexus_store::Identity) -> Self {
        Self { book: TokenBook::new(identity.clone()), changed: watch::Sender::new(0) }
    }

    /// Makes every connection look again at whether its token still holds.
    pub fn note_change(&self) {
        self.changed.send_modify(|count| *count += 1);
    }

    pub(crate) fn changes(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }

    pub(crate) async fn note_owner_token(&self, store: &Store, hash: String) -> Result<(), StoreError> {
        let runtime = store.runtime();
        let known = runtime.kv_get(OWNER_TOKEN_HASH).await?;
        let is_same = known.as_ref() == Some(&hash);
        let is_stale =
            |row: &TokenRow| row.revoked_at.is_none() && row.new.issued_under.as_ref() != Some(&hash);
        // Looked at first: every start comes here, and nearly none has anything to write.
        if self.book.list().await?.iter().any(is_stale) {
            if is_same {
                // Rows of versions that did not write down what they were given out under.
                self.book.adopt(&hash).await?;
            }
            self.book.end_others(&hash).await?;
            self.note_change();
        }
        if is_same { Ok(()) } else { runtime.kv_set(OWNER_TOKEN_HASH, &hash).await }
    }
}

pub(crate) async fn list(call: &Call<'_>, _: Nothing) -> Result<Tokens, RuntimeError> {
    let listed = call.daemon()?.tokens.book.list().await?;
    Ok(Tokens { tokens: listed.into_iter().map(view).collect() })
}

pub(crate) async fn create(call: &Call<'_>, create: TokenCreate) -> Result<TokenMade, RuntimeError> {
    // Nobody gives out more than they have.
    call.caller.narrowed(&create.scopes)?;
    let request = NewTokenRequest {
        label: create.label,
        scopes: create.scopes,
        lasts: create.expires_in_ms.map(Duration::from_millis),
    };
    let owner = nexus_base::id::EntityId::new(OWNER_ID);
    let daemon = call.daemon()?;
    let made = daemon.tokens.book.create(&owner, &request, daemon.owner_token_hash()).await;
    Ok(hand_over(call, made.map_err(token_problem)?))
}

pub(crate) async fn revoke(call: &Call<'_>, named: Named) -> Result<Revoked, RuntimeError> {
    let tokens = &call.daemon()?.tokens;
    tokens.book.revoke(&named.id).await.map_err(token_problem)?;
    tokens.note_change();
    Ok(Revoked { revoked: named.id })
}

pub(crate) async fn rotate(call: &Call<'_>, named: Named) -> Result<TokenMade, RuntimeError> {
    let daemon = call.daemon()?;
    let tokens = &daemon.tokens;
    let row = tokens.book.list().await?.into_iter().find(|row| row.new.id == named.id);
    let row = row.ok_or_else(|| missing("token", &named.id))?;
    call.caller.narrowed(&row.new.scopes)?;
    let made = tokens.book.rotate(&named.id, daemon.owner_token_hash()).await.map_err(token_problem)?;
    tokens.note_change();
    Ok(hand_over(call, made))
}

fn hand_over(call: &Call<'_>, made: Made) -> TokenMade {
    // From here on it is a secret like any other; only this answer may show it.
    call.options.redactor.register(&made.token);
    TokenMade { token: made.token, about: view(made.row) }
}

fn view(row: TokenRow) -> TokenView {
    TokenView {
        id: row.new.id,
        prefix: row.new.prefix,
        label: row.new.label,
        scopes: row.new.scopes,
        created_at: row.new.created_at,
        last_used_at: row.last_used_at,
        expires_at: row.new.expires_at,
        revoked_at: row.revoked_at,
    }
}

fn token_problem(error: TokenError) -> RuntimeError {
    match error {
        TokenError::Scopes(_) | TokenError::Label => RuntimeError::Invalid {
            message: error.to_string(),
            hint: Some("scopes look like control.chat.write or control.*.read".to_owned()),
        },
        TokenError::Missing(id) => missing("live token", id),
        TokenError::Store(error) => error.into(),
        TokenError::Random(_) => internal(&error),
    }
}
