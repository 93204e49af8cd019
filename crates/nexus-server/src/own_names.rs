//! Who a request may be addressed to and who may have sent it: the check that keeps web pages and
//! rebound DNS names out, before the token is even looked at.

use axum::http::header::{HOST, ORIGIN};
use axum::http::{HeaderMap, Request, Uri};
use nexus_protocol::error::ErrorCode;
use percent_encoding::percent_decode_str;

use crate::answer::Refusal;

/// The names this server answers to.
#[derive(Debug)]
pub(crate) struct OwnNames {
    hosts: Vec<String>,
}

impl OwnNames {
    /// The loopback names with our port.
    pub(crate) fn new(port: u16) -> Self {
        let names = ["127.0.0.1", "localhost", "[::1]"];
        let mut hosts: Vec<String> = names.iter().map(|name| format!("{name}:{port}")).collect();
        // HTTP's own port is left out of `Host` and `Origin`.
        if port == 80 {
            hosts.extend(names.map(str::to_owned));
        }
        Self { hosts }
    }

    /// Refuses what is not addressed to us, comes from a page of another origin, or carries a token
    /// in its address.
    pub(crate) fn check<B>(&self, request: &Request<B>) -> Result<(), Refusal> {
        let host = self.own_host(request.headers(), request.uri())?;
        own_origin(request.headers(), host)?;
        no_secret_in_query(request.uri())
    }

    fn own_host<'a>(&self, headers: &'a HeaderMap, uri: &Uri) -> Result<&'a str, Refusal> {
        let host = only(headers, &HOST).ok_or_else(|| {
            Refusal::new(ErrorCode::InvalidRequest, "exactly one Host header is required").closing()
        })?;
        let is_own = |name: &str| self.hosts.iter().any(|own| own.eq_ignore_ascii_case(name));
        // An absolute request line names a host as well, and must not name another one.
        let addressed = uri.authority().is_none_or(|authority| is_own(authority.as_str()));
        if !is_own(host) || !addressed {
            return Err(Refusal::new(ErrorCode::Forbidden, "the Host header names another host")
                .hint(format!("address the daemon as {}", self.hosts[0]))
                .closing());
        }
        Ok(host)
    }
}

fn own_origin(headers: &HeaderMap, host: &str) -> Result<(), Refusal> {
    let foreign = || {
        Refusal::new(ErrorCode::Forbidden, "requests from web pages of other origins are refused").closing()
    };
    for origin in headers.get_all(ORIGIN) {
        let is_own = origin
            .to_str()
            .ok()
            .and_then(|origin| origin.strip_prefix("http://"))
            .is_some_and(|own| own.eq_ignore_ascii_case(host));
        if !is_own {
            return Err(foreign());
        }
    }
    // Browsers leave `Origin` out of plain GETs, but not this one.
    match headers.get("sec-fetch-site").map(|site| site.as_bytes()) {
        None | Some(b"same-origin" | b"none") => Ok(()),
        Some(_) => Err(foreign()),
    }
}

/// Addresses end up in histories, logs and referrers, so a token there is refused, right or wrong.
fn no_secret_in_query(uri: &Uri) -> Result<(), Refusal> {
    let Some(query) = uri.query() else { return Ok(()) };
    let carries_token = query.split(['&', ';']).any(|pair| {
        let name = pair.split('=').next().unwrap_or_default();
        let name = percent_decode_str(name).collect::<Vec<u8>>().to_ascii_lowercase();
        name.windows(5).any(|part| part == b"token")
    });
    if carries_token {
        return Err(Refusal::new(ErrorCode::InvalidRequest, "a token in the address is refused")
            .hint("send it in the header Authorization: Bearer, and replace the one that was in the address")
            .closing());
    }
    Ok(())
}

fn only<'a>(headers: &'a HeaderMap, name: &axum::http::HeaderName) -> Option<&'a str> {
    let mut values = headers.get_all(name).iter();
    let value = values.next()?;
    if values.next().is_some() { None } else { value.to_str().ok() }
}

#[cfg(test)]
mod tests;
