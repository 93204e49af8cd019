//! What a fixture may say about a value: equal, absent, or of a kind within bounds.

use regex::Regex;
use serde_json::{Map, Value};

use super::path;

/// Checks all assertions on a document and returns what does not hold.
pub(super) fn check(about: &str, document: &Value, assertions: &Map<String, Value>) -> Vec<String> {
    assertions
        .iter()
        .filter_map(|(path, expected)| {
            let held = path::get(document, path).and_then(|found| holds(found.as_deref(), expected));
            held.err().map(|problem| format!("{about} {path}: {problem}"))
        })
        .collect()
}

fn holds(found: Option<&Value>, expected: &Value) -> Result<(), String> {
    match expected {
        Value::Null => match found {
            None | Some(Value::Null) => Ok(()),
            Some(found) => Err(format!("expected nothing, found {}", short(found))),
        },
        Value::Object(matcher) if matcher.contains_key("type") => kind(found, matcher),
        _ => match found {
            Some(found) if same(found, expected) => Ok(()),
            Some(found) => Err(format!("expected {}, found {}", short(expected), short(found))),
            None => Err(format!("expected {}, found nothing", short(expected))),
        },
    }
}

fn same(found: &Value, expected: &Value) -> bool {
    match (found, expected) {
        (Value::Number(found), Value::Number(expected)) => found.as_f64() == expected.as_f64(),
        _ => found == expected,
    }
}

fn kind(found: Option<&Value>, matcher: &Map<String, Value>) -> Result<(), String> {
    let found = found.ok_or("expected something, found nothing")?;
    let wrong = |what: &str| Err(format!("expected {what}, found {}", short(found)));
    match matcher.get("type").and_then(Value::as_str) {
        Some("iso8601") => match found.as_str() {
            Some(text) if is_iso8601(text) => Ok(()),
            _ => wrong("an ISO 8601 date and time"),
        },
        Some("number") => {
            let Some(number) = found.as_f64() else { return wrong("a number") };
            let bound = |name: &str| matcher.get(name).and_then(Value::as_f64);
            if bound("min").is_some_and(|least| number < least)
                || bound("max").is_some_and(|most| number > most)
            {
                return wrong("a number within bounds");
            }
            Ok(())
        }
        Some("string") => {
            let Some(text) = found.as_str() else { return wrong("a string") };
            let least = matcher.get("minLength").and_then(Value::as_u64).unwrap_or(0);
            if (text.chars().count() as u64) < least {
                return wrong("a longer string");
            }
            if let Some(pattern) = matcher.get("pattern").and_then(Value::as_str) {
                let pattern = Regex::new(pattern).map_err(|error| {
                    format!(
                        "the pattern is not a valid regular \
                    expression: {error}"
                    )
                })?;
                if !pattern.is_match(text) {
                    return wrong(&format!("a match of {pattern}"));
                }
            }
            Ok(())
        }
        Some("boolean") if found.is_boolean() => Ok(()),
        Some("boolean") => wrong("true or false"),
        _ => Err(format!("the fixture asks for an unknown kind {}", short(&Value::Object(matcher.clone())))),
    }
}

/// Returns whether a text is a date and time with a zone, in the usual form.
pub(super) fn is_iso8601(text: &str) -> bool {
    let Some((date, time)) = text.split_once('T') else { return false };
    let numbers = |text: &str, separator: char, widths: [usize; 3]| -> Option<[u32; 3]> {
        let parts: Vec<&str> = text.split(separator).collect();
        let [first, second, third] = parts.try_into().ok()?;
        let number = |part: &str, width: usize| {
            let plain = part.len() == width && part.bytes().all(|byte| byte.is_ascii_digit());
            if plain { part.parse().ok() } else { None }
        };
        Some([number(first, widths[0])?, number(second, widths[1])?, number(third, widths[2])?])
    };
    let Some([_, month, day]) = numbers(date, '-', [4, 2, 2]) else { return false };
    let Some(zone_at) = time.find(['Z', '+', '-']) else { return false };
    let (clock, zone) = time.split_at(zone_at);
    let (clock, fraction) = clock.split_once('.').unwrap_or((clock, "0"));
    let Some([hour, minute, second]) = numbers(clock, ':', [2, 2, 2]) else { return false };
    let zone_holds = zone == "Z" || {
        let digits: String = zone.chars().skip(1).filter(|character| *character != ':').collect();
        matches!(digits.len(), 2 | 4) && digits.bytes().all(|byte| byte.is_ascii_digit())
    };
    (1..=12).contains(&month)
        && (1..=31).contains(&day)
        && hour <= 24
        && minute < 60
        && second <= 60
        && !fraction.is_empty()
        && fraction.bytes().all(|byte| byte.is_ascii_digit())
        && zone_holds
}

fn short(value: &Value) -> String {
    let text = value.to_string();
    if text.chars().count() <= 120 {
        return text;
    }
    format!("{}…", text.chars().take(119).collect::<String>())
}
