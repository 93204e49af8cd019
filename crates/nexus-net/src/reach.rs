//! How far a request may go.

use std::fmt;
use std::net::IpAddr;

use reqwest::Url;

use crate::address::{Kept, kept_address};
use crate::error::NetError;

/// Longest address that is looked at.
const MAX_ADDRESS_LEN: usize = 8 * 1024;

/// A base URL that the owner configured: scheme, host, port and a path in front of everything.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BaseUrl(Url);

impl BaseUrl {
    /// Reads a base URL.
    ///
    /// # Errors
    /// It is no http or https address, or carries a user, a query or a fragment.
    pub fn parse(text: &str) -> Result<Self, NetError> {
        let mut url = parse(text)?;
        if url.query().is_some() || url.fragment().is_some() {
            return Err(bad("a base URL must not have a query or a fragment"));
        }
        let path = url.path().trim_end_matches('/').to_owned();
        url.set_path(&path);
        Ok(Self(url))
    }

    /// Returns the address of `path` below the base.
    pub fn join(&self, path: &str) -> String {
        format!("{}/{}", self.0.as_str().trim_end_matches('/'), path.trim_start_matches('/'))
    }

    /// Returns the base without a slash at its end.
    pub fn as_str(&self) -> &str {
        self.0.as_str().trim_end_matches('/')
    }

    /// Returns the host's name.
    pub fn host(&self) -> &str {
        self.0.host_str().unwrap_or_default()
    }

    /// Tells whether the base names this machine.
    pub fn is_loopback(&self) -> bool {
        self.host() == "localhost"
            || literal(&self.0).is_some_and(|address| kept_address(address) == Some(Kept::Loopback))
    }

    fn covers(&self, url: &Url) -> bool {
        self.0.origin() == url.origin()
    }
}

impl fmt::Display for BaseUrl {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}

/// How far a request may go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reach {
    /// Public hosts only. For every address that did not come from the owner. Redirects are followed,
    /// each looked at like the first address.
    Public,
    /// Exactly the host and port of a base URL that the owner configured, wherever it lies. Redirects
    /// are not followed: a credential goes where it was meant to go.
    Configured(BaseUrl),
    /// This machine only, for local model servers. Redirects are not followed.
    Loopback,
}

impl Reach {
    /// Reads an address and refuses it when it already shows that it leads too far.
    pub(crate) fn admit(&self, text: &str) -> Result<Url, NetError> {
        let url = parse(text)?;
        match self {
            Self::Public => refuse_kept(&url)?,
            Self::Configured(base) if base.covers(&url) => {}
            Self::Configured(_) => return Err(NetError::OtherHost { host: host_of(&url) }),
            Self::Loopback => {
                let here = url.host_str() == Some("localhost")
                    || literal(&url).is_some_and(|address| kept_address(address) == Some(Kept::Loopback));
                if !here {
                    return Err(NetError::OtherHost { host: host_of(&url) });
                }
            }
        }
        Ok(url)
    }
}

/// Refuses an address whose host is a kept address written out. Names are looked at when resolved.
pub(crate) fn refuse_kept(url: &Url) -> Result<(), NetError> {
    let kept = match literal(url) {
        Some(address) => kept_address(address),
        None => None,
    };
    match kept {
        Some(kept) => Err(NetError::Kept { host: host_of(url), kept }),
        None => Ok(()),
    }
}

pub(crate) fn host_of(url: &Url) -> String {
    url.host_str().unwrap_or_default().to_owned()
}

pub(crate) fn parse(text: &str) -> Result<Url, NetError> {
    if text.len() > MAX_ADDRESS_LEN {
        return Err(bad("it is too long"));
    }
    let url = Url::parse(text).map_err(|error| bad(&error.to_string()))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(bad(&format!("the scheme {} is not http or https", url.scheme())));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(bad("it contains a user name or password"));
    }
    if url.host_str().is_none_or(str::is_empty) {
        return Err(bad("it does not name a host"));
    }
    Ok(url)
}

/// Returns an address in its one normal form, without its fragment; none when it is not usable at all.
pub fn normal_address(text: &str) -> Option<String> {
    let mut url = parse(text.trim()).ok()?;
    url.set_fragment(None);
    Some(url.into())
}

/// Returns where a link on the page at `base` leads, in normal form; none when that is no web address.
pub fn join_address(base: &str, link: &str) -> Option<String> {
    let joined = parse(base).ok()?.join(link.trim()).ok()?;
    normal_address(joined.as_str())
}

/// Returns an address with these pairs as its query.
pub fn with_query(address: &str, pairs: &[(&str, &str)]) -> Option<String> {
    let mut url = parse(address).ok()?;
    url.query_pairs_mut().clear().extend_pairs(pairs);
    Some(url.into())
}

fn literal(url: &Url) -> Option<IpAddr> {
    let host = url.host_str()?;
    host.trim_start_matches('[').trim_end_matches(']').parse().ok()
}

fn bad(reason: &str) -> NetError {
    NetError::BadAddress { reason: reason.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(address: &str) -> Option<Kept> {
        match Reach::Public.admit(address) {
            Err(NetError::Kept { kept, .. }) => Some(kept),
            _ => None,
        }
    }

    #[test]
    fn odd_spellings_of_kept_addresses_are_refused() {
        for address in [
            "http://127.0.0.1/",
            "http://2130706433/",
            "http://0x7f.1/",
            "http://0177.0.0.1/",
            "http://[::1]:80/",
            "http://[::ffff:7f00:1]/",
            "http://127.0.0.1./",
            "http://１２７.0.0.1/",
        ] {
            assert_eq!(refused(address), Some(Kept::Loopback), "{address}");
        }
        assert_eq!(refused("http://169.254.169.254/latest/meta-data"), Some(Kept::LinkLocal));
        assert!(Reach::Public.admit("https://example.com/x?y").is_ok());
    }

    #[test]
    fn other_schemes_and_users_are_refused() {
        for address in ["file:///etc/passwd", "gopher://x/", "http://", "http://user:pw@example.com/", "x"] {
            assert!(matches!(Reach::Public.admit(address), Err(NetError::BadAddress { .. })), "{address}");
        }
    }

    #[test]
    fn a_configured_base_reaches_itself_and_nobody_else() {
        let base = BaseUrl::parse("http://192.168.1.7:8080/v1/").unwrap();
        assert_eq!(base.join("/models"), "http://192.168.1.7:8080/v1/models");
        let reach = Reach::Configured(base);
        assert!(reach.admit("http://192.168.1.7:8080/v1/models").is_ok());
        for other in ["http://192.168.1.7:8081/v1", "https://192.168.1.7:8080/", "http://192.168.1.8:8080/"] {
            assert!(matches!(reach.admit(other), Err(NetError::OtherHost { .. })), "{other}");
        }
        assert!(BaseUrl::parse("http://h/?key=1").is_err());
    }

    #[test]
    fn addresses_are_joined_and_made_normal() {
        assert_eq!(normal_address(" HTTP://Ex.org:80/a/../b#c ").as_deref(), Some("http://ex.org/b"));
        assert_eq!(normal_address("http://u:p@ex.org/"), None);
        assert_eq!(join_address("https://ex.org/a/b", "../c?d").as_deref(), Some("https://ex.org/c?d"));
        assert_eq!(join_address("https://ex.org/", "mailto:x@y.z"), None);
        assert_eq!(
            with_query("http://h/p", &[("q", "a b&c"), ("n", "1")]).as_deref(),
            Some("http://h/p?q=a+b%26c&n=1")
        );
    }

    #[test]
    fn loopback_means_loopback() {
        assert!(Reach::Loopback.admit("http://127.0.0.1:11434/api/tags").is_ok());
        assert!(Reach::Loopback.admit("http://localhost:1234/v1/models").is_ok());
        assert!(Reach::Loopback.admit("http://localhost.example.com/").is_err());
        assert!(Reach::Loopback.admit("http://10.0.0.1/").is_err());
    }
}
