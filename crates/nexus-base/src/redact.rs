//! One redactor for every text that leaves: known secrets and things that look like secrets
//! become a placeholder.

mod stream;

use std::sync::RwLock;

pub use stream::StreamRedactor;

/// What stands where a secret stood.
pub const PLACEHOLDER: &str = "[redacted]";

/// Prefixes of keys issued by well-known services; what follows them up to a non-key character is hidden.
const KNOWN_PREFIXES: &[&str] = &[
    "sk-ant-",
    "sk-",
    "xoxb-",
    "xoxa-",
    "xoxp-",
    "xoxr-",
    "xoxs-",
    "ghp_",
    "gho_",
    "ghs_",
    "github_pat_",
    "AIza",
    "AKIA",
    "glpat-",
    "hf_",
    "nxt_",
    "Bearer ",
];

/// Shortest tail after a known prefix that counts as a key.
const MIN_TAIL_LEN: usize = 16;
/// Shortest exact secret worth hiding; shorter ones would blank ordinary words.
const MIN_SECRET_LEN: usize = 8;

/// Hides registered secrets exactly and well-known key shapes by prefix.
#[derive(Debug, Default)]
pub struct Redactor {
    secrets: RwLock<Vec<SecretText>>,
}

struct SecretText(String);

impl std::fmt::Debug for SecretText {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(PLACEHOLDER)
    }
}

impl Redactor {
    /// Makes a redactor that knows only key shapes.
    pub fn new() -> Self {
        Self::default()
    }

    /// Remembers a secret value so that it never leaves again.
    pub fn register(&self, secret: &str) {
        if secret.len() < MIN_SECRET_LEN {
            return;
        }
        let mut secrets = self.secrets.write().unwrap_or_else(std::sync::PoisonError::into_inner);
        // Texts leave as JSON, where some letters stand as others.
        for form in [secret.to_owned(), in_json(secret), in_ascii_json(secret)] {
            if !secrets.iter().any(|known| known.0 == form) {
                secrets.push(SecretText(form));
            }
        }
        // One that is part of another must not cut it up before it is found whole.
        secrets.sort_by_key(|secret| std::cmp::Reverse(secret.0.len()));
    }

    /// Returns `text` with every secret replaced by the placeholder.
    pub fn redact(&self, text: &str) -> String {
        self.redact_after(None, text)
    }

    /// Likewise for a text that was cut off: a secret that had only begun at its end is hidden, too.
    pub fn redact_cut(&self, text: &str) -> String {
        self.without_begun(self.redact(text))
    }

    /// Hides the beginning of a secret at the end of a text.
    fn without_begun(&self, mut text: String) -> String {
        let secrets = self.secrets.read().unwrap_or_else(std::sync::PoisonError::into_inner);
        let end = text.trim_end_matches('…').len();
        let begun = secrets.iter().filter_map(|secret| {
            let most = secret.0.len().saturating_sub(1);
            let begins = |length: &usize| text.as_bytes()[..end].ends_with(&secret.0.as_bytes()[..*length]);
            (MIN_SECRET_LEN..=most).rev().find(begins)
        });
        if let Some(length) = begun.max() {
            text.replace_range(end - length..end, PLACEHOLDER);
        }
        text
    }

    /// Likewise for a text that goes on after this letter.
    fn redact_after(&self, before: Option<char>, text: &str) -> String {
        let mut result = text.to_owned();
        let secrets = self.secrets.read().unwrap_or_else(std::sync::PoisonError::into_inner);
        for secret in secrets.iter() {
            if result.contains(&secret.0) {
                result = result.replace(&secret.0, PLACEHOLDER);
            }
        }
        for prefix in KNOWN_PREFIXES {
            if result.contains(prefix) {
                result = redact_prefix(&result, prefix, before);
            }
        }
        result
    }
}

/// Returns a text as it stands inside a JSON string.
fn in_json(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '"' => escaped.push_str("\\\""),
            '\\' => escaped.push_str("\\\\"),
            '\n' => escaped.push_str("\\n"),
            '\r' => escaped.push_str("\\r"),
            '\t' => escaped.push_str("\\t"),
            '\u{8}' => escaped.push_str("\\b"),
            '\u{c}' => escaped.push_str("\\f"),
            control if control < ' ' => escaped.push_str(&format!("\\u{:04x}", u32::from(control))),
            other => escaped.push(other),
        }
    }
    escaped
}

/// Likewise, as writers that keep to ASCII write it.
fn in_ascii_json(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in in_json(text).chars() {
        if character.is_ascii() {
            escaped.push(character);
            continue;
        }
        for unit in character.encode_utf16(&mut [0; 2]) {
            escaped.push_str(&format!("\\u{unit:04x}"));
        }
    }
    escaped
}

/// Tells whether a letter may stand in a key.
fn is_of_a_key(character: char) -> bool {
    character.is_ascii_alphanumeric() || matches!(character, '-' | '_' | '.')
}

fn redact_prefix(text: &str, prefix: &str, before: Option<char>) -> String {
    let mut result = String::with_capacity(text.len());
    let mut copied = 0;
    for (at, _) in text.match_indices(prefix) {
        let tail = &text[at + prefix.len()..];
        let tail_length = tail.find(|character: char| !is_of_a_key(character)).unwrap_or(tail.len());
        let last = text[..at].chars().next_back().or(before);
        let starts_a_word = last.is_none_or(|character| !character.is_ascii_alphanumeric());
        // One inside a key that is hidden already has gone with it.
        if tail_length >= MIN_TAIL_LEN && starts_a_word && at >= copied {
            result.push_str(&text[copied..at]);
            result.push_str(PLACEHOLDER);
            copied = at + prefix.len() + tail_length;
        }
    }
    result.push_str(&text[copied..]);
    result
}

/// Shows a secret's last four characters, for listings: `…9f2c`. Short ones show nothing.
pub fn mask(secret: &str) -> String {
    match secret.char_indices().rev().nth(3) {
        Some((tail, _)) if secret.chars().count() >= 12 => format!("…{}", &secret[tail..]),
        _ => "…".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn registered_secrets_and_known_shapes_disappear() {
        let redactor = Redactor::new();
        redactor.register("correct horse battery");
        let key = format!("sk-ant-{}", "a1".repeat(12));
        let text = format!("a correct horse battery, {key}! and risk-based-assessment-of-things");
        assert_eq!(redactor.redact(&text), "a [redacted], [redacted]! and risk-based-assessment-of-things");
        assert!(!format!("{redactor:?}").contains("horse"));
        let twice = format!("Bearer Bearer {}", "x9".repeat(12));
        assert_eq!(redactor.redact(&twice), "Bearer [redacted]", "a word before it is no cover");
    }

    #[test]
    fn a_secret_is_found_inside_json_too() {
        let redactor = Redactor::new();
        let secret = "pass\"word\\with\nodd\u{7}and é";
        redactor.register(secret);
        for quoted in
            ["\"pass\\\"word\\\\with\\nodd\\u0007and é\"", "\"pass\\\"word\\\\with\\nodd\\u0007and \\u00e9\""]
        {
            assert_eq!(redactor.redact(quoted), "\"[redacted]\"");
        }
        assert_eq!(redactor.redact(secret), PLACEHOLDER);
        redactor.register("pass\"word\\with");
        assert_eq!(redactor.redact(secret), PLACEHOLDER, "the longest first");
    }

    #[test]
    fn a_secret_cut_off_at_the_end_is_hidden_and_a_short_beginning_is_not() {
        let redactor = Redactor::new();
        redactor.register("correct horse battery");
        assert_eq!(redactor.redact_cut("it is correct horse batt"), "it is [redacted]");
        assert_eq!(redactor.redact_cut("it is correct horse b…"), "it is [redacted]…");
        assert_eq!(redactor.redact_cut("it is correct"), "it is correct");
        assert_eq!(redactor.redact_cut("correct horse battery"), PLACEHOLDER);
    }

    #[test]
    fn mask_shows_little() {
        assert_eq!(mask("sk-ant-0123456789abcdef"), "…cdef");
        assert_eq!(mask("short"), "…");
    }
}
