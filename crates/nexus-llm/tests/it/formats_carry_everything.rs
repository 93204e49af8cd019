//! What a conversation holds reaches each provider in its own words, and replies come back whole.

use nexus_llm::{Content, StopReason, Usage, Wire};
use nexus_testkit::model::{ModelServer, Reply, Tokens};
use serde_json::{Value, json};

use crate::support::{BOTH, ask, client};

fn script() -> Reply {
    Reply::default()
        .thinking("let me sée")
        .and_text("Grüße 🦀 aus zwei Stücken")
        .call("read", &json!({"path": "ä/b"}))
        .call("list", &json!({}))
        .tokens(Tokens { input: 11, output: 22, cache_read: 33, cache_write: 44 })
}

fn without_proof(content: &[Content]) -> Vec<Content> {
    content
        .iter()
        .map(|part| match part {
            Content::Thinking { text, .. } => Content::Thinking { text: text.clone(), signature: None },
            Content::ToolUse { name, input, .. } => {
                Content::ToolUse { id: String::new(), name: name.clone(), input: input.clone() }
            }
            other => other.clone(),
        })
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reply_comes_back_whole_however_its_bytes_are_split() {
    let expected = [
        Content::Thinking { text: "let me sée".into(), signature: None },
        Content::Text { text: "Grüße 🦀 aus zwei Stücken".into() },
        Content::ToolUse { id: String::new(), name: "read".into(), input: json!({"path": "ä/b"}) },
        Content::ToolUse { id: String::new(), name: "list".into(), input: json!({}) },
    ];
    for (wire, _) in BOTH {
        for (pieces, bytes) in [(1, None), (3, Some(1)), (4, Some(7)), (50, Some(64))] {
            let server = ModelServer::start();
            let reply = script().pieces(pieces);
            server.script([match bytes {
                Some(bytes) => reply.bytes_at_once(bytes),
                None => reply,
            }]);
            let told = ask(&client(&server, wire)).await;
            let reply = told.reply.unwrap();
            assert_eq!(without_proof(&reply.content), expected, "{wire:?} {pieces} {bytes:?}");
            assert_eq!(
                (told.text.as_str(), told.thinking.as_str()),
                ("Grüße 🦀 aus zwei Stücken", "let me sée")
            );
            assert_eq!(reply.stop, StopReason::ToolUse);
            let written = if wire == Wire::Anthropic { 44 } else { 0 };
            let usage = Usage { input: 11, output: 22, cache_read: 33, cache_write: written, reasoning: 0 };
            assert_eq!(reply.usage, usage, "{wire:?}");
            let ids: Vec<&str> = reply.content.iter().filter_map(call_id).collect();
            assert!(ids.len() == 2 && ids[0] != ids[1] && !ids[0].is_empty(), "{ids:?}");
        }
    }
}

fn call_id(part: &Content) -> Option<&str> {
    match part {
        Content::ToolUse { id, .. } => Some(id),
        Content::Text { .. } | Content::Thinking { .. } | Content::ToolResult { .. } => None,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn anthropic_is_asked_in_its_words() {
    let server = ModelServer::start();
    server.script([script()]);
    let reply = ask(&client(&server, Wire::Anthropic)).await.reply.unwrap();
    assert!(
        matches!(&reply.content[0], Content::Thinking { signature: Some(proof), .. } if proof.starts_with("proof-")),
        "signatures are kept: {:?}",
        reply.content[0]
    );
    let asked = &server.asked()[0];
    assert_eq!(asked.target, "POST /v1/messages");
    assert_eq!(asked.header("x-api-key"), Some("the-secret"));
    assert_eq!(asked.header("authorization"), None);
    assert_eq!(asked.header("anthropic-version"), Some("2023-06-01"));
    let mark = json!({"type": "ephemeral"});
    let schema = json!({"type": "object", "properties": {"path": {"type": "string"}}});
    assert_eq!(
        asked.body,
        json!({
            "model": "scripted-1", "max_tokens": 1000, "stream": true,
            "tools": [
                {"name": "read", "description": "does read", "input_schema": schema},
                {"name": "list", "description": "does list", "input_schema": schema, "cache_control": mark},
            ],
            "system": [{"type": "text", "text": "You are a test.", "cache_control": mark}],
            "messages": [
                {"role": "user", "content": [{"type": "text", "text": "hello"}]},
                {"role": "assistant", "content": [
                    {"type": "thinking", "thinking": "hm", "signature": "proof"},
                    {"type": "text", "text": "I look."},
                    {"type": "tool_use", "id": "c1", "name": "read", "input": {"path": "a"}},
                    {"type": "tool_use", "id": "c2", "name": "read", "input": {"unparsed": "{not json"}},
                ]},
                {"role": "user", "content": [
                    {"type": "tool_result", "tool_use_id": "c1", "content": "contents"},
                    {"type": "tool_result", "tool_use_id": "c2", "content": "bad arguments", "is_error": true},
                    {"type": "text", "text": "and?", "cache_control": mark},
                ]},
            ],
        })
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn openai_is_asked_in_its_words() {
    let server = ModelServer::start();
    server.script([script()]);
    ask(&client(&server, Wire::OpenAi)).await.reply.unwrap();
    let asked = &server.asked()[0];
    assert_eq!(asked.target, "POST /v1/chat/completions");
    assert_eq!(asked.header("authorization"), Some("Bearer the-secret"));
    let schema = json!({"type": "object", "properties": {"path": {"type": "string"}}});
    let function = |name: &str| {
        json!({"type": "function",
        "function": {"name": name, "description": format!("does {name}"), "parameters": schema}})
    };
    assert_eq!(
        asked.body,
        json!({
            "model": "scripted-1", "stream": true, "stream_options": {"include_usage": true}, "max_tokens": 1000,
            "tools": [function("read"), function("list")],
            "messages": [
                {"role": "system", "content": "You are a test."},
                {"role": "user", "content": "hello"},
                {"role": "assistant", "content": "I look.", "tool_calls": [
                    {"id": "c1", "type": "function", "function": {"name": "read", "arguments": "{\"path\":\"a\"}"}},
                    {"id": "c2", "type": "function",
                        "function": {"name": "read", "arguments": "{\"unparsed\":\"{not json\"}"}},
                ]},
                {"role": "tool", "tool_call_id": "c1", "content": "contents"},
                {"role": "tool", "tool_call_id": "c2", "content": "bad arguments"},
                {"role": "user", "content": "and?"},
            ],
        })
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn arguments_that_do_not_parse_reach_the_agent_as_text() {
    for (wire, _) in BOTH {
        let server = ModelServer::start();
        server.script([Reply::text("x").raw_call("read", "{\"path\": oops").raw_call("list", "")]);
        let reply = ask(&client(&server, wire)).await.reply.unwrap();
        let inputs: Vec<&Value> = reply
            .content
            .iter()
            .filter_map(|part| match part {
                Content::ToolUse { input, .. } => Some(input),
                Content::Text { .. } | Content::Thinking { .. } | Content::ToolResult { .. } => None,
            })
            .collect();
        assert_eq!(inputs, [&json!("{\"path\": oops"), &json!({})], "{wire:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn servers_that_leave_things_out_are_understood() {
    let server = ModelServer::start();
    let raw = |events: &[Value]| {
        let text: Vec<String> = events.iter().map(|event| format!("data: {event}\r\n\r\n")).collect();
        Reply::raw(format!(": hello\r\n\r\n{}", text.concat()))
    };
    let delta = |delta: Value| json!({"choices": [{"delta": delta}]});
    let call = |name: &str, arguments: Value| json!({"function": {"name": name, "arguments": arguments}});
    server.script([
        Reply::calls("read", &json!({"path": "x"})).call("read", &json!({"path": "y"})).without_ids(),
        // No index, no id, arguments as an object, "stop" although it calls, no [DONE].
        raw(&[
            delta(json!({"reasoning": "so", "content": [{"type": "text", "text": "hi"}]})),
            delta(json!({"tool_calls": [call("read", json!({"path": "x"}))]})),
            delta(json!({"tool_calls": [call("list", json!("{\"path\":"))]})),
            delta(json!({"tool_calls": [{"function": {"arguments": "\"y\"}"}}]})),
            json!({"choices": [{"delta": {}, "finish_reason": "stop"}]}),
        ]),
    ]);
    let client = client(&server, Wire::OpenAi);
    let first = ask(&client).await.reply.unwrap();
    let ids: Vec<&str> = first.content.iter().filter_map(call_id).collect();
    assert!(ids.len() == 2 && ids[0] != ids[1] && ids[0].starts_with("call_"), "{ids:?}");
    assert!(first.usage.input > 10 && first.usage.output > 3, "the cost is estimated: {:?}", first.usage);
    let told = ask(&client).await;
    let second = told.reply.unwrap();
    assert_eq!((told.text.as_str(), told.thinking.as_str()), ("hi", "so"));
    assert_eq!(second.stop, StopReason::ToolUse);
    let calls: Vec<Content> = without_proof(&second.content)[2..].to_vec();
    let expected = |name: &str, path: &str| Content::ToolUse {
        id: String::new(),
        name: name.into(),
        input: json!({"path": path}),
    };
    assert_eq!(calls, [expected("read", "x"), expected("list", "y")]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_does_not_know_a_word_is_asked_again_without_it() {
    let server = ModelServer::start();
    server.script([
        Reply::status(400, "unrecognized argument: stream_options"),
        Reply::status(
            400,
            "'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.",
        ),
        Reply::text("understood"),
        Reply::text("remembered"),
    ]);
    let client = client(&server, Wire::OpenAi);
    assert_eq!(ask(&client).await.text, "understood");
    assert_eq!(ask(&client).await.text, "remembered");
    let words: Vec<(bool, bool, bool)> = server
        .asked()
        .iter()
        .map(|asked| {
            let has = |name: &str| asked.body.get(name).is_some();
            (has("stream_options"), has("max_tokens"), has("max_completion_tokens"))
        })
        .collect();
    assert_eq!(
        words,
        [(true, true, false), (false, true, false), (false, false, true), (false, false, true)]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn every_reason_to_stop_is_told() {
    let cases = [
        (Wire::Anthropic, "end_turn", StopReason::EndTurn),
        (Wire::Anthropic, "max_tokens", StopReason::MaxTokens),
        (Wire::Anthropic, "refusal", StopReason::Refusal),
        (Wire::OpenAi, "stop", StopReason::EndTurn),
        (Wire::OpenAi, "length", StopReason::MaxTokens),
        (Wire::OpenAi, "content_filter", StopReason::Refusal),
    ];
    for (wire, word, expected) in cases {
        let server = ModelServer::start();
        server.script([Reply::text("x").stop(word), Reply::nothing().stop(word)]);
        let client = client(&server, wire);
        assert_eq!(ask(&client).await.reply.unwrap().stop, expected, "{word}");
        let nothing = ask(&client).await.reply.unwrap();
        assert_eq!((nothing.content.len(), nothing.stop), (0, expected), "an empty reply is a reply");
    }
}
