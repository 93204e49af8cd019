//! The account file: what is known of one account of one service. Fields of later versions survive.

use std::collections::BTreeMap;

use nexus_base::clock::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::failure::Breakage;
use crate::name::{AccountName, ServiceName};
use crate::storage::Storage;

/// What kind of secret it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    ApiKey,
    Token,
    /// An access token that somebody refreshes.
    Oauth,
    /// A kind of a later version.
    #[serde(untagged)]
    Other(String),
}

/// How an account fares.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// Never used.
    Ready,
    /// Used before.
    Active,
    /// Its last use or test failed.
    Broken,
    /// Left alone for a while.
    Cooldown,
}

/// Which process saw how a credential fares. Variables, keychains and commands answer each process in its own
/// way, and the one that counts is the daemon, which uses them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Observer {
    Daemon,
    /// A command in somebody's shell.
    Shell,
}

/// One account of one service.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Account {
    pub service: ServiceName,
    /// The account's name.
    pub account: AccountName,
    /// `user` or `agent:{id}`.
    #[serde(default)]
    pub owners: Vec<String>,
    /// Pointers to its secrets.
    pub credentials: Vec<Credential>,
    /// When it was set up.
    pub configured_at: Timestamp,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_used: Option<Timestamp>,
    /// Whatever else the file holds.
    #[serde(flatten)]
    pub more: Map<String, Value>,
}

/// A pointer to one secret, with its history.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Credential {
    /// Its name within the account, such as `api_key` or `claude-cli`.
    pub id: String,
    /// What kind of secret.
    pub kind: Kind,
    pub storage: Storage,
    /// When it stops working.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Timestamp>,
    /// When it was set up.
    pub configured_at: Timestamp,
    /// When a test last worked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_verified: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_used: Option<Timestamp>,
    /// Why the last use or test failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_error: Option<String>,
    /// What kind of failure that was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub breakage: Option<Breakage>,
    /// Who saw the last failure or test.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_by: Option<Observer>,
    /// Tells the secret that was refused from another one, without telling anything about either.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused_mark: Option<String>,
    /// Failures.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stats: Option<CredentialStats>,
    /// Whatever else the file holds.
    #[serde(flatten)]
    pub more: Map<String, Value>,
}

/// Failures of a credential.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CredentialStats {
    /// Failures in a row.
    #[serde(default)]
    pub error_count: u32,
    /// When it failed and began to rest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cooldown_since: Option<Timestamp>,
    /// Until when it is left alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cooldown_until: Option<Timestamp>,
    /// How often it failed in which way.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub failure_reasons: BTreeMap<String, u32>,
    /// Whatever else the file holds.
    #[serde(flatten)]
    pub more: Map<String, Value>,
}

impl Account {
    /// Makes an account with one pointer, owned by the user.
    pub fn with_pointer(
        service: ServiceName,
        account: AccountName,
        id: &str,
        kind: Kind,
        storage: Storage,
        now: Timestamp,
    ) -> Self {
        let credential = Credential {
            id: id.to_owned(),
            kind,
            storage,
            expires_at: None,
            configured_at: now,
            last_verified: None,
            last_used: None,
            last_error: None,
            breakage: None,
            observed_by: None,
            refused_mark: None,
            stats: None,
            more: Map::new(),
        };
        Self {
            service,
            account,
            owners: vec!["user".to_owned()],
            credentials: vec![credential],
            configured_at: now,
            last_used: None,
            more: Map::new(),
        }
    }

    /// Returns `service/account`.
    pub fn reference(&self) -> String {
        format!("{}/{}", self.service, self.account)
    }

    /// Tells how the account fares at `now`: as its best credential does.
    pub fn status(&self, now: Timestamp) -> Status {
        let statuses: Vec<Status> = self.credentials.iter().map(|one| one.status(now)).collect();
        [Status::Active, Status::Ready, Status::Cooldown]
            .into_iter()
            .find(|status| statuses.contains(status))
            .unwrap_or(Status::Broken)
    }
}

impl Credential {
    /// Tells how the credential fares at `now`.
    pub fn status(&self, now: Timestamp) -> Status {
        // A rest that has not begun yet means that the clock was set back: nobody knows what is left of it,
        // and trying says it.
        let cooling = self.stats.as_ref().is_some_and(|stats| {
            stats.cooldown_until.is_some_and(|until| until > now)
                && stats.cooldown_since.is_none_or(|since| since <= now)
        });
        if cooling {
            Status::Cooldown
        } else if self.last_error.is_some() {
            Status::Broken
        } else if self.last_used.is_some() {
            Status::Active
        } else {
            Status::Ready
        }
    }
}
