use nexus_base::id::SessionLabel;
use nexus_protocol::bus::BusBody;
use nexus_store::agents::{CallStatus, ItemMode, OutboxState};
use serde_json::json;

use crate::support::{Act, Room, Script, limits};

#[tokio::test]
async fn the_same_call_over_and_over_ends_the_turn_with_a_clear_message() {
    let read = ("read", json!({"path": "AGENTS.md"}));
    let model = Script::new(vec![("", vec![Act::Call("", vec![read])])]);
    let room = Room::new(model, limits());
    let request = room.say("go round", ItemMode::Interrupt).await;
    let lines = room.wait(&request).await;
    assert_eq!((lines.len(), lines[0].state), (1, OutboxState::Error));
    assert!(lines[0].text.contains("read was called 5 times"), "{}", lines[0].text);
    assert_eq!(room.model.seen.lock().unwrap().len(), 5);
}

#[tokio::test]
async fn a_stopped_turn_begins_no_further_call() {
    let write =
        |name: &str| ("write", json!({"path": format!("state/workspace/manager/{name}"), "content": "x"}));
    let model =
        Script::new(vec![("go", vec![Act::Call("", vec![write("one"), write("two"), write("three")])])]);
    let room = Room::new(model, limits());
    let broker = room.broker.clone();
    room.watcher.when(move |body| {
        if matches!(body, BusBody::ToolStarted { .. }) {
            broker.abort(&SessionLabel::new("dm:owner"));
        }
    });
    let request = room.say("go", ItemMode::Interrupt).await;
    room.wait(&request).await;
    let notes = room.root.join("state/workspace/manager");
    assert!(!notes.join("two").exists() && !notes.join("three").exists());
    let item = room.store.agents().item_of_request(&request).await.unwrap().unwrap();
    let turn = room.store.agents().turn(&item.turn_id.unwrap()).await.unwrap().unwrap();
    let calls: Vec<_> = turn.messages.iter().flat_map(|message| &message.calls).collect();
    assert_eq!(calls.len(), 3);
    for call in &calls[1..] {
        assert_eq!(call.status, CallStatus::Failed);
        assert!(call.result.as_ref().unwrap().starts_with("not run"), "{:?}", call.result);
    }
}

#[tokio::test]
async fn a_reply_put_into_the_old_tool_is_a_reply() {
    let respond = ("respond_to_user", json!({"text": "Here I am."}));
    let model = Script::new(vec![("hello", vec![Act::Call("", vec![respond])])]);
    let room = Room::new(model, limits());
    let request = room.say("hello", ItemMode::Interrupt).await;
    assert_eq!(room.texts(&request).await, ["Here I am."]);
}

#[tokio::test]
async fn what_may_act_is_on_disk_before_it_does_and_what_ends_unanswered_before_it_is_told() {
    let synced = |room: &Room| {
        let health = room.store.health();
        health.iter().find(|health| health.name.to_string() == "agents").unwrap().figures.synced_commits
    };
    let write = ("write", json!({"path": "state/workspace/manager/x", "content": "x"}));
    let read = ("read", json!({"path": "AGENTS.md"}));
    let model = Script::new(vec![
        ("qq-act", vec![Act::Call("", vec![write])]),
        ("qq-look", vec![Act::Call("", vec![read])]),
        ("qq-first", vec![Act::Hang("one")]),
    ]);
    let room = Room::new(model, nexus_pipeline::sessions::BrokerLimits { queue_cap: 1, ..limits() });
    let before = synced(&room);
    let look = room.say("qq-look", ItemMode::Followup).await;
    room.wait(&look).await;
    assert_eq!(synced(&room) - before, 1, "a turn that only looks is synced once, at its end");
    let before = synced(&room);
    let act = room.say("qq-act", ItemMode::Followup).await;
    room.wait(&act).await;
    assert_eq!(synced(&room) - before, 2, "a turn that acts is synced before it does, too");
    room.say("qq-first", ItemMode::Followup).await;
    room.model.hanging.notified().await;
    let before = synced(&room);
    room.say("second", ItemMode::Followup).await;
    assert_eq!(synced(&room) - before, 0);
    room.say("third", ItemMode::Followup).await;
    assert_eq!(synced(&room) - before, 1, "a message that was folded into another is told to the inbox");
}
