//! How a credential fails, how long it is left alone after that, and what clears it again.

use std::time::Duration;

use nexus_base::clock::Timestamp;
use nexus_base::file::FileError;
use nexus_base::words;
use serde::{Deserialize, Serialize};

use secrecy::{ExposeSecret, SecretString};
use sha2::{Digest, Sha256};

use crate::account::{Account, Credential, CredentialStats, Observer};
use crate::folder::CredentialFolder;
use crate::reference::Reference;

words! {
    /// How the use of a credential failed.
    #[derive(PartialOrd, Ord, Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub enum FailureKind {
        /// Too many requests.
        RateLimit = "rate_limit",
        /// No credit left.
        Billing = "billing",
        /// The provider does not accept it.
        Auth = "auth",
        /// No answer in time.
        Timeout = "timeout",
        /// Anything else.
        Unknown = "unknown",
    }
}

impl FailureKind {
    /// Returns how long a first failure rests the credential.
    pub const fn first_rest(self) -> Duration {
        match self {
            Self::RateLimit | Self::Unknown => Duration::from_mins(1),
            Self::Billing => Duration::from_hours(5),
            Self::Auth => Duration::from_mins(10),
            Self::Timeout => Duration::from_secs(30),
        }
    }

    pub const fn longest_rest(self) -> Duration {
        match self {
            Self::RateLimit => Duration::from_hours(1),
            Self::Billing => Duration::from_hours(24),
            Self::Auth => Duration::from_hours(2),
            Self::Timeout => Duration::from_mins(5),
            Self::Unknown => Duration::from_mins(30),
        }
    }

    /// Returns the rest after the `count`-th failure in a row: doubled each time, up to the longest.
    pub fn rest(self, count: u32) -> Duration {
        let doublings = count.saturating_sub(1).min(16);
        self.first_rest().saturating_mul(1 << doublings).min(self.longest_rest())
    }
}

/// Why a credential counts as broken; decides what mends it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Breakage {
    /// The pointer gives no secret; mended when it does again.
    Pointer,
    /// The provider refused the secret; mended by a test or use that works.
    Refused,
    /// The provider takes this login from its own tool only; using it here cannot work.
    ThirdParty,
    /// Somebody said so; mended when somebody takes it back.
    Flagged,
}

impl Credential {
    /// Notes a use that worked.
    pub(crate) fn succeeded(&mut self, now: Timestamp) {
        self.last_used = Some(now);
        self.stats = None;
        self.mend();
    }

    /// Notes a use that failed; it rests until it may be tried again.
    pub(crate) fn failed(&mut self, kind: FailureKind, asked: Option<Duration>, now: Timestamp) {
        let stats = self.stats.get_or_insert_with(CredentialStats::default);
        stats.error_count = stats.error_count.saturating_add(1);
        // A provider that names a time knows better, within reason.
        let rest = asked.map_or_else(|| kind.rest(stats.error_count), |asked| asked.min(kind.longest_rest()));
        let until = now.0.saturating_add(i64::try_from(rest.as_millis()).unwrap_or(i64::MAX));
        stats.cooldown_since = Some(now);
        stats.cooldown_until = Some(Timestamp(until));
        *stats.failure_reasons.entry(kind.as_str().to_owned()).or_default() += 1;
    }

    /// Notes that it cannot be used.
    pub(crate) fn broke(&mut self, breakage: Breakage, reason: &str) {
        self.refused_mark = None;
        self.last_error = Some(reason.chars().take(300).collect());
        self.breakage = Some(breakage);
    }

    /// Clears what stood against it.
    pub(crate) fn mend(&mut self) {
        self.last_error = None;
        self.breakage = None;
        self.observed_by = None;
        self.refused_mark = None;
    }
}

/// Returns a mark that tells one secret of a credential from the next. Thirty-two bits are enough for that and
/// too few to guess a secret by.
pub fn mark_of(reference: &Reference, secret: &SecretString) -> String {
    let digest = Sha256::digest(format!("{reference}\n{}", secret.expose_secret()).as_bytes());
    nexus_base::id::to_hex(&digest[..4])
}

impl CredentialFolder {
    /// Notes that a use worked: it is tried first from now on.
    ///
    /// # Errors
    /// The account cannot be read or written.
    pub fn note_success(&self, reference: &Reference) -> Result<(), FileError> {
        let now = Timestamp::now();
        let found = self.update(reference, |account, credential| {
            account.last_used = Some(now);
            credential.succeeded(now);
        })?;
        if found {
            self.update_index(|index| {
                index.last_good.insert(reference.service.clone(), reference.account.clone());
            })?;
        }
        Ok(())
    }

    /// Notes that a use failed. `asked` is how long the provider asked to wait.
    ///
    /// # Errors
    /// The account cannot be read or written.
    pub fn note_failure(
        &self,
        reference: &Reference,
        kind: FailureKind,
        asked: Option<Duration>,
    ) -> Result<(), FileError> {
        let now = Timestamp::now();
        self.update(reference, |_, credential| credential.failed(kind, asked, now)).map(drop)
    }

    /// Notes that a credential cannot be used. Returns whether there is such a one.
    ///
    /// # Errors
    /// The account cannot be read or written.
    pub fn note_broken(
        &self,
        reference: &Reference,
        breakage: Breakage,
        reason: &str,
    ) -> Result<bool, FileError> {
        self.update(reference, |_, credential| credential.broke(breakage, reason))
    }

    /// Notes who saw what stands against a credential, and which secret it was.
    ///
    /// # Errors
    /// The account cannot be read or written.
    pub fn note_observed(
        &self,
        reference: &Reference,
        observer: Observer,
        refused: Option<&SecretString>,
    ) -> Result<bool, FileError> {
        let mark = refused.map(|secret| mark_of(reference, secret));
        self.update(reference, |_, credential| {
            credential.observed_by = Some(observer);
            credential.refused_mark = mark;
        })
    }

    /// Notes that a test worked. Returns whether there is such a credential.
    ///
    /// # Errors
    /// The account cannot be read or written.
    pub fn note_verified(&self, reference: &Reference) -> Result<bool, FileError> {
        let now = Timestamp::now();
        self.update(reference, |_, credential| {
            credential.last_verified = Some(now);
            credential.stats = None;
            credential.mend();
        })
    }

    /// Clears what stands against a credential: a flag, an error, a rest.
    ///
    /// # Errors
    /// The account cannot be read or written.
    pub fn note_mended(&self, reference: &Reference) -> Result<bool, FileError> {
        self.update(reference, |_, credential| {
            credential.stats = None;
            credential.mend();
        })
    }

    /// Changes one credential under the folder's lock. Returns whether it is there.
    fn update(
        &self,
        reference: &Reference,
        change: impl FnOnce(&mut Account, &mut Credential),
    ) -> Result<bool, FileError> {
        let _held = self.lock()?;
        let Some(mut account) = self.read(&reference.service, &reference.account)? else { return Ok(false) };
        let at = account.credentials.iter().position(|one| one.id == reference.credential);
        let Some(at) = at else { return Ok(false) };
        let mut credential = account.credentials.remove(at);
        change(&mut account, &mut credential);
        account.credentials.insert(at, credential);
        self.write(&account)?;
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rests_double_up_to_their_longest() {
        let check = |kind: FailureKind, seconds: &[u64]| {
            let rests: Vec<u64> =
                (1..=u32::try_from(seconds.len()).unwrap()).map(|count| kind.rest(count).as_secs()).collect();
            assert_eq!(rests, seconds, "{kind:?}");
        };
        check(FailureKind::RateLimit, &[60, 120, 240, 480, 960, 1920, 3600, 3600]);
        check(FailureKind::Billing, &[18_000, 36_000, 72_000, 86_400]);
        check(FailureKind::Auth, &[600, 1200, 2400, 4800, 7200]);
        check(FailureKind::Timeout, &[30, 60, 120, 240, 300]);
        check(FailureKind::Unknown, &[60, 120, 240, 480, 960, 1800]);
        assert_eq!(FailureKind::Unknown.rest(u32::MAX), FailureKind::Unknown.longest_rest());
    }
}
