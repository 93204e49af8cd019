use std::time::Duration;

use nexus_store::agents::{CallStatus, ItemMode, ItemOutcome};
use serde_json::json;

use crate::support::{Act, Room, Script, dispatch, limits, message};

#[tokio::test]
async fn a_turn_cut_off_before_its_reply_is_answered_by_the_next_life() {
    let first_life = Room::new(Script::new(vec![("hello", vec![Act::Hang("I am")])]), limits());
    let request = first_life.say("hello", ItemMode::Interrupt).await;
    first_life.model.hanging.notified().await;
    first_life.cut_off().await;

    let second_life =
        Room::open(&first_life.root, Script::new(vec![("hello", vec![Act::Say("I am back")])]), limits());
    second_life.recover().await;
    assert_eq!(second_life.texts(&request).await, ["I am back"]);
    let item = second_life.store.agents().item_of_request(&request).await.unwrap().unwrap();
    assert_eq!((item.attempt, item.outcome), (2, Some(ItemOutcome::Completed)));
}

#[tokio::test]
async fn what_the_ledger_has_is_not_done_again() {
    // The worker wrote a file, then the daemon died while the model was thinking about the result.
    let write = ("write", json!({"path": "home/note.txt", "content": "first life"}));
    let script = Script::new(vec![
        ("please", vec![Act::Call("On it.", vec![dispatch("write it")])]),
        ("dispatch_id", vec![Act::Say("")]),
        ("kind: task", vec![Act::Call("", vec![write])]),
        ("note.txt", vec![Act::Hang("thinking")]),
    ]);
    let first_life = Room::new(script, limits());
    let request = first_life.say("please", ItemMode::Interrupt).await;
    first_life.model.hanging.notified().await;
    first_life.cut_off().await;
    let note = first_life.root.join("home/note.txt");
    assert_eq!(std::fs::read_to_string(&note).unwrap(), "first life");
    std::fs::remove_file(&note).unwrap();

    let script = Script::new(vec![
        ("kind: worker_result", vec![Act::Say("It is written.")]),
        ("note.txt", vec![Act::Say("written")]),
    ]);
    let second_life = Room::open(&first_life.root, script, limits());
    second_life.recover().await;
    assert_eq!(second_life.texts(&request).await, ["On it.", "It is written."]);
    assert!(!note.exists(), "the write ran a second time");
}

#[tokio::test]
async fn a_call_without_a_result_is_reported_as_unknown_or_looked_at_again() {
    use nexus_base::id::{BootId, MessageId, ToolCallId};
    use nexus_store::agents::{Claim, NewCall, NewStep};

    let first_life = Room::new(Script::new(vec![]), limits());
    // A claim and its intended calls, and then nothing: what a kill between intent and result leaves.
    let (session, item) = message("dm:owner", "hello", ItemMode::Followup);
    let request = item.request_id.clone();
    let label = session.label.clone();
    let agents = first_life.store.agents();
    agents.admit(session, item, 20, limits().overflow).await.unwrap();
    let claim = agents.claim(&label, &BootId::generate(), |_| String::new()).await.unwrap().unwrap();
    let Claim::Fresh(claimed) = claim else { panic!("expected fresh work") };
    let call = |tool: &str, arguments: serde_json::Value| NewCall {
        id: ToolCallId::generate(),
        model_call_id: format!("call-{tool}"),
        tool: tool.to_owned(),
        arguments_json: arguments.to_string(),
    };
    let calls = vec![
        call("write", json!({"path": "state/workspace/manager/x.txt", "content": "x"})),
        call("read", json!({"path": "AGENTS.md"})),
    ];
    let step = NewStep {
        turn_id: claimed.turn.id.clone(),
        message_id: MessageId::generate(),
        text: "Let me see.".into(),
        thinking: None,
        calls,
        acts: true,
    };
    agents.record_step(step).await.unwrap();
    first_life.store.close().await;

    let script = Script::new(vec![("outcome unknown", vec![Act::Say("I looked again.")])]);
    let second_life = Room::open(&first_life.root, script, limits());
    second_life.recover().await;
    assert_eq!(second_life.texts(&request).await, ["Let me see.\n\nI looked again."]);
    assert!(!second_life.root.join("state/workspace/manager/x.txt").exists());
    let turn = second_life.store.agents().turn(&claimed.turn.id).await.unwrap().unwrap();
    let statuses: Vec<CallStatus> =
        turn.messages.iter().flat_map(|message| &message.calls).map(|call| call.status).collect();
    assert_eq!(statuses, [CallStatus::Interrupted, CallStatus::Completed]);
}

#[tokio::test]
async fn the_third_attempt_ends_visibly() {
    let hang = || Script::new(vec![("hello", vec![Act::Hang("again")])]);
    let first_life = Room::new(hang(), limits());
    let request = first_life.say("hello", ItemMode::Interrupt).await;
    first_life.model.hanging.notified().await;
    first_life.cut_off().await;

    let second_life = Room::open(&first_life.root, hang(), limits());
    second_life.recover().await;
    second_life.model.hanging.notified().await;
    second_life.cut_off().await;

    let third_life = Room::open(&first_life.root, hang(), limits());
    third_life.recover().await;
    let texts = third_life.texts(&request).await;
    assert!(texts[0].contains("will not be tried again"), "{texts:?}");
    assert!(third_life.model.seen.lock().unwrap().is_empty());
}

#[tokio::test]
async fn an_end_that_was_not_told_is_told_by_the_next_life() {
    let model = Script::new(vec![("hello", vec![Act::Say("hi")])]);
    let room = Room::new(model, limits());
    let request = room.say("hello", ItemMode::Interrupt).await;
    room.wait(&request).await;
    room.broker.drain(Duration::from_secs(5)).await;
    assert_eq!(room.watcher.projected.lock().unwrap().len(), 1);
    room.store.close().await;
    let next = Room::open(&room.root, Script::new(vec![]), limits());
    next.recover().await;
    assert!(next.watcher.projected.lock().unwrap().is_empty(), "told twice");
}

#[tokio::test]
async fn an_interrupt_that_was_queued_before_the_end_still_interrupts() {
    let script =
        || Script::new(vec![("stop that", vec![Act::Say("stopped")]), ("first", vec![Act::Hang("so far")])]);
    let first_life = Room::new(script(), limits());
    let first = first_life.say("first", ItemMode::Followup).await;
    first_life.model.hanging.notified().await;
    // Queued, and then the daemon dies before the running turn hears of it.
    let (session, item) = message("dm:owner", "stop that", ItemMode::Interrupt);
    let second = item.request_id.clone();
    first_life.store.agents().admit(session, item, 20, limits().overflow).await.unwrap();
    first_life.cut_off().await;

    let second_life = Room::open(&first_life.root, script(), limits());
    second_life.recover().await;
    assert_eq!(second_life.texts(&second).await, ["stopped"]);
    let item = second_life.store.agents().item_of_request(&first).await.unwrap().unwrap();
    assert_eq!(item.outcome, Some(ItemOutcome::Aborted));
    assert_eq!(second_life.model.hung(), 0, "a turn that nobody wants was begun again");
}

#[tokio::test]
async fn a_refused_wait_does_not_end_the_turn_after_a_restart() {
    use nexus_base::id::{BootId, MessageId, ToolCallId};
    use nexus_store::agents::{Claim, NewCall, NewStep};

    let first_life = Room::new(Script::new(vec![]), limits());
    let (session, item) = message("dm:owner", "hello", ItemMode::Followup);
    let (request, label) = (item.request_id.clone(), session.label.clone());
    let agents = first_life.store.agents();
    agents.admit(session, item, 20, limits().overflow).await.unwrap();
    let claim = agents.claim(&label, &BootId::generate(), |_| String::new()).await.unwrap().unwrap();
    let Claim::Fresh(claimed) = claim else { panic!("expected fresh work") };
    let call = ToolCallId::generate();
    let step = NewStep {
        turn_id: claimed.turn.id.clone(),
        message_id: MessageId::generate(),
        text: String::new(),
        thinking: None,
        calls: vec![NewCall {
            id: call.clone(),
            model_call_id: "w".into(),
            tool: "wait".into(),
            arguments_json: "{}".into(),
        }],
        acts: false,
    };
    agents.record_step(step).await.unwrap();
    agents.record_result(&call, CallStatus::Failed, "nothing to wait for".into(), None).await.unwrap();
    first_life.store.close().await;

    let script = Script::new(vec![("nothing to wait for", vec![Act::Say("Then I answer.")])]);
    let second_life = Room::open(&first_life.root, script, limits());
    second_life.recover().await;
    assert_eq!(second_life.texts(&request).await, ["Then I answer."]);
}
