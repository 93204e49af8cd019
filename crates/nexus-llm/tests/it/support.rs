//! A conversation, clients for the scripted server, and what was streamed.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use nexus_credentials::Kind;
use nexus_llm::{
    Access, Client, Content, Conversation, Endpoint, Message, Model, ModelError, ModelEvent, ModelName,
    ModelReply, Role, Timeouts, Wire,
};
use nexus_net::{BaseUrl, Net};
use nexus_protocol::tool::{Replay, ToolSpec};
use nexus_testkit::model::{self, ModelServer};
use serde_json::json;
use tokio_util::sync::CancellationToken;

/// Both formats, ours and the testkit's name for them.
pub(crate) const BOTH: [(Wire, model::Wire); 2] =
    [(Wire::Anthropic, model::Wire::Anthropic), (Wire::OpenAi, model::Wire::OpenAi)];

/// Short enough to be waited for in a test, long enough for a busy machine.
pub(crate) const QUICK: Timeouts =
    Timeouts { first_byte: Duration::from_millis(300), idle: Duration::from_millis(300) };

pub(crate) fn tool(name: &str) -> ToolSpec {
    ToolSpec {
        name: name.to_owned(),
        description: format!("does {name}"),
        input_schema: json!({"type": "object", "properties": {"path": {"type": "string"}}}),
        replay: Replay::Safe,
    }
}

/// A conversation in which a tool was called before.
pub(crate) fn conversation() -> Conversation {
    let call = |id: &str, input| Content::ToolUse { id: id.into(), name: "read".into(), input };
    let result = |id: &str, text: &str, is_error| Content::ToolResult {
        tool_use_id: id.into(),
        text: text.into(),
        is_error,
    };
    Conversation {
        system: "You are a test.".into(),
        messages: vec![
            Message::user("hello"),
            Message {
                role: Role::Assistant,
                content: vec![
                    Content::Thinking { text: "hm".into(), signature: Some("proof".into()) },
                    Content::Text { text: "I look.".into() },
                    call("c1", json!({"path": "a"})),
                    call("c2", json!("{not json")),
                ],
            },
            Message {
                role: Role::User,
                content: vec![
                    result("c1", "contents", false),
                    result("c2", "bad arguments", true),
                    Content::Text { text: "and?".into() },
                ],
            },
        ],
        tools: vec![tool("read"), tool("list")].into(),
        max_tokens: 1000,
    }
}

pub(crate) fn name(wire: Wire) -> ModelName {
    let provider = match wire {
        Wire::Anthropic => "anthropic",
        Wire::OpenAi => "openai",
    };
    ModelName { provider: provider.into(), model: "scripted-1".into() }
}

pub(crate) fn endpoint(server: &ModelServer, wire: Wire, timeouts: Timeouts) -> Endpoint {
    Endpoint::new(name(wire), wire, BaseUrl::parse(&server.base_url()).unwrap(), timeouts)
}

pub(crate) fn client(server: &ModelServer, wire: Wire) -> Client {
    client_within(server, wire, Timeouts::default())
}

pub(crate) fn client_within(server: &ModelServer, wire: Wire, timeouts: Timeouts) -> Client {
    let access = Access {
        secret: "the-secret".to_owned().into(),
        kind: Kind::ApiKey,
        pointer: "svc/acct/api_key".into(),
        is_tool_login: false,
    };
    Client::new(Net::new(), endpoint(server, wire, timeouts), Some(access))
}

/// What came of one call: the reply and the pieces as they were streamed.
pub(crate) struct Told {
    pub(crate) reply: Result<ModelReply, ModelError>,
    pub(crate) text: String,
    pub(crate) thinking: String,
}

pub(crate) async fn ask(model: &dyn Model) -> Told {
    ask_with(model, &conversation(), &CancellationToken::new()).await
}

pub(crate) async fn ask_with(
    model: &dyn Model,
    conversation: &Conversation,
    cancel: &CancellationToken,
) -> Told {
    let heard = Arc::new(Mutex::new((String::new(), String::new())));
    let hearing = Arc::clone(&heard);
    let sink = move |event: ModelEvent| {
        let mut heard = hearing.lock().unwrap();
        match event {
            ModelEvent::TextDelta(piece) => heard.0.push_str(&piece),
            ModelEvent::ThinkingDelta(piece) => heard.1.push_str(&piece),
        }
    };
    let reply = model.reply(conversation, &sink, cancel).await;
    let (text, thinking) = heard.lock().unwrap().clone();
    Told { reply, text, thinking }
}
