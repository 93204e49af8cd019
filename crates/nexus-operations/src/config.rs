//! The configuration over the control plane: read without secrets, changed as a whole or not at all.

use nexus_base::id::SessionLabel;
use nexus_base::text::visible;
use nexus_identity::{StrangerRule, with_document};
use nexus_protocol::control::answers::{ConfigChanged, ConfigGot, OwnerTokenRotated, Reloaded};
use nexus_protocol::control::{ConfigKey, ConfigPatch, ConfigSet, Nothing};
use nexus_store::identity::TokenRow;
use nexus_workspace::StartOptions;
use nexus_workspace::config::{self, ConfigError, Loaded, Overrides, Settings, UnknownSenderPolicy};
use nexus_workspace::trust::Trust;
use serde_json::{Map, Value, json};

use crate::RuntimeError;
use crate::call::{Call, internal, invalid, missing, typed};

/// Most keys one patch changes.
const MAX_KEYS: usize = 100;
/// Most characters of a key that a refusal repeats.
const SHOWN_KEY: usize = 80;

pub(crate) async fn get(call: &Call<'_>, key: ConfigKey) -> Result<ConfigGot, RuntimeError> {
    let loaded = load(call.options)?;
    match &key.key {
        None => typed(&json!({ "values": loaded.values, "warnings": loaded.warnings })),
        Some(key) => {
            let value = loaded.get(key).ok_or_else(|| missing("setting", key))?;
            typed(&json!({ "key": key, "value": value, "source": loaded.source(key) }))
        }
    }
}

pub(crate) async fn schema(_: &Call<'_>, _: Nothing) -> Result<Value, RuntimeError> {
    serde_json::from_str(&config::schema()).map_err(|error| internal(&error))
}

pub(crate) async fn set(call: &Call<'_>, set: ConfigSet) -> Result<ConfigChanged, RuntimeError> {
    change(call, [(set.key, set.value)].into_iter().collect()).await
}

pub(crate) async fn patch(call: &Call<'_>, patch: ConfigPatch) -> Result<ConfigChanged, RuntimeError> {
    change(call, patch.values).await
}

/// Changes several keys. Checked together on a copy first; a write that fails half-way is taken back.
async fn change(call: &Call<'_>, values: Map<String, Value>) -> Result<ConfigChanged, RuntimeError> {
    if let Some(key) = values.keys().find(|key| config::is_owner_only(key) && !call.caller.is_owner()) {
        let key: String = key.chars().take(SHOWN_KEY).collect();
        return Err(call.refuse(format!(
            "{} can only be changed by the owner, with their own token",
            visible::line(&key)
        )));
    }
    if values.is_empty() || values.len() > MAX_KEYS {
        return Err(invalid(format!("a patch must name 1 to {MAX_KEYS} keys")));
    }
    let operations = call.running()?;
    let _editing = operations.editing().lock().await;
    let layout = call.layout();
    let before = load(call.options)?.document;
    let mut after = before.clone();
    for (key, value) in &values {
        let changed =
            if value.is_null() { after.remove(key).map(drop) } else { after.set(key, value.clone()) };
        changed.map_err(|error| config_problem(&error))?;
    }
    let checked = config::resolve(after, Trust::Trusted, &Overrides::default())
        .map_err(|error| config_problem(&error))?;
    policies_of(&checked.settings).map_err(invalid)?;
    let mut done: Vec<&String> = Vec::new();
    for (key, value) in &values {
        if let Err(error) = config::set(layout, key, value.clone()) {
            for key in done {
                let old = before.get(key).cloned().unwrap_or(Value::Null);
                if let Err(error) = config::set(layout, key, old) {
                    tracing::error!(key, %error, "partial configuration change not reverted");
                }
            }
            return Err(config_problem(&error));
        }
        done.push(key);
    }
    operations.reload().await?;
    let loaded = load(call.options)?;
    let values = values.keys().map(|key| (key.clone(), loaded.get(key).unwrap_or(Value::Null))).collect();
    Ok(ConfigChanged { values })
}

pub(crate) async fn reload(call: &Call<'_>, _: Nothing) -> Result<Reloaded, RuntimeError> {
    call.running()?.reload().await?;
    Ok(Reloaded { reloaded: true })
}

/// Replaces the owner's token in file and memory; what hung on the old one ends with the reload.
pub(crate) async fn rotate_token(call: &Call<'_>, _: Nothing) -> Result<OwnerTokenRotated, RuntimeError> {
    let operations = call.running()?;
    let editing = operations.editing().lock().await;
    let tokens = &operations.daemon().tokens.book;
    let live = |rows: &[TokenRow]| rows.iter().filter(|row| row.revoked_at.is_none()).count();
    let before = live(&tokens.list().await?);
    config::rotate_token(call.layout()).map_err(|error| config_problem(&error))?;
    operations.reload().await?;
    let ended = before.saturating_sub(live(&tokens.list().await?));
    drop(editing);
    tracing::info!(tokens_ended = ended, "the owner's token was replaced");
    let config = call.layout().config().display().to_string();
    Ok(OwnerTokenRotated { rotated: true, tokens_ended: ended, config })
}

/// Reads the configuration as it stands in the file.
pub(crate) fn load(options: &StartOptions) -> Result<Loaded, RuntimeError> {
    let overrides = Overrides { flags: Vec::new(), environment: &options.environment };
    config::load(&options.layout, options.standing(), &overrides).map_err(|error| config_problem(&error))
}

/// Returns the access policies of these settings.
///
/// # Errors
/// The document cannot be read, or names a session that cannot be.
pub fn policies_of(settings: &Settings) -> Result<Vec<nexus_identity::Policy>, String> {
    let strangers = match settings.acl.unknown_sender_policy {
        UnknownSenderPolicy::Deny => StrangerRule::Deny,
        UnknownSenderPolicy::Ask => StrangerRule::AskInDirectMessages,
    };
    let policies = with_document(&settings.acl.policies, strangers)
        .map_err(|problem| format!("acl.policies: {problem}"))?;
    for policy in &policies {
        let label = policy.routing.session.as_ref().and_then(|rule| rule.label.as_deref());
        if let Some(label) = label {
            nexus_pipeline::pipeline::check_label(&SessionLabel::new(label))
                .map_err(|error| format!("acl.policies: policy {}: session.key: {error}", policy.name))?;
        }
    }
    Ok(policies)
}

fn config_problem(error: &ConfigError) -> RuntimeError {
    RuntimeError::Invalid { message: nexus_base::error::chain(error), hint: Some(error.hint()) }
}
