//! The configuration over the control plane: read without secrets, changed as a whole or not at all.

use nexus_base::id::SessionLabel;
use nexus_base::text::visible;
use nexus_identity::{StrangerRule, with_document};
use nexus_protocol::control::ConfigKey;
use nexus_protocol::control::answers::{ConfigChanged, ConfigGot, Reloaded};
use nexus_protocol::methods::Method;
use nexus_workspace::config::{self, ConfigError, Loaded, Overrides, Settings, UnknownSenderPolicy};
use nexus_workspace::trust::Trust;
use serde_json::{Map, Value, json};

use super::{Caller, invalid, missing, shown, shown_as};
use crate::{Runtime, RuntimeError};

/// Most keys one patch changes.
const MAX_KEYS: usize = 100;
/// Most characters of a key that a refusal repeats.
const SHOWN_KEY: usize = 80;

impl Runtime {
    pub(super) fn config_get(&self, key: &ConfigKey) -> Result<Value, RuntimeError> {
        let loaded = self.loaded()?;
        match &key.key {
            None => shown_as::<ConfigGot>(&json!({ "values": loaded.values, "warnings": loaded.warnings })),
            Some(key) => {
                let value = loaded.get(key).ok_or_else(|| missing("setting", key))?;
                shown_as::<ConfigGot>(&json!({ "key": key, "value": value, "source": loaded.source(key) }))
            }
        }
    }

    pub(super) fn config_schema(&self) -> Result<Value, RuntimeError> {
        serde_json::from_str(&config::schema())
            .map_err(|error| RuntimeError::Store { message: error.to_string(), hint: None })
    }

    /// Changes several keys. Checked together on a copy first; a write that fails half-way is taken
    /// back.
    pub(super) async fn config_patch(
        &self,
        caller: &Caller,
        values: Map<String, Value>,
    ) -> Result<Value, RuntimeError> {
        if let Some(key) = values.keys().find(|key| config::is_owner_only(key) && !caller.is_owner()) {
            let key: String = key.chars().take(SHOWN_KEY).collect();
            let reason =
                format!("{} can only be changed by the owner, with their own token", visible::line(&key));
            self.refuse(caller, Method::ConfigPatch, &reason);
            return Err(RuntimeError::Forbidden { reason });
        }
        if values.is_empty() || values.len() > MAX_KEYS {
            return Err(invalid(format!("a patch must name 1 to {MAX_KEYS} keys")));
        }
        let _editing = self.shared.control.editing.lock().await;
        let layout = &self.shared.control.options.layout;
        let before = self.loaded()?.document;
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
        self.reload_configuration().await?;
        let loaded = self.loaded()?;
        let values: Map<String, Value> =
            values.keys().map(|key| (key.clone(), loaded.get(key).unwrap_or(Value::Null))).collect();
        shown(&ConfigChanged { values })
    }

    pub(super) async fn config_reload(&self) -> Result<Value, RuntimeError> {
        self.reload_configuration().await?;
        shown(&Reloaded { reloaded: true })
    }

    /// Reads the file again and puts it in force.
    pub(super) async fn reload_configuration(&self) -> Result<(), RuntimeError> {
        crate::boot::reload(self, &self.shared.control.options).await.map_err(|error| RuntimeError::Invalid {
            message: nexus_base::error::chain(&error),
            hint: error.hint(),
        })
    }

    /// Puts the access policies of these settings in force. A document that cannot be read leaves
    /// the policies as they are; at the first call that means the built-in ones, which refuse
    /// everybody but the owner.
    pub(crate) fn apply_policies(&self, settings: &Settings) -> Result<(), String> {
        let policies = policies_of(settings)?;
        self.shared.pipeline.access.set_policies(policies);
        Ok(())
    }

    fn loaded(&self) -> Result<Loaded, RuntimeError> {
        let options = &self.shared.control.options;
        let overrides = Overrides { flags: Vec::new(), environment: &options.environment };
        config::load(&options.layout, options.standing(), &overrides).map_err(|error| config_problem(&error))
    }
}

fn policies_of(settings: &Settings) -> Result<Vec<nexus_identity::Policy>, String> {
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

pub(super) fn config_problem(error: &ConfigError) -> RuntimeError {
    RuntimeError::Invalid { message: nexus_base::error::chain(error), hint: Some(error.hint()) }
}
