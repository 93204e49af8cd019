//! Looking whether every pointer still gives a secret. A bad one is marked with its reason; nothing
//! else stops because of it.

use std::time::Duration;

use nexus_base::clock::Timestamp;
use nexus_base::file::FileError;
use secrecy::SecretString;
use serde::Serialize;
use tokio::task::JoinSet;

use crate::account::{Credential, Observer, Status};
use crate::failure::{Breakage, mark_of};
use crate::folder::CredentialFolder;
use crate::name::ServiceName;
use crate::reference::Reference;
use crate::resolve::Resolver;

/// Pointers looked at at once: enough that one hanging command does not hold the others up.
const AT_ONCE: usize = 16;

/// What came of looking at one pointer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Checked {
    pub reference: Reference,
    /// Why it gives no secret; none when it does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
    /// What to do about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hint: Option<&'static str>,
}

impl CredentialFolder {
    /// Fetches every secret once, drops it, and tells which pointers give none. The daemon writes that down:
    /// bad ones are marked, and mended are those that give one again, or another one than was refused. A shell
    /// writes nothing, since what it cannot see the daemon may. Each takes at most ten seconds, sixteen at a time.
    ///
    /// # Errors
    /// The folder cannot be listed or an account not written.
    pub async fn check(&self, resolver: &Resolver, observer: Observer) -> Result<Vec<Checked>, FileError> {
        let mut waiting = Vec::new();
        for account in self.read_all()?.accounts {
            for credential in &account.credentials {
                waiting.push((Reference::of(&account, credential), credential.clone()));
            }
        }
        let mut running = JoinSet::new();
        let mut checked = Vec::new();
        waiting.reverse();
        loop {
            while running.len() < AT_ONCE
                && let Some((reference, credential)) = waiting.pop()
            {
                let resolver = resolver.clone();
                running.spawn(async move {
                    let name = reference.to_string();
                    let outcome = resolver.resolve(&name, &credential.storage).await;
                    (reference, credential, outcome)
                });
            }
            let Some(ended) = running.join_next().await else { break };
            let Ok((reference, credential, outcome)) = ended else { continue };
            let was_broken = credential.breakage == Some(Breakage::Pointer);
            let (problem, hint) = match outcome {
                Ok(secret) => {
                    if observer == Observer::Daemon && is_mended_by(&reference, &credential, &secret) {
                        self.note_mended(&reference)?;
                    }
                    (None, None)
                }
                Err(error) if observer == Observer::Shell => (
                    Some(format!("not visible from here: {}", nexus_base::error::chain(&error))),
                    Some(error.hint()),
                ),
                Err(error) => {
                    let reason = nexus_base::error::chain(&error);
                    if !was_broken || credential.last_error.as_ref() != Some(&reason) {
                        self.note_broken(&reference, Breakage::Pointer, &reason)?;
                        self.note_observed(&reference, Observer::Daemon, None)?;
                    }
                    (Some(reason), Some(error.hint()))
                }
            };
            checked.push(Checked { reference, problem, hint });
        }
        checked.sort_by(|one, other| one.reference.cmp(&other.reference));
        Ok(checked)
    }
}

/// Longest that a message waits for a pointer that gave no secret before.
const RETRY_WITHIN: Duration = Duration::from_secs(2);

impl CredentialFolder {
    /// Tries what is broken of a service once more, for the daemon: a secret may have appeared or changed. Returns
    /// whether something was mended.
    ///
    /// # Errors
    /// The folder cannot be listed or an account not written.
    pub async fn retry(&self, resolver: &Resolver, service: &ServiceName) -> Result<bool, FileError> {
        let now = Timestamp::now();
        let mut running = JoinSet::new();
        for account in self.read_all()?.accounts.into_iter().filter(|account| account.service == *service) {
            for credential in &account.credentials {
                let retried = matches!(credential.breakage, Some(Breakage::Pointer | Breakage::Refused));
                if !retried || credential.status(now) != Status::Broken {
                    continue;
                }
                let (reference, credential) = (Reference::of(&account, credential), credential.clone());
                let resolver = resolver.clone();
                running.spawn(async move {
                    let name = reference.to_string();
                    let secret = resolver.resolve(&name, &credential.storage);
                    let secret = tokio::time::timeout(RETRY_WITHIN, secret).await.ok()?.ok()?;
                    is_mended_by(&reference, &credential, &secret).then_some(reference)
                });
            }
        }
        let mut mended = false;
        while let Some(ended) = running.join_next().await {
            if let Ok(Some(reference)) = ended {
                mended |= self.note_mended(&reference)?;
            }
        }
        Ok(mended)
    }
}

/// Tells whether having this secret clears what stands against a credential.
fn is_mended_by(reference: &Reference, credential: &Credential, secret: &SecretString) -> bool {
    match credential.breakage {
        Some(Breakage::Pointer) => true,
        Some(Breakage::Refused) => credential.refused_mark.as_ref() != Some(&mark_of(reference, secret)),
        Some(Breakage::ThirdParty | Breakage::Flagged) | None => false,
    }
}
