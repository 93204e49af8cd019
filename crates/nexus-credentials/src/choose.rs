//! Which credential to use: allowed ones, in the order they should be tried.

use nexus_base::file::FileError;

use crate::account::{Credential, Status};
use crate::folder::CredentialFolder;
use crate::name::{AccountName, ServiceName};
use crate::reference::Reference;

/// Which credentials somebody may use. Patterns are `service/account`, with `*` for either part.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AccessRules {
    /// 0 everything, 1 all but the blocked, 2 and 3 only the allowed.
    pub level: u8,
    /// Never given at level 1 and above.
    pub blocked: Vec<String>,
    /// Given at level 2 and 3.
    pub allowed: Vec<String>,
}

impl AccessRules {
    /// Tells whether a credential may be used.
    pub fn permit(&self, service: &ServiceName, account: &AccountName) -> bool {
        let named = |patterns: &[String]| patterns.iter().any(|pattern| covers(pattern, service, account));
        match self.level {
            0 => true,
            1 => !named(&self.blocked),
            _ => named(&self.allowed) && !named(&self.blocked),
        }
    }
}

fn covers(pattern: &str, service: &ServiceName, account: &AccountName) -> bool {
    let (wanted_service, wanted_account) = pattern.split_once('/').unwrap_or((pattern, "*"));
    let is = |wanted: &str, name: &str| wanted == "*" || wanted == name;
    is(wanted_service, service.as_str()) && is(wanted_account, account.as_str())
}

/// A credential that may be tried.
#[derive(Debug, Clone)]
pub struct Candidate {
    /// Its full name.
    pub reference: Reference,
    /// The pointer and its history.
    pub credential: Credential,
}

impl CredentialFolder {
    /// Returns a service's credentials in the order they should be tried: the account asked for, or
    /// last good, configured order, most recently used. Broken, resting and forbidden ones are left out.
    ///
    /// # Errors
    /// The folder exists but cannot be listed.
    pub fn choose(
        &self,
        service: &ServiceName,
        account: Option<&AccountName>,
        rules: &AccessRules,
    ) -> Result<Vec<Candidate>, FileError> {
        let now = nexus_base::clock::Timestamp::now();
        let mut candidates = Vec::new();
        for found in self.candidates(service)? {
            let wanted = account.is_none_or(|wanted| *wanted == found.account);
            if !wanted || !rules.permit(service, &found.account) {
                continue;
            }
            for credential in &found.credentials {
                if matches!(credential.status(now), Status::Ready | Status::Active) {
                    let reference = Reference::of(&found, credential);
                    candidates.push(Candidate { reference, credential: credential.clone() });
                }
            }
        }
        Ok(candidates)
    }

    /// Sets the order in which a service's accounts are tried.
    ///
    /// # Errors
    /// The folder cannot be read or written.
    pub fn set_order(&self, service: &ServiceName, order: Vec<AccountName>) -> Result<(), FileError> {
        self.update_index(|index| {
            // A new order is a new wish; what worked last no longer comes before it.
            index.last_good.remove(service);
            if order.is_empty() {
                index.order.remove(service);
            } else {
                index.order.insert(service.clone(), order);
            }
        })
        .map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_decide_who_is_let_through() {
        let service = ServiceName::new("openai").unwrap();
        let (work, home) = (AccountName::new("work").unwrap(), AccountName::new("home").unwrap());
        let rules = |level| AccessRules {
            level,
            blocked: vec!["openai/work".into()],
            allowed: vec!["*/home".into(), "openai/*".into()],
        };
        assert!(rules(0).permit(&service, &work));
        assert!(!rules(1).permit(&service, &work));
        assert!(rules(1).permit(&service, &home));
        assert!(!rules(2).permit(&service, &work));
        assert!(rules(3).permit(&service, &home));
        assert!(!AccessRules { level: 2, ..AccessRules::default() }.permit(&service, &home));
    }
}
