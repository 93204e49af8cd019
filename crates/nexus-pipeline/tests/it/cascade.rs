use nexus_base::id::SessionLabel;
use nexus_pipeline::sessions::BrokerLimits;
use nexus_store::agents::{ItemKind, ItemMode, ItemOutcome, TaskStatus};

use crate::support::{Act, Room, Script, dispatch, limits};

/// How many results reached the owner's conversation, and how many of them a turn took.
async fn results(room: &Room, request: &nexus_base::id::RequestId) -> (usize, usize) {
    let items = room.store.agents().items_of_tree(request).await.unwrap();
    let results = items
        .iter()
        .filter(|item| item.new.kind == ItemKind::WorkerResult && item.new.session.as_str() == "dm:owner");
    (results.clone().count(), results.filter(|item| item.turn_id.is_some()).count())
}

#[tokio::test]
async fn a_cancelled_worker_that_waits_for_its_own_workers_still_reports_and_only_once() {
    let model = Script::new(vec![
        ("deep task", vec![Act::Hang("digging")]),
        ("kind: task", vec![Act::Call("", vec![dispatch("deep task")])]),
        ("status: cancelled", vec![Act::Say("Stopped it.")]),
        ("please", vec![Act::Call("On it.", vec![dispatch("shallow task")])]),
        ("dispatch_id", vec![Act::Say("")]),
    ]);
    let room = Room::new(model, limits());
    let request = room.say("please", ItemMode::Interrupt).await;
    room.model.hanging.notified().await;
    let owner = SessionLabel::new("dm:owner");
    let shallow = room.store.agents().workers_of(&owner).await.unwrap().remove(0);
    // The deep worker runs, the shallow one has ended its turn and waits for it.
    room.until(|| !room.broker.is_running(&shallow.label)).await;
    assert_eq!(room.broker.cancel_workers(&owner, "changed my mind").await.unwrap(), 1);
    assert_eq!(room.texts(&request).await, ["On it.", "Stopped it."]);
    let shallow = room.store.agents().workers_of(&owner).await.unwrap().remove(0);
    let deep = room.store.agents().workers_of(&shallow.label).await.unwrap().remove(0);
    assert_eq!(deep.task_status, Some(TaskStatus::Cancelled));
    assert_eq!(shallow.task_status, Some(TaskStatus::Cancelled));
    assert_eq!(results(&room, &request).await, (1, 1));
}

#[tokio::test]
async fn a_worker_that_fails_takes_its_own_workers_along_and_reports_once() {
    let model = Script::new(vec![
        ("deep task", vec![Act::Hang("digging")]),
        ("status: failed", vec![Act::Say("That did not work.")]),
        ("status: completed", vec![Act::Say("A second report.")]),
        ("status: cancelled", vec![Act::Say("An orphan's report.")]),
        ("kind: task", vec![Act::Call("", vec![dispatch("deep task")])]),
        ("please", vec![Act::Call("On it.", vec![dispatch("shallow task")])]),
        ("dispatch_id", vec![Act::Say(""), Act::HangThenFail("no credit")]),
    ]);
    let room = Room::new(model, limits());
    let request = room.say("please", ItemMode::Interrupt).await;
    // Both hang: the deep worker at its task, the shallow one before it fails.
    room.model.hanging.notified().await;
    room.until(|| room.model.hung() == 2).await;
    room.model.fail.notify_one();
    assert_eq!(room.texts(&request).await, ["On it.", "That did not work."]);
    let shallow = room.store.agents().workers_of(&SessionLabel::new("dm:owner")).await.unwrap().remove(0);
    let deep = room.store.agents().workers_of(&shallow.label).await.unwrap().remove(0);
    assert_eq!(shallow.task_status, Some(TaskStatus::Failed));
    assert_eq!(deep.task_status, Some(TaskStatus::Cancelled));
    assert_eq!(results(&room, &request).await, (1, 1));
}

#[tokio::test]
async fn a_worker_that_takes_too_long_takes_its_own_workers_along() {
    let model = Script::new(vec![
        ("deep task", vec![Act::Hang("digging")]),
        ("took too long", vec![Act::Say("Too slow.")]),
        ("kind: task", vec![Act::Call("", vec![dispatch("deep task")])]),
        ("please", vec![Act::Call("On it.", vec![dispatch("shallow task")])]),
        ("dispatch_id", vec![Act::Say(""), Act::Hang("thinking")]),
    ]);
    let worker_timeout = std::time::Duration::from_millis(300);
    let room = Room::new(model, BrokerLimits { worker_timeout, ..limits() });
    let request = room.say("please", ItemMode::Interrupt).await;
    assert_eq!(room.texts(&request).await, ["On it.", "Too slow."]);
    assert_eq!(results(&room, &request).await, (1, 1));
}

#[tokio::test]
async fn a_cancellation_survives_the_end_of_the_daemon() {
    let script = || {
        Script::new(vec![
            ("kind: task", vec![Act::Hang("working")]),
            ("status: cancelled", vec![Act::Say("Stopped it.")]),
            ("please", vec![Act::Call("On it.", vec![dispatch("a task")])]),
            ("dispatch_id", vec![Act::Say("")]),
        ])
    };
    let first_life = Room::new(script(), limits());
    let request = first_life.say("please", ItemMode::Interrupt).await;
    first_life.model.hanging.notified().await;
    let owner = SessionLabel::new("dm:owner");
    let worker = first_life.store.agents().workers_of(&owner).await.unwrap().remove(0);
    // The cancellation commits and the daemon dies before the running turn hears of it.
    first_life.store.agents().cancel(&worker.label, "changed my mind").await.unwrap();
    first_life.cut_off().await;

    let second_life = Room::open(&first_life.root, script(), limits());
    second_life.recover().await;
    assert_eq!(second_life.texts(&request).await, ["On it.", "Stopped it."]);
    let worker = second_life.store.agents().workers_of(&owner).await.unwrap().remove(0);
    assert_eq!(worker.task_status, Some(TaskStatus::Cancelled));
}

#[tokio::test]
async fn interrupting_the_manager_leaves_its_workers_alone() {
    let model = Script::new(vec![
        ("kind: task", vec![Act::Hang("working")]),
        ("working", vec![Act::Say("The work is done.")]),
        ("never mind", vec![Act::Say("Fine.")]),
        ("please", vec![Act::Call("On it.", vec![dispatch("a task")])]),
        ("dispatch_id", vec![Act::Hang("talking")]),
    ]);
    let room = Room::new(model, limits());
    let request = room.say("please", ItemMode::Interrupt).await;
    room.until(|| room.model.hung() == 2).await;
    let second = room.say("never mind", ItemMode::Interrupt).await;
    assert_eq!(room.texts(&second).await, ["Fine."]);
    let first = room.store.agents().item_of_request(&request).await.unwrap().unwrap();
    assert_eq!(first.outcome, Some(ItemOutcome::Aborted));
    room.model.release.notify_one();
    assert_eq!(room.texts(&request).await, ["On it.\n\ntalking", "The work is done."]);
}

#[tokio::test]
async fn a_worker_told_something_at_once_goes_on_with_it_and_reports_once() {
    let model = Script::new(vec![
        ("kind: task", vec![Act::Hang("starting with A")]),
        ("do B first", vec![Act::Say("B, then A: both done")]),
        ("kind: worker_result", vec![Act::Say("Both are done.")]),
        ("change of plan", vec![Act::TellWorker("do B first")]),
        ("delivered to", vec![Act::Say("Told it.")]),
        ("please", vec![Act::Call("On it.", vec![dispatch("do A")])]),
        ("dispatch_id", vec![Act::Say("")]),
    ]);
    let room = Room::new(model, limits());
    let request = room.say("please", ItemMode::Interrupt).await;
    room.model.hanging.notified().await;
    let change = room.say("change of plan", ItemMode::Followup).await;
    assert_eq!(room.texts(&change).await, ["Told it."]);
    assert_eq!(room.texts(&request).await, ["On it.", "Both are done."]);
    assert_eq!(results(&room, &request).await, (1, 1));
    let worker = room.store.agents().workers_of(&SessionLabel::new("dm:owner")).await.unwrap().remove(0);
    assert_eq!(worker.task_status, Some(TaskStatus::Completed));
}

#[tokio::test]
async fn a_worker_interrupted_and_cancelled_in_one_breath_still_reports() {
    use std::sync::Arc;

    use nexus_store::agents::{Claim, FinishTurn, NewPost, TurnStatus};

    // The model of the worker hangs; its turn is taken and finished by hand to get the order right.
    let model = Script::new(vec![
        ("kind: task", vec![Act::Hang("working")]),
        ("please", vec![Act::Call("On it.", vec![dispatch("a task")])]),
        ("dispatch_id", vec![Act::Say("")]),
    ]);
    let first_life = Room::new(model, limits());
    let request = first_life.say("please", ItemMode::Interrupt).await;
    first_life.model.hanging.notified().await;
    let owner = SessionLabel::new("dm:owner");
    let worker = first_life.store.agents().workers_of(&owner).await.unwrap().remove(0);
    first_life.cut_off().await;
    let script = Script::new(vec![("status: cancelled", vec![Act::Say("It is stopped.")])]);
    let room = Room::open(&first_life.root, script, limits());
    let agents = room.store.agents();
    let boot = nexus_base::id::BootId::generate();
    let claim = agents.claim(&worker.label, &boot, |_| String::new()).await.unwrap();
    let Some(Claim::Resumed(claimed)) = claim else { panic!("expected the left-over turn") };
    let (_, mut item) = crate::support::message(worker.label.as_str(), "do B first", ItemMode::Interrupt);
    item.kind = ItemKind::AgentMessage;
    let call = nexus_base::id::ToolCallId::generate();
    agents.post(NewPost { call, result: String::new(), item }).await.unwrap();
    agents.cancel(&worker.label, "changed my mind").await.unwrap();
    // The interruption came first, so the turn ends without a report.
    let finish = FinishTurn {
        may_be_silent: false,
        turn_id: claimed.turn.id.clone(),
        session: worker.label.clone(),
        status: TurnStatus::Aborted,
        stop_reason: "aborted".into(),
        error: None,
        provider: "none".into(),
        model: "none".into(),
        input_tokens: 0,
        output_tokens: 0,
        cache_read_tokens: 0,
        cache_write_tokens: 0,
        reasoning_tokens: 0,
        context_json: None,
        last_message: None,
        reply: None,
        report: None,
    };
    agents.finish_turn(Arc::new(finish)).await.unwrap();
    room.recover().await;
    assert_eq!(room.texts(&request).await, ["On it.", "It is stopped."]);
    let worker = agents.workers_of(&owner).await.unwrap().remove(0);
    assert_eq!((worker.task_status, worker.cancel_reason), (Some(TaskStatus::Cancelled), None));
}
