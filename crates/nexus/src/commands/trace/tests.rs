//! How a trace reads.

use nexus_base::clock::Timestamp;
use nexus_base::id::{EventId, SessionLabel, TurnId};
use serde_json::json;

use super::*;

fn view(id: &str, kind: &str) -> RequestView {
    RequestView {
        request_id: RequestId::new(id),
        parent_request_id: None,
        event_id: EventId::new("e"),
        event_type: kind.to_owned(),
        event_source: "http".to_owned(),
        stage: "finalize".to_owned(),
        status: "completed".to_owned(),
        access: None,
        session: Some(SessionLabel::new("dm:entity-owner")),
        turn_id: Some(TurnId::new("t")),
        attempts: 1,
        model: Some("nexus/guide".to_owned()),
        input: "Hello\nthere".to_owned(),
        output: "Hi.".to_owned(),
        input_tokens: 12,
        output_tokens: 3,
        started_at: Timestamp(0),
        completed_at: Some(Timestamp(42)),
        stages: vec![
            StageTiming { stage: "receiveEvent".to_owned(), started_at: Timestamp(0), duration_us: 1_250 },
            StageTiming { stage: "runAgent".to_owned(), started_at: Timestamp(2), duration_us: 31_000 },
        ],
        tool_calls: Vec::new(),
        error: None,
        untrusted: Vec::new(),
        children: Vec::new(),
    }
}

fn without_time(text: &str) -> String {
    text.lines()
        .map(|line| line.split(" · 1970").next().unwrap_or(line).trim_end())
        .collect::<Vec<_>>()
        .join("\n")
}

#[test]
fn a_tree_shows_stages_tools_workers_and_errors() {
    let mut root = view("R1", "message");
    root.tool_calls.push(ToolCallView {
        tool: "agent_send".to_owned(),
        arguments: json!({ "op": "dispatch" }),
        status: "completed".to_owned(),
        result: String::new(),
        duration_ms: Some(4),
        spawned_session: Some(SessionLabel::new("worker:1")),
    });
    let mut worker = view("R2", "worker_task");
    worker.session = Some(SessionLabel::new("worker:1"));
    worker.attempts = 2;
    worker.status = "failed".to_owned();
    worker.error = Some("deadline passed".to_owned());
    worker.stages.clear();
    let mut result = view("R3", "worker_result");
    result.completed_at = None;
    result.status = "processing".to_owned();
    root.children = vec![worker, result];
    insta::assert_snapshot!(without_time(&render(&root)), @r#"
    message R1 · completed in 42 ms
    │ session   dm:entity-owner
    │ asked     Hello there
    │ stages    receiveEvent 1.2 ms · runAgent 31 ms
    │ tool      agent_send {"op":"dispatch"} · completed in 4 ms → worker:1
    │ model     nexus/guide · 12 tokens in, 3 out
    │ answered  Hi.
    ├─ worker_task R2 · failed in 42 ms, attempt 2
    │    session   worker:1
    │    asked     Hello there
    │    model     nexus/guide · 12 tokens in, 3 out
    │    answered  Hi.
    │    error     deadline passed
    └─ worker_result R3 · processing, at finalize
         session   dm:entity-owner
         asked     Hello there
         stages    receiveEvent 1.2 ms · runAgent 31 ms
         model     nexus/guide · 12 tokens in, 3 out
         answered  Hi.
    "#);
}

#[test]
fn durations_keep_two_or_three_digits() {
    assert_eq!(duration(999), "999 µs");
    assert_eq!(duration(9_999), "9.9 ms");
    assert_eq!(duration(12_345), "12 ms");
    assert_eq!(duration(12_345_678), "12 s");
}
