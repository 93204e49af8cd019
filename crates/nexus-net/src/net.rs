//! The clients behind the guard: one per reach, made on first use, since reading the system's trust
//! roots takes longer than a start may.

use std::error::Error;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use reqwest::redirect::Policy;
use secrecy::ExposeSecret;

use crate::error::NetError;
use crate::reach::{Reach, host_of, refuse_kept};
use crate::request::{Method, Request};
use crate::resolver::{Guard, NameFailure};
use crate::response::Response;

/// Most redirects followed.
const MAX_REDIRECTS: usize = 5;
/// Longest wait for a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(15);
/// How long an unused connection is kept.
const KEEP_IDLE: Duration = Duration::from_secs(60);
/// Unused connections kept per host.
const KEEP_PER_HOST: usize = 4;

/// The way out. Clones share connections.
#[derive(Debug, Clone, Default)]
pub struct Net {
    clients: Arc<Clients>,
}

#[derive(Debug, Default)]
struct Clients {
    public: OnceLock<Result<reqwest::Client, NetError>>,
    configured: OnceLock<Result<reqwest::Client, NetError>>,
    loopback: OnceLock<Result<reqwest::Client, NetError>>,
}

/// Carries the guard's refusal of a redirect through the client's own error.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
struct Refused(NetError);

impl Net {
    /// Makes a way out; nothing is opened or read before the first request.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sends a request as far as `reach` lets it go and waits for the head of the answer. Any status
    /// code is an answer.
    pub async fn send(&self, request: Request, reach: &Reach) -> Result<Response, NetError> {
        let url = reach.admit(&request.address)?;
        let host = host_of(&url);
        let client = self.client(reach)?;
        let mut built = client.request(method(request.method), url).headers(headers(&request)?);
        if let Some(body) = request.body {
            built = built.body(body);
        }
        match tokio::time::timeout(request.deadline, built.send()).await {
            Ok(Ok(answer)) => {
                let host = host_of(answer.url());
                Ok(Response::new(answer, host, request.idle))
            }
            Ok(Err(error)) => Err(explain(error, host)),
            Err(_) => Err(NetError::TimedOut { host, after: request.deadline }),
        }
    }

    /// Tells whether somebody on this machine takes connections at a port, within so long. Far cheaper than a
    /// request, which needs the client and its trust roots.
    pub async fn listens_here(port: u16, within: Duration) -> bool {
        let connecting = tokio::net::TcpStream::connect((std::net::Ipv4Addr::LOCALHOST, port));
        matches!(tokio::time::timeout(within, connecting).await, Ok(Ok(_)))
    }

    fn client(&self, reach: &Reach) -> Result<&reqwest::Client, NetError> {
        let (slot, guard, redirects) = match reach {
            Reach::Public => (&self.clients.public, Guard::PublicOnly, followed()),
            Reach::Configured(_) => (&self.clients.configured, Guard::Any, Policy::none()),
            Reach::Loopback => (&self.clients.loopback, Guard::LoopbackOnly, Policy::none()),
        };
        slot.get_or_init(|| build(guard, redirects)).as_ref().map_err(Clone::clone)
    }
}

fn build(guard: Guard, redirects: Policy) -> Result<reqwest::Client, NetError> {
    // Somebody may have chosen a provider before; then theirs is used.
    let _ = rustls::crypto::ring::default_provider().install_default();
    reqwest::Client::builder()
        .dns_resolver(Arc::new(guard))
        .redirect(redirects)
        // A proxy would resolve names itself, behind the guard's back.
        .no_proxy()
        .referer(false)
        .connect_timeout(CONNECT_TIMEOUT)
        .pool_idle_timeout(KEEP_IDLE)
        .pool_max_idle_per_host(KEEP_PER_HOST)
        .user_agent(concat!("nexus/", env!("CARGO_PKG_VERSION")))
        .build()
        .map_err(|error| NetError::Client { reason: innermost(&error) })
}

fn followed() -> Policy {
    Policy::custom(|attempt| {
        let first = attempt.previous().first().map(host_of).unwrap_or_default();
        match judge_redirect(attempt.url(), attempt.previous().len(), first) {
            Ok(()) => attempt.follow(),
            Err(refusal) => attempt.error(Refused(refusal)),
        }
    })
}

/// Decides on one redirect, `hops` requests after the first. Names are looked at when resolved.
fn judge_redirect(target: &reqwest::Url, hops: usize, first: String) -> Result<(), NetError> {
    if hops > MAX_REDIRECTS {
        return Err(NetError::TooManyRedirects { host: first });
    }
    crate::reach::parse(target.as_str()).and_then(|url| refuse_kept(&url))
}

fn method(method: Method) -> reqwest::Method {
    match method {
        Method::Get => reqwest::Method::GET,
        Method::Post => reqwest::Method::POST,
        Method::Head => reqwest::Method::HEAD,
        Method::Put => reqwest::Method::PUT,
        Method::Delete => reqwest::Method::DELETE,
    }
}

fn headers(request: &Request) -> Result<HeaderMap, NetError> {
    let mut headers = HeaderMap::new();
    for (name, value) in &request.headers {
        let bad = |_| NetError::BadAddress { reason: format!("{name:?} is not a valid header name") };
        let key = HeaderName::from_bytes(name.as_bytes()).map_err(bad)?;
        let mut value = HeaderValue::from_str(value.expose_secret())
            .map_err(|_| NetError::BadAddress { reason: format!("header {name} has an invalid value") })?;
        value.set_sensitive(true);
        headers.append(key, value);
    }
    Ok(headers)
}

fn explain(error: reqwest::Error, host: String) -> NetError {
    let error = error.without_url();
    let mut cause: Option<&(dyn Error + 'static)> = Some(&error);
    while let Some(current) = cause {
        if let Some(Refused(refusal)) = current.downcast_ref::<Refused>() {
            return refusal.clone();
        }
        match current.downcast_ref::<NameFailure>() {
            Some(NameFailure::Kept(kept)) => return NetError::Kept { host, kept: *kept },
            Some(NameFailure::Unresolved) => return NetError::Unresolved { host },
            None => cause = current.source(),
        }
    }
    if error.is_timeout() {
        return NetError::TimedOut { host, after: CONNECT_TIMEOUT };
    }
    NetError::Unreachable { host, reason: innermost(&error) }
}

/// Returns what the last cause says; the ones above it only repeat that something did not work.
pub(crate) fn innermost(error: &dyn Error) -> String {
    let mut last: &dyn Error = error;
    while let Some(cause) = last.source() {
        last = cause;
    }
    last.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn redirects_are_judged_like_first_addresses() {
        let judge = |target: &str, hops| {
            judge_redirect(&target.parse().expect("an address"), hops, "first".to_owned())
        };
        assert_eq!(judge("https://example.com/", 1), Ok(()));
        assert!(matches!(judge("http://169.254.169.254/latest", 1), Err(NetError::Kept { .. })));
        assert!(matches!(judge("http://[::ffff:10.0.0.1]/", 1), Err(NetError::Kept { .. })));
        assert!(matches!(judge("http://u:p@example.com/", 1), Err(NetError::BadAddress { .. })));
        assert!(matches!(judge("ftp://example.com/", 1), Err(NetError::BadAddress { .. })));
        assert!(matches!(judge("https://example.com/", 6), Err(NetError::TooManyRedirects { .. })));
    }
}
