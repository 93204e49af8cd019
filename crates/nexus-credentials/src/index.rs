//! `index.json`: a summary that listings read quickly. Everything but order, last good account and
//! the time of the last sync can be made again from the account files.

use std::collections::BTreeMap;

use nexus_base::clock::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::account::{Account, Kind, Status};
use crate::name::{AccountName, ServiceName};

/// The summary of all accounts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Index {
    /// Format of the file.
    pub version: u32,
    /// When it last changed.
    pub last_updated: Timestamp,
    /// When other tools' logins were last looked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_external_sync: Option<Timestamp>,
    /// Accounts by service.
    #[serde(default)]
    pub services: BTreeMap<ServiceName, IndexedService>,
    /// Preferred order of accounts by service.
    #[serde(default)]
    pub order: BTreeMap<ServiceName, Vec<AccountName>>,
    /// Account that worked last, by service.
    #[serde(default)]
    pub last_good: BTreeMap<ServiceName, AccountName>,
    /// Use and failures by `service:account`.
    #[serde(default)]
    pub usage_stats: Map<String, Value>,
}

/// One service in the summary.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct IndexedService {
    /// Its accounts, by name.
    pub accounts: Vec<IndexedAccount>,
}

/// One account in the summary.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct IndexedAccount {
    /// The account's name.
    pub id: AccountName,
    /// Who it belongs to.
    pub owners: Vec<String>,
    /// Kind of its first credential.
    pub kind: Kind,
    /// How it fares.
    pub status: Status,
    /// When it stops working.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_used: Option<Timestamp>,
    /// Why it last failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_error: Option<String>,
}

impl Default for Index {
    fn default() -> Self {
        Self {
            version: 1,
            last_updated: Timestamp(0),
            last_external_sync: None,
            services: BTreeMap::new(),
            order: BTreeMap::new(),
            last_good: BTreeMap::new(),
            usage_stats: Map::new(),
        }
    }
}

impl Index {
    /// Replaces the summary of accounts by what the account files say.
    pub(crate) fn describe(&mut self, accounts: &[Account], now: Timestamp) {
        self.services.clear();
        self.usage_stats.clear();
        for account in accounts {
            let Some(first) = account.credentials.first() else { continue };
            self.services.entry(account.service.clone()).or_default().accounts.push(IndexedAccount {
                id: account.account.clone(),
                owners: account.owners.clone(),
                kind: first.kind.clone(),
                status: account.status(now),
                expires_at: first.expires_at,
                last_used: account.last_used,
                last_error: first.last_error.clone(),
            });
            let failing = account.credentials.iter().find_map(|one| one.stats.as_ref());
            if account.last_used.is_some() || failing.is_some() {
                let mut usage = serde_json::json!({ "lastUsed": account.last_used });
                if let (Some(fields), Some(stats)) = (usage.as_object_mut(), failing) {
                    fields.insert("errorCount".into(), stats.error_count.into());
                    fields.insert("cooldownUntil".into(), serde_json::json!(stats.cooldown_until));
                    fields.insert("failureReasons".into(), serde_json::json!(stats.failure_reasons));
                }
                self.usage_stats.insert(format!("{}:{}", account.service, account.account), usage);
            }
        }
    }
}
