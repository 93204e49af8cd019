//! The credentials a chain uses: which may be tried, what they open, how they fared.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use nexus_base::clock::Timestamp;
use nexus_credentials::{
    AccessRules, AccountName, Breakage, Candidate, CredentialFolder, FailureKind, Observer, Reference,
    Resolver, ServiceName, Status,
};
use secrecy::SecretString;

use super::Needs;
use crate::{Access, ModelError};

/// A use that worked is written down at most so often: the file is synced, and turns are many.
const NOTE_EVERY: Duration = Duration::from_secs(10 * 60);

/// Tells whether a credential may be used at all; consent is asked for elsewhere.
pub type MayUse = Arc<dyn Fn(&Reference) -> bool + Send + Sync>;

/// Is shown each secret before it is used, so that a redactor can hide it.
pub type Learned = Arc<dyn Fn(&SecretString) + Send + Sync>;

/// The credentials of a workspace, as a chain sees them.
#[derive(Clone)]
pub struct Keys {
    /// What opens pointers; knows the folder, too.
    pub resolver: Resolver,
    /// Which credentials agents may use.
    pub rules: AccessRules,
    /// Account to use instead of the order of the folder.
    pub account: Option<AccountName>,
    /// Who was agreed to.
    pub may_use: MayUse,
    /// Who learns what is secret.
    pub learned: Learned,
}

impl fmt::Debug for Keys {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Keys").field("rules", &self.rules).finish_non_exhaustive()
    }
}

/// One credential to try, or none where none is needed.
#[derive(Debug)]
pub(super) struct Key {
    candidate: Option<Candidate>,
    /// Whether there is another one that could be used instead.
    has_peers: bool,
}

impl Key {
    const NONE: Self = Self { candidate: None, has_peers: false };

    pub(super) fn pointer(&self) -> Option<String> {
        self.candidate.as_ref().map(|candidate| candidate.reference.to_string())
    }
}

impl Keys {
    /// Returns the credentials to try in order; the error says why there is none.
    pub(super) async fn of(&self, needs: &Needs) -> Result<Vec<Key>, String> {
        let (service, required) = match needs {
            Needs::Nothing => return Ok(vec![Key::NONE]),
            Needs::Service(service) => (service, true),
            Needs::MaybeService(service) => (service, false),
        };
        let Ok(service) = ServiceName::new(service) else {
            return Err(format!("{service:?} is not a service name"));
        };
        let (keys, chosen) = (self.clone(), service.clone());
        let retried = CredentialFolder::new(self.resolver.folder());
        let choose = move || {
            let folder = CredentialFolder::new(keys.resolver.folder());
            let found = folder.choose(&chosen, keys.account.as_ref(), &keys.rules);
            found.map(|found| {
                let resting = if found.is_empty() { resting(&folder, &chosen) } else { None };
                (found, resting)
            })
        };
        let mut found = blocking(choose.clone()).await?.map_err(|error| error.to_string())?;
        // Nothing left: what was broken may have been put right since.
        if found.1.is_some() && retried.retry(&self.resolver, &service).await.unwrap_or(false) {
            found = blocking(choose).await?.map_err(|error| error.to_string())?;
        }
        let (candidates, resting) = found;
        let total = candidates.len();
        let usable: Vec<Candidate> =
            candidates.into_iter().filter(|candidate| (self.may_use)(&candidate.reference)).collect();
        let has_peers = usable.len() > 1;
        let usable: Vec<Key> =
            usable.into_iter().map(|one| Key { candidate: Some(one), has_peers }).collect();
        match (usable.is_empty(), required) {
            (false, _) => Ok(usable),
            // Those that rest or are broken are no reason to come without one.
            (true, false) if resting.is_none() => Ok(vec![Key::NONE]),
            (true, _) if total > 0 => Err("its credential needs your consent".to_owned()),
            (true, _) => Err(resting.unwrap_or_else(|| format!("no credential for {service}"))),
        }
    }

    /// Fetches the secret of a credential; the error says why there is none.
    pub(super) async fn open(&self, key: &Key) -> Result<Option<Access>, String> {
        let Some(candidate) = &key.candidate else { return Ok(None) };
        let pointer = candidate.reference.to_string();
        match self.resolver.resolve(&pointer, &candidate.credential.storage).await {
            Ok(secret) => {
                (self.learned)(&secret);
                Ok(Some(Access {
                    secret,
                    kind: candidate.credential.kind.clone(),
                    pointer,
                    is_tool_login: candidate.credential.id.ends_with("-cli"),
                }))
            }
            Err(error) => {
                let (reference, reason) = (candidate.reference.clone(), error.to_string());
                let text = reason.clone();
                self.write(move |folder| {
                    folder.note_broken(&reference, Breakage::Pointer, &text)?;
                    folder.note_observed(&reference, Observer::Daemon, None).map(drop)
                })
                .await;
                Err(reason)
            }
        }
    }

    /// Writes down that a credential worked.
    pub(super) async fn worked(&self, key: &Key) {
        let Some(candidate) = &key.candidate else { return };
        let credential = &candidate.credential;
        let fresh = credential.last_used.is_some_and(|used| Timestamp::now().since(used) < NOTE_EVERY);
        if fresh && credential.stats.is_none() && credential.breakage.is_none() {
            return;
        }
        let reference = candidate.reference.clone();
        self.write(move |folder| folder.note_success(&reference)).await;
    }

    /// Writes down how a credential failed, if it was the credential.
    pub(super) async fn failed(&self, key: &Key, error: &ModelError) {
        let Some(candidate) = &key.candidate else { return };
        let reference = candidate.reference.clone();
        match error {
            ModelError::Unauthorized { reason, only_its_tool: true, .. } => {
                let reason = format!("the provider accepts this login only from its own tool ({reason})");
                self.write(move |folder| {
                    folder.note_broken(&reference, Breakage::ThirdParty, &reason).map(drop)
                })
                .await;
            }
            ModelError::Unauthorized { .. } => self.rest(reference, FailureKind::Auth, None).await,
            ModelError::NoCredit { .. } => self.rest(reference, FailureKind::Billing, None).await,
            ModelError::RateLimited { retry_after, .. } => {
                self.rest(reference, FailureKind::RateLimit, *retry_after).await;
            }
            // A slow provider is no reason to lock its only credential out.
            ModelError::TimedOut { .. } if key.has_peers => {
                self.rest(reference, FailureKind::Timeout, None).await;
            }
            // Not the credential's fault.
            ModelError::Cancelled
            | ModelError::ContextTooLong
            | ModelError::TimedOut { .. }
            | ModelError::Unavailable { .. }
            | ModelError::BrokenOff { .. }
            | ModelError::Rejected { .. }
            | ModelError::Exhausted { .. } => {}
        }
    }

    async fn rest(&self, reference: Reference, kind: FailureKind, asked: Option<Duration>) {
        self.write(move |folder| folder.note_failure(&reference, kind, asked)).await;
    }

    async fn write(
        &self,
        change: impl FnOnce(&CredentialFolder) -> Result<(), nexus_base::file::FileError> + Send + 'static,
    ) {
        let folder = CredentialFolder::new(self.resolver.folder());
        let outcome = blocking(move || change(&folder)).await;
        if let Err(error) = outcome.and_then(|written| written.map_err(|error| error.to_string())) {
            tracing::warn!(error, "outcome of a credential not recorded");
        }
    }
}

/// Says which credentials of a service exist but cannot be used now.
fn resting(folder: &CredentialFolder, service: &ServiceName) -> Option<String> {
    let now = Timestamp::now();
    let mut said = Vec::new();
    let accounts = folder.read_all().ok()?.accounts;
    for account in accounts.into_iter().filter(|account| account.service == *service) {
        for credential in &account.credentials {
            let reference = Reference::of(&account, credential);
            match credential.status(now) {
                Status::Cooldown => {
                    let until = credential.stats.as_ref().and_then(|stats| stats.cooldown_until);
                    let left = until.map(|until| until.since(now).as_secs() + 1).unwrap_or_default();
                    said.push(format!("{reference} is paused for another {left} s"));
                }
                Status::Broken => {
                    let why = credential.last_error.as_deref().unwrap_or("flagged");
                    let remedy = match credential.breakage {
                        Some(Breakage::Pointer) => {
                            "restart the daemon with it set, or record another source with `nexus credential add`"
                        }
                        Some(Breakage::Refused) => "replace it with `nexus credential add`",
                        Some(Breakage::ThirdParty) => "use an API key of that provider",
                        Some(Breakage::Flagged) | None => "`nexus credential flag` clears it",
                    };
                    said.push(format!("{reference} is broken: {why} ({remedy})"));
                }
                Status::Ready | Status::Active => said.push(format!("{reference} is not allowed here")),
            }
        }
    }
    (!said.is_empty()).then(|| said.join(", "))
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, String> {
    tokio::task::spawn_blocking(work).await.map_err(|error| error.to_string())
}
