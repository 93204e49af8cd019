//! What a model is told about each tool: a description, a JSON Schema, and whether a call may be repeated.

use nexus_protocol::tool::{Replay, ToolSpec};
use serde_json::{Value, json};

use super::Tool;

/// Returns what a model is told about a tool.
pub fn spec(tool: Tool) -> ToolSpec {
    ToolSpec {
        name: tool.as_str().to_owned(),
        description: description(tool).to_owned(),
        input_schema: schema(tool),
        replay: if tool.is_read_only() { Replay::Safe } else { Replay::Unsafe },
    }
}

fn description(tool: Tool) -> &'static str {
    match tool {
        Tool::PlanStart => {
            "Open a plan with the questions to settle. Do the research first and summarise it. A plan that is \
             already open is archived."
        }
        Tool::PlanStatus => "Show the open plan, its issues and how many are decided.",
        Tool::PlanUpdate => "Add, remove, rename (edit) or reopen an issue of the open plan.",
        Tool::PlanDecide => "Record the decision on an issue.",
        Tool::TaskAdd => "Add a task. It is ready once all tasks in deps are completed.",
        Tool::TaskList => "List tasks, how many are done, and which are ready to start.",
        Tool::TaskUpdate => "Set the status of a task.",
        Tool::TaskClose => "Archive plan and tasks as one finished cycle and remove them.",
        Tool::HistorySearch => "Search finished cycles; without a query, show the latest.",
        Tool::Context => "Show branch, goal, task counts and decisions of the work in progress.",
        Tool::ArtifactWrite => "Write a file others should read, such as findings or a report.",
    }
}

fn schema(tool: Tool) -> Value {
    let text = json!({ "type": "string" });
    let texts = json!({ "type": "array", "items": { "type": "string" } });
    let map = json!({ "type": "object", "additionalProperties": { "type": "string" } });
    let number = json!({ "type": "number" });
    match tool {
        Tool::PlanStatus | Tool::TaskList | Tool::TaskClose | Tool::Context => object(&json!({}), &[]),
        Tool::PlanStart => object(
            &json!({ "topic": text, "issues": texts, "research_summary": text }),
            &["topic", "issues", "research_summary"],
        ),
        // The list of actions stands in the description of the field: a schema check in front of the
        // tool must not replace the tool's own answer to an unknown one.
        Tool::PlanUpdate => object(
            &json!({
                "action": { "type": "string", "description": "add, remove, edit or reopen" },
                "issue_id": number, "title": text,
            }),
            &["action"],
        ),
        Tool::PlanDecide => object(
            &json!({
                "issue_id": number, "decision": text, "how_agents": texts, "how_summary": map, "how_agent_ids": map,
            }),
            &["issue_id", "decision"],
        ),
        Tool::TaskAdd => object(
            &json!({
                "title": text, "context": text, "approach": text, "acceptance": text, "risk": text,
                "deps": { "type": "array", "items": number }, "plan_issue": number,
                "goal": text, "decisions": texts, "owner": text, "owner_agent_id": text,
                "owner_reuse_policy": { "type": "string", "enum": ["fresh", "resume_if_same_artifact", "resume"] },
            }),
            &["title", "context"],
        ),
        Tool::TaskUpdate => object(
            &json!({
                "id": number, "status": { "type": "string", "enum": ["pending", "in_progress", "completed"] },
            }),
            &["id", "status"],
        ),
        Tool::HistorySearch => {
            object(&json!({ "query": text, "last_n": { "type": "number", "minimum": 1 } }), &[])
        }
        Tool::ArtifactWrite => {
            object(&json!({ "filename": text, "content": text }), &["filename", "content"])
        }
    }
}

fn object(properties: &Value, required: &[&str]) -> Value {
    json!({ "type": "object", "properties": properties, "required": required })
}
