//! Credentials tested and looked for where they are used: in the daemon's own environment.

use std::time::Duration;

use nexus_credentials::{CredentialFolder, FindError, Observer, SyncRequest, boot_sync, keychain_sync};
use nexus_protocol::control::CredentialsOf;
use nexus_protocol::control::answers::{CredentialsSynced, VerifiedCredentials, VerifiedView};
use serde_json::{Value, json};

use super::{broken, missing, shown, shown_as};
use crate::{Runtime, RuntimeError};
use nexus_models::credentials::{of_daemon, verify_all};

impl Runtime {
    pub(super) async fn credentials_verify(&self, of: CredentialsOf) -> Result<Value, RuntimeError> {
        let resolver = of_daemon(&self.shared.control.options);
        if of.look_only {
            let checked = CredentialFolder::new(resolver.folder()).check(&resolver, Observer::Daemon).await;
            let views = checked.map_err(|error| broken(&error))?.into_iter().map(|one| VerifiedView {
                reference: one.reference.to_string(),
                outcome: if one.problem.is_some() { "no_secret" } else { "present" }.to_owned(),
                reason: one.problem,
                hint: one.hint.map(str::to_owned),
            });
            return shown(&VerifiedCredentials { credentials: views.collect() });
        }
        let settings = self.shared.agent_factory.settings();
        let results =
            verify_all((&resolver, Observer::Daemon), &settings.providers, of.name.as_deref()).await;
        let results = results.map_err(|error| match error {
            FindError::File(error) => broken(&error),
            FindError::Nothing { given } => missing("credential", given),
            FindError::Name(_) => missing("credential", of.name.unwrap_or_default()),
        })?;
        shown_as::<VerifiedCredentials>(&json!({ "credentials": results }))
    }

    pub(super) async fn credentials_sync(&self) -> Result<Value, RuntimeError> {
        let options = &self.shared.control.options;
        let folder = CredentialFolder::new(options.layout.credentials());
        let request = SyncRequest {
            observer: Observer::Daemon,
            environment: &options.environment,
            home: Some(&options.home),
            ttl: Duration::ZERO,
        };
        let mut report = boot_sync(&folder, &request).map_err(|error| broken(&error))?;
        let more = keychain_sync(&folder, &of_daemon(options), &request).await;
        let more = more.map_err(|error| broken(&error))?;
        report.total += more.added.len();
        report.added.extend(more.added);
        shown_as::<CredentialsSynced>(&report)
    }
}
