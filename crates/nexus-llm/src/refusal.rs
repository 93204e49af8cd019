//! What a provider's refusal means: by its status, its error type and its words.

use std::time::Duration;

use nexus_base::clock::Timestamp;
use nexus_net::Response;
use serde_json::Value;

use crate::ModelError;
use crate::probe::said;

/// Longest wait a provider may ask for; more is a mistake.
const MAX_WAIT: Duration = Duration::from_secs(24 * 60 * 60);

/// Who refused, and whom.
#[derive(Debug, Clone)]
pub(crate) struct Who {
    pub(crate) provider: String,
    pub(crate) pointer: Option<String>,
    pub(crate) is_tool_login: bool,
}

impl Who {
    fn pointer(&self) -> String {
        self.pointer.clone().unwrap_or_else(|| "(none)".to_owned())
    }
}

/// Returns how long the provider asks to wait.
pub(crate) fn retry_after(answer: &Response) -> Option<Duration> {
    let milliseconds = answer.header("retry-after-ms").and_then(|text| text.trim().parse::<f64>().ok());
    let wait = match milliseconds {
        Some(milliseconds) => Some(milliseconds / 1000.0),
        None => answer.header("retry-after").and_then(seconds),
    };
    let wait = wait.filter(|wait| wait.is_finite() && *wait >= 0.0)?;
    Some(Duration::from_secs_f64(wait.min(MAX_WAIT.as_secs_f64())))
}

/// Reads a number of seconds or a date.
fn seconds(text: &str) -> Option<f64> {
    let text = text.trim();
    text.parse::<f64>()
        .ok()
        .or_else(|| Some(Timestamp::parse_http_date(text)?.since(Timestamp::now()).as_secs_f64()))
}

/// Says what a status other than 2xx means.
pub(crate) fn of_status(status: u16, retry_after: Option<Duration>, body: &str, who: &Who) -> ModelError {
    let said = said(body);
    let reason =
        if said.is_empty() { format!("status {status}") } else { format!("status {status}: {said}") };
    let parsed: Value = serde_json::from_str(body).unwrap_or(Value::Null);
    let error = parsed.get("error").unwrap_or(&parsed);
    let word = |name: &str| error.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
    classify(status, &[word("type"), word("code"), said].join(" ").to_lowercase(), reason, retry_after, who)
}

/// Says what an error in the middle of a stream means.
pub(crate) fn of_event(error: &Value, who: &Who) -> ModelError {
    let word = |name: &str| match error.get(name) {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Number(number)) => number.to_string(),
        _ => String::new(),
    };
    let kind = word("type");
    let status = match kind.as_str() {
        "authentication_error" => 401,
        "permission_error" => 403,
        "rate_limit_error" => 429,
        "invalid_request_error" => 400,
        "request_too_large" => 413,
        _ => word("code").parse().ok().filter(|code| (400..600).contains(code)).unwrap_or(500),
    };
    let said = said(&serde_json::json!({ "error": error }).to_string());
    let reason = if said.is_empty() { kind.clone() } else { said.clone() };
    classify(status, &format!("{kind} {} {said}", word("code")).to_lowercase(), reason, None, who)
}

fn classify(
    status: u16,
    words: &str,
    reason: String,
    retry_after: Option<Duration>,
    who: &Who,
) -> ModelError {
    let has = |known: &[&str]| known.iter().any(|known| words.contains(known));
    let provider = who.provider.clone();
    let no_credit = ["insufficient_quota", "credit balance", "billing", "exceeded your current quota"];
    let too_long = [
        "context_length_exceeded",
        "maximum context length",
        "prompt is too long",
        "context size",
        "context window",
        "context length",
        "request_too_large",
        "too many tokens",
    ];
    let tool_only = ["only authorized", "third-party", "third party", "missing scopes"];
    match status {
        402 => ModelError::NoCredit { provider, pointer: who.pointer(), reason },
        400 | 403 | 429 if has(&no_credit) => {
            ModelError::NoCredit { provider, pointer: who.pointer(), reason }
        }
        400 | 401 | 403 if who.is_tool_login && has(&tool_only) => {
            ModelError::Unauthorized { provider, pointer: who.pointer(), reason, only_its_tool: true }
        }
        401 | 403 => {
            ModelError::Unauthorized { provider, pointer: who.pointer(), reason, only_its_tool: false }
        }
        // Google answers 400 to a wrong key.
        400 if has(&["api key not valid", "invalid api key", "api_key_invalid"]) => {
            ModelError::Unauthorized { provider, pointer: who.pointer(), reason, only_its_tool: false }
        }
        413 => ModelError::ContextTooLong,
        400 | 422 | 500 if has(&too_long) => ModelError::ContextTooLong,
        429 => ModelError::RateLimited { provider, retry_after },
        408 | 409 | 425 | 500..=599 => ModelError::Unavailable { provider, reason, retry_after },
        300..=399 => {
            ModelError::Rejected { provider, reason: format!("{reason}; the server redirects elsewhere") }
        }
        _ => ModelError::Rejected { provider, reason },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(status: u16, body: &str) -> &'static str {
        let who = Who { provider: "p".into(), pointer: Some("p/a/k".into()), is_tool_login: true };
        match of_status(status, None, body, &who) {
            ModelError::NoCredit { .. } => "no credit",
            ModelError::Unauthorized { only_its_tool: true, .. } => "tool only",
            ModelError::Unavailable { .. } => "unavailable",
            other => other.code(),
        }
    }

    fn body(kind: &str, message: &str) -> String {
        serde_json::json!({"error": {"type": kind, "message": message}}).to_string()
    }

    #[test]
    fn refusals_become_decisions() {
        let check = |status, kind: &str, message: &str, expected: &str| {
            assert_eq!(code(status, &body(kind, message)), expected, "{status} {kind} {message}");
        };
        check(401, "authentication_error", "invalid x-api-key", "auth_failure");
        check(403, "permission_error", "not for you", "auth_failure");
        check(400, "invalid_request_error", "only authorized for use with Claude Code", "tool only");
        check(
            400,
            "invalid_request_error",
            "API key not valid. Please pass a valid API key.",
            "auth_failure",
        );
        check(400, "invalid_request_error", "Your credit balance is too low", "no credit");
        check(429, "insufficient_quota", "You exceeded your current quota", "no credit");
        check(402, "", "", "no credit");
        check(429, "rate_limit_error", "slow down", "rate_limit");
        check(400, "invalid_request_error", "prompt is too long: 210000 tokens > 200000", "context_overflow");
        check(400, "", "the request exceeds the available context size", "context_overflow");
        check(413, "request_too_large", "", "context_overflow");
        check(400, "invalid_request_error", "tools.0: wrong", "model_error");
        check(404, "not_found_error", "model: nope", "model_error");
        check(500, "api_error", "oops", "unavailable");
        check(529, "overloaded_error", "Overloaded", "unavailable");
        assert_eq!(code(503, "<html>busy</html>"), "unavailable");
        assert_eq!(code(307, ""), "model_error");
    }

    #[test]
    fn errors_inside_a_stream_are_judged_alike() {
        let who = Who { provider: "p".into(), pointer: None, is_tool_login: false };
        let judge = |error: Value| of_event(&error, &who).code();
        assert_eq!(judge(serde_json::json!({"type": "rate_limit_error", "message": "x"})), "rate_limit");
        assert_eq!(judge(serde_json::json!({"code": 429, "message": "x"})), "rate_limit");
        assert!(of_event(&serde_json::json!({"type": "overloaded_error"}), &who).is_retryable());
    }

    #[test]
    fn waits_are_numbers_or_dates() {
        assert_eq!(seconds("7"), Some(7.0));
        assert_eq!(seconds(" 0.5 "), Some(0.5));
        assert_eq!(seconds("Sun, 06 Nov 1994 08:49:37 GMT"), Some(0.0));
        assert!(seconds("Tue, 31 Dec 2199 23:59:59 GMT").is_some_and(|wait| wait > 1e6));
        assert_eq!(seconds("soon"), None);
    }
}
