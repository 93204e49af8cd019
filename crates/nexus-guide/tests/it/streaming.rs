//! The trait itself: name, pieces, cancel, usage.

use std::sync::Mutex;

use nexus_guide::Guide;
use nexus_llm::{Content, Message, Model, ModelError, ModelEvent};
use tokio_util::sync::CancellationToken;

use crate::world::World;

fn conversation() -> nexus_llm::Conversation {
    let mut world = World::new();
    world.messages.push(Message::user("hello"));
    world.conversation()
}

#[tokio::test]
async fn the_reply_is_streamed_in_pieces_and_counted() {
    let pieces = Mutex::new(Vec::new());
    let sink = |event: ModelEvent| {
        if let ModelEvent::TextDelta(text) = event {
            pieces.lock().unwrap().push(text);
        }
    };
    let guide = Guide::new();
    let reply = guide.reply(&conversation(), &sink, &CancellationToken::new()).await.unwrap();
    let pieces = pieces.into_inner().unwrap();
    assert!(pieces.len() > 3);
    let Some(Content::Text { text }) = reply.content.first() else { panic!("no text") };
    assert_eq!(pieces.concat(), *text);
    assert!(reply.usage.input > 0 && reply.usage.output > 0);
    assert_eq!(guide.name().to_string(), "nexus/guide");
}

#[tokio::test]
async fn a_cancelled_call_ends_at_once() {
    let cancel = CancellationToken::new();
    let seen = Mutex::new(0);
    let sink = |_: ModelEvent| {
        *seen.lock().unwrap() += 1;
        cancel.cancel();
    };
    let result = Guide::new().reply(&conversation(), &sink, &cancel).await;
    assert_eq!(result, Err(ModelError::Cancelled));
    assert_eq!(*seen.lock().unwrap(), 1);
}
