use nexus_base::id::SessionLabel;
use nexus_protocol::bus::BusBody;
use nexus_store::agents::{ItemMode, TaskStatus};
use serde_json::json;

use crate::support::{Act, Room, Script, dispatch, limits};

#[tokio::test]
async fn a_worker_reports_back_and_the_manager_tells_the_person() {
    let model = Script::new(vec![
        ("kind: task", vec![Act::Say("the answer is 42")]),
        ("the answer is 42", vec![Act::Say("It is 42.")]),
        ("please", vec![Act::Call("On it.", vec![dispatch("find the answer")])]),
        ("dispatch_id", vec![Act::Call("", vec![("wait", json!({}))])]),
    ]);
    let room = Room::new(model, limits());
    let request = room.say("please", ItemMode::Interrupt).await;
    assert_eq!(room.texts(&request).await, ["On it.", "It is 42."]);
    let workers = room.store.agents().workers_of(&SessionLabel::new("dm:owner")).await.unwrap();
    assert_eq!(workers.len(), 1);
    assert_eq!(workers[0].task_status, Some(TaskStatus::Completed));
    let items = room.store.agents().items_of_tree(&request).await.unwrap();
    let ids: Vec<String> = items.iter().map(|item| item.new.id.to_string()).collect();
    let dispatch_id = workers[0].dispatch_id.clone().unwrap();
    assert!(
        ids.contains(&format!("task:{dispatch_id}")) && ids.contains(&format!("result:{dispatch_id}")),
        "{ids:?}"
    );
}

#[tokio::test]
async fn a_fan_out_comes_back_as_one_turn() {
    let model = Script::new(vec![
        ("kind: task", vec![Act::Say("piece done")]),
        ("piece done", vec![Act::Say("All pieces are done.")]),
        ("please", vec![Act::Call("Starting three.", vec![dispatch("a"), dispatch("b"), dispatch("c")])]),
        ("dispatch_id", vec![Act::Say("")]),
    ]);
    let room = Room::new(
        model,
        nexus_pipeline::sessions::BrokerLimits { debounce: crate::support::PATIENCE, ..limits() },
    );
    let request = room.say("please", ItemMode::Interrupt).await;
    assert_eq!(room.texts(&request).await, ["Starting three.", "All pieces are done."]);
}

#[tokio::test]
async fn a_worker_interrupted_by_words_of_another_request_still_answers_its_own() {
    let model = Script::new(vec![
        ("hurrying", vec![Act::Say("Here it is.")]),
        ("hurry up", vec![Act::Hang("hurrying")]),
        ("kind: task", vec![Act::Hang("digging")]),
        ("nudge it", vec![Act::TellWorker("hurry up")]),
        ("delivered to", vec![Act::Say("Told it.")]),
        ("please", vec![Act::Call("", vec![dispatch("dig")])]),
        ("dispatch_id", vec![Act::Say("")]),
    ]);
    let room = Room::new(model, limits());
    let first = room.say("please", ItemMode::Interrupt).await;
    room.until(|| room.model.hung() == 1).await;
    let second = room.say("nudge it", ItemMode::Followup).await;
    room.until(|| room.model.hung() == 2).await;
    // What the worker was given first is over, and what it does now belongs to the second request.
    let rest = room.store.agents().quiescence(&first).await.unwrap();
    assert_eq!(rest.map(|(_, is_reached)| is_reached), Some(false));
    room.model.release.notify_one();
    assert_eq!(room.texts(&first).await, ["Here it is."]);
    assert_eq!(room.texts(&second).await, ["Told it."]);
}

#[tokio::test]
async fn a_failing_worker_is_reported_too() {
    let model = Script::new(vec![
        ("kind: task", vec![Act::Fail("no such model")]),
        ("The task failed", vec![Act::Say("That did not work.")]),
        ("please", vec![Act::Call("On it.", vec![dispatch("x")])]),
        ("dispatch_id", vec![Act::Say("")]),
    ]);
    let room = Room::new(model, limits());
    let request = room.say("please", ItemMode::Interrupt).await;
    assert_eq!(room.texts(&request).await, ["On it.", "That did not work."]);
}

#[tokio::test]
async fn a_cancelled_worker_says_so_and_takes_its_own_workers_along() {
    let model = Script::new(vec![
        ("was cancelled", vec![Act::Say("Stopped it.")]),
        ("deep task", vec![Act::Hang("digging")]),
        ("kind: task", vec![Act::Call("", vec![dispatch("deep task")])]),
        ("please", vec![Act::Call("On it.", vec![dispatch("shallow task")])]),
        ("dispatch_id", vec![Act::Say("")]),
    ]);
    let room = Room::new(model, limits());
    let request = room.say("please", ItemMode::Interrupt).await;
    room.model.hanging.notified().await;
    let owner = SessionLabel::new("dm:owner");
    // The deep worker runs while the shallow one waits for it.
    let cancelled = room.broker.cancel_workers(&owner, "changed my mind").await.unwrap();
    assert_eq!(cancelled, 1);
    room.wait(&request).await;
    let shallow = room.store.agents().workers_of(&owner).await.unwrap().remove(0);
    let deep = room.store.agents().workers_of(&shallow.label).await.unwrap().remove(0);
    assert_eq!(deep.task_status, Some(TaskStatus::Cancelled));
    assert_eq!(shallow.task_status, Some(TaskStatus::Cancelled));
}

#[tokio::test]
async fn workers_go_three_deep_and_no_further() {
    let model = Script::new(vec![
        ("not dispatched", vec![Act::Say("bottom")]),
        ("kind: task", vec![Act::Call("", vec![dispatch("deeper")])]),
        ("bottom", vec![Act::Say("bottom")]),
        ("please", vec![Act::Call("On it.", vec![dispatch("deeper")])]),
        ("dispatch_id", vec![Act::Say("")]),
    ]);
    let room = Room::new(model, limits());
    let request = room.say("please", ItemMode::Interrupt).await;
    assert_eq!(room.texts(&request).await.last().unwrap(), "bottom");
    let sessions = room.store.agents().sessions(50).await.unwrap();
    assert_eq!(sessions.iter().map(|row| row.session.depth).max(), Some(3));
}

#[tokio::test]
async fn a_worker_may_speak_to_its_parent_and_nobody_else() {
    let model = Script::new(vec![
        ("half way", vec![Act::Say("Noted.")]),
        ("neither your parent", vec![Act::Say("refused as it should be")]),
        (
            "delivered to",
            vec![Act::Call(
                "",
                vec![("agent_send", json!({"op": "message", "target": "dm:somebody", "text": "psst"}))],
            )],
        ),
        (
            "kind: task",
            vec![Act::Call(
                "",
                vec![("agent_send", json!({"op": "message", "target": "parent", "text": "half way"}))],
            )],
        ),
        ("refused as it should be", vec![Act::Say("Done.")]),
        ("please", vec![Act::Call("On it.", vec![dispatch("x")])]),
        ("dispatch_id", vec![Act::Say("")]),
    ]);
    let room = Room::new(model, limits());
    let request = room.say("please", ItemMode::Interrupt).await;
    let mut texts = room.texts(&request).await;
    texts.sort();
    assert_eq!(texts, ["Done.", "Noted.", "On it."]);
}

#[tokio::test]
async fn nobody_sits_before_silence() {
    let model = Script::new(vec![("hm", vec![Act::Say("")])]);
    let room = Room::new(model, limits());
    let request = room.say("hm", ItemMode::Interrupt).await;
    let texts = room.texts(&request).await;
    assert_eq!(texts.len(), 1);
    assert!(texts[0].contains("without a reply"), "{texts:?}");
}

#[tokio::test]
async fn the_manager_cannot_wait_for_nothing() {
    let model = Script::new(vec![
        ("nothing to wait for", vec![Act::Say("Then I answer.")]),
        ("hm", vec![Act::Call("", vec![("wait", json!({}))])]),
    ]);
    let room = Room::new(model, limits());
    let request = room.say("hm", ItemMode::Interrupt).await;
    assert_eq!(room.texts(&request).await, ["Then I answer."]);
}

#[tokio::test]
async fn the_manager_reaches_only_its_own_files() {
    let look = ("read", json!({"path": "state/config.json"}));
    let model = Script::new(vec![("hm", vec![Act::Call("", vec![look]), Act::Say("ok")])]);
    let room = Room::new(model, limits());
    let request = room.say("hm", ItemMode::Interrupt).await;
    room.wait(&request).await;
    let item = room.store.agents().item_of_request(&request).await.unwrap().unwrap();
    let turn = room.store.agents().turn(&item.turn_id.unwrap()).await.unwrap().unwrap();
    let call = turn.messages.iter().find_map(|message| message.calls.first()).unwrap();
    assert_eq!(call.status, nexus_store::agents::CallStatus::Failed);
    assert!(!call.result.as_ref().unwrap().contains("token"), "{:?}", call.result);
}

#[tokio::test]
async fn progress_is_published_in_order() {
    let model = Script::new(vec![
        ("kind: task", vec![Act::Say("done")]),
        ("done", vec![Act::Say("It is done.")]),
        ("please", vec![Act::Call("On it.", vec![dispatch("x")])]),
        ("dispatch_id", vec![Act::Say("")]),
    ]);
    let room = Room::new(model, limits());
    let request = room.say("please", ItemMode::Interrupt).await;
    room.wait(&request).await;
    let events = room.watcher.events.lock().unwrap();
    let place = |wanted: fn(&BusBody) -> bool| events.iter().position(wanted).unwrap();
    let begun = place(|body| matches!(body, BusBody::TurnStarted { .. }));
    let spoken = place(|body| matches!(body, BusBody::Delta { text, .. } if text == "On it."));
    let sent = place(|body| matches!(body, BusBody::WorkerDispatched { .. }));
    let back = place(|body| matches!(body, BusBody::WorkerEnded { .. }));
    let told = place(|body| matches!(body, BusBody::Reply { text, .. } if text == "It is done."));
    assert!(begun < spoken && spoken < sent && sent < back && back < told);
}
