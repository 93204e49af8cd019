//! Anthropic Messages: the request, with its cache breakpoints.

mod decode;

use nexus_credentials::Kind;
use nexus_net::Request;
use serde_json::{Value, json};

use crate::client::{Access, as_object};
use crate::probe::{ANTHROPIC_LOGIN, ANTHROPIC_VERSION};
use crate::{Content, Conversation, Message, Role};

pub(crate) use decode::Decoder;

/// Adds the headers the interface wants.
pub(crate) fn headers(request: Request, access: Option<&Access>) -> Request {
    let request = request.header("anthropic-version", ANTHROPIC_VERSION);
    match access {
        Some(access) if access.kind == Kind::Oauth => {
            request.header("anthropic-beta", ANTHROPIC_LOGIN).bearer(&access.secret)
        }
        Some(access) => request.secret_header("x-api-key", &access.secret),
        None => request,
    }
}

/// Words a conversation. Everything up to the marks is the same from step to step, byte for byte, apart
/// from the marks themselves, which no cache looks at.
pub(crate) fn request(model: &str, conversation: &Conversation) -> Value {
    let mut messages: Vec<Value> = conversation.messages.iter().filter_map(message).collect();
    // The end of the history: the next step reads everything up to here from the cache.
    if let Some(last) = messages.last_mut().and_then(|message| message["content"].as_array_mut()) {
        last.last_mut().into_iter().for_each(mark);
    }
    let mut tools: Vec<Value> = conversation
        .tools
        .iter()
        .map(|tool| {
            json!({"name": tool.name, "description": tool.description, "input_schema": tool.input_schema})
        })
        .collect();
    tools.last_mut().into_iter().for_each(mark);
    let mut request = json!({
        "model": model,
        "max_tokens": conversation.max_tokens,
        "stream": true,
    });
    if !tools.is_empty() {
        request["tools"] = Value::Array(tools);
    }
    if !conversation.system.is_empty() {
        let mut system = json!({"type": "text", "text": &*conversation.system});
        mark(&mut system);
        request["system"] = json!([system]);
    }
    request["messages"] = Value::Array(messages);
    request
}

/// Puts a cache breakpoint after a block.
fn mark(block: &mut Value) {
    // Reasoning cannot carry one.
    if block["type"] != "thinking" && block["type"] != "redacted_thinking" {
        block["cache_control"] = json!({"type": "ephemeral"});
    }
}

fn message(message: &Message) -> Option<Value> {
    let content: Vec<Value> = message.content.iter().filter_map(block).collect();
    let role = match message.role {
        Role::User => "user",
        Role::Assistant => "assistant",
    };
    (!content.is_empty()).then(|| json!({"role": role, "content": content}))
}

fn block(content: &Content) -> Option<Value> {
    match content {
        // The interface refuses blank texts.
        Content::Text { text } if text.trim().is_empty() => None,
        Content::Text { text } => Some(json!({"type": "text", "text": text})),
        // Only what the provider signed may go back to it.
        Content::Thinking { signature: None, .. } => None,
        Content::Thinking { text, signature: Some(data) } if text.is_empty() => {
            Some(json!({"type": "redacted_thinking", "data": data}))
        }
        Content::Thinking { text, signature: Some(signature) } => {
            Some(json!({"type": "thinking", "thinking": text, "signature": signature}))
        }
        Content::ToolUse { id, name, input } => {
            Some(json!({"type": "tool_use", "id": id, "name": name, "input": as_object(input)}))
        }
        Content::ToolResult { tool_use_id, text, is_error } => {
            let mut result = json!({"type": "tool_result", "tool_use_id": tool_use_id, "content": text});
            if *is_error {
                result["is_error"] = json!(true);
            }
            Some(result)
        }
    }
}
