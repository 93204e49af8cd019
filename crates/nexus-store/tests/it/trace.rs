//! The story of requests, automations, boots and costs.

use nexus_base::clock::Timestamp;
use nexus_base::conversation::Spent;
use nexus_base::id::{BootId, EventId, RequestId, SessionLabel, TurnId};
use nexus_store::runtime::{
    AutomationMode, AutomationStatus, BootEnd, CircuitState, InvocationEnd, InvocationOutcome, NewAutomation,
    NewInvocation, NewRequest, NewUsage, RequestStatus, RequestUpdate, StageTiming,
};
use serde_json::json;

use crate::support::Made;

fn request(id: &str, parent: Option<&str>, root: &str, at: i64) -> NewRequest {
    NewRequest {
        id: RequestId::new(id),
        parent_request_id: parent.map(RequestId::new),
        root_request_id: RequestId::new(root),
        event_id: EventId::new(format!("cli:{id}")),
        event_type: "message".to_owned(),
        event_source: "cli".to_owned(),
        stage: "receiveEvent".to_owned(),
        session_key: None,
        started_at: Timestamp(at),
    }
}

fn timing(stage: &str, duration_us: u64) -> StageTiming {
    StageTiming { stage: stage.to_owned(), started_at: Timestamp(5), duration_us }
}

#[tokio::test]
async fn a_request_grows_stage_by_stage_in_order_without_being_awaited() {
    let made = Made::new();
    let store = made.open();
    let runtime = store.runtime();
    runtime.request_started_later(request("r1", None, "r1", 10));
    runtime.request_started_later(request("r1", None, "other", 99));
    runtime.request_stage_later(
        RequestId::new("r1"),
        RequestUpdate {
            stage: Some("resolveAccess".to_owned()),
            timing: Some(timing("resolveAccess", 70)),
            principal_is_user: Some(true),
            permissions: Some(json!({"tools": ["read"]})),
            session_key: Some(SessionLabel::new("dm:entity-owner")),
            ..RequestUpdate::default()
        },
    );
    runtime.request_stage_later(
        RequestId::new("r1"),
        RequestUpdate {
            stage: Some("runAgent".to_owned()),
            timing: Some(timing("runAgent", 900)),
            turn_id: Some(TurnId::new("t1")),
            tokens_prompt: Some(12),
            ..RequestUpdate::default()
        },
    );
    let end = RequestUpdate { stage: Some("finalize".to_owned()), ..RequestUpdate::default() };
    runtime.request_finished_later(RequestId::new("r1"), RequestStatus::Completed, end);
    runtime.flush().await.unwrap();
    let stored = runtime.request(RequestId::new("r1")).await.unwrap().unwrap();
    assert_eq!(stored.root_request_id.as_str(), "r1");
    assert_eq!((stored.stage.as_str(), stored.status), ("finalize", RequestStatus::Completed));
    assert_eq!(stored.timings, [timing("resolveAccess", 70), timing("runAgent", 900)]);
    assert!(stored.completed_at.is_some());
    let found = RequestUpdate {
        principal_is_user: Some(true),
        permissions: Some(json!({"tools": ["read"]})),
        session_key: Some(SessionLabel::new("dm:entity-owner")),
        turn_id: Some(TurnId::new("t1")),
        tokens_prompt: Some(12),
        ..RequestUpdate::default()
    };
    assert_eq!(stored.found, found);
    store.close().await;
}

#[tokio::test]
async fn requests_are_listed_as_tree_by_time_and_while_open() {
    let made = Made::new();
    let store = made.open();
    let runtime = store.runtime();
    let all = [
        request("a", None, "a", 1),
        request("b", Some("a"), "a", 2),
        request("c", Some("b"), "a", 3),
        request("z", None, "z", 4),
    ];
    for new in all {
        assert!(runtime.request_started(new).await.unwrap());
    }
    runtime
        .request_finished(RequestId::new("b"), RequestStatus::Failed, RequestUpdate::default())
        .await
        .unwrap();
    let ids = |requests: Vec<nexus_store::runtime::Request>| -> Vec<String> {
        requests.into_iter().map(|request| request.id.to_string()).collect()
    };
    assert_eq!(ids(runtime.request_tree(RequestId::new("a")).await.unwrap()), ["a", "b", "c"]);
    assert_eq!(ids(runtime.recent_requests(2).await.unwrap()), ["z", "c"]);
    assert_eq!(ids(runtime.unfinished_requests().await.unwrap()), ["a", "c", "z"]);
    let counts = runtime.counts().await.unwrap();
    assert_eq!((counts.requests, counts.processing), (4, 3));
    let unknown = RequestId::new("no such");
    runtime.request_stage_later(unknown.clone(), RequestUpdate::default());
    runtime.flush().await.unwrap();
    assert!(runtime.request(unknown).await.unwrap().is_none());
    store.close().await;
}

fn automation(name: &str) -> NewAutomation {
    NewAutomation {
        name: name.to_owned(),
        description: "reads memory".to_owned(),
        mode: AutomationMode::Persistent,
        script_path: format!("builtin:{name}"),
        script_hash: None,
        triggers: Some(json!({"platforms": ["cli"]})),
        config: None,
        hook_point: "worker:pre_execution".to_owned(),
        workspace_dir: Some(format!("state/workspace/{name}")),
        peer_workspaces: Some(json!(["memory-writer"])),
        self_improvement: true,
        timeout_ms: Some(10_000),
        blocking: true,
        bundled: true,
        seed_version: Some(1),
    }
}

#[tokio::test]
async fn a_seeded_automation_keeps_what_the_owner_chose() {
    let made = Made::new();
    let store = made.open();
    let runtime = store.runtime();
    assert!(runtime.seed_automation(automation("memory-reader")).await.unwrap());
    let off = AutomationStatus::Disabled;
    assert!(runtime.set_automation_status("memory-reader", off, Some("too chatty")).await.unwrap());
    let changed = NewAutomation { description: "new text".to_owned(), ..automation("memory-reader") };
    assert!(!runtime.seed_automation(changed).await.unwrap());
    let listed = runtime.list_automations().await.unwrap();
    assert_eq!(listed.len(), 1);
    assert_eq!(listed[0].definition, automation("memory-reader"));
    assert_eq!((listed[0].status, listed[0].disabled_reason.as_deref()), (off, Some("too chatty")));
    assert!(!runtime.set_automation_status("nobody", off, None).await.unwrap());
    store.close().await;
}

#[tokio::test]
async fn runs_of_an_automation_are_counted_on_it() {
    let made = Made::new();
    let store = made.open();
    let runtime = store.runtime();
    runtime.seed_automation(automation("memory-reader")).await.unwrap();
    let row = runtime.automation("memory-reader").await.unwrap().unwrap();
    let start = |id: &str, at: i64| NewInvocation {
        id: id.to_owned(),
        automation_id: row.id.clone(),
        automation_name: "memory-reader".to_owned(),
        hook_point: "worker:pre_execution".to_owned(),
        request_id: Some(RequestId::new("r1")),
        event_id: None,
        session_label: None,
        started_at: Timestamp(at),
    };
    let end = |outcome| InvocationEnd {
        outcome,
        fired: outcome == InvocationOutcome::Ok,
        result: Some(json!({"enrich": {}})),
        error: None,
        llm_calls: 0,
        llm_tokens_in: 0,
        llm_tokens_out: 0,
        search_calls: 2,
    };
    for (id, at) in [("i1", 1), ("i2", 2), ("i3", 3)] {
        assert!(runtime.invocation_started_once(start(id, at)).await.unwrap());
    }
    let (error, timeout) = (InvocationOutcome::Error, InvocationOutcome::Timeout);
    // The second end of the same run counts nothing.
    for (id, outcome) in [("i1", error), ("i2", timeout), ("i2", InvocationOutcome::Ok)] {
        runtime.invocation_finished_later(id.to_owned(), end(outcome));
    }
    runtime.flush().await.unwrap();
    let failed = runtime.automation("memory-reader").await.unwrap().unwrap();
    assert_eq!((failed.consecutive_errors, failed.last_error.as_deref()), (2, Some("timeout")));
    runtime.invocation_finished_later("i3".to_owned(), end(InvocationOutcome::Ok));
    runtime.flush().await.unwrap();
    let well = runtime.automation("memory-reader").await.unwrap().unwrap();
    assert_eq!(
        (well.consecutive_errors, well.trigger_count, well.circuit_state),
        (0, 3, CircuitState::Closed)
    );
    let runs = runtime.list_invocations(Some("memory-reader"), 10).await.unwrap();
    let seen: Vec<_> = runs.iter().map(|run| (run.start.id.as_str(), run.outcome)).collect();
    let outcomes = [InvocationOutcome::Ok, InvocationOutcome::Timeout, InvocationOutcome::Error].map(Some);
    assert_eq!(seen, ["i3", "i2", "i1"].into_iter().zip(outcomes).collect::<Vec<_>>());
    assert_eq!(runtime.list_invocations(None, 1).await.unwrap().len(), 1);
    store.close().await;
}

#[tokio::test]
async fn boots_settings_and_costs_survive_a_restart() {
    let made = Made::new();
    let store = made.open();
    let runtime = store.runtime();
    runtime.boot_started(BootId::new("b1"), 41).await.unwrap();
    runtime.boot_ended(BootId::new("b1"), BootEnd::Clean).await.unwrap();
    runtime.boot_started(BootId::new("b2"), 42).await.unwrap();
    runtime.kv_set("consent", "no").await.unwrap();
    runtime.kv_set("consent", "yes").await.unwrap();
    for (day, output) in [("2026-01-01", 5), ("2026-01-01", 7), ("2026-01-02", 1)] {
        let usage = NewUsage {
            day: day.to_owned(),
            provider: "anthropic".to_owned(),
            model: "m".to_owned(),
            request_id: None,
            turn_id: None,
            session_label: None,
            root_request_id: None,
            input_tokens: 100,
            output_tokens: output,
            cached_input_tokens: 0,
            cache_write_tokens: 0,
            cost_micro_usd: 3,
        };
        runtime.spend(usage).await.unwrap();
    }
    store.close().await;
    let store = made.open();
    let boots = store.runtime().recent_boots(10).await.unwrap();
    let ends: Vec<_> = boots.iter().map(|boot| (boot.id.as_str(), boot.pid, boot.clean)).collect();
    assert_eq!(ends, [("b2", 42, false), ("b1", 41, true)]);
    assert_eq!(store.runtime().kv_get("consent").await.unwrap().as_deref(), Some("yes"));
    assert_eq!(store.runtime().kv_get("nothing").await.unwrap(), None);
    let sums = store.runtime().usage_by_day("2026-01-01", "2026-01-01").await.unwrap();
    assert_eq!(sums.len(), 1);
    assert_eq!(
        (sums[0].calls, sums[0].input_tokens, sums[0].output_tokens, sums[0].cost_micro_usd),
        (2, 200, 12, 6)
    );
    store.close().await;
}

#[tokio::test]
async fn what_a_run_and_a_day_came_to_is_known_after_every_call() {
    let made = Made::new();
    let store = made.open();
    let call = |day: &str, run: &str| NewUsage {
        day: day.to_owned(),
        provider: "anthropic".to_owned(),
        model: "m".to_owned(),
        request_id: None,
        turn_id: None,
        session_label: Some(SessionLabel::new(format!("dm:{run}"))),
        root_request_id: Some(RequestId::new(run)),
        input_tokens: 1,
        output_tokens: 2,
        cached_input_tokens: 4,
        cache_write_tokens: 8,
        cost_micro_usd: 16,
    };
    let runtime = store.runtime();
    let spent = |run_tokens, day_tokens, day_micro_usd| Spent { run_tokens, day_tokens, day_micro_usd };
    assert_eq!(runtime.spend(call("2026-01-01", "a")).await.unwrap(), spent(15, 15, 16));
    assert_eq!(runtime.spend(call("2026-01-01", "b")).await.unwrap(), spent(15, 30, 32));
    assert_eq!(runtime.spend(call("2026-01-02", "a")).await.unwrap(), spent(30, 15, 16));
    let run = RequestId::new("a");
    assert_eq!(runtime.spent("2026-01-01", Some(&run)).await.unwrap(), spent(30, 30, 32));
    assert_eq!(runtime.spent("2026-01-03", None).await.unwrap(), Spent::default());
    let sessions = runtime.usage_by_session("2026-01-01", "2026-01-02", 10).await.unwrap();
    let seen: Vec<_> =
        sessions.iter().map(|one| (one.session.as_ref().unwrap().as_str(), one.sum.calls)).collect();
    assert_eq!(seen, [("dm:a", 2), ("dm:b", 1)]);
    store.close().await;
}

#[tokio::test]
async fn old_runs_go_and_open_ones_stay() {
    let made = Made::new();
    let store = made.open();
    let runtime = store.runtime();
    let start = |number: i64| NewInvocation {
        id: format!("i{number:05}"),
        automation_id: "a1".to_owned(),
        automation_name: "tally".to_owned(),
        hook_point: "finalize".to_owned(),
        request_id: None,
        event_id: None,
        session_label: None,
        started_at: Timestamp(number),
    };
    let end = InvocationEnd {
        outcome: InvocationOutcome::Ok,
        fired: true,
        result: None,
        error: None,
        llm_calls: 0,
        llm_tokens_in: 0,
        llm_tokens_out: 0,
        search_calls: 0,
    };
    for number in 1..=2_500 {
        runtime.invocation_started_later(start(number));
        if number != 7 {
            runtime.invocation_finished_later(format!("i{number:05}"), end.clone());
        }
    }
    runtime.flush().await.unwrap();
    let prune = async |before: i64, most: u64| {
        let mut removed = 0;
        loop {
            match runtime.prune_invocations(Timestamp(before), most).await.unwrap() {
                0 => return removed,
                some => removed += some,
            }
        }
    };
    assert_eq!(prune(1_501, u64::MAX).await, 1_499, "all but the one that still runs");
    assert_eq!(prune(1_501, 600).await, 401, "the oldest beyond what is kept");
    let left = runtime.list_invocations(None, 1_000).await.unwrap();
    assert_eq!(left.len(), 600);
    assert!(left.iter().any(|run| run.start.id == "i00007") && left[0].start.id == "i02500");
    store.close().await;
}
