//! Tokens that are given out, and the owner's own being replaced.

use std::time::Duration;

use nexus_identity::{Made, NewTokenRequest, TokenError};
use nexus_protocol::control::answers::{OwnerTokenRotated, Revoked, Tokens};
use nexus_protocol::control::{Named, TokenCreate, TokenMade, TokenView};
use nexus_store::identity::{OWNER_ID, TokenRow};
use nexus_workspace::config;
use serde_json::Value;

use super::config::config_problem;
use super::{Caller, missing, shown};
use crate::{Runtime, RuntimeError};

/// Where the hash of the owner's token is kept, to notice one that was replaced while we slept.
const OWNER_TOKEN_HASH: &str = "auth.owner_token_hash";

impl Runtime {
    pub(super) async fn tokens_list(&self) -> Result<Value, RuntimeError> {
        let tokens: Vec<TokenView> = self.shared.control.tokens.list().await?.into_iter().map(view).collect();
        shown(&Tokens { tokens })
    }

    pub(super) async fn token_create(
        &self,
        caller: &Caller,
        create: TokenCreate,
    ) -> Result<Value, RuntimeError> {
        // Nobody gives out more than they have.
        caller.narrowed(&create.scopes)?;
        let request = NewTokenRequest {
            label: create.label,
            scopes: create.scopes,
            lasts: create.expires_in_ms.map(Duration::from_millis),
        };
        let owner = nexus_base::id::EntityId::new(OWNER_ID);
        let made = self
            .shared
            .control
            .tokens
            .create(&owner, &request, self.owner_token_hash())
            .await
            .map_err(token_problem)?;
        self.hand_over(made)
    }

    pub(super) async fn token_revoke(&self, named: Named) -> Result<Value, RuntimeError> {
        self.shared.control.tokens.revoke(&named.id).await.map_err(token_problem)?;
        self.tokens_changed();
        shown(&Revoked { revoked: named.id })
    }

    pub(super) async fn token_rotate(&self, caller: &Caller, named: Named) -> Result<Value, RuntimeError> {
        let tokens = &self.shared.control.tokens;
        let row = tokens.list().await?.into_iter().find(|row| row.new.id == named.id);
        let row = row.ok_or_else(|| missing("token", &named.id))?;
        caller.narrowed(&row.new.scopes)?;
        let made = tokens.rotate(&named.id, self.owner_token_hash()).await.map_err(token_problem)?;
        self.tokens_changed();
        self.hand_over(made)
    }

    /// Replaces the owner's token in file and memory; what hung on the old one ends with the reload.
    pub(super) async fn rotate_owner_token(&self) -> Result<Value, RuntimeError> {
        let editing = self.shared.control.editing.lock().await;
        let layout = &self.shared.control.options.layout;
        let live = |rows: &[TokenRow]| rows.iter().filter(|row| row.revoked_at.is_none()).count();
        let before = live(&self.shared.control.tokens.list().await?);
        config::rotate_token(layout).map_err(|error| config_problem(&error))?;
        self.reload_configuration().await?;
        let ended = before.saturating_sub(live(&self.shared.control.tokens.list().await?));
        drop(editing);
        tracing::info!(tokens_ended = ended, "the owner's token was replaced");
        let config = layout.config().display().to_string();
        shown(&OwnerTokenRotated { rotated: true, tokens_ended: ended, config })
    }

    /// Ends every token that was given out under another token of the owner's than the present one: whoever had
    /// that could have made themselves one. Such tokens open nothing from the moment the settings changed; this
    /// makes it last, also when the old token comes back.
    pub(crate) async fn note_owner_token(&self) -> Result<(), nexus_store::StoreError> {
        let hash = self.owner_token_hash();
        let runtime = self.shared.store.runtime();
        let known = runtime.kv_get(OWNER_TOKEN_HASH).await?;
        let is_same = known.as_ref() == Some(&hash);
        let tokens = &self.shared.control.tokens;
        let is_stale =
            |row: &TokenRow| row.revoked_at.is_none() && row.new.issued_under.as_ref() != Some(&hash);
        // Looked at first: every start comes here, and nearly none has anything to write.
        if tokens.list().await?.iter().any(is_stale) {
            if is_same {
                // Rows of versions that did not write down what they were given out under.
                tokens.adopt(&hash).await?;
            }
            tokens.end_others(&hash).await?;
            self.tokens_changed();
        }
        if is_same { Ok(()) } else { runtime.kv_set(OWNER_TOKEN_HASH, &hash).await }
    }

    fn hand_over(&self, made: Made) -> Result<Value, RuntimeError> {
        // From here on it is a secret like any other; only this answer may show it.
        self.shared.redactor.register(&made.token);
        shown(&TokenMade { token: made.token, about: view(made.row) })
    }
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
        TokenError::Random(_) => super::broken(&error),
    }
}
