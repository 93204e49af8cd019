//! Name resolution that drops addresses a request may not reach. What is connected to is exactly what
//! was looked at, so a name that answers differently the second time gains nothing.

use std::error::Error;
use std::fmt;
use std::net::SocketAddr;

use reqwest::dns::{Addrs, Name, Resolve, Resolving};

use crate::address::{Kept, kept_address};

/// Most addresses of one name that are tried.
const MAX_ADDRESSES: usize = 16;

/// Which addresses a name may lead to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Guard {
    PublicOnly,
    LoopbackOnly,
    Any,
}

/// Why a name gave no address; found again in the chain of causes.
#[derive(Debug)]
pub(crate) enum NameFailure {
    Unresolved,
    Kept(Kept),
}

impl fmt::Display for NameFailure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unresolved => formatter.write_str("no address"),
            Self::Kept(kept) => write!(formatter, "belongs to {kept}"),
        }
    }
}

impl Error for NameFailure {}

impl Resolve for Guard {
    fn resolve(&self, name: Name) -> Resolving {
        let guard = *self;
        Box::pin(async move {
            let found = tokio::net::lookup_host((name.as_str(), 0))
                .await
                .map_err(|_| Box::new(NameFailure::Unresolved) as Box<dyn Error + Send + Sync>)?;
            let admitted = guard.choose(found.take(MAX_ADDRESSES).collect())?;
            Ok(Box::new(admitted.into_iter()) as Addrs)
        })
    }
}

impl Guard {
    /// Refuses the name when any of its addresses is out of reach: a name with one public and one
    /// private address is an attack or a mistake, never a service.
    fn choose(self, found: Vec<SocketAddr>) -> Result<Vec<SocketAddr>, NameFailure> {
        if found.is_empty() {
            return Err(NameFailure::Unresolved);
        }
        for address in &found {
            match (self, kept_address(address.ip())) {
                (Self::PublicOnly, Some(kept)) => return Err(NameFailure::Kept(kept)),
                (Self::LoopbackOnly, None) => return Err(NameFailure::Unresolved),
                (Self::LoopbackOnly, Some(kept)) if kept != Kept::Loopback => {
                    return Err(NameFailure::Kept(kept));
                }
                (Self::PublicOnly, None) | (Self::LoopbackOnly, Some(_)) | (Self::Any, _) => {}
            }
        }
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn addresses(texts: &[&str]) -> Vec<SocketAddr> {
        texts.iter().map(|text| format!("{text}:0").parse().expect("an address")).collect()
    }

    #[test]
    fn one_kept_address_spoils_the_name() {
        assert!(Guard::PublicOnly.choose(addresses(&["1.1.1.1", "10.0.0.1"])).is_err());
        assert!(Guard::PublicOnly.choose(addresses(&["1.1.1.1", "[2606:4700::1]"])).is_ok());
        assert!(Guard::LoopbackOnly.choose(addresses(&["1.1.1.1"])).is_err());
        assert!(Guard::LoopbackOnly.choose(addresses(&["127.0.0.1", "[::1]"])).is_ok());
        assert!(Guard::Any.choose(addresses(&["10.0.0.1"])).is_ok());
        assert!(Guard::Any.choose(Vec::new()).is_err());
    }
}
