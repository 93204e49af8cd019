//! `recall` and `remember` for other programs: through the daemon while one runs, else in the files.

use nexus_protocol::memory::{MemoryAdd, MemoryAdded, MemoryFound, MemoryRecall};
use nexus_protocol::methods::Method;
use nexus_protocol::tool::{Replay, ToolFuture, ToolHints, ToolOutput, ToolSource, ToolSpec};
use serde_json::{Map, Value, json};

use crate::context::Context;
use crate::control;
use crate::failure::Failure;

const RECALL: &str = "recall";
const REMEMBER: &str = "remember";

const DEFAULT_LIMIT: u64 = 5;
const MAX_LIMIT: u64 = 20;

/// The workspace's memory as two tools.
#[derive(Debug)]
pub(super) struct MemoryTools {
    context: Context,
}

impl MemoryTools {
    /// Makes the tools; nothing is opened before the first call.
    pub(super) fn new(context: &Context) -> Self {
        Self { context: context.clone() }
    }
}

impl ToolSource for MemoryTools {
    fn tools(&self) -> Vec<ToolSpec> {
        vec![
            ToolSpec {
                name: RECALL.to_owned(),
                description:
                    "Search the person's long-term memory: dated facts and messages, best first. Use it before assuming anything about the person, their projects or earlier decisions."
                        .to_owned(),
                input_schema: json!({
                    "type": "object",
                    "properties": {
                        "query": {"type": "string", "description": "what to look for, in plain language"},
                        "limit": {"type": "integer", "minimum": 1, "maximum": MAX_LIMIT}
                    },
                    "required": ["query"],
                    "additionalProperties": false
                }),
                replay: Replay::Safe,
            },
            ToolSpec {
                name: REMEMBER.to_owned(),
                description:
                    "Store one fact permanently, as a full sentence with names and dates. For lasting things the person said or decided, not for the state of a task."
                        .to_owned(),
                input_schema: json!({
                    "type": "object",
                    "properties": {"text": {"type": "string", "description": "one sentence"}},
                    "required": ["text"],
                    "additionalProperties": false
                }),
                replay: Replay::Transactional,
            },
        ]
    }

    fn hints(&self, spec: &ToolSpec) -> ToolHints {
        match spec.name.as_str() {
            RECALL => ToolHints::LOOKS,
            _ => ToolHints { idempotent: true, ..ToolHints::ADDS },
        }
    }

    fn call<'source>(
        &'source self,
        name: &'source str,
        arguments: Map<String, Value>,
    ) -> ToolFuture<'source> {
        let context = self.context.clone();
        let name = name.to_owned();
        Box::pin(async move {
            // Opening files and asking the daemon both wait; the protocol goes on meanwhile.
            let done = tokio::task::spawn_blocking(move || match name.as_str() {
                RECALL => recall(&context, &arguments),
                REMEMBER => remember(&context, &arguments),
                other => Err(Failure::new(format!("there is no tool {other:?}"))),
            });
            match done.await {
                Ok(Ok(text)) => ToolOutput::ok(text),
                Ok(Err(failure)) => ToolOutput::error(failure.to_string()),
                Err(_) => ToolOutput::error("the call was interrupted"),
            }
        })
    }
}

fn recall(context: &Context, arguments: &Map<String, Value>) -> Result<String, Failure> {
    let limit = arguments.get("limit").and_then(Value::as_u64).unwrap_or(DEFAULT_LIMIT).clamp(1, MAX_LIMIT);
    let asked = MemoryRecall {
        query: text_of(arguments, "query")?,
        limit: usize::try_from(limit).ok(),
        budget: None,
        scope: None,
        about: None,
        after: None,
        before: None,
    };
    Ok(shown(&control::call(context, Method::MemoryRecall, &asked)?))
}

fn remember(context: &Context, arguments: &Map<String, Value>) -> Result<String, Failure> {
    let text = text_of(arguments, "text")?;
    // Whatever another harness keeps was worked out by its model, perhaps from words of strangers.
    let asked = MemoryAdd { text, by_agent: true };
    let kept: MemoryAdded = control::call(context, Method::MemoryAdd, &asked)?;
    Ok(format!("remembered: {}", kept.text))
}

fn text_of(arguments: &Map<String, Value>, name: &str) -> Result<String, Failure> {
    let text = arguments.get(name).and_then(Value::as_str).map(str::trim).filter(|text| !text.is_empty());
    text.map(str::to_owned).ok_or_else(|| Failure::new(format!("`{name}` is missing or empty")))
}

/// One line for each item: the day, whose words they are when nobody vouches for them, the words.
fn shown(found: &MemoryFound) -> String {
    if found.items.is_empty() {
        return "nothing found".to_owned();
    }
    let lines: Vec<String> = found
        .items
        .iter()
        .map(|item| {
            let moment = item.as_of.to_local_rfc3339();
            let mark = if item.provenance == "untrusted" { " [untrusted]" } else { "" };
            let who = item.speaker.as_deref().map(|speaker| format!(" {speaker}:")).unwrap_or_default();
            format!("{}{mark}{who} {}", moment.get(..10).unwrap_or(&moment), item.text)
        })
        .collect();
    lines.join("\n")
}
