//! The folder `state/credentials`: reading, listing and writing account files and their index.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use nexus_base::clock::Timestamp;
use nexus_base::file::{self, Durability, FileError};
use serde::Serialize;

use crate::account::{Account, Kind, Observer, Status};
use crate::failure::Breakage;
use crate::index::Index;
use crate::name::{AccountName, ServiceName};

/// Largest account file or index that is read.
const MAX_FILE_SIZE: u64 = 256 * 1024;
/// Most accounts that are looked at.
const MAX_ACCOUNTS: usize = 2_000;

/// The folder of credential pointers.
#[derive(Debug, Clone)]
pub struct CredentialFolder {
    path: PathBuf,
}

/// Accounts that could be read, and files that could not.
#[derive(Debug, Default)]
pub struct Listing {
    /// By service, then account.
    pub accounts: Vec<Account>,
    /// One line per unreadable file, naming it.
    pub problems: Vec<String>,
}

/// One pointer in `credential list`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Listed {
    /// `service/account/credential`.
    pub reference: String,
    pub service: ServiceName,
    pub account: AccountName,
    /// What kind of secret.
    pub kind: Kind,
    /// Where it is, in words.
    pub storage: String,
    /// How it fares.
    pub status: Status,
    /// Why it last failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_error: Option<String>,
    /// What kind of failure that was.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub breakage: Option<Breakage>,
    /// Who saw that.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_by: Option<Observer>,
    /// Until when it rests.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cooldown_until: Option<Timestamp>,
    /// What it rests from: how often it failed in which way.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub failures: BTreeMap<String, u32>,
}

/// Counts for `status` and for the prompt.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Summary {
    /// Accounts in all.
    pub total: usize,
    /// Services that have one, by name.
    pub services: Vec<ServiceName>,
    /// `service/account` of those that do not work.
    pub broken: Vec<String>,
}

impl CredentialFolder {
    /// Takes the folder `state/credentials` of a workspace.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into() }
    }

    /// Returns the folder's path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Reads every account. Files that cannot be read are named and left out.
    ///
    /// # Errors
    /// The folder exists but cannot be listed.
    pub fn read_all(&self) -> Result<Listing, FileError> {
        let mut listing = Listing::default();
        for service in names(&self.path)?.iter().filter_map(|name| ServiceName::new(name).ok()) {
            let folder = self.path.join(service.as_str());
            if !folder.is_dir() {
                continue;
            }
            for account in names(&folder)?.iter().filter_map(|name| AccountName::from_file_name(name)) {
                if listing.accounts.len() + listing.problems.len() >= MAX_ACCOUNTS {
                    listing
                        .problems
                        .push(format!("more than {MAX_ACCOUNTS} accounts; the others are ignored"));
                    return Ok(listing);
                }
                match self.read(&service, &account) {
                    Ok(Some(found)) => listing.accounts.push(found),
                    Ok(None) => {}
                    Err(error) => {
                        let cause = &error.source;
                        listing.problems.push(format!("{}: {cause}", error.path.display()));
                    }
                }
            }
        }
        Ok(listing)
    }

    /// Reads one account.
    ///
    /// # Errors
    /// The file exists but is unreadable, is not an account, or names another one.
    pub fn read(&self, service: &ServiceName, account: &AccountName) -> Result<Option<Account>, FileError> {
        let path = self.account_path(service, account);
        let text = match file::read_text(&path, MAX_FILE_SIZE) {
            Ok(text) => text,
            Err(error) if error.source.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let wrong = |detail: String| FileError::new("reading", &path, std::io::Error::other(detail));
        let found: Account = serde_json::from_str(&text).map_err(|error| wrong(error.to_string()))?;
        if found.service != *service || found.account != *account {
            return Err(wrong(format!("it describes {}", found.reference())));
        }
        Ok(Some(found))
    }

    /// Writes one account and brings the index up to date.
    ///
    /// # Errors
    /// The folder is not writable or full.
    pub fn write(&self, account: &Account) -> Result<(), FileError> {
        self.write_account(account)?;
        self.rebuild_index().map(drop)
    }

    /// Takes one account away. Returns whether it was there.
    ///
    /// # Errors
    /// The file cannot be removed.
    pub fn remove(&self, service: &ServiceName, account: &AccountName) -> Result<bool, FileError> {
        let path = self.account_path(service, account);
        match std::fs::remove_file(&path) {
            Ok(()) => self.rebuild_index().map(|_| true),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(FileError::new("removing", path, error)),
        }
    }

    /// Tells whether there is no account at all; the index and empty folders do not count.
    ///
    /// # Errors
    /// The folder exists but cannot be listed.
    pub fn is_empty(&self) -> Result<bool, FileError> {
        let listing = self.read_all()?;
        Ok(listing.accounts.is_empty() && listing.problems.is_empty())
    }

    /// Lists every pointer.
    ///
    /// # Errors
    /// The folder exists but cannot be listed.
    pub fn list(&self) -> Result<Vec<Listed>, FileError> {
        let now = Timestamp::now();
        let mut listed = Vec::new();
        for account in self.read_all()?.accounts {
            for credential in &account.credentials {
                let resting = credential
                    .stats
                    .as_ref()
                    .filter(|stats| stats.cooldown_until.is_some_and(|until| until > now));
                listed.push(Listed {
                    reference: format!("{}/{}", account.reference(), credential.id),
                    service: account.service.clone(),
                    account: account.account.clone(),
                    kind: credential.kind.clone(),
                    storage: credential.storage.describe(),
                    status: credential.status(now),
                    last_error: credential.last_error.clone(),
                    breakage: credential.breakage,
                    observed_by: credential.observed_by,
                    cooldown_until: resting.and_then(|stats| stats.cooldown_until),
                    failures: resting.map(|stats| stats.failure_reasons.clone()).unwrap_or_default(),
                });
            }
        }
        Ok(listed)
    }

    /// Counts accounts.
    ///
    /// # Errors
    /// The folder exists but cannot be listed.
    pub fn summary(&self) -> Result<Summary, FileError> {
        let now = Timestamp::now();
        let listing = self.read_all()?;
        let mut services: Vec<ServiceName> =
            listing.accounts.iter().map(|account| account.service.clone()).collect();
        services.dedup();
        let broken = listing.accounts.iter().filter(|account| account.status(now) == Status::Broken);
        let broken = broken.map(Account::reference).chain(listing.problems).collect();
        Ok(Summary { total: listing.accounts.len(), services, broken })
    }

    /// Returns a service's accounts in the order they should be tried: last good, configured order,
    /// most recently used, name. Broken and resting ones are left out.
    ///
    /// # Errors
    /// The folder exists but cannot be listed.
    pub fn candidates(&self, service: &ServiceName) -> Result<Vec<Account>, FileError> {
        let now = Timestamp::now();
        let index = self.read_index();
        let mut accounts = self.read_all()?.accounts;
        accounts.retain(|account| {
            account.service == *service && matches!(account.status(now), Status::Ready | Status::Active)
        });
        let order = index.order.get(service).cloned().unwrap_or_default();
        let last_good = index.last_good.get(service);
        accounts.sort_by_key(|account| {
            let place = order.iter().position(|name| *name == account.account).unwrap_or(usize::MAX);
            let last_used = account.last_used.unwrap_or(Timestamp(0));
            (
                last_good != Some(&account.account),
                place,
                std::cmp::Reverse(last_used),
                account.account.clone(),
            )
        });
        Ok(accounts)
    }

    /// Reads the index; a missing or damaged one counts as empty, since it can be made again.
    pub fn read_index(&self) -> Index {
        file::read_text(&self.index_path(), MAX_FILE_SIZE)
            .ok()
            .and_then(|text| serde_json::from_str(&text).ok())
            .unwrap_or_default()
    }

    /// Makes the index again from the account files, keeping what only the index knows.
    ///
    /// # Errors
    /// The folder cannot be listed or written.
    pub fn rebuild_index(&self) -> Result<Index, FileError> {
        self.update_index(|_| {})
    }

    /// Takes the lock that keeps two writers of accounts apart; they hold it for milliseconds.
    pub(crate) fn lock(&self) -> Result<std::fs::File, FileError> {
        file::create_folder(&self.path, 0o700)?;
        let path = self.path.join(".lock");
        let held = file::open_lock(&path, 0o600)?;
        held.lock().map_err(|error| FileError::new("locking", path, error))?;
        Ok(held)
    }

    pub(crate) fn update_index(&self, change: impl FnOnce(&mut Index)) -> Result<Index, FileError> {
        let before = self.read_index();
        let now = Timestamp::now();
        let mut after = before.clone();
        after.describe(&self.read_all()?.accounts, now);
        change(&mut after);
        if after != before {
            after.last_updated = now;
            write_json(&self.index_path(), &after)?;
        }
        Ok(after)
    }

    pub(crate) fn write_account(&self, account: &Account) -> Result<(), FileError> {
        file::create_folder(&self.path.join(account.service.as_str()), 0o700)?;
        write_json(&self.account_path(&account.service, &account.account), account)
    }

    fn account_path(&self, service: &ServiceName, account: &AccountName) -> PathBuf {
        self.path.join(service.as_str()).join(account.file_name())
    }

    fn index_path(&self) -> PathBuf {
        self.path.join("index.json")
    }
}

fn write_json(path: &Path, value: &impl Serialize) -> Result<(), FileError> {
    let mut text =
        serde_json::to_vec_pretty(value).map_err(|error| FileError::new("rendering", path, error.into()))?;
    text.push(b'\n');
    // A pointer lost to a power cut is found again by the next sync or scan.
    file::replace(path, &text, 0o600, Durability::Crash)
}

fn names(folder: &Path) -> Result<Vec<String>, FileError> {
    let failed = |error| FileError::new("listing", folder, error);
    let entries = match std::fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(failed(error)),
    };
    let mut names = Vec::new();
    for entry in entries.take(MAX_ACCOUNTS * 2) {
        names.extend(entry.map_err(failed)?.file_name().into_string().ok());
    }
    names.sort();
    Ok(names)
}
