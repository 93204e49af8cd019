use std::time::{Duration, Instant};

use nexus_pipeline::sessions::BrokerLimits;
use nexus_store::agents::{ItemMode, OutboxState};
use serde_json::json;

use crate::support::{Act, Room, Script, dispatch, limits};

#[tokio::test]
async fn whoever_waits_for_a_message_shortened_twice_gets_the_answer() {
    let model = Script::new(vec![("first", vec![Act::Hang("one")]), ("m", vec![Act::Say("two")])]);
    let room = Room::new(model, BrokerLimits { queue_cap: 2, ..limits() });
    room.say("first", ItemMode::Followup).await;
    room.model.hanging.notified().await;
    let mut requests = Vec::new();
    for text in ["m1", "m2", "m3", "m4", "m5"] {
        requests.push(room.say(text, ItemMode::Followup).await);
    }
    room.model.release.notify_one();
    for request in &requests {
        assert!(room.texts(request).await.contains(&"two".to_owned()));
    }
}

#[tokio::test]
async fn a_result_answered_together_with_a_newer_message_belongs_to_both() {
    let model = Script::new(vec![
        ("kind: task", vec![Act::Say("the answer is 42")]),
        ("and now", vec![Act::Say("It is 42, and now to you.")]),
        ("talk", vec![Act::Hang("talking")]),
        ("please", vec![Act::Call("On it.", vec![dispatch("find it")])]),
        ("dispatch_id", vec![Act::Say("")]),
    ]);
    let room = Room::new(model, limits());
    // The manager is busy with something else while the result comes in, then somebody interrupts.
    let first = room.say("please", ItemMode::Followup).await;
    let talk = room.say("talk", ItemMode::Followup).await;
    room.model.hanging.notified().await;
    room.until_async(|| async {
        let items = room.store.agents().items_of_tree(&first).await.unwrap();
        items.iter().any(|item| item.new.id.as_str().starts_with("result:"))
    })
    .await;
    let last = room.say("and now", ItemMode::Interrupt).await;
    assert!(room.texts(&last).await.contains(&"It is 42, and now to you.".to_owned()));
    assert!(room.texts(&first).await.contains(&"It is 42, and now to you.".to_owned()));
    assert_eq!(room.texts(&talk).await, ["talking"]);
}

#[tokio::test]
async fn a_message_met_with_silence_while_others_work_gets_a_line() {
    let model = Script::new(vec![
        ("kind: task", vec![Act::Hang("working")]),
        ("kind: worker_result", vec![Act::Call("", vec![("wait", json!({}))]), Act::Say("")]),
        ("hurry", vec![Act::Call("", vec![("wait", json!({}))])]),
        ("please", vec![Act::Call("On it.", vec![dispatch("a task")])]),
        ("dispatch_id", vec![Act::Say("")]),
    ]);
    let room = Room::new(model, limits());
    room.say("please", ItemMode::Interrupt).await;
    room.model.hanging.notified().await;
    let hurry = room.say("hurry", ItemMode::Followup).await;
    let lines = room.wait(&hurry).await;
    assert_eq!(lines.len(), 1, "an acknowledged message met with silence");
    assert_eq!(lines[0].state, OutboxState::Final);
    assert!(lines[0].text.contains("1 worker"), "{}", lines[0].text);
}

#[tokio::test]
async fn a_waiter_is_told_at_once_when_its_tree_is_merged_into_another() {
    let model = Script::new(vec![("more", vec![Act::Say("all")]), ("first", vec![Act::Hang("one")])]);
    let room = Room::new(model, limits());
    room.say("first", ItemMode::Collect).await;
    room.model.hanging.notified().await;
    let early = room.say("a more", ItemMode::Collect).await;
    let broker = room.broker.clone();
    let waited = tokio::spawn(async move {
        broker.wait_quiescent(&early, Duration::from_secs(20)).await.unwrap();
        Instant::now()
    });
    let late = room.say("b more", ItemMode::Collect).await;
    room.model.release.notify_one();
    room.wait(&late).await;
    let done = Instant::now();
    let noticed = waited.await.unwrap();
    assert!(
        noticed.saturating_duration_since(done) < Duration::from_millis(500),
        "found only by looking again"
    );
}
