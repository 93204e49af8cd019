use nexus_base::id::SessionLabel;
use nexus_store::agents::{ItemMode, ItemOutcome, OutboxState};

use crate::support::{Act, Room, Script, limits};

#[tokio::test]
async fn an_aborted_turn_keeps_what_was_said_and_the_session_goes_on() {
    let model =
        Script::new(vec![("long", vec![Act::Hang("I was about to")]), ("next", vec![Act::Say("Yes?")])]);
    let room = Room::new(model, limits());
    let owner = SessionLabel::new("dm:owner");
    assert!(!room.broker.abort(&owner));
    let request = room.say("long", ItemMode::Interrupt).await;
    room.model.hanging.notified().await;
    assert!(room.broker.abort(&owner));
    let lines = room.wait(&request).await;
    assert_eq!((lines[0].state, lines[0].text.as_str()), (OutboxState::Aborted, "I was about to"));
    let next = room.say("next", ItemMode::Interrupt).await;
    assert_eq!(room.texts(&next).await, ["Yes?"]);
    let seen = room.model.seen.lock().unwrap();
    assert!(format!("{:?}", seen.last().unwrap().messages).contains("I was about to"));
}

#[tokio::test]
async fn a_turn_that_takes_too_long_ends_visibly() {
    let model = Script::new(vec![("long", vec![Act::Hang("hm")])]);
    let timeout = std::time::Duration::from_millis(50);
    let room = Room::new(model, nexus_pipeline::sessions::BrokerLimits { turn_timeout: timeout, ..limits() });
    let request = room.say("long", ItemMode::Interrupt).await;
    let lines = room.wait(&request).await;
    assert_eq!(lines[0].state, OutboxState::Error);
    assert!(lines[0].text.contains("took too long"), "{}", lines[0].text);
    let item = room.store.agents().item_of_request(&request).await.unwrap().unwrap();
    assert_eq!(item.outcome, Some(ItemOutcome::Failed));
}

#[tokio::test]
async fn a_model_that_fails_is_reported_and_the_next_message_is_served() {
    let model = Script::new(vec![("bad", vec![Act::Fail("no credit")]), ("good", vec![Act::Say("fine")])]);
    let room = Room::new(model, limits());
    let bad = room.say("bad", ItemMode::Interrupt).await;
    let texts = room.texts(&bad).await;
    assert!(texts[0].contains("no credit"), "{texts:?}");
    let good = room.say("good", ItemMode::Interrupt).await;
    assert_eq!(room.texts(&good).await, ["fine"]);
}
