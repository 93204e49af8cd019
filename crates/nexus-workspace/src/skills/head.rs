//! What a skill says of itself: the front matter of SKILL.md, as a small part of YAML.
//!
//! Maps by indentation, lists as `[a, b]` or `- a`, quoted and plain scalars, folded text, and JSON in
//! place. Anchors, tags and documents are not read; what is not understood is left out.

use serde::Serialize;
use serde_json::{Map, Value};

/// Most lines of front matter.
const MAX_LINES: usize = 400;
/// Deepest nesting.
const MAX_DEPTH: usize = 8;
/// Longest text of one value, in bytes.
const MAX_VALUE_LEN: usize = 2_000;
/// Most names in one list.
const MAX_NAMES: usize = 64;

/// What kind of thing a skill is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SkillKind {
    /// Explains a program on this machine.
    Tool,
    /// Explains a service.
    Connector,
    /// Explains a way of working.
    Guide,
}

/// What a skill needs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Requirements {
    /// Services it needs a credential of.
    pub credentials: Vec<String>,
    /// Programs, all of them.
    pub bins: Vec<String>,
    /// Programs, one of them.
    pub any_bins: Vec<String>,
}

/// What a skill says of itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SkillHead {
    /// What it calls itself.
    pub title: Option<String>,
    pub description: String,
    pub version: Option<String>,
    /// What kind of thing it is.
    pub kind: SkillKind,
    /// A sign for it.
    pub emoji: Option<String>,
    /// What it can do.
    pub capabilities: Vec<String>,
    /// What else it makes possible.
    pub enables: Vec<String>,
    /// What it needs.
    pub requires: Requirements,
    /// Systems it works on; all when empty.
    pub platform: Vec<String>,
    /// Tools it asks to be allowed.
    pub allowed_tools: Vec<String>,
    /// Whether it brings instructions for installing something.
    pub has_install: bool,
}

impl SkillHead {
    /// Reads the head of a SKILL.md.
    pub fn read(text: &str) -> Self {
        let matter = front_matter(text);
        let known = |value: &Value| ["nexus", "openclaw"].iter().find_map(|name| value.get(*name).cloned());
        let ours = matter.get("metadata").and_then(known).unwrap_or_default();
        let requires = ours.get("requires").cloned().unwrap_or_default();
        let kind = match scalar(&ours, "type").as_deref() {
            Some("tool") => SkillKind::Tool,
            Some("connector") => SkillKind::Connector,
            _ => SkillKind::Guide,
        };
        Self {
            title: scalar(&matter, "name"),
            description: scalar(&matter, "description").unwrap_or_default(),
            version: scalar(&matter, "version").or_else(|| scalar(&ours, "version")),
            kind,
            emoji: scalar(&ours, "emoji"),
            capabilities: list(&ours, "capabilities"),
            enables: list(&ours, "enables"),
            requires: Requirements {
                credentials: list(&requires, "credentials"),
                bins: list(&requires, "bins"),
                any_bins: list(&requires, "anyBins"),
            },
            platform: list(&ours, "platform"),
            allowed_tools: list(&matter, "allowed-tools"),
            has_install: ours.get("install").is_some_and(|value| !value.is_null()),
        }
    }
}

fn scalar(value: &Value, key: &str) -> Option<String> {
    match value.get(key)? {
        Value::String(text) if !text.is_empty() => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    }
}

fn list(value: &Value, key: &str) -> Vec<String> {
    let names: Vec<String> = match value.get(key) {
        Some(Value::Array(items)) => items.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
        Some(Value::String(text)) => {
            text.split([',', ' ']).map(str::trim).filter(|name| !name.is_empty()).map(str::to_owned).collect()
        }
        _ => Vec::new(),
    };
    names.into_iter().take(MAX_NAMES).collect()
}

struct Line<'a> {
    indent: usize,
    text: &'a str,
}

fn front_matter(text: &str) -> Value {
    let empty = || Value::Object(Map::new());
    let start = text.trim_start_matches('\u{feff}');
    let Some((first, rest)) = start.split_once('\n') else { return empty() };
    if first.trim_end() != "---" {
        return empty();
    }
    let mut lines = Vec::new();
    for line in rest.lines().take(MAX_LINES) {
        let line = line.trim_end();
        if line == "---" || line == "..." {
            let mut at = 0;
            return map(&lines, &mut at, 0, MAX_DEPTH);
        }
        let text = line.trim_start();
        if !text.is_empty() && !text.starts_with('#') {
            lines.push(Line { indent: line.len() - text.len(), text });
        }
    }
    empty()
}

fn map(lines: &[Line<'_>], at: &mut usize, indent: usize, depth: usize) -> Value {
    let mut found = Map::new();
    while let Some(line) = lines.get(*at) {
        if line.indent < indent {
            break;
        }
        *at += 1;
        let Some((key, value)) = split_key(line.text).filter(|_| line.indent == indent) else { continue };
        let value = value_of(value, lines, at, indent, depth);
        found.entry(key).or_insert(value);
    }
    Value::Object(found)
}

fn value_of(text: &str, lines: &[Line<'_>], at: &mut usize, indent: usize, depth: usize) -> Value {
    let below = lines.get(*at).filter(|next| next.indent > indent).map(|next| next.indent);
    let same_list = lines.get(*at).is_some_and(|next| next.indent == indent && is_item(next.text));
    if matches!(text, "|" | ">" | "|-" | ">-" | "|+" | ">+") {
        let mut parts = Vec::new();
        while let Some(line) = lines.get(*at).filter(|line| line.indent > indent) {
            parts.push(line.text);
            *at += 1;
        }
        return Value::String(cut(&parts.join(if text.starts_with('>') { " " } else { "\n" })));
    }
    if text.starts_with('{') || (text.starts_with('[') && text.contains('"')) || text == "[" {
        // JSON in place, perhaps over several lines.
        let mut joined = text.to_owned();
        loop {
            if let Ok(value) = serde_json::from_str(&joined) {
                return value;
            }
            let Some(next) = lines.get(*at).filter(|_| joined.len() < 64 * 1024) else { break };
            if next.indent <= indent && !next.text.starts_with(['}', ']']) {
                break;
            }
            joined.push(' ');
            joined.push_str(next.text);
            *at += 1;
        }
    }
    if !text.is_empty() {
        return flow_or_plain(text);
    }
    if depth == 0 {
        return Value::Null;
    }
    match below {
        Some(inner) if lines.get(*at).is_some_and(|next| is_item(next.text)) => {
            items(lines, at, inner, depth - 1)
        }
        Some(inner) => map(lines, at, inner, depth - 1),
        None if same_list => items(lines, at, indent, depth - 1),
        None => Value::Null,
    }
}

fn items(lines: &[Line<'_>], at: &mut usize, indent: usize, depth: usize) -> Value {
    let mut found = Vec::new();
    while let Some(line) = lines.get(*at).filter(|line| line.indent >= indent) {
        if line.indent == indent && !is_item(line.text) {
            break;
        }
        *at += 1;
        if line.indent != indent {
            continue;
        }
        let text = line.text[1..].trim_start();
        match split_key(text) {
            // An item that is a map: its first pair stands behind the dash, the rest below it.
            Some((key, value)) => {
                let mut entry = Map::new();
                entry.insert(key, flow_or_plain(value));
                let inner = lines.get(*at).filter(|next| next.indent > indent).map(|next| next.indent);
                if let Some(inner) = inner.filter(|_| depth > 0)
                    && let Value::Object(more) = map(lines, at, inner, depth - 1)
                {
                    entry.extend(more);
                }
                found.push(Value::Object(entry));
            }
            None => found.push(flow_or_plain(text)),
        }
    }
    Value::Array(found)
}

fn is_item(text: &str) -> bool {
    text == "-" || text.starts_with("- ")
}

fn split_key(text: &str) -> Option<(String, &str)> {
    let (key, value) = match text.split_once(": ") {
        Some((key, value)) => (key, value.trim()),
        None => (text.strip_suffix(':')?, ""),
    };
    let key = unquoted(key.trim());
    (!key.is_empty() && key.len() <= 100 && !is_item(text)).then(|| (key.to_owned(), value))
}

fn flow_or_plain(text: &str) -> Value {
    if let Some(inner) = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
        let parts = inner.split(',').map(str::trim).filter(|part| !part.is_empty());
        return Value::Array(parts.map(|part| Value::String(cut(unquoted(part)))).collect());
    }
    let is_quoted = text.starts_with(['"', '\'']);
    let text = if is_quoted { text } else { text.split(" #").next().unwrap_or(text).trim_end() };
    Value::String(cut(unquoted(text)))
}

fn unquoted(text: &str) -> &str {
    for quote in ['"', '\''] {
        if let Some(inner) = text.strip_prefix(quote).and_then(|rest| rest.strip_suffix(quote)) {
            return inner;
        }
    }
    text
}

fn cut(text: &str) -> String {
    text[..text.floor_char_boundary(MAX_VALUE_LEN)].to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_in_blocks_is_read() {
        let head = SkillHead::read(
            "---\nname: gmail\ndescription: >\n  Reads and\n  sends mail\nversion: 1.2\nallowed-tools: Bash, Read\nmetadata:\n  nexus:\n    type: connector\n    emoji: \"✉\"\n    capabilities:\n      - email\n      - calendar # both\n    requires:\n      credentials: [google]\n      bins:\n      - gog\n    platform: [linux, macos]\n    install:\n      - kind: brew\n        package: gog\n---\n# Body\n",
        );
        assert_eq!(head.title.as_deref(), Some("gmail"));
        assert_eq!(head.description, "Reads and sends mail");
        assert_eq!(head.version.as_deref(), Some("1.2"));
        assert_eq!(head.kind, SkillKind::Connector);
        assert_eq!(head.capabilities, ["email", "calendar"]);
        assert_eq!(head.requires.credentials, ["google"]);
        assert_eq!(head.requires.bins, ["gog"]);
        assert_eq!(head.platform, ["linux", "macos"]);
        assert_eq!(head.allowed_tools, ["Bash", "Read"]);
        assert!(head.has_install);
    }

    #[test]
    fn a_head_with_json_inside_is_read() {
        let head = SkillHead::read(
            "---\nname: \"x: y\"\ndescription: 'Does x.'\nmetadata:\n  {\n    \"nexus\":\n      {\n        \"type\": \"tool\",\n        \"requires\": { \"anyBins\": [\"a\", \"b\"] }\n      }\n  }\n---\n",
        );
        assert_eq!(head.title.as_deref(), Some("x: y"));
        assert_eq!(head.description, "Does x.");
        // A map opened on a line of its own is not a pair; inline JSON behind the key is.
        let head = SkillHead::read(
            "---\nmetadata: {\"nexus\": {\"type\": \"tool\", \"requires\": {\"anyBins\": [\"a\", \"b\"]}}}\n---\n",
        );
        assert_eq!(head.kind, SkillKind::Tool);
        assert_eq!(head.requires.any_bins, ["a", "b"]);
    }

    #[test]
    fn anything_else_is_an_empty_head() {
        for text in ["", "# no head", "---\nname: x", "---\n: :\n- -\n---\n", "---\n\u{0}\n---\n"] {
            let head = SkillHead::read(text);
            assert_eq!(head.title, None, "{text:?}");
        }
    }
}
