//! The configuration reference as Markdown. Pure: a schema in, a page out, so that a test of the binary compares it
//! with what is committed.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde_json::Value;

const INTRODUCTION: &str = "\
# Configuration

<!-- Written by `cargo xtask configuration` from the schema and compared by a test; edit the table in
crates/nexus-workspace/src/config/field.rs instead. -->

The settings of a workspace are in `state/config.json`. `nexus config list` shows every key with its value and where it
comes from, `nexus config get KEY` prints one, and `nexus config set KEY VALUE` checks a value, writes it and keeps the old
file; `null` removes a key. A running daemon applies changes after `nexus config reload` or SIGHUP; `runtime.port` and
`runtime.bind` take effect at the next start. A flag wins over an environment variable, that over the file, and that over
the default. `nexus config schema` prints the JSON Schema from which this page is made.

Marks in the last column:

- **owner**: only the owner's token may change the key over the control plane; the other keys are also open to a token
  with `control.config.admin`.
- **trust**: the key is ignored in a workspace that is not trusted (`nexus trust`).
";

/// Renders the page.
pub(crate) fn page(schema: &Value) -> String {
    let mut page = INTRODUCTION.to_owned();
    for (section, content) in sorted(&schema["properties"]) {
        let mut rows = Vec::new();
        collect(section, content, &mut rows);
        let _ =
            write!(page, "\n## {section}\n\n| key | value | default | effect | |\n|---|---|---|---|---|\n");
        for row in rows {
            page.push_str(&row);
        }
    }
    page
}

/// Adds a row for each key at or below `key`.
fn collect(key: &str, schema: &Value, rows: &mut Vec<String>) {
    if schema.get("description").is_some() {
        rows.push(row(key, schema));
        return;
    }
    for (name, below) in sorted(&schema["properties"]) {
        collect(&format!("{key}.{name}"), below, rows);
    }
    if let Some(below) = schema.get("additionalProperties") {
        collect(&format!("{key}.*"), below, rows);
    }
}

/// Whether a JSON object keeps the order of its keys depends on how its library was built.
fn sorted(object: &Value) -> BTreeMap<&String, &Value> {
    object.as_object().into_iter().flatten().collect()
}

fn row(key: &str, schema: &Value) -> String {
    let default = match schema.get("default") {
        None => "–".to_owned(),
        Some(value) => format!("`{value}`"),
    };
    let effect = schema["description"].as_str().unwrap_or_default().replace('|', "\\|");
    let marks: Vec<&str> = [("x-owner-only", "owner"), ("x-needs-trust", "trust")]
        .into_iter()
        .filter_map(|(keyword, mark)| (schema[keyword] == true).then_some(mark))
        .collect();
    format!("| `{key}` | {} | {default} | {effect} | {} |\n", kind(schema), marks.join(", "))
}

/// Describes the values that a key accepts.
fn kind(schema: &Value) -> String {
    if let Some(words) = schema["enum"].as_array() {
        let words: Vec<String> =
            words.iter().filter_map(Value::as_str).map(|word| format!("`{word}`")).collect();
        return words.join(", ");
    }
    let range = match (schema.get("minimum"), schema.get("maximum")) {
        (Some(least), Some(most)) => format!(" from {least} to {most}"),
        _ => String::new(),
    };
    match schema["type"].as_str().unwrap_or_default() {
        "boolean" => "`true` or `false`".to_owned(),
        "integer" => format!("whole number{range}"),
        "number" => format!("number{range}"),
        "string" if schema["pattern"].is_string() => "http or https address".to_owned(),
        "string" => "text".to_owned(),
        "array" if schema["items"].is_object() => format!("list of at most {} strings", schema["maxItems"]),
        "array" => "list".to_owned(),
        _ => "object".to_owned(),
    }
}
