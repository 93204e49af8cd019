//! Every limit ends a turn with a message that names it, and nothing is asked of a model in vain.

use std::sync::Mutex;

use async_trait::async_trait;
use nexus_agent::Limits;
use nexus_agent::ports::{Spending, Spent};
use nexus_llm::{ModelName, Usage};
use nexus_protocol::bus::BusBody;
use nexus_store::agents::{ItemMode, OutboxState};
use nexus_tools::ports::LedgerError;
use serde_json::json;

use crate::support::{Act, Extras, Room, Script, dispatch, limits};

/// Counts like the ledger of costs: a run's tokens, a day's tokens, a cent a call.
#[derive(Default)]
struct Purse(Mutex<Spent>);

#[async_trait]
impl Spending for Purse {
    async fn so_far(&self) -> Result<Spent, LedgerError> {
        Ok(*self.0.lock().unwrap())
    }

    async fn add(&self, model: &ModelName, usage: &Usage) -> Result<Spent, LedgerError> {
        assert_eq!(model.to_string(), "test/script");
        let mut spent = self.0.lock().unwrap();
        spent.run_tokens += usage.total();
        spent.day_tokens += usage.total();
        spent.day_micro_usd += 10_000;
        Ok(*spent)
    }
}

fn read(path: &str) -> Act {
    Act::Call("", vec![("read", json!({ "path": path }))])
}

async fn check(limits_of_turn: Limits, calls: usize, named: &str) {
    // Every reply reads something else, so that only the limit in question can end it.
    let model = Script::new(vec![(
        "",
        vec![read("AGENTS.md"), read("a"), read("b"), read("c"), read("d"), read("e"), Act::Say("done")],
    )]);
    let extras = Extras {
        limits: limits_of_turn,
        spending: std::sync::Arc::new(Purse::default()),
        ..Extras::default()
    };
    let room = Room::with(model, limits(), extras);
    let request = room.say("go", ItemMode::Followup).await;
    let lines = room.wait(&request).await;
    assert_eq!((lines.len(), lines[0].state), (1, OutboxState::Error), "{named}");
    assert!(lines[0].text.contains(named), "{named}: {}", lines[0].text);
    assert_eq!(room.model.seen.lock().unwrap().len(), calls, "{named}");
    let item = room.store.agents().item_of_request(&request).await.unwrap().unwrap();
    assert!(item.error.unwrap().contains(named));
}

#[tokio::test]
async fn each_limit_ends_the_turn_and_says_which_it_was() {
    let usual = Limits::default();
    check(Limits { steps: 2, ..usual }, 2, "2 model steps").await;
    // A reply of the script costs 15 tokens and a cent.
    check(Limits { tokens: 40, ..usual }, 3, "40 tokens").await;
    check(Limits { calls: 2, ..usual }, 3, "2 tool calls").await;
    check(Limits { run_tokens: 30, ..usual }, 2, "budgets.tokens_per_run").await;
    check(Limits { day_tokens: 45, ..usual }, 3, "budgets.tokens_per_day").await;
    check(Limits { day_micro_usd: 10_000, ..usual }, 1, "0.01 US dollars").await;
}

#[tokio::test]
async fn a_day_that_is_used_up_asks_no_model_and_the_use_is_shown() {
    let purse = std::sync::Arc::new(Purse::default());
    let extras = Extras {
        limits: Limits { day_tokens: 15, ..Limits::default() },
        spending: std::sync::Arc::clone(&purse) as std::sync::Arc<dyn Spending>,
        ..Extras::default()
    };
    let room = Room::with(Script::new(vec![("", vec![Act::Say("hello")])]), limits(), extras);
    let first = room.say("hi", ItemMode::Followup).await;
    assert_eq!(room.texts(&first).await, ["hello"]);
    let used = room
        .watcher
        .events
        .lock()
        .unwrap()
        .iter()
        .any(|event| matches!(event, BusBody::Used { input_tokens: 10, output_tokens: 5, .. }));
    assert!(used);
    let second = room.say("hi", ItemMode::Followup).await;
    let told = room.texts(&second).await;
    assert!(told[0].contains("today's 15 tokens are used"), "{told:?}");
    assert_eq!(room.model.seen.lock().unwrap().len(), 1);
}

#[tokio::test]
async fn no_model_is_asked_when_nothing_changed() {
    let model = Script::new(vec![
        ("kind: task", vec![Act::Say("counted")]),
        ("kind: worker_result", vec![Act::Say("All three are back.")]),
        ("dispatch_id", vec![Act::Call("", vec![("wait", json!({}))])]),
        ("please", vec![Act::Call("On it.", vec![dispatch("one"), dispatch("two"), dispatch("three")])]),
    ]);
    let room = Room::new(model, limits());
    let request = room.say("please", ItemMode::Interrupt).await;
    room.wait(&request).await;
    // The person's message: dispatch and wait. Three tasks. Their results, together.
    let asked = room.model.seen.lock().unwrap().len();
    assert!((6..=8).contains(&asked), "{asked}");
    // A wake-up with nothing behind it, and one more life: everything was handled.
    room.broker.resume().await.unwrap();
    room.broker.settle().await.unwrap();
    room.cut_off().await;
    let again = Room::open(&room.root, std::sync::Arc::clone(&room.model), limits());
    again.recover().await;
    again.wait(&request).await;
    assert_eq!(again.model.seen.lock().unwrap().len(), asked);
}
