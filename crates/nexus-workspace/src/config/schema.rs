//! The JSON Schema of the document, made from the table so that it cannot say anything else.

use serde_json::{Map, Value, json};

use super::field::{ChangedBy, FIELDS, Field, Kind, Needs};

/// Says of a key that a token with `control.config.admin` may not change it.
const OWNER_ONLY: &str = "x-owner-only";
/// Says of a key that it is ignored in a workspace that is not trusted.
const NEEDS_TRUST: &str = "x-needs-trust";

/// Renders the JSON Schema (draft 2020-12) of `state/config.json`.
pub fn schema() -> String {
    let mut root = object();
    for field in FIELDS {
        insert(&mut root, field);
    }
    root.insert("$schema".into(), json!("https://json-schema.org/draft/2020-12/schema"));
    root.insert("title".into(), json!("Nexus workspace configuration"));
    root.insert("required".into(), json!(["runtime"]));
    format!("{:#}\n", Value::Object(root))
}

fn object() -> Map<String, Value> {
    let mut map = Map::new();
    map.insert("type".into(), json!("object"));
    map
}

fn insert(root: &mut Map<String, Value>, field: &Field) {
    let mut place = root;
    let mut parts = field.key.split('.').peekable();
    while let Some(part) = parts.next() {
        let next = if parts.peek().is_some() { Value::Object(object()) } else { leaf(field) };
        // `*` is any name: JSON Schema says that with additionalProperties.
        let slot = if part == "*" {
            place.entry("additionalProperties").or_insert(next)
        } else {
            match place.entry("properties").or_insert_with(|| json!({})) {
                Value::Object(properties) => properties.entry(part).or_insert(next),
                _ => return,
            }
        };
        match slot {
            Value::Object(inner) => place = inner,
            _ => return,
        }
    }
}

fn leaf(field: &Field) -> Value {
    let mut schema = match field.kind {
        Kind::Boolean => json!({ "type": "boolean" }),
        Kind::Integer { least, most } => json!({ "type": "integer", "minimum": least, "maximum": most }),
        Kind::Number { least, most } => json!({ "type": "number", "minimum": least, "maximum": most }),
        Kind::Text { longest } => json!({ "type": "string", "minLength": 1, "maxLength": longest }),
        Kind::Word(words) => json!({ "enum": words }),
        Kind::Texts { most } => json!({ "type": "array", "items": { "type": "string" }, "maxItems": most }),
        Kind::Address => json!({ "type": "string", "pattern": "^https?://" }),
        Kind::Bind => json!({ "type": "string" }),
        Kind::AuthMode => json!({ "enum": ["token"] }),
        Kind::Token => json!({ "type": "string", "minLength": 22, "maxLength": 512 }),
        Kind::Object => json!({ "type": "object" }),
        Kind::List => json!({ "type": "array" }),
    };
    if let Value::Object(map) = &mut schema {
        map.insert("description".into(), json!(field.about));
        if let Some(default) = field.unset.value() {
            map.insert("default".into(), default);
        }
        if field.changed_by == ChangedBy::Owner {
            map.insert(OWNER_ONLY.into(), json!(true));
        }
        if field.needs == Needs::Trust {
            map.insert(NEEDS_TRUST.into(), json!(true));
        }
    }
    schema
}
