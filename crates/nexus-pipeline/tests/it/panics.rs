use nexus_store::agents::{ItemMode, OutboxState};

use crate::support::{Act, Room, Script, dispatch, limits};

#[tokio::test]
async fn a_panic_inside_a_turn_ends_it_visibly_and_the_session_lives_on() {
    let model = Script::new(vec![("bad", vec![Act::Panic]), ("good", vec![Act::Say("fine")])]);
    let room = Room::new(model, limits());
    let bad = room.say("bad", ItemMode::Followup).await;
    let lines = room.wait(&bad).await;
    assert_eq!(lines.len(), 1);
    assert_eq!(lines[0].state, OutboxState::Error);
    let good = room.say("good", ItemMode::Followup).await;
    assert_eq!(room.texts(&good).await, ["fine"]);
}

#[tokio::test]
async fn a_panicking_worker_is_reported_to_its_parent() {
    let model = Script::new(vec![
        ("kind: task", vec![Act::Panic]),
        ("status: failed", vec![Act::Say("The worker broke.")]),
        ("please", vec![Act::Call("On it.", vec![dispatch("x")])]),
        ("dispatch_id", vec![Act::Say("")]),
    ]);
    let room = Room::new(model, limits());
    let request = room.say("please", ItemMode::Interrupt).await;
    assert_eq!(room.texts(&request).await, ["On it.", "The worker broke."]);
}

#[tokio::test]
async fn what_was_said_before_the_panic_is_kept() {
    let look = ("read", serde_json::json!({"path": "AGENTS.md"}));
    let model =
        Script::new(vec![("bad", vec![Act::Call("Let me look.", vec![look])]), ("", vec![Act::Panic])]);
    let room = Room::new(model, limits());
    let bad = room.say("bad", ItemMode::Followup).await;
    let texts = room.texts(&bad).await;
    assert!(texts[0].starts_with("Let me look."), "{texts:?}");
}
