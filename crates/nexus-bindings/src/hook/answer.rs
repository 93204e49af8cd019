//! Answers in the shape each harness reads. Anything it would not understand is left out: some check
//! what they are given, and an error in front of the model is worse than silence.

use nexus_project::lifecycle::{Decision, Moment, Reply};
use serde_json::{Value, json};

use super::HookEvent;
use crate::Harness;

/// Renders a reply; none is silence.
pub(super) fn render(harness: Harness, event: HookEvent, reply: &Reply) -> Option<String> {
    match harness {
        Harness::ClaudeCode | Harness::Codex | Harness::Qwen => nested(harness, event, reply),
        Harness::Gemini => gemini(event, reply),
        Harness::Cursor => cursor(event, reply),
        Harness::OpenCode => opencode(reply),
    }
}

/// Claude Code and those who took its shapes over.
fn nested(harness: Harness, event: HookEvent, reply: &Reply) -> Option<String> {
    let HookEvent::Moment(moment) = event else { return for_the_person(reply) };
    let native = match moment {
        Moment::SessionStart => "SessionStart",
        Moment::UserMessage => "UserPromptSubmit",
        Moment::SubagentSpawn => "SubagentStart",
        Moment::PreToolUse => "PreToolUse",
        Moment::PostToolUse => "PostToolUse",
        Moment::SubagentComplete => return for_the_person(reply),
        // Claude puts plain text before its summary; the others are told when the session starts again.
        Moment::ContextCompact => return told(reply).filter(|_| harness == Harness::ClaudeCode),
        // Its output is refused or shown as an error.
        Moment::SessionEnd => return None,
    };
    if reply.decision == Decision::Block && moment == Moment::PreToolUse {
        let reason = reply.reason.as_deref().unwrap_or("not allowed here");
        return Some(
            json!({"hookSpecificOutput": {"hookEventName": native, "permissionDecision": "deny",
                   "permissionDecisionReason": reason}})
            .to_string(),
        );
    }
    let context = told(reply)?;
    Some(json!({"hookSpecificOutput": {"hookEventName": native, "additionalContext": context}}).to_string())
}

fn gemini(event: HookEvent, reply: &Reply) -> Option<String> {
    let HookEvent::Moment(moment) = event else { return None };
    if reply.decision == Decision::Block && moment == Moment::PreToolUse {
        let reason = reply.reason.as_deref().unwrap_or("not allowed here");
        return Some(json!({"decision": "deny", "reason": reason}).to_string());
    }
    let native = match moment {
        Moment::SessionStart => "SessionStart",
        Moment::UserMessage => "BeforeAgent",
        Moment::PostToolUse => "AfterTool",
        Moment::SubagentSpawn
        | Moment::SubagentComplete
        | Moment::PreToolUse
        | Moment::SessionEnd
        | Moment::ContextCompact => return None,
    };
    let context = told(reply)?;
    Some(json!({"hookSpecificOutput": {"hookEventName": native, "additionalContext": context}}).to_string())
}

fn cursor(event: HookEvent, reply: &Reply) -> Option<String> {
    let HookEvent::Moment(moment) = event else { return None };
    let value: Value = match moment {
        Moment::SessionStart => json!({"continue": true, "additional_context": told(reply)?}),
        Moment::PostToolUse => json!({"additional_context": told(reply)?}),
        Moment::PreToolUse if reply.decision == Decision::Block => {
            let reason = reply.reason.as_deref().unwrap_or("not allowed here");
            json!({"permission": "deny", "agent_message": reason, "user_message": reason})
        }
        Moment::PreToolUse | Moment::SubagentSpawn => json!({"permission": "allow"}),
        Moment::UserMessage => json!({"continue": true}),
        Moment::SubagentComplete | Moment::SessionEnd | Moment::ContextCompact => return None,
    };
    Some(value.to_string())
}

/// Our own plugin reads this.
fn opencode(reply: &Reply) -> Option<String> {
    let mut value = serde_json::Map::new();
    if let Some(context) = told(reply) {
        value.insert("context".to_owned(), json!(context));
    }
    if reply.decision == Decision::Block {
        value.insert("deny".to_owned(), json!(reply.reason.as_deref().unwrap_or("not allowed here")));
    }
    (!value.is_empty()).then(|| Value::Object(value).to_string())
}

/// What the model is told: the context, and below it what went wrong or should be noticed.
fn told(reply: &Reply) -> Option<String> {
    let mut parts: Vec<&str> = reply.context.as_deref().into_iter().collect();
    parts.extend(reply.warnings.iter().map(String::as_str));
    let text = parts.join("\n");
    (!text.trim().is_empty()).then_some(text)
}

fn for_the_person(reply: &Reply) -> Option<String> {
    (!reply.warnings.is_empty()).then(|| json!({"systemMessage": reply.warnings.join("\n")}).to_string())
}
