//! `recall` and `remember`: memory as a model uses it.

use nexus_base::id::EventId;
use nexus_protocol::tool::{Replay, ToolOutput, ToolSpec};
use serde_json::{Value, json};

use nexus_memory::{Memory, Provenance, RecallRequest};

use crate::scope::Done;

/// Tool that searches memory.
pub(crate) const RECALL: &str = "recall";
/// Tool that keeps a fact.
pub(crate) const REMEMBER: &str = "remember";

const DEFAULT_LIMIT: usize = 5;
const MAX_LIMIT: usize = 20;

pub(crate) fn recall_spec() -> ToolSpec {
    ToolSpec {
        name: RECALL.to_owned(),
        description: "Search long-term memory for `query`; returns dated facts, best first.".to_owned(),
        input_schema: json!({
            "type": "object",
            "properties": {"query": {"type": "string"}, "limit": {"type": "integer", "minimum": 1, "maximum": MAX_LIMIT}},
            "required": ["query"]
        }),
        replay: Replay::Safe,
    }
}

pub(crate) fn remember_spec() -> ToolSpec {
    ToolSpec {
        name: REMEMBER.to_owned(),
        description: "Store one fact permanently, as a full sentence with names and dates.".to_owned(),
        input_schema: json!({"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}),
        // The same sentence is kept once, so keeping it again changes nothing.
        replay: Replay::Safe,
    }
}

pub(crate) async fn recall(memory: &Memory, arguments: &Value) -> Done {
    let Some(query) = arguments.get("query").and_then(Value::as_str) else {
        return Done::own(ToolOutput::error("recall needs `query`, the words to look for"));
    };
    let limit = arguments
        .get("limit")
        .and_then(Value::as_u64)
        .map_or(DEFAULT_LIMIT, |limit| usize::try_from(limit).unwrap_or(MAX_LIMIT).clamp(1, MAX_LIMIT));
    match memory.tell(RecallRequest::new(query).limit(limit)).await {
        Ok(found) if found.is_empty() => Done::own(ToolOutput::ok("nothing found")),
        Ok(found) => {
            let lines: Vec<String> = found
                .iter()
                .map(|fact| {
                    let moment = fact.as_of.to_local_rfc3339();
                    let mark = if fact.provenance == Provenance::Untrusted { " [untrusted]" } else { "" };
                    format!("{}{mark}: {}", moment.get(..10).unwrap_or(&moment), fact.text)
                })
                .collect();
            let output = ToolOutput::ok(lines.join("\n"));
            // Whoever reads what a page once said has read the page.
            match found.iter().any(|fact| fact.provenance == Provenance::Untrusted) {
                true => Done::from_outside(output, "remembered text of unknown origin"),
                false => Done::own(output),
            }
        }
        Err(error) => Done::own(ToolOutput::error(format!("memory did not answer: {error}"))),
    }
}

pub(crate) async fn remember(
    memory: &Memory,
    arguments: &Value,
    source: Option<EventId>,
    provenance: Provenance,
) -> ToolOutput {
    let Some(text) = arguments.get("text").and_then(Value::as_str) else {
        return ToolOutput::error("remember needs `text`, one full sentence");
    };
    match memory.remember(text, source, provenance).await {
        Ok(_) => ToolOutput::ok(format!("remembered: {}", text.trim())),
        Err(error) => ToolOutput::error(format!("not remembered: {error}")),
    }
}
