use serde_json::{Value, json};

use super::*;

fn event(root: Option<&str>, body: &Value) -> BusEvent {
    let mut event = json!({"seq": 1, "at": 5, "type": body["type"], "properties": body["properties"]});
    if let Some(root) = root {
        event["root_request_id"] = json!(root);
    }
    serde_json::from_value(event).unwrap()
}

/// One event of every kind, as JSON, in the order of `TYPES`.
fn every_kind() -> Vec<Value> {
    let ids = json!({
        "request_id": "r", "session": "s", "turn_id": "t", "outbox_id": "o", "message_id": "m", "tool_call_id": "c",
        "parent": "p", "attempt": 1, "text": "", "state": "final", "tool": "x", "summary": "", "is_error": false,
        "duration_ms": 1, "task": "", "status": "", "stage": "", "version": "", "missed": 1,
        "permission_request_id": "a", "kind": "", "expires_at": 1, "input_tokens": 1, "cached_input_tokens": 1,
        "output_tokens": 1, "compaction_id": "k", "turns": 1, "automation": "", "hook_point": "", "error": "", "tokens_before": 2, "tokens_after": 1,
    });
    BusBody::TYPES.iter().map(|name| json!({"type": name, "properties": ids})).collect()
}

#[test]
fn names_are_the_wire_format_s_own() {
    for (name, kind) in BusBody::TYPES.iter().zip(every_kind()) {
        let unit = matches!(*name, "system.stopping" | "system.config_reloaded");
        let kind = if unit { json!({"type": name, "properties": null}) } else { kind };
        let event = event(None, &kind);
        assert_eq!(serde_json::to_value(&event).unwrap()["type"], *name);
        assert_eq!(event.body.type_name(), *name);
    }
}

#[test]
fn filters_take_what_was_asked_for_and_always_the_gap() {
    let stage = json!({"type": "nex.request.stage", "properties": {"request_id": "r", "stage": "x"}});
    let done = json!({"type": "nex.request.completed", "properties": {"request_id": "r", "status": "x"}});
    let gap = json!({"type": "bus.gap", "properties": {"missed": 3}});
    let filter = |root: Option<&str>, types: Option<&str>| {
        Filter::new(Wanted { root: root.map(str::to_owned), types: types.map(str::to_owned) })
    };
    let mine = filter(Some("mine"), None).unwrap();
    assert!(mine.takes(&event(Some("mine"), &stage)));
    assert!(!mine.takes(&event(Some("other"), &stage)));
    assert!(mine.takes(&event(None, &gap)));
    assert!(mine.takes(&event(None, &json!({"type": "system.stopping", "properties": null}))));
    assert!(!mine.takes(&event(None, &stage)));
    assert!(filter(Some("r"), None).unwrap().takes(&event(None, &stage)));
    let stages = filter(None, Some("nex.request.stage, chat.final")).unwrap();
    assert!(stages.takes(&event(Some("any"), &stage)));
    assert!(!stages.takes(&event(Some("any"), &done)));
    assert!(stages.takes(&event(None, &gap)));
    assert!(filter(None, Some("nex.request.stages")).is_err());
    assert!(filter(None, Some("")).is_err());
    assert!(filter(Some(""), None).is_err());
}
