//! The runner through its door: order, merging, time, failures, one-shots, triggers kept before a crash.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use nexus_automation::{Handler, HookPoint, Occasion, Run, RunError, Runner, RunnerParts, Tried, Verdict};
use nexus_base::id::{RequestId, SessionLabel};
use nexus_base::redact::Redactor;
use nexus_store::Store;
use nexus_store::runtime::{
    AutomationMode, AutomationStatus, CircuitState, InvocationOutcome, NewAutomation,
};
use serde_json::json;

use crate::support::Place;

/// Does what an automation's settings say, and keeps the order.
#[derive(Default)]
struct Script {
    order: Arc<Mutex<Vec<String>>>,
}

#[async_trait]
impl Handler for Script {
    async fn run(&self, run: &Run) -> Result<Verdict, RunError> {
        let name = run.automation.definition.name.clone();
        self.order.lock().unwrap().push(name.clone());
        let config = run.automation.definition.config.clone().unwrap_or_default();
        match config["does"].as_str().unwrap_or_default() {
            "hang" => std::future::pending().await,
            "panic" => panic!("as it was told"),
            "fail" => Err(RunError("it did not want to".to_owned())),
            _ => Verdict::read(&name, &config["prints"].to_string()).map_err(RunError),
        }
    }
}

struct Scene {
    _place: Place,
    store: Store,
    runner: Runner,
    order: Arc<Mutex<Vec<String>>>,
}

fn automation(name: &str, hook: HookPoint, config: serde_json::Value) -> NewAutomation {
    NewAutomation {
        name: name.to_owned(),
        description: String::new(),
        mode: AutomationMode::Persistent,
        script_path: "builtin:script".to_owned(),
        script_hash: None,
        triggers: None,
        config: Some(config),
        hook_point: hook.as_str().to_owned(),
        workspace_dir: None,
        peer_workspaces: None,
        self_improvement: false,
        timeout_ms: Some(200),
        blocking: true,
        bundled: false,
        seed_version: None,
    }
}

async fn scene(automations: Vec<NewAutomation>) -> Scene {
    let place = Place::new();
    let store = place.open();
    for automation in automations {
        store.runtime().register_automation(automation).await.unwrap();
    }
    let script = Arc::new(Script::default());
    let order = Arc::clone(&script.order);
    let handler: Arc<dyn Handler> = script;
    let runner = Runner::new(RunnerParts {
        store: store.clone(),
        builtins: HashMap::from([("script".to_owned(), Arc::clone(&handler))]),
        programs: handler,
        redactor: Arc::new(Redactor::new()),
        is_trusted: Box::new(|| true),
        watch: Box::new(|_| {}),
        reflect: Box::new(|_, _, _| {}),
    });
    runner.reload().await.unwrap();
    Scene { _place: place, store, runner, order }
}

impl Scene {
    async fn outcomes(&self) -> Vec<(String, Option<InvocationOutcome>, bool)> {
        self.store.runtime().flush().await.unwrap();
        let mut rows = self.store.runtime().list_invocations(None, 100).await.unwrap();
        rows.sort_by(|one, other| one.start.automation_name.cmp(&other.start.automation_name));
        rows.into_iter().map(|row| (row.start.automation_name, row.outcome, row.fired)).collect()
    }

    async fn settle(&self) {
        self.runner.drain(Duration::from_secs(5)).await;
    }
}

const STAGE: HookPoint = HookPoint::RunAutomations;

#[tokio::test]
async fn blocking_ones_run_in_the_order_of_their_names_and_later_pieces_win() {
    let scene = scene(vec![
        automation("b", STAGE, json!({"prints": {"enrich": {"weather": "sun", "tide": "low"}}})),
        automation("a", STAGE, json!({"prints": {"enrich": {"weather": "rain"}}})),
        automation("c", HookPoint::Finalize, json!({"prints": {"fire": true}})),
        NewAutomation {
            blocking: false,
            ..automation("aa", STAGE, json!({"prints": {"enrich": {"weather": "?"}}}))
        },
    ])
    .await;
    let merged = scene.runner.fire(STAGE, Occasion::default()).await;
    assert_eq!(merged.matched, ["a", "aa", "b"]);
    assert_eq!(merged.fired, ["a", "b"]);
    let piece = |name: &str, text: &str| (name.to_owned(), text.to_owned());
    assert_eq!(merged.enrich, [piece("weather", "sun"), piece("tide", "low")]);
    scene.settle().await;
    let order = scene.order.lock().unwrap().clone();
    assert_eq!(order[..2], ["a", "b"]);
    assert_eq!(order[2], "aa", "nobody waited for it, and it ran");
}

#[tokio::test]
async fn failing_hanging_and_panicking_ones_fail_nobody_else() {
    let scene = scene(vec![
        automation("fails", STAGE, json!({"does": "fail"})),
        automation("hangs", STAGE, json!({"does": "hang"})),
        automation("panics", STAGE, json!({"does": "panic"})),
        automation("prints", STAGE, json!({"prints": "no result"})),
        automation("works", STAGE, json!({"prints": {"enrich": {"good": "yes"}}})),
    ])
    .await;
    let merged = scene.runner.fire(STAGE, Occasion::default()).await;
    assert_eq!(merged.fired, ["works"]);
    let row = |name: &str, outcome, fired| (name.to_owned(), Some(outcome), fired);
    assert_eq!(
        scene.outcomes().await,
        [
            row("fails", InvocationOutcome::Error, false),
            row("hangs", InvocationOutcome::Timeout, false),
            row("panics", InvocationOutcome::Error, false),
            row("prints", InvocationOutcome::Error, false),
            row("works", InvocationOutcome::Ok, true),
        ]
    );
    let known = scene.store.runtime().automation("hangs").await.unwrap().unwrap();
    assert_eq!((known.consecutive_errors, known.trigger_count), (1, 1));
}

#[tokio::test]
async fn whoever_deals_with_the_event_ends_the_row() {
    let scene = scene(vec![
        automation("a", STAGE, json!({"prints": {"handled": true, "reply": "done"}})),
        automation("b", STAGE, json!({"prints": {"fire": true}})),
    ])
    .await;
    let merged = scene.runner.fire(STAGE, Occasion::default()).await;
    let handled = merged.handled.unwrap();
    assert_eq!((handled.by.as_str(), handled.reply.as_deref()), ("a", Some("done")));
    assert_eq!(merged.fired, ["a"]);
}

#[tokio::test]
async fn five_failures_open_the_circuit_and_switching_on_again_closes_it() {
    let scene = scene(vec![automation("fails", STAGE, json!({"does": "fail"}))]).await;
    for _ in 0..6 {
        scene.runner.fire(STAGE, Occasion::default()).await;
    }
    assert_eq!(scene.order.lock().unwrap().len(), 5, "the sixth time it was left alone");
    let skipped =
        scene.outcomes().await.iter().filter(|row| row.1 == Some(InvocationOutcome::SkippedCircuit)).count();
    assert_eq!(skipped, 1);
    let known = scene.store.runtime().automation("fails").await.unwrap().unwrap();
    assert_eq!(known.circuit_state, CircuitState::Open);
    // A reload alone forgives nothing.
    scene.runner.reload().await.unwrap();
    assert_eq!(scene.runner.run_now("fails", Occasion::default()).await, Some(Tried::Skipped));
    scene.store.runtime().set_automation_status("fails", AutomationStatus::Active, None).await.unwrap();
    scene.runner.reload().await.unwrap();
    let tried = scene.runner.run_now("fails", Occasion::default()).await;
    assert_eq!(tried, Some(Tried::Failed { error: "it did not want to".to_owned() }));
}

#[tokio::test]
async fn a_one_shot_runs_until_it_did_something_once() {
    let quiet = NewAutomation {
        mode: AutomationMode::OneShot,
        ..automation("once", STAGE, json!({"prints": {"fire": false}}))
    };
    let scene = scene(vec![quiet.clone()]).await;
    for _ in 0..2 {
        assert!(scene.runner.fire(STAGE, Occasion::default()).await.fired.is_empty());
    }
    let loud = NewAutomation { config: Some(json!({"prints": {"fire": true}})), ..quiet };
    scene.store.runtime().register_automation(loud).await.unwrap();
    scene.runner.reload().await.unwrap();
    assert_eq!(scene.runner.fire(STAGE, Occasion::default()).await.fired, ["once"]);
    assert!(!scene.runner.waits_at(STAGE));
    let known = scene.store.runtime().automation("once").await.unwrap().unwrap();
    assert_eq!(known.status, AutomationStatus::Disabled);
    assert_eq!(known.disabled_reason.as_deref(), Some("it has already run once"));
}

#[tokio::test]
async fn switching_off_takes_effect_at_the_next_passage() {
    let scene = scene(vec![automation("a", STAGE, json!({"prints": {"fire": true}}))]).await;
    scene.store.runtime().set_automation_status("a", AutomationStatus::Disabled, Some("no")).await.unwrap();
    scene.runner.reload().await.unwrap();
    assert!(scene.runner.fire(STAGE, Occasion::default()).await.matched.is_empty());
    assert_eq!(scene.runner.run_now("a", Occasion::default()).await, None);
}

#[tokio::test]
async fn a_trigger_is_kept_once_however_often_it_is_told() {
    let hook = HookPoint::AfterRunAgent;
    let detached =
        NewAutomation { blocking: false, ..automation("w", hook, json!({"prints": {"fire": true}})) };
    let scene =
        scene(vec![detached, automation("waited-for", hook, json!({"prints": {"fire": true}}))]).await;
    let occasion = Occasion { request_id: Some(RequestId::new("r1")), ..Occasion::default() };
    for _ in 0..3 {
        scene.runner.fire_once(hook, "turn-1", occasion.clone()).await.unwrap();
    }
    scene.runner.fire_once(hook, "turn-2", occasion).await.unwrap();
    scene.settle().await;
    assert_eq!(scene.order.lock().unwrap().clone(), ["w", "w"]);
    assert_eq!(scene.outcomes().await.len(), 2);
}

#[tokio::test]
async fn nothing_runs_around_the_sessions_of_automations() {
    let scene = scene(vec![automation("a", STAGE, json!({"prints": {"fire": true}}))]).await;
    let session = Some(SessionLabel::new("meeseeks:memory-writer"));
    let merged = scene.runner.fire(STAGE, Occasion { session, ..Occasion::default() }).await;
    assert!(merged.matched.is_empty() && scene.order.lock().unwrap().is_empty());
}

#[tokio::test]
async fn runs_that_a_crash_left_open_are_closed_and_held_against_nobody() {
    let scene = scene(vec![automation("a", STAGE, json!({}))]).await;
    let id = scene.store.runtime().automation("a").await.unwrap().unwrap().id;
    let start = nexus_store::runtime::NewInvocation {
        id: "left".to_owned(),
        automation_id: id,
        automation_name: "a".to_owned(),
        hook_point: STAGE.as_str().to_owned(),
        request_id: None,
        event_id: None,
        session_label: None,
        started_at: nexus_base::clock::Timestamp(1),
    };
    scene.store.runtime().invocation_started_once(start).await.unwrap();
    let now = nexus_base::clock::Timestamp::now();
    assert_eq!(scene.store.runtime().close_left_over_invocations(now).await.unwrap(), 1);
    assert_eq!(scene.outcomes().await, [("a".to_owned(), Some(InvocationOutcome::Error), false)]);
    assert_eq!(scene.store.runtime().automation("a").await.unwrap().unwrap().consecutive_errors, 0);
}
