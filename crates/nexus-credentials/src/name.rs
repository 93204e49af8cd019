//! Names of services and accounts, and the file names they become.

use std::fmt;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use serde::{Deserialize, Serialize};

/// Longest service name, in bytes.
const MAX_SERVICE_LEN: usize = 64;
/// Longest account name, in bytes; percent-encoded it still fits a file name.
const MAX_ACCOUNT_LEN: usize = 80;
/// What a file name does not carry as it is.
const NOT_PLAIN: &AsciiSet =
    &NON_ALPHANUMERIC.remove(b'@').remove(b'.').remove(b'_').remove(b'+').remove(b'-');

/// Why a name cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// Services are short plain words.
    #[error("{given:?} is not a service name: use lowercase letters, digits, - and .")]
    Service {
        /// What was given, shortened.
        given: String,
    },
    /// Accounts may hold almost anything, but not nothing.
    #[error("{given:?} is not an account name: use 1 to {MAX_ACCOUNT_LEN} bytes without control characters")]
    Account {
        /// What was given, shortened.
        given: String,
    },
}

/// A service, such as `anthropic` or `github`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ServiceName(String);

impl ServiceName {
    /// Takes a service's name.
    ///
    /// # Errors
    /// The name has other characters than lower case letters, digits, `-` and `.`, or is too long.
    pub fn new(text: &str) -> Result<Self, NameError> {
        let is_plain = |byte: u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.');
        let starts_well = text.bytes().next().is_some_and(|byte| byte.is_ascii_alphanumeric());
        if starts_well && text.len() <= MAX_SERVICE_LEN && text.bytes().all(is_plain) && !text.contains("..")
        {
            return Ok(Self(text.to_owned()));
        }
        Err(NameError::Service { given: shorten(text) })
    }

    /// Returns the name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// An account of a service, such as `ada@example.com`, `claude-cli` or `env:GITHUB_TOKEN`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct AccountName(String);

impl AccountName {
    /// Takes an account's name.
    ///
    /// # Errors
    /// The name is empty, too long, `.`, `..` or holds control characters.
    pub fn new(text: &str) -> Result<Self, NameError> {
        let is_usable = !text.is_empty()
            && text.len() <= MAX_ACCOUNT_LEN
            && text != "."
            && text != ".."
            && !text.chars().any(char::is_control);
        if is_usable { Ok(Self(text.to_owned())) } else { Err(NameError::Account { given: shorten(text) }) }
    }

    /// Names the account of an environment variable.
    ///
    /// # Errors
    /// The variable's name is too long.
    pub fn of_variable(variable: &str) -> Result<Self, NameError> {
        Self::new(&format!("env:{variable}"))
    }

    /// Returns the name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the file name that carries this account, extension included.
    pub(crate) fn file_name(&self) -> String {
        // A leading dot would hide the file; a leading underscore is kept for `_client.json`.
        let first = if self.0.starts_with(['.', '_']) { 1 } else { 0 };
        let (first, rest) = self.0.split_at(first);
        format!(
            "{}{}.json",
            utf8_percent_encode(first, NON_ALPHANUMERIC),
            utf8_percent_encode(rest, NOT_PLAIN)
        )
    }

    /// Reads the account out of a file name; none for files that are something else.
    pub(crate) fn from_file_name(name: &str) -> Option<Self> {
        let stem = name.strip_suffix(".json").filter(|stem| !stem.starts_with(['_', '.']))?;
        let account = Self::new(&percent_decode_str(stem).decode_utf8().ok()?).ok()?;
        // Only the one spelling we write counts, so that no account has two files.
        (account.file_name() == name).then_some(account)
    }
}

fn shorten(text: &str) -> String {
    text.chars().take(40).collect()
}

macro_rules! text_conversions {
    ($($name:ident),+) => {$(
        impl TryFrom<String> for $name {
            type Error = NameError;
            fn try_from(text: String) -> Result<Self, NameError> {
                Self::new(&text)
            }
        }

        impl From<$name> for String {
            fn from(name: $name) -> Self {
                name.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str(&self.0)
            }
        }
    )+};
}

text_conversions!(ServiceName, AccountName);

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn file_names_by_example() {
        let file = |text: &str| AccountName::new(text).unwrap().file_name();
        assert_eq!(file("ada@example.com"), "ada@example.com.json");
        assert_eq!(file("env:GITHUB_TOKEN"), "env%3AGITHUB_TOKEN.json");
        assert_eq!(file("../../etc/passwd"), "%2E.%2F..%2Fetc%2Fpasswd.json");
        assert_eq!(file("_client"), "%5Fclient.json");
        assert!(AccountName::new("..").is_err() && AccountName::new("").is_err());
        assert!(AccountName::new("a\nb").is_err() && AccountName::new(&"x".repeat(81)).is_err());
        assert_eq!(AccountName::from_file_name("_client.json"), None);
        assert_eq!(AccountName::from_file_name("%61.json"), None);
        assert_eq!(AccountName::from_file_name("%zz.json"), None);
    }

    #[test]
    fn services_are_plain_words() {
        for good in ["anthropic", "brave-search", "example.com", "1password"] {
            assert!(ServiceName::new(good).is_ok(), "{good}");
        }
        for bad in ["", "..", "a/b", "Anthropic", "-x", "a..b", "a b", &"x".repeat(65)] {
            assert!(ServiceName::new(bad).is_err(), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn every_account_has_one_safe_file_name(text in "\\PC{1,40}") {
            if let Ok(account) = AccountName::new(&text) {
                let name = account.file_name();
                prop_assert!(name.len() <= 255);
                prop_assert!(name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"@._+-%".contains(&byte)));
                prop_assert!(!name.starts_with('.') && !name.starts_with('_'));
                prop_assert_eq!(AccountName::from_file_name(&name), Some(account));
            }
        }

        #[test]
        fn no_file_name_makes_it_panic(name in "\\PC{0,40}") {
            let _ = AccountName::from_file_name(&name);
        }
    }
}
