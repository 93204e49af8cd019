//! The two formats: a reply as a list of events, and errors as each provider words them.

use serde_json::{Value, json};

use super::asked::{Asked, Wire};
use super::reply::{Part, Reply, Tokens};

/// Renders the events of a reply, ready to be written.
pub(crate) fn events(asked: &Asked, wire: Wire, number: usize, reply: &Reply) -> Vec<String> {
    match wire {
        Wire::Anthropic => anthropic(asked, number, reply),
        Wire::OpenAi => openai(asked, number, reply),
    }
}

/// Renders the body of a refusal.
pub(crate) fn refusal(wire: Wire, status: u16, message: &str) -> Value {
    let kind = match status {
        401 => "authentication_error",
        403 => "permission_error",
        404 => "not_found_error",
        413 => "request_too_large",
        429 => "rate_limit_error",
        529 => "overloaded_error",
        500.. => "api_error",
        _ => "invalid_request_error",
    };
    match wire {
        Wire::Anthropic => json!({"type": "error", "error": {"type": kind, "message": message}}),
        Wire::OpenAi => json!({"error": {"message": message, "type": kind, "param": null, "code": null}}),
    }
}

/// Renders an error in the middle of a stream.
pub(crate) fn failure(wire: Wire, message: &str) -> String {
    match wire {
        Wire::Anthropic => event(
            Some("error"),
            &json!({"type": "error", "error": {"type": "overloaded_error", "message": message}}),
        ),
        Wire::OpenAi => event(None, &json!({"error": {"message": message, "type": "server_error"}})),
    }
}

fn tokens(asked: &Asked, reply: &Reply) -> Tokens {
    reply.tokens.unwrap_or_else(|| {
        let length = |part: &Part| match part {
            Part::Text(text) | Part::Thinking(text) => text.len(),
            Part::Call { name, arguments } => name.len() + arguments.len(),
        };
        let said: usize = reply.parts.iter().map(length).sum();
        let count = |bytes: usize| (bytes / 4).max(1) as u64;
        Tokens { input: count(asked.bytes.len()), output: count(said), cache_read: 0, cache_write: 0 }
    })
}

fn event(name: Option<&str>, data: &Value) -> String {
    let name = name.map(|name| format!("event: {name}\n")).unwrap_or_default();
    format!("{name}data: {data}\n\n")
}

fn anthropic(asked: &Asked, number: usize, reply: &Reply) -> Vec<String> {
    let cost = tokens(asked, reply);
    let mut events = Vec::new();
    let mut say = |data: Value| {
        let name = data["type"].as_str().map(str::to_owned);
        events.push(event(name.as_deref(), &data));
    };
    say(json!({"type": "message_start", "message": {
        "id": format!("msg_{number}"), "type": "message", "role": "assistant", "model": asked.model(),
        "content": [], "stop_reason": null, "stop_sequence": null,
        "usage": {"input_tokens": cost.input, "cache_read_input_tokens": cost.cache_read,
            "cache_creation_input_tokens": cost.cache_write, "output_tokens": 1},
    }}));
    let mut calls = false;
    for (index, part) in reply.parts.iter().enumerate() {
        let (start, deltas): (Value, Vec<Value>) = match part {
            Part::Text(text) => (
                json!({"type": "text", "text": ""}),
                cut(text, reply.pieces).map(|piece| json!({"type": "text_delta", "text": piece})).collect(),
            ),
            Part::Thinking(text) => (
                json!({"type": "thinking", "thinking": "", "signature": ""}),
                cut(text, reply.pieces)
                    .map(|piece| json!({"type": "thinking_delta", "thinking": piece}))
                    .chain([
                        json!({"type": "signature_delta", "signature": format!("proof-{number}-{index}")}),
                    ])
                    .collect(),
            ),
            Part::Call { name, arguments } => {
                calls = true;
                (
                    json!({"type": "tool_use", "id": format!("toolu_{number}_{index}"), "name": name, "input": {}}),
                    cut(arguments, reply.pieces)
                        .map(|piece| json!({"type": "input_json_delta", "partial_json": piece}))
                        .collect(),
                )
            }
        };
        say(json!({"type": "content_block_start", "index": index, "content_block": start}));
        for delta in deltas {
            say(json!({"type": "content_block_delta", "index": index, "delta": delta}));
        }
        say(json!({"type": "content_block_stop", "index": index}));
    }
    let stop = reply.stop.clone().unwrap_or_else(|| if calls { "tool_use" } else { "end_turn" }.to_owned());
    say(json!({"type": "message_delta", "delta": {"stop_reason": stop, "stop_sequence": null},
        "usage": {"output_tokens": cost.output}}));
    say(json!({"type": "message_stop"}));
    events
}

fn openai(asked: &Asked, number: usize, reply: &Reply) -> Vec<String> {
    let cost = tokens(asked, reply);
    let chunk = |choices: Value, usage: Option<Value>| {
        let mut data = json!({"id": format!("chatcmpl-{number}"), "object": "chat.completion.chunk",
            "created": 0, "model": asked.model(), "choices": choices});
        if let Some(usage) = usage {
            data["usage"] = usage;
        }
        event(None, &data)
    };
    let delta = |delta: Value| chunk(json!([{"index": 0, "delta": delta, "finish_reason": null}]), None);
    let mut events = vec![delta(json!({"role": "assistant", "content": ""}))];
    let mut calls = 0;
    for part in &reply.parts {
        match part {
            Part::Text(text) => {
                events.extend(cut(text, reply.pieces).map(|piece| delta(json!({"content": piece}))));
            }
            Part::Thinking(text) => {
                let pieces = cut(text, reply.pieces);
                events.extend(pieces.map(|piece| delta(json!({"reasoning_content": piece}))));
            }
            Part::Call { name, arguments } => {
                let mut head = json!({"index": calls, "id": format!("call_{number}_{calls}"),
                    "type": "function", "function": {"name": name, "arguments": ""}});
                if reply.without_ids {
                    head.as_object_mut().expect("an object").remove("id");
                }
                events.push(delta(json!({"tool_calls": [head]})));
                events.extend(cut(arguments, reply.pieces).map(|piece| {
                    delta(json!({"tool_calls": [{"index": calls, "function": {"arguments": piece}}]}))
                }));
                calls += 1;
            }
        }
    }
    let stop = reply.stop.clone().unwrap_or_else(|| if calls > 0 { "tool_calls" } else { "stop" }.to_owned());
    events.push(chunk(json!([{"index": 0, "delta": {}, "finish_reason": stop}]), None));
    if asked.body["stream_options"]["include_usage"] == true && !reply.without_ids {
        let prompt = cost.input + cost.cache_read;
        let usage = json!({"prompt_tokens": prompt, "completion_tokens": cost.output,
            "total_tokens": prompt + cost.output, "prompt_tokens_details": {"cached_tokens": cost.cache_read}});
        events.push(chunk(json!([]), Some(usage)));
    }
    events.push("data: [DONE]\n\n".to_owned());
    events
}

/// Cuts a text into so many pieces at character borders; at least one, which may be empty.
fn cut(text: &str, pieces: usize) -> impl Iterator<Item = String> {
    let characters: Vec<char> = text.chars().collect();
    let length = characters.len().div_ceil(pieces.max(1)).max(1);
    let mut cut: Vec<String> = characters.chunks(length).map(|piece| piece.iter().collect()).collect();
    if cut.is_empty() {
        cut.push(String::new());
    }
    cut.into_iter()
}
