//! A cheap question to a provider that only a working credential gets an answer to: its list of models.
//!
//! Says what the answer means for the credential. Writing that down is for the caller.

use std::time::Duration;

use nexus_credentials::Kind;
use nexus_net::{BaseUrl, Net, NetError, Reach, Request};
use secrecy::SecretString;
use serde_json::Value;

use crate::provider::{self, Provider, Speech};

/// Longest a provider may take.
const DEADLINE: Duration = Duration::from_secs(8);
/// How much of an answer is looked at.
const MAX_ANSWER_LEN: usize = 64 * 1024;
/// How much of a provider's own words is passed on.
const MAX_REASON_LEN: usize = 200;
/// Version of Anthropic's interface.
pub(crate) const ANTHROPIC_VERSION: &str = "2023-06-01";
/// What marks a login token instead of a key there.
pub(crate) const ANTHROPIC_LOGIN: &str = "oauth-2025-04-20";

/// What to ask.
#[derive(Debug, Clone, Copy)]
pub struct ProbeRequest<'a> {
    /// The service, such as `anthropic`.
    pub service: &'a str,
    /// Its configured address; its own when none.
    pub base_url: Option<&'a str>,
    /// What kind of secret it is.
    pub kind: &'a Kind,
    /// Whether it is the login of another tool.
    pub is_tool_login: bool,
}

/// What the answer means.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// The provider accepts it.
    Works,
    /// The provider does not accept it.
    Refused {
        /// What it said.
        reason: String,
    },
    /// The provider takes this login from its own tool only.
    ThirdParty {
        /// What it said.
        reason: String,
    },
    /// It is fine, but asked too often.
    RateLimited {
        /// How long to wait.
        retry_after: Option<Duration>,
    },
    /// It is fine, but there is no credit.
    NoCredit {
        /// What the provider said.
        reason: String,
    },
    /// The provider could not be asked.
    Unreachable {
        /// Why.
        reason: String,
    },
    /// No question is known for this service.
    NoProbe,
}

/// Asks the provider whether it accepts a secret.
pub async fn probe(net: &Net, request: &ProbeRequest<'_>, secret: &SecretString) -> Verdict {
    let Some(provider) = provider::provider(request.service) else {
        return Verdict::NoProbe;
    };
    match ask(net, provider, request, secret).await {
        Ok(verdict) => verdict,
        Err(error) => Verdict::Unreachable { reason: error.to_string() },
    }
}

async fn ask(
    net: &Net,
    provider: &Provider,
    request: &ProbeRequest<'_>,
    secret: &SecretString,
) -> Result<Verdict, NetError> {
    let base = BaseUrl::parse(request.base_url.unwrap_or(provider.base))?;
    let question = Request::get(provider::address(&base, provider.probe)).deadline(DEADLINE).idle(DEADLINE);
    let question = match (provider.speech, request.kind) {
        (Speech::Anthropic, Kind::Oauth) => question
            .header("anthropic-version", ANTHROPIC_VERSION)
            .header("anthropic-beta", ANTHROPIC_LOGIN)
            .bearer(secret),
        (Speech::Anthropic, _) => {
            question.header("anthropic-version", ANTHROPIC_VERSION).secret_header("x-api-key", secret)
        }
        (Speech::Google, _) => question.secret_header("x-goog-api-key", secret),
        (Speech::Bearer, _) => question.bearer(secret),
    };
    let answer = net.send(question, &Reach::Configured(base)).await?;
    let status = answer.status();
    let retry_after =
        answer.header("retry-after").and_then(|text| text.parse().ok()).map(Duration::from_secs);
    let text = answer.text_start(MAX_ANSWER_LEN).await?;
    Ok(judge(status, retry_after, &text, request.is_tool_login))
}

fn judge(status: u16, retry_after: Option<Duration>, text: &str, is_tool_login: bool) -> Verdict {
    let said = said(text);
    let reason =
        if said.is_empty() { format!("status {status}") } else { format!("status {status}: {said}") };
    let lower = said.to_lowercase();
    let has = |words: &[&str]| words.iter().any(|word| lower.contains(word));
    match status {
        200..=299 => Verdict::Works,
        429 if has(&["quota", "credit", "billing"]) => Verdict::NoCredit { reason },
        429 => Verdict::RateLimited { retry_after },
        402 => Verdict::NoCredit { reason },
        400 | 401 | 403
            if is_tool_login
                && has(&[
                    "only authorized",
                    "third-party",
                    "third party",
                    "missing scopes",
                    "insufficient",
                ]) =>
        {
            Verdict::ThirdParty { reason }
        }
        400 | 403 if has(&["credit balance", "billing"]) => Verdict::NoCredit { reason },
        // Google answers 400 to a wrong key.
        400 if has(&["api key", "api_key"]) => Verdict::Refused { reason },
        401 | 403 => Verdict::Refused { reason },
        300..=399 => Verdict::Unreachable { reason: format!("{reason}; the server redirects elsewhere") },
        _ => Verdict::Unreachable { reason },
    }
}

/// Returns the provider's own words, on one line and short.
pub(crate) fn said(text: &str) -> String {
    let parsed: Option<Value> = serde_json::from_str(text).ok();
    let message = parsed.as_ref().and_then(|value| {
        let error = value.get("error").unwrap_or(value);
        error.get("message").or(Some(error)).and_then(Value::as_str)
    });
    // Providers tend to repeat a part of the key.
    let hidden = nexus_base::redact::Redactor::new().redact(message.unwrap_or_default());
    hidden.split_whitespace().collect::<Vec<_>>().join(" ").chars().take(MAX_REASON_LEN).collect()
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};

    use super::*;

    /// Answers one request and returns what it saw.
    fn provider(status: u16, body: &'static str) -> (String, std::thread::JoinHandle<String>) {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("loopback");
        let base = format!("http://{}", listener.local_addr().expect("an address"));
        let seen = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().expect("a caller");
            let mut head = vec![0; 8192];
            let length = stream.read(&mut head).expect("a request");
            let answer = format!(
                "HTTP/1.1 {status} X\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
                body.len()
            );
            stream.write_all(answer.as_bytes()).expect("an answer");
            String::from_utf8_lossy(&head[..length]).to_lowercase()
        });
        (base, seen)
    }

    async fn asked(service: &str, kind: Kind, status: u16, body: &'static str) -> (Verdict, String) {
        let (base, seen) = provider(status, body);
        let is_tool_login = kind == Kind::Oauth;
        let request = ProbeRequest { service, base_url: Some(&base), kind: &kind, is_tool_login };
        let verdict = probe(&Net::new(), &request, &SecretString::from("the-secret")).await;
        (verdict, seen.join().expect("it saw a request"))
    }

    #[tokio::test]
    async fn each_provider_is_asked_in_its_own_way() {
        let (verdict, seen) = asked("anthropic", Kind::ApiKey, 200, "{\"data\":[]}").await;
        assert_eq!(verdict, Verdict::Works);
        assert!(seen.starts_with("get /v1/models ") && seen.contains("x-api-key: the-secret"), "{seen}");
        let (verdict, seen) = asked("openai", Kind::ApiKey, 200, "{}").await;
        assert_eq!(verdict, Verdict::Works);
        assert!(seen.contains("authorization: bearer the-secret"), "{seen}");
        let (_, seen) = asked("gemini", Kind::ApiKey, 200, "{}").await;
        assert!(seen.starts_with("get /v1beta/models ") && seen.contains("x-goog-api-key"), "{seen}");
        let (_, seen) = asked("anthropic", Kind::Oauth, 200, "{}").await;
        assert!(seen.contains("anthropic-beta: oauth") && !seen.contains("x-api-key"), "{seen}");
    }

    #[tokio::test]
    async fn answers_become_decisions() {
        let (verdict, _) = asked("openai", Kind::ApiKey, 401, "{\"error\":{\"message\":\"bad key\"}}").await;
        assert_eq!(verdict, Verdict::Refused { reason: "status 401: bad key".into() });
        let body = "{\"error\":{\"message\":\"This credential is only authorized for use with X\"}}";
        let (verdict, _) = asked("anthropic", Kind::Oauth, 400, body).await;
        assert!(matches!(verdict, Verdict::ThirdParty { .. }), "{verdict:?}");
        let (verdict, _) = asked("openai", Kind::ApiKey, 429, "{}").await;
        assert_eq!(verdict, Verdict::RateLimited { retry_after: None });
        let (verdict, _) =
            asked("openai", Kind::ApiKey, 429, "{\"error\":{\"message\":\"exceeded your quota\"}}").await;
        assert!(matches!(verdict, Verdict::NoCredit { .. }));
        let (verdict, _) = asked("openai", Kind::ApiKey, 307, "").await;
        assert!(matches!(verdict, Verdict::Unreachable { .. }));
        let (verdict, _) = asked("openai", Kind::ApiKey, 500, "oops").await;
        assert!(matches!(verdict, Verdict::Unreachable { .. }));
    }

    #[tokio::test]
    async fn a_base_with_its_version_is_taken_as_it_is() {
        let (base, seen) = provider(200, "{}");
        let base = format!("{base}/v1/");
        let kind = Kind::ApiKey;
        let request =
            ProbeRequest { service: "openai", base_url: Some(&base), kind: &kind, is_tool_login: false };
        assert_eq!(probe(&Net::new(), &request, &SecretString::from("s")).await, Verdict::Works);
        assert!(seen.join().unwrap().starts_with("get /v1/models "));
    }
}
