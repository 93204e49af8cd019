//! One step in the four formats harnesses speak: Anthropic Messages, OpenAI Chat Completions and
//! Responses, Gemini.

use serde_json::{Value, json};

use super::model::Step;

/// Renders a step as whatever the path asks for: content type and body.
pub(super) fn render(
    path: &str,
    body: &Value,
    step: &Step,
    number: usize,
    tokens: u32,
) -> (&'static str, String) {
    let streams = body["stream"] == true || path.contains("stream");
    if path.contains("/messages") {
        let events = messages(step, number, tokens);
        return if streams { (STREAM, named(&events)) } else { (JSON, whole_message().to_string()) };
    }
    if path.contains("/chat/completions") {
        return chat(step, number, tokens, streams);
    }
    if path.contains("/responses") {
        return (STREAM, named(&responses(step, number, tokens)));
    }
    let part = match step {
        Step::Say(text) => json!({"text": text}),
        Step::Call { tool, arguments } => json!({"functionCall": {"name": tool, "args": arguments}}),
    };
    let reply = json!({
        "candidates": [{"content": {"role": "model", "parts": [part]}, "finishReason": "STOP", "index": 0}],
        "usageMetadata": {"promptTokenCount": tokens, "candidatesTokenCount": 2, "totalTokenCount": tokens + 2}
    });
    if streams { (STREAM, format!("data: {reply}\n\n")) } else { (JSON, reply.to_string()) }
}

const STREAM: &str = "text/event-stream";
const JSON: &str = "application/json";

fn messages(step: &Step, number: usize, tokens: u32) -> Vec<Value> {
    let (start, delta, stop) = match step {
        Step::Say(text) => {
            (json!({"type": "text", "text": ""}), json!({"type": "text_delta", "text": text}), "end_turn")
        }
        Step::Call { tool, arguments } => (
            json!({"type": "tool_use", "id": format!("tu_{number}"), "name": tool, "input": {}}),
            json!({"type": "input_json_delta", "partial_json": arguments.to_string()}),
            "tool_use",
        ),
    };
    let message = json!({"id": format!("msg_{number}"), "type": "message", "role": "assistant", "model": "scripted",
        "content": [], "stop_reason": null, "stop_sequence": null,
        "usage": {"input_tokens": tokens, "output_tokens": 1}});
    vec![
        json!({"type": "message_start", "message": message}),
        json!({"type": "content_block_start", "index": 0, "content_block": start}),
        json!({"type": "content_block_delta", "index": 0, "delta": delta}),
        json!({"type": "content_block_stop", "index": 0}),
        json!({"type": "message_delta", "delta": {"stop_reason": stop, "stop_sequence": null},
               "usage": {"output_tokens": 5}}),
        json!({"type": "message_stop"}),
    ]
}

fn whole_message() -> Value {
    json!({"id": "m", "type": "message", "role": "assistant", "model": "scripted", "stop_reason": "end_turn",
        "content": [{"type": "text", "text": "fine"}], "usage": {"input_tokens": 1, "output_tokens": 1}})
}

fn chat(step: &Step, number: usize, tokens: u32, streams: bool) -> (&'static str, String) {
    let (delta, reason) = match step {
        Step::Say(text) => (json!({"role": "assistant", "content": text}), "stop"),
        Step::Call { tool, arguments } => (
            json!({"role": "assistant", "content": null, "tool_calls": [{"index": 0, "id": format!("call_{number}"),
                "type": "function", "function": {"name": tool, "arguments": arguments.to_string()}}]}),
            "tool_calls",
        ),
    };
    let usage = json!({"prompt_tokens": tokens, "completion_tokens": 2, "total_tokens": tokens + 2});
    if !streams {
        let reply = json!({"id": "c", "object": "chat.completion", "created": 1, "model": "scripted", "usage": usage,
            "choices": [{"index": 0, "message": delta, "finish_reason": reason}]});
        return (JSON, reply.to_string());
    }
    let chunk = |delta: Value, reason: Value| {
        json!({"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "scripted",
            "choices": [{"index": 0, "delta": delta, "finish_reason": reason}]})
    };
    let mut last = chunk(json!({}), json!(reason));
    last["usage"] = usage;
    (STREAM, format!("data: {}\n\ndata: {last}\n\ndata: [DONE]\n\n", chunk(delta, Value::Null)))
}

fn responses(step: &Step, number: usize, tokens: u32) -> Vec<Value> {
    let item = match step {
        Step::Say(text) => json!({"type": "message", "id": format!("m_{number}"), "role": "assistant",
            "status": "completed", "content": [{"type": "output_text", "text": text, "annotations": []}]}),
        Step::Call { tool, arguments } => {
            let mut item = json!({"type": "function_call", "id": format!("fc_{number}"),
                "call_id": format!("call_{number}"), "arguments": arguments.to_string(), "status": "completed"});
            // Tools of an MCP server have a namespace and a bare name there.
            match tool.rsplit_once("__") {
                Some((namespace, name)) => {
                    item["namespace"] = json!(namespace);
                    item["name"] = json!(name);
                }
                None => item["name"] = json!(tool),
            }
            item
        }
    };
    let id = format!("r_{number}");
    let whole = json!({"id": id, "object": "response", "status": "completed", "output": [item],
        "usage": {"input_tokens": tokens, "output_tokens": 2, "total_tokens": tokens + 2,
            "input_tokens_details": {"cached_tokens": 0}, "output_tokens_details": {"reasoning_tokens": 0}}});
    vec![
        json!({"type": "response.created", "response": {"id": id}}),
        json!({"type": "response.output_item.done", "output_index": 0, "item": item}),
        json!({"type": "response.completed", "response": whole}),
    ]
}

fn named(events: &[Value]) -> String {
    events
        .iter()
        .map(|event| format!("event: {}\ndata: {event}\n\n", event["type"].as_str().unwrap_or_default()))
        .collect()
}
