//! Any text and any history give a valid turn, and always the same one.

use std::sync::Arc;

use nexus_guide::Guide;
use nexus_llm::{Content, Conversation, Message, Role, StopReason};
use nexus_protocol::framing::{Frame, Kind, key};
use proptest::prelude::*;
use serde_json::json;

use crate::world::{World, check, joined, manager_tools, worker_tools};

fn words() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        Just("run"),
        Just("remember that"),
        Just("what do you know about"),
        Just("call yourself"),
        Just("I'm"),
        Just("you are"),
        Just("Atlas"),
        Just("sam"),
        Just("yes"),
        Just("no,"),
        Just("`ls`"),
        Just("```"),
        Just("\n"),
        Just("."),
        Just("you choose"),
        Just("import"),
        Just("\"x"),
        Just("show file"),
        Just("note:"),
        Just("cancel"),
        Just("🦉"),
        Just("é山"),
        Just("<context>\nkind: system\n</context>\n\n"),
        Just("help"),
        Just("hello"),
        Just("be brief"),
        Just("- A_KEY (x)"),
        Just("{\"findings\":[{\"variable\":\"A_KEY\"}]}"),
        Just("who am i"),
        Just("state/user/IDENTITY.md"),
    ];
    let listed = prop::collection::vec(piece, 0..8).prop_map(|pieces| pieces.join(" "));
    prop_oneof![4 => listed, 2 => ".{0,80}", 1 => "\\PC{0,400}", 1 => Just("a ".repeat(5_000))]
}

fn input() -> impl Strategy<Value = Message> {
    let kind = prop_oneof![
        5 => Just(Kind::Message), 1 => Just(Kind::Task), 3 => Just(Kind::WorkerResult), 1 => Just(Kind::AgentMessage), 1 => Just(Kind::System),
    ];
    let status = prop_oneof![Just("completed"), Just("failed"), Just("cancelled"), Just("")];
    (kind, words(), status, 0..6_usize, any::<bool>()).prop_map(|(kind, text, status, dispatch, framed)| {
        let frame = Frame::new(kind)
            .with(key::STATUS, status)
            .with(key::DISPATCH, &format!("call{dispatch}"))
            .with(key::SKILLS, "filesystem-scan");
        Message::user(if framed { format!("{}{text}", frame.render()) } else { text })
    })
}

fn exchange() -> impl Strategy<Value = Vec<Message>> {
    let call = (0..6_usize, words(), any::<bool>(), words(), 0..6_usize).prop_map(
        |(number, text, is_error, result, kind)| {
            let id = format!("call{number}");
            let (name, input) = match kind {
                0 => ("remember", json!({"text": text})),
                1 => ("recall", json!({"query": text})),
                2 => ("get_agent_status", json!({})),
                3 => ("write", json!({"path": "state/user/IDENTITY.md", "content": text})),
                4 => (
                    "agent_send",
                    json!({"op": "dispatch", "text": format!("Run `nexus credential scan --json` {text}")}),
                ),
                _ => ("agent_send", json!({"op": "dispatch", "text": text})),
            };
            let called = Content::ToolUse { id: id.clone(), name: name.to_owned(), input };
            let answered = Content::ToolResult { tool_use_id: id, text: result, is_error };
            (called, answered)
        },
    );
    (words(), prop::collection::vec(call, 0..3), any::<bool>()).prop_map(|(said, calls, is_cut_off)| {
        let mut content = vec![Content::Text { text: said }];
        content.extend(calls.iter().map(|(called, _)| called.clone()));
        let mut messages = vec![Message { role: Role::Assistant, content }];
        if !calls.is_empty() && !is_cut_off {
            messages.push(Message {
                role: Role::User,
                content: calls.into_iter().map(|(_, answered)| answered).collect(),
            });
        }
        messages
    })
}

fn history() -> impl Strategy<Value = Vec<Message>> {
    let part = prop_oneof![input().prop_map(|message| vec![message]), exchange()];
    (prop::collection::vec(part, 0..8), prop::collection::vec(input(), 1..4)).prop_map(|(parts, last)| {
        let mut messages: Vec<Message> = parts.concat();
        messages.extend(last);
        messages
    })
}

/// Lets a turn run to its end against tools that answer anything; gives what was said.
fn play(mut conversation: Conversation, answer: &str, is_error: bool) -> String {
    let mut said = String::new();
    for _ in 0..4 {
        let reply = Guide::answer(&conversation);
        assert_eq!(reply, Guide::answer(&conversation), "the same conversation, the same reply");
        check(&conversation, &reply);
        let mut results = Vec::new();
        for part in &reply.content {
            match part {
                Content::Text { text } => said.push_str(text),
                Content::ToolUse { id, .. } => results.push(Content::ToolResult {
                    tool_use_id: id.clone(),
                    text: answer.to_owned(),
                    is_error,
                }),
                Content::Thinking { .. } | Content::ToolResult { .. } => panic!("unexpected {part:?}"),
            }
        }
        conversation.messages.push(Message { role: Role::Assistant, content: reply.content });
        if reply.stop == StopReason::EndTurn {
            return said;
        }
        conversation.messages.push(Message { role: Role::User, content: results });
    }
    panic!("the turn does not end");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_history_gives_a_valid_turn(
        messages in history(),
        onboarded in any::<bool>(),
        answer in words(),
        is_error in any::<bool>(),
        joins in any::<bool>(),
        few_tools in any::<bool>(),
    ) {
        let world = if onboarded { World::onboarded() } else { World::new() };
        let messages = if joins { joined(&messages) } else { messages };
        let tools = manager_tools();
        let tools = if few_tools { Arc::from(&tools[1..2]) } else { tools };
        let conversation = Conversation { system: world.system(), messages, tools, max_tokens: 4096 };
        prop_assert!(!play(conversation, &answer, is_error).trim().is_empty());
    }

    #[test]
    fn any_task_gives_a_valid_worker_turn(
        messages in history(),
        answer in words(),
        is_error in any::<bool>(),
        few_tools in any::<bool>(),
    ) {
        let tools = worker_tools();
        let tools = if few_tools { Arc::from(&tools[4..5]) } else { tools };
        let conversation = Conversation { system: "You are a worker.".into(), messages, tools, max_tokens: 10 };
        prop_assert!(!play(conversation, &answer, is_error).trim().is_empty());
    }

    #[test]
    fn any_text_is_answered_at_any_time(lines in prop::collection::vec(words(), 1..6), onboarded in any::<bool>()) {
        let mut world = if onboarded { World::onboarded() } else { World::new() };
        for line in &lines {
            world.say(line);
        }
    }
}
