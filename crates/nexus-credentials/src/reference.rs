//! `service/account/credential`, as people and configuration name credentials.

use std::fmt;

use nexus_base::file::FileError;
use serde::{Serialize, Serializer};

use crate::account::{Account, Credential};
use crate::folder::CredentialFolder;
use crate::name::{AccountName, NameError, ServiceName};

/// One credential, fully named.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Reference {
    pub service: ServiceName,
    pub account: AccountName,
    /// The credential's name within the account.
    pub credential: String,
}

impl Reference {
    /// Names a credential of an account.
    pub fn of(account: &Account, credential: &Credential) -> Self {
        Self {
            service: account.service.clone(),
            account: account.account.clone(),
            credential: credential.id.clone(),
        }
    }
}

impl fmt::Display for Reference {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}/{}/{}", self.service, self.account, self.credential)
    }
}

impl Serialize for Reference {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// Why a name leads to no credential.
#[derive(Debug, thiserror::Error)]
pub enum FindError {
    /// The text names no service.
    #[error(transparent)]
    Name(#[from] NameError),
    /// Nothing has that name.
    #[error("no credential {given:?}")]
    Nothing {
        /// The text as given.
        given: String,
    },
    /// The folder cannot be read.
    #[error(transparent)]
    File(#[from] FileError),
}

impl CredentialFolder {
    /// Finds every credential that `service[/account[/credential]]` names. An account's name may hold
    /// slashes, so the accounts that exist decide where it ends.
    ///
    /// # Errors
    /// Nothing has that name, or the folder cannot be read.
    pub fn find(&self, given: &str) -> Result<Vec<(Reference, Account, Credential)>, FindError> {
        let (service, rest) = match given.split_once('/') {
            Some((service, rest)) => (ServiceName::new(service)?, Some(rest)),
            None => (ServiceName::new(given)?, None),
        };
        let mut found = Vec::new();
        for account in self.read_all()?.accounts.into_iter().filter(|account| account.service == service) {
            for credential in &account.credentials {
                let matches = rest.is_none_or(|rest| {
                    rest == account.account.as_str()
                        || rest.strip_prefix(account.account.as_str()).and_then(|tail| tail.strip_prefix('/'))
                            == Some(credential.id.as_str())
                });
                if matches {
                    let reference = Reference::of(&account, credential);
                    found.push((reference, account.clone(), credential.clone()));
                }
            }
        }
        if found.is_empty() {
            return Err(FindError::Nothing { given: given.chars().take(200).collect() });
        }
        Ok(found)
    }
}
