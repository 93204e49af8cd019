//! A conversation that no longer fits is made shorter, and nothing else is lost by it.

use nexus_agent::Window;
use nexus_base::conversation::CompactionCause;
use nexus_base::id::SessionLabel;
use nexus_llm::Conversation;
use nexus_protocol::bus::BusBody;
use nexus_store::agents::{ItemMode, OutboxState, Undone};
use serde_json::json;

use crate::support::{Act, Extras, Room, Script, limits};

fn narrow(limit: u64) -> Extras {
    Extras { window: Window { limit: Some(limit), ..Window::default() }, ..Extras::default() }
}

fn text_of(conversation: &Conversation) -> String {
    conversation.messages.iter().map(nexus_llm::Message::text).collect::<Vec<_>>().join("\n")
}

/// A question of about so many bytes.
fn long(number: usize, bytes: usize) -> String {
    format!("qq-long question {number} {}", "word ".repeat(bytes / 5))
}

#[tokio::test]
async fn old_turns_become_a_summary_that_can_be_looked_at_and_taken_back() {
    let model = Script::new(vec![
        ("SUMMARY-PLEASE", vec![Act::Say("unused")]),
        ("ASSISTANT: ", vec![Act::Say("They asked long questions about words.")]),
        ("qq-long", vec![Act::Say("Noted.")]),
        ("qq-last", vec![Act::Say("Here I am.")]),
    ]);
    let room = Room::with(model, limits(), narrow(40_000));
    for number in 0..9 {
        let request = room.say(&long(number, 9_000), ItemMode::Followup).await;
        assert_eq!(room.texts(&request).await, ["Noted."], "question {number}");
    }
    let session = SessionLabel::new("dm:owner");
    let kept = room.store.agents().compactions(Some(&session), 10).await.unwrap();
    assert_eq!(kept.len(), 1, "{kept:?}");
    let first = &kept[0].new;
    assert_eq!((first.cause, first.author.as_str()), (CompactionCause::ContextLimit, "test/script"));
    assert_eq!(first.summary.as_deref(), Some("They asked long questions about words."));
    assert!(first.tokens_after * 100 <= 24_000 * 62, "{first:?}");
    assert!(
        room.watcher.events.lock().unwrap().iter().any(|event| matches!(event, BusBody::Compacted { .. }))
    );

    // Rules and identity are there as before, and the last three turns word for word.
    let request = room.say("qq-last", ItemMode::Followup).await;
    assert_eq!(room.texts(&request).await, ["Here I am."]);
    {
        let seen = room.model.seen.lock().unwrap();
        let (before, after) = (&seen[0], seen.last().unwrap());
        assert_eq!(before.system, after.system);
        assert!(after.system.contains("You are the manager") && after.system.contains("## Safety"));
        let text = text_of(after);
        assert!(text.contains("They asked long questions") && !text.contains("question 0 "), "{text:.500}");
        for number in [6, 7, 8] {
            assert!(text.contains(&format!("question {number} ")), "{number}");
        }
    }
    // Taken back, everything is sent again, by the ledger's own words.
    let undone = room.broker.undo_compaction(&first.id).await.unwrap();
    assert!(matches!(undone, Undone::Done(_)), "{undone:?}");
    assert_eq!(room.broker.undo_compaction(&first.id).await.unwrap(), Undone::Already);
    let past = room.store.agents().past(&session, &last_turn(&room).await).await.unwrap();
    assert_eq!((past.compaction, past.turns.len()), (None, 10));
}

async fn last_turn(room: &Room) -> nexus_base::id::TurnId {
    let rows = room.store.agents().sessions(10).await.unwrap();
    rows[0].session.head_turn_id.clone().unwrap()
}

#[tokio::test]
async fn a_provider_that_finds_it_too_long_gets_it_shorter_once() {
    let model = Script::new(vec![
        ("ASSISTANT: ", vec![Act::Fail("no summary today")]),
        ("qq-long", vec![Act::Say("Noted.")]),
        ("qq-again", vec![Act::TooLong, Act::Say("Now it fits.")]),
        ("qq-never", vec![Act::TooLong]),
    ]);
    let room = Room::with(model, limits(), narrow(400_000));
    for number in 0..6 {
        let request = room.say(&long(number, 3_000), ItemMode::Followup).await;
        room.wait(&request).await;
    }
    let request = room.say("qq-again", ItemMode::Followup).await;
    assert_eq!(room.texts(&request).await, ["Now it fits."]);
    let kept = room.store.agents().compactions(None, 10).await.unwrap();
    assert_eq!(kept.len(), 1);
    assert_eq!((kept[0].new.cause, kept[0].new.author.as_str()), (CompactionCause::Overflow, "extract"));
    assert!(kept[0].new.summary.as_ref().unwrap().contains("they said: qq-long question 0"));
    // A second refusal is the end of the turn, visibly, and of nothing else.
    let request = room.say("qq-never", ItemMode::Followup).await;
    let lines = room.wait(&request).await;
    assert_eq!(lines[0].state, OutboxState::Error);
    assert!(lines[0].text.contains("exceeds the model's limit"), "{}", lines[0].text);
    let request = room.say("qq-long after", ItemMode::Followup).await;
    assert_eq!(room.texts(&request).await, ["Noted."]);
}

#[tokio::test]
async fn a_long_result_is_sent_shortened_and_stays_whole_in_the_ledger_and_after_a_restart() {
    let read = ("read", json!({"path": "state/workspace/manager/big.txt"}));
    let model = Script::new(vec![
        ("qq-read", vec![Act::Call("", vec![read])]),
        ("line 1\n", vec![Act::Say("Read.")]),
        ("qq-next", vec![Act::Say("Next.")]),
    ]);
    let room = Room::with(model, limits(), narrow(12_000));
    let folder = room.root.join("state/workspace/manager");
    std::fs::create_dir_all(&folder).unwrap();
    let text: String = (0..3_000).map(|number| format!("line {number}\n")).collect();
    let durability = nexus_base::file::Durability::Crash;
    nexus_base::file::replace(&folder.join("big.txt"), text.as_bytes(), 0o600, durability).unwrap();
    let request = room.say("qq-read", ItemMode::Followup).await;
    assert_eq!(room.texts(&request).await, ["Read."]);
    let shortened = room.store.agents().compactions(None, 10).await.unwrap();
    assert_eq!((shortened.len(), shortened[0].new.turns_summarized, shortened[0].new.trims.len()), (1, 0, 1));
    let item = room.store.agents().item_of_request(&request).await.unwrap().unwrap();
    let turn = room.store.agents().turn(&item.turn_id.unwrap()).await.unwrap().unwrap();
    let whole = turn.messages[1].calls[0].result.clone().unwrap();
    assert!(whole.len() > 20_000 && whole.contains("line 1500"));
    room.cut_off().await;

    let again = Room::open_with(&room.root, std::sync::Arc::clone(&room.model), limits(), narrow(12_000));
    again.recover().await;
    let next = again.say("qq-next", ItemMode::Followup).await;
    assert_eq!(again.texts(&next).await, ["Next."]);
    let seen = again.model.seen.lock().unwrap();
    let (before, after) = (&seen[seen.len() - 2], &seen[seen.len() - 1]);
    assert!(format!("{:?}", after.messages).contains("bytes left out of"));
    assert_eq!(
        before.messages[..],
        after.messages[..before.messages.len()],
        "the same bytes after a restart"
    );
}

#[tokio::test]
async fn a_conversation_of_many_turns_is_summed_up_without_a_model() {
    let model = Script::new(vec![("qq", vec![Act::Say("Yes.")])]);
    let window = Window { turns: 8, ..Window::default() };
    let room = Room::with(model, limits(), Extras { window, ..Extras::default() });
    for number in 0..12 {
        let request = room.say(&format!("qq {number}"), ItemMode::Followup).await;
        room.wait(&request).await;
    }
    let kept = room.store.agents().compactions(None, 10).await.unwrap();
    assert_eq!(kept.len(), 1);
    assert_eq!((kept[0].new.cause, kept[0].new.turns_summarized), (CompactionCause::Length, 5));
    let seen = room.model.seen.lock().unwrap();
    assert_eq!(seen.len(), 12, "no model was asked for it");
    assert!(text_of(seen.last().unwrap()).contains("they said: qq 0"));
}
