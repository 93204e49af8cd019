use nexus_store::agents::{ItemMode, ItemOutcome, Overflow};

use crate::support::{Act, Room, Script, limits};

#[tokio::test]
async fn followups_run_one_at_a_time_in_order() {
    let model = Script::new(vec![
        ("first", vec![Act::Hang("one")]),
        ("second", vec![Act::Say("two")]),
        ("third", vec![Act::Say("three")]),
    ]);
    let room = Room::new(model, limits());
    let first = room.say("first", ItemMode::Followup).await;
    room.model.hanging.notified().await;
    let second = room.say("second", ItemMode::Followup).await;
    let third = room.say("third", ItemMode::Followup).await;
    room.model.release.notify_one();
    assert_eq!(room.texts(&first).await, ["one"]);
    assert_eq!(room.texts(&second).await, ["two"]);
    assert_eq!(room.texts(&third).await, ["three"]);
    assert_eq!(room.told("dm:owner").await, ["one", "two", "three"]);
}

#[tokio::test]
async fn an_interrupt_keeps_partial_output_and_answers_the_backlog_in_one_turn() {
    let model =
        Script::new(vec![("stop that", vec![Act::Say("both")]), ("first", vec![Act::Hang("so far")])]);
    let room = Room::new(model, limits());
    let first = room.say("first", ItemMode::Followup).await;
    room.model.hanging.notified().await;
    let backlog = room.say("meanwhile", ItemMode::Followup).await;
    let last = room.say("stop that", ItemMode::Interrupt).await;
    assert_eq!(room.texts(&last).await, ["both"]);
    assert_eq!(room.texts(&first).await, ["so far"]);
    // Whoever waits for the backlog waits for the turn that answered it.
    assert_eq!(room.texts(&backlog).await, ["both"]);
    let aborted = room.store.agents().item_of_request(&first).await.unwrap().unwrap();
    assert_eq!(aborted.outcome, Some(ItemOutcome::Aborted));
    let seen = room.model.seen.lock().unwrap();
    let last_seen = format!("{:?}", seen.last().unwrap().messages);
    for words in ["first", "so far", "meanwhile", "stop that"] {
        assert!(last_seen.contains(words), "{words} is missing in {last_seen}");
    }
}

#[tokio::test]
async fn collected_messages_become_one_turn() {
    let model = Script::new(vec![("first", vec![Act::Hang("one")]), ("c", vec![Act::Say("all three")])]);
    let room = Room::new(model, limits());
    let first = room.say("first", ItemMode::Collect).await;
    room.model.hanging.notified().await;
    let mut collected = Vec::new();
    for text in ["a c", "b c", "c c"] {
        collected.push(room.say(text, ItemMode::Collect).await);
    }
    room.model.release.notify_one();
    room.wait(&first).await;
    for request in &collected {
        assert_eq!(room.texts(request).await, ["all three"]);
    }
    assert_eq!(room.told("dm:owner").await, ["one", "all three"]);
}

#[tokio::test]
async fn sessions_run_beside_each_other() {
    let model = Script::new(vec![("slow", vec![Act::Hang("late")]), ("quick", vec![Act::Say("at once")])]);
    let room = Room::new(model, limits());
    let slow = room.say_in("chat:slow", "slow", ItemMode::Followup).await;
    room.model.hanging.notified().await;
    let quick = room.say_in("chat:quick", "quick", ItemMode::Followup).await;
    assert_eq!(room.texts(&quick).await, ["at once"]);
    room.model.release.notify_one();
    assert_eq!(room.texts(&slow).await, ["late"]);
}

#[tokio::test]
async fn a_full_queue_shortens_rejects_or_drops_but_never_loses() {
    for (overflow, outcomes, replies) in [
        (Overflow::Summarize, ["merged", "completed", "completed"], ["two", "two", "two"]),
        (Overflow::DropOldest, ["rejected", "completed", "completed"], ["not accepted", "two", "two"]),
        (Overflow::RejectNew, ["completed", "completed", "rejected"], ["two", "two", "not accepted"]),
    ] {
        let model = Script::new(vec![("first", vec![Act::Hang("one")]), ("m", vec![Act::Say("two")])]);
        let room =
            Room::new(model, nexus_pipeline::sessions::BrokerLimits { queue_cap: 2, overflow, ..limits() });
        let first = room.say("first", ItemMode::Followup).await;
        room.model.hanging.notified().await;
        let mut requests = Vec::new();
        for text in ["m1", "m2", "m3"] {
            requests.push(room.say(text, ItemMode::Followup).await);
        }
        room.model.release.notify_one();
        room.wait(&first).await;
        for ((request, outcome), reply) in requests.iter().zip(outcomes).zip(replies) {
            let texts = room.texts(request).await;
            assert!(texts.iter().any(|text| text.contains(reply)), "{overflow:?}: {texts:?} lacks {reply}");
            let item = room.store.agents().item_of_request(request).await.unwrap().unwrap();
            assert_eq!(item.outcome.map(ItemOutcome::as_str), Some(outcome), "{overflow:?}");
        }
    }
}

#[tokio::test]
async fn the_same_item_is_admitted_once() {
    let model = Script::new(vec![("hello", vec![Act::Say("hi")])]);
    let room = Room::new(model, limits());
    let (session, item) = crate::support::message("dm:owner", "hello", ItemMode::Followup);
    room.broker.admit(session.clone(), item.clone()).await.unwrap();
    let again = room.broker.admit(session, item.clone()).await.unwrap();
    assert!(matches!(again, nexus_store::agents::Admitted::AlreadyThere));
    assert_eq!(room.texts(&item.request_id).await, ["hi"]);
    assert_eq!(room.model.seen.lock().unwrap().len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_hundred_sessions_at_once_are_all_answered_and_all_waiters_told() {
    let model = Script::new(vec![("hello", vec![Act::Say("hi")])]);
    let room = std::sync::Arc::new(Room::new(model, limits()));
    let mut waiting = tokio::task::JoinSet::new();
    for number in 0..200 {
        let room = std::sync::Arc::clone(&room);
        waiting.spawn(async move {
            let request = room.say_in(&format!("chat:{number}"), "hello", ItemMode::Interrupt).await;
            room.texts(&request).await
        });
    }
    let started = std::time::Instant::now();
    while let Some(texts) = waiting.join_next().await {
        assert_eq!(texts.unwrap(), ["hi"]);
    }
    // Far below the interval at which a waiter looks for itself: nobody missed a change.
    assert!(started.elapsed() < std::time::Duration::from_secs(4), "{:?}", started.elapsed());
}

#[tokio::test]
async fn messages_of_one_moment_keep_their_order_whatever_their_keys() {
    let words = [("m-1", "one"), ("m-2", "two"), ("m-3", "three"), ("m-4", "four"), ("m-5", "five")];
    let model = Script::new(words.iter().map(|(word, reply)| (*word, vec![Act::Say(reply)])).collect());
    let room = Room::new(model, limits());
    let mut last = None;
    for (number, (word, _)) in words.iter().enumerate() {
        let (session, mut item) = crate::support::message("dm:owner", word, ItemMode::Followup);
        item.id = nexus_base::id::QueueItemId::new(format!("test:{}", 9 - number));
        last = Some(item.request_id.clone());
        room.store.agents().admit(session, item, 20, Overflow::RejectNew).await.unwrap();
    }
    room.recover().await;
    room.wait(&last.unwrap()).await;
    assert_eq!(room.told("dm:owner").await, ["one", "two", "three", "four", "five"]);
}
