//! Checks a document against the table: which values can be used, what is wrong, what is unknown.

use std::collections::BTreeMap;
use std::net::IpAddr;

use nexus_base::redact::{PLACEHOLDER, Redactor};
use serde_json::{Map, Value};

use super::document::Document;
use super::error::Problem;
use super::field::{FIELDS, Field, Kind, Needs, TOLERATED_SECTIONS, find};

/// Shortest owner's token: 128 bits in base 64.
const MIN_TOKEN_LEN: usize = 22;
/// Longest owner's token.
const MAX_TOKEN_LEN: usize = 512;
/// Shortest text under a secret-sounding name that counts as a secret.
const MIN_LITERAL_LEN: usize = 16;
/// Longest item of a list of texts.
const MAX_ITEM_LEN: usize = 500;
/// Longest web address.
const MAX_ADDRESS_LEN: usize = 2_000;

/// How a warning about a wrong value ends.
pub(super) const DEFAULT_USED: &str = "; the default is used";

/// What a document is worth.
#[derive(Debug, Default)]
pub(crate) struct Checked {
    /// Usable values by dotted path.
    pub(crate) values: BTreeMap<String, Value>,
    /// What stops the start.
    pub(crate) errors: Vec<Problem>,
    /// What only degrades it.
    pub(crate) warnings: Vec<Problem>,
}

/// Whether values that need trust count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Standing {
    /// The workspace is its owner's.
    Trusted,
    /// It may be a stranger's.
    Untrusted,
}

/// Checks every value of the document.
pub(crate) fn check(document: &Document, standing: Standing) -> Checked {
    let mut checked = Checked::default();
    refuse_literal_secrets(document.as_map(), "", &mut checked.errors);
    walk(document.as_map(), "", standing, &mut checked);
    checked
}

/// Checks one value for one key; the message never quotes a secret.
pub(crate) fn check_value(field: &Field, key: &str, value: &Value) -> Result<(), Problem> {
    let wrong = |expected: String, fix: String| Problem::new(key, format!("must be {expected}"), fix);
    let set_to = |example: &str| format!("run `nexus config set {key} {example}`");
    match field.kind {
        Kind::Boolean if value.is_boolean() => Ok(()),
        Kind::Boolean => Err(wrong("true or false".into(), set_to("true"))),
        Kind::Integer { least, most } => match value.as_u64() {
            Some(number) if (least..=most).contains(&number) => Ok(()),
            _ => {
                Err(wrong(format!("a whole number from {least} to {most}"), set_to(&unset_text(field, "N"))))
            }
        },
        Kind::Number { least, most } => match value.as_f64() {
            Some(number) if (least..=most).contains(&number) => Ok(()),
            _ => Err(wrong(format!("a number from {least} to {most}"), set_to(&unset_text(field, "N")))),
        },
        Kind::Text { longest } => match value.as_str() {
            Some(text) if is_plain(text, longest) => Ok(()),
            _ => Err(wrong(format!("text of 1 to {longest} characters on one line"), set_to("TEXT"))),
        },
        Kind::Word(words) => match value.as_str() {
            Some(word) if words.contains(&word) => Ok(()),
            _ => Err(wrong(format!("one of {}", words.join(", ")), set_to(words.first().unwrap_or(&"WORD")))),
        },
        Kind::Texts { most } => {
            let fits = value.as_array().is_some_and(|items| {
                items.len() <= most
                    && items.iter().all(|item| item.as_str().is_some_and(|text| is_plain(text, MAX_ITEM_LEN)))
            });
            if fits {
                Ok(())
            } else {
                Err(wrong(format!("a list of at most {most} strings"), set_to("'[\"…\"]'")))
            }
        }
        Kind::Address => match value.as_str() {
            Some(text) if is_address(text) => Ok(()),
            _ => Err(wrong(
                "an http or https address without a user, query or fragment".into(),
                set_to("https://api.example.com"),
            )),
        },
        Kind::Bind => check_bind(key, value),
        Kind::AuthMode => match value.as_str() {
            Some("token") => Ok(()),
            _ => Err(wrong("token: every route requires the owner's token".into(), set_to("token"))),
        },
        Kind::Token => check_token(key, value),
        Kind::Object if value.is_object() => Ok(()),
        Kind::Object => Err(wrong("an object".into(), set_to("'{}'"))),
        Kind::List if value.is_array() => Ok(()),
        Kind::List => Err(wrong("a list".into(), set_to("'[]'"))),
    }
}

fn walk(map: &Map<String, Value>, prefix: &str, standing: Standing, checked: &mut Checked) {
    for (name, value) in map {
        let key = join(prefix, name);
        if value.is_null() || TOLERATED_SECTIONS.contains(&key.as_str()) {
            continue;
        }
        // A name with a dot in it would read as two parts, so it can be no key of ours.
        let field = find(&key).filter(|_| !name.contains('.'));
        match field {
            Some(field) => take(field, key, value, standing, checked),
            None if is_above_a_field(&key) && !name.contains('.') => match value.as_object() {
                Some(inner) => walk(inner, &key, standing, checked),
                None => report(
                    &key,
                    Problem::new(&key, "must be an object", format!("run `nexus config set {key} '{{}}'`")),
                    checked,
                ),
            },
            None => checked.warnings.push(Problem::new(
                &key,
                "is not a known key and is ignored",
                match nearest(&key) {
                    Some(known) => format!("did you mean {known}? otherwise remove it"),
                    None => "remove it, or see `nexus config list` for the known keys".into(),
                },
            )),
        }
    }
}

fn take(field: &Field, key: String, value: &Value, standing: Standing, checked: &mut Checked) {
    if let Err(problem) = check_value(field, &key, value) {
        return report(&key, problem, checked);
    }
    let is_empty =
        value.as_object().is_some_and(Map::is_empty) || value.as_array().is_some_and(Vec::is_empty);
    if field.needs == Needs::Trust && standing == Standing::Untrusted && !is_empty {
        checked.warnings.push(Problem::new(
            key,
            "is inactive: this workspace is not recorded as yours",
            "review what it brings, then run `nexus trust`",
        ));
        return;
    }
    checked.values.insert(key, value.clone());
}

fn report(key: &str, problem: Problem, checked: &mut Checked) {
    let section = key.split('.').next().unwrap_or(key);
    if super::field::REQUIRED_SECTIONS.contains(&section) {
        checked.errors.push(problem);
    } else {
        let message = format!("{}{DEFAULT_USED}", problem.message);
        checked.warnings.push(Problem { message, ..problem });
    }
}

fn check_bind(key: &str, value: &Value) -> Result<(), Problem> {
    let text = value.as_str().unwrap_or_default();
    let is_loopback = matches!(text, "loopback" | "localhost")
        || text.parse::<IpAddr>().is_ok_and(|address| address.is_loopback());
    if is_loopback {
        return Ok(());
    }
    Err(Problem::new(
        key,
        "must be loopback: listening beyond this machine needs an explicit flag, which this version does not have",
        "run `nexus config set runtime.bind loopback`; reach it from elsewhere through an SSH tunnel",
    ))
}

fn check_token(key: &str, value: &Value) -> Result<(), Problem> {
    let fix = "run `nexus config rotate-token` to create a new one";
    let text = value.as_str().unwrap_or_default();
    if text == PLACEHOLDER {
        return Err(Problem::new(key, "is only the placeholder used in copies", fix));
    }
    let is_usable = (MIN_TOKEN_LEN..=MAX_TOKEN_LEN).contains(&text.len())
        && text.bytes().all(|byte| byte.is_ascii_graphic());
    if is_usable {
        return Ok(());
    }
    let message =
        format!("must be {MIN_TOKEN_LEN} to {MAX_TOKEN_LEN} printable ASCII characters without spaces");
    Err(Problem::new(key, message, fix))
}

fn refuse_literal_secrets(map: &Map<String, Value>, prefix: &str, errors: &mut Vec<Problem>) {
    for (name, value) in map {
        let key = join(prefix, name);
        if key != "runtime.auth.token" {
            literal_secret(&key, name, value, errors);
        }
    }
}

fn literal_secret(key: &str, name: &str, value: &Value, errors: &mut Vec<Problem>) {
    match value {
        Value::String(text) if is_literal_secret(name, text) => errors.push(Problem::new(
            key,
            "contains a secret in plain text",
            "remove it and run `nexus credential add`, which stores only a pointer",
        )),
        Value::Object(inner) => refuse_literal_secrets(inner, key, errors),
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                literal_secret(&format!("{key}.{index}"), name, item, errors);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn is_literal_secret(name: &str, text: &str) -> bool {
    if Redactor::new().redact(text) != text {
        return true;
    }
    let squeezed: String = name
        .chars()
        .filter(char::is_ascii_alphanumeric)
        .map(|character| character.to_ascii_lowercase())
        .collect();
    let sounds_secret =
        ["apikey", "token", "secret", "password", "passwd"].iter().any(|end| squeezed.ends_with(end));
    // References such as `$VAR`, `env:VAR` or `service/account` are what we ask for instead.
    sounds_secret
        && text.len() >= MIN_LITERAL_LEN
        && !text.contains(|character: char| matches!(character, '/' | ':' | '$') || character.is_whitespace())
}

fn is_plain(text: &str, longest: usize) -> bool {
    !text.is_empty() && text.len() <= longest && !text.chars().any(char::is_control)
}

fn is_address(text: &str) -> bool {
    let rest = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"));
    text.len() <= MAX_ADDRESS_LEN
        && rest.is_some_and(|rest| {
            let host = rest.split('/').next().unwrap_or_default();
            !host.is_empty()
                && !rest.contains(|character: char| {
                    character.is_whitespace()
                        || character.is_control()
                        || matches!(character, '@' | '?' | '#')
                })
        })
}

fn is_above_a_field(key: &str) -> bool {
    let depth = key.split('.').count();
    FIELDS.iter().any(|field| {
        field.key.split('.').count() > depth
            && field
                .key
                .split('.')
                .zip(key.split('.'))
                .all(|(pattern, part)| pattern == "*" || pattern == part)
    })
}

fn nearest(key: &str) -> Option<&'static str> {
    let squeeze = |text: &str| text.to_ascii_lowercase().replace(['_', '-', '.'], "");
    let wanted = squeeze(key);
    let last = |text: &str| text.rsplit('.').next().map(squeeze);
    FIELDS
        .iter()
        .map(|field| field.key)
        .find(|known| squeeze(known) == wanted)
        .or_else(|| FIELDS.iter().map(|field| field.key).find(|known| last(known) == last(key)))
}

fn unset_text(field: &Field, otherwise: &str) -> String {
    field.unset.value().map_or_else(|| otherwise.to_owned(), |value| value.to_string())
}

pub(super) fn join(prefix: &str, name: &str) -> String {
    if prefix.is_empty() { name.to_owned() } else { format!("{prefix}.{name}") }
}
