//! The configuration read again while the daemon runs.

use std::sync::Arc;

use async_trait::async_trait;
use nexus_base::error::chain;
use nexus_operations::{Daemon, Reload, RuntimeError, policies_of};
use nexus_protocol::bus::BusBody;
use nexus_store::Store;
use nexus_workspace::StartOptions;
use nexus_workspace::config::Settings;

use crate::boot::{StartError, load};

/// Reads the configuration again and puts it in force.
#[derive(Debug)]
pub(crate) struct Reloader {
    pub(crate) options: StartOptions,
    pub(crate) store: Store,
    pub(crate) daemon: Arc<Daemon>,
}

#[async_trait]
impl Reload for Reloader {
    async fn reload(&self) -> Result<(), RuntimeError> {
        self.again()
            .await
            .map_err(|error| RuntimeError::Invalid { message: chain(&error), hint: error.hint() })
    }
}

impl Reloader {
    /// Does what a hangup asks for.
    pub(crate) async fn on_signal(&self) {
        if let Err(error) = self.again().await {
            tracing::error!(error = chain(&error), hint = ?error.hint(), "new configuration invalid; keeping the old one");
        }
    }

    /// Puts the access policies of these settings in force. A document that cannot be read leaves the policies as
    /// they are; at the first call that means the built-in ones, which refuse everybody but the owner.
    pub(crate) fn apply_policies(&self, settings: &Settings) -> Result<(), String> {
        self.daemon.pipeline.access.set_policies(policies_of(settings)?);
        Ok(())
    }

    /// An invalid configuration changes nothing. Tokens that were given out under another token of the owner's end
    /// with it.
    async fn again(&self) -> Result<(), StartError> {
        let loaded = load(&self.options)?;
        let daemon = &self.daemon;
        let old = daemon.agent_factory.settings();
        let new = loaded.settings;
        if old.runtime.port != new.runtime.port || old.runtime.bind != new.runtime.bind {
            tracing::warn!("runtime.port and runtime.bind take effect at the next start");
        }
        let mut warnings: Vec<String> = loaded
            .warnings
            .iter()
            .map(|problem| format!("{}: {}; {}", problem.key, problem.message, problem.fix))
            .collect();
        if let Err(problem) = self.apply_policies(&new) {
            tracing::error!(problem, "access policies not reloaded; keeping the old ones");
            warnings.push(format!("{problem}; the policies stay as they were"));
        }
        warnings.extend(daemon.agent_factory.projects.take_settings(&new).err());
        for warning in &warnings {
            tracing::warn!(warning, "configuration reloaded; some values are not usable");
        }
        self.options.redactor.register(new.runtime.auth.token.expose());
        daemon.agent_factory.models.reload(&new);
        warnings.extend(daemon.agent_factory.models.problems());
        daemon.agent_factory.live.replace(new);
        daemon.tokens.note_change();
        daemon.lifecycle.notes().warnings = warnings;
        daemon.bus.publish(None, BusBody::ConfigReloaded);
        // Trust may have come meanwhile, and with it the owner's own automations.
        daemon.automations.load_later();
        tracing::info!("configuration reloaded");
        // Whatever the rows say, a token opens nothing under another owner's token; this only makes it last.
        if let Err(error) = daemon.note_owner_token(&self.store).await {
            tracing::error!(%error, "tokens issued under the old owner's token not marked as revoked");
        }
        Ok(())
    }
}
