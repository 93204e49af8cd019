//! A conversation is summed up, or begins anew, because somebody asks: between turns, whole or not at all.

use std::sync::Arc;

use nexus_agent::Window;
use nexus_base::conversation::CompactionCause;
use nexus_base::id::SessionLabel;
use nexus_pipeline::sessions::{CompactionRequest, Shortening};
use nexus_protocol::bus::BusBody;
use nexus_store::agents::ItemMode;

use crate::support::{Act, Extras, Room, Script, limits};

fn owner() -> SessionLabel {
    SessionLabel::new("dm:owner")
}

fn with_window() -> Extras {
    Extras { window: Window { limit: Some(200_000), ..Window::default() }, ..Extras::default() }
}

/// A room whose model sums up as told; so many turns were taken.
async fn room(summary: Act, turns: usize) -> Room {
    let model = Script::new(vec![
        ("ASSISTANT: ", vec![summary]),
        ("qq-hang", vec![Act::Hang("At it.")]),
        ("qq", vec![Act::Say("Yes.")]),
    ]);
    let room = Room::with(model, limits(), with_window());
    for number in 0..turns {
        let request = room.say(&format!("qq number {number}."), ItemMode::Followup).await;
        room.wait(&request).await;
    }
    room
}

fn newest_sent(room: &Room) -> String {
    let seen = room.model.seen.lock().unwrap();
    seen.last().unwrap().messages.iter().map(nexus_llm::Message::text).collect::<Vec<_>>().join("\n")
}

#[tokio::test]
async fn what_was_said_before_the_last_turns_becomes_a_summary_once() {
    let room = room(Act::Say("They counted."), 5).await;
    let Shortening::Done(done) = room.broker.shorten(&owner(), CompactionRequest::Compact).await.unwrap()
    else {
        panic!("there was something to sum up");
    };
    assert_eq!((done.new.cause, done.new.turns_summarized), (CompactionCause::Asked, 2));
    assert_eq!(done.new.summary.as_deref(), Some("They counted."));
    assert!(done.new.tokens_before > 0);
    let is_told = |event: &BusBody| matches!(event, BusBody::Compacted { turns: 2, .. });
    assert!(room.watcher.events.lock().unwrap().iter().any(is_told));
    let again = room.broker.shorten(&owner(), CompactionRequest::Compact).await.unwrap();
    assert!(matches!(again, Shortening::Nothing { .. }), "{again:?}");
    let request = room.say("qq and on", ItemMode::Followup).await;
    room.wait(&request).await;
    let sent = newest_sent(&room);
    assert!(sent.contains("They counted.") && !sent.contains("number 1."), "{sent}");
    assert!(sent.contains("number 2.") && sent.contains("number 4."), "{sent}");
}

#[tokio::test]
async fn anew_means_that_nothing_is_sent_and_nothing_is_lost() {
    let room = room(Act::Say("They counted."), 4).await;
    let Shortening::Done(done) = room.broker.shorten(&owner(), CompactionRequest::Reset).await.unwrap()
    else {
        panic!("there was something to leave behind");
    };
    assert_eq!((done.new.cause, done.new.turns_summarized), (CompactionCause::Reset, 4));
    for request in [CompactionRequest::Reset, CompactionRequest::Compact] {
        let nothing = room.broker.shorten(&owner(), request).await.unwrap();
        assert!(matches!(nothing, Shortening::Nothing { .. }), "{nothing:?}");
    }
    let request = room.say("qq fresh", ItemMode::Followup).await;
    room.wait(&request).await;
    let sent = newest_sent(&room);
    assert!(sent.contains("qq fresh") && !sent.contains("number"), "{sent}");
    assert_eq!(room.told("dm:owner").await.len(), 5, "the history has every word");
    room.broker.undo_compaction(&done.new.id).await.unwrap();
    let request = room.say("qq back", ItemMode::Followup).await;
    room.wait(&request).await;
    assert!(newest_sent(&room).contains("number 0."), "taken back, all of it is sent");
}

#[tokio::test]
async fn it_waits_for_the_turn_that_runs_and_comes_before_the_next_one() {
    let room = room(Act::Say("They counted."), 4).await;
    let running = room.say("qq-hang", ItemMode::Followup).await;
    room.until(|| room.model.hung() == 1).await;
    let next = room.say("qq afterwards", ItemMode::Followup).await;
    let broker = room.broker.clone();
    let asked =
        tokio::spawn(async move { broker.shorten(&owner(), CompactionRequest::Compact).await.unwrap() });
    tokio::task::yield_now().await;
    assert!(!asked.is_finished());
    room.model.release.notify_one();
    let Shortening::Done(done) = asked.await.unwrap() else { panic!("there was something to sum up") };
    assert_eq!(done.new.turns_summarized, 2, "the turn that ran is among those that stay whole");
    assert_eq!(room.texts(&running).await, ["At it."]);
    assert_eq!(room.texts(&next).await, ["Yes."]);
}

#[tokio::test]
async fn stopped_in_the_middle_nothing_has_changed() {
    let room = room(Act::Hang("They c"), 5).await;
    let ask = || {
        let broker = room.broker.clone();
        tokio::spawn(async move { broker.shorten(&owner(), CompactionRequest::Compact).await.unwrap() })
    };
    let asked = ask();
    room.until(|| room.model.hung() == 1).await;
    assert!(room.broker.abort(&owner()));
    assert_eq!(asked.await.unwrap(), Shortening::Stopped);
    assert!(room.store.agents().compactions(None, 10).await.unwrap().is_empty());
    let request = room.say("qq still here", ItemMode::Followup).await;
    assert_eq!(room.texts(&request).await, ["Yes."], "a stop ends what it was meant for and nothing after");

    // A daemon that stops lets whoever waits go.
    let (first, second) = (ask(), ask());
    room.until(|| room.model.hung() == 2).await;
    room.cut_off().await;
    let ended = [first.await.unwrap(), second.await.unwrap()];
    assert!(ended.contains(&Shortening::Stopping), "{ended:?}");
    let again = Room::open_with(&room.root, Arc::clone(&room.model), limits(), with_window());
    assert!(again.store.agents().compactions(None, 10).await.unwrap().is_empty());
}

#[tokio::test]
async fn where_there_is_nothing_it_says_so() {
    let room = room(Act::Say("They counted."), 2).await;
    let unknown = SessionLabel::new("chat:nowhere");
    assert_eq!(room.broker.shorten(&unknown, CompactionRequest::Compact).await.unwrap(), Shortening::Unknown);
    let nothing = room.broker.shorten(&owner(), CompactionRequest::Compact).await.unwrap();
    let Shortening::Nothing { why } = nothing else { panic!("{nothing:?}") };
    assert!(why.contains("nothing to compact"), "{why}");
    assert_eq!(room.model.seen.lock().unwrap().len(), 2, "no model was asked for that");
}
