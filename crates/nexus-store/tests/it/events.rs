//! Events are received once, promised once, and found again.

use nexus_base::id::{EventId, RequestId};
use nexus_store::events::{Direction, InboxOutcome, NewEvent, Received};
use serde_json::json;

use crate::support::Made;

fn message(number: u32, content: &str) -> NewEvent {
    NewEvent::message("cli", &number.to_string(), "me", content)
}

#[tokio::test]
async fn the_same_key_is_received_once() {
    let made = Made::new();
    let store = made.open();
    let events = store.events();
    let receive = |content: &str, request: &str, hash: &str| {
        events.receive(message(1, content), RequestId::new(request), hash.to_owned())
    };
    assert_eq!(receive("hello", "r1", "h1").await.unwrap(), Received::New);
    let duplicate =
        |same_body, outcome| Received::Duplicate { request_id: RequestId::new("r1"), same_body, outcome };
    assert_eq!(receive("hello", "r2", "h1").await.unwrap(), duplicate(true, InboxOutcome::Accepted));
    assert_eq!(receive("other", "r3", "h2").await.unwrap(), duplicate(false, InboxOutcome::Accepted));
    let id = EventId::new("cli:1");
    assert!(events.close_inbox(id.clone(), InboxOutcome::Done).await.unwrap());
    assert!(!events.close_inbox(id.clone(), InboxOutcome::Failed).await.unwrap(), "the first end stays");
    assert_eq!(receive("hello", "r4", "h1").await.unwrap(), duplicate(true, InboxOutcome::Done));
    assert_eq!(events.get(id).await.unwrap().unwrap().body.content, "hello");
    assert_eq!(events.counts().await.unwrap(), (1, 0));
    store.close().await;
}

#[tokio::test]
async fn open_promises_come_back_oldest_first_with_all_their_parts() {
    let made = Made::new();
    let store = made.open();
    let whole = NewEvent {
        kind: "message".to_owned(),
        platform: "discord".to_owned(),
        account_id: Some("bot".to_owned()),
        to_recipients: Some(json!(["you"])),
        space_id: Some("guild".to_owned()),
        container_kind: Some("channel".to_owned()),
        container_id: Some("general".to_owned()),
        thread_id: Some("t".to_owned()),
        reply_to: Some("cli:0".to_owned()),
        attachments: Some(json!([{"name": "a.png"}])),
        metadata: Some(json!({"nested": {"deep": [1, 2]}})),
        ..message(1, "first")
    };
    let events = store.events();
    for (number, event) in [whole.clone(), message(2, "second"), message(3, "third")].into_iter().enumerate()
    {
        events.receive(event, RequestId::new(format!("r{number}")), format!("h{number}")).await.unwrap();
    }
    assert!(events.close_inbox(EventId::new("cli:2"), InboxOutcome::Denied).await.unwrap());
    let accepted = events.accepted(10).await.unwrap();
    assert_eq!(accepted.len(), 2);
    assert_eq!(accepted[0].event.body, whole);
    assert_eq!((accepted[0].request_id.as_str(), accepted[0].body_hash.as_str()), ("r0", "h0"));
    assert_eq!(accepted[1].event.id.as_str(), "cli:3");
    assert_eq!(events.accepted(1).await.unwrap().len(), 1);
    store.close().await;
}

#[tokio::test]
async fn replies_are_stored_once_and_promise_nothing() {
    let made = Made::new();
    let store = made.open();
    let events = store.events();
    let reply =
        NewEvent { direction: Direction::Outbound, ..NewEvent::message("nexus", "t1:0", "nexus", "hi") };
    assert!(events.insert_outbound(reply.clone()).await.unwrap());
    assert!(!events.insert_outbound(reply.clone()).await.unwrap());
    assert_eq!(events.counts().await.unwrap(), (1, 0));
    // Handed in as if it had arrived: visible, but no work.
    let received = events.receive(reply, RequestId::new("r9"), "h".to_owned()).await.unwrap();
    let skipped = InboxOutcome::Skipped;
    assert_eq!(
        received,
        Received::Duplicate { request_id: RequestId::new("r9"), same_body: true, outcome: skipped }
    );
    assert_eq!(events.accepted(10).await.unwrap(), []);
    store.close().await;
}

#[tokio::test]
async fn search_takes_what_people_type() {
    let made = Made::new();
    let store = made.open();
    let events = store.events();
    for (number, content) in
        ["I painted the door", "paint AND brushes", "nothing here"].into_iter().enumerate()
    {
        let event = message(u32::try_from(number).unwrap(), content);
        events.receive(event, RequestId::generate(), "h".to_owned()).await.unwrap();
    }
    assert_eq!(events.search("painting", 10).await.unwrap().len(), 2, "word forms match");
    for odd in ["\"", "door* OR (", "NEAR(", "a:b", "-", "", "'; DROP TABLE events; --"] {
        events.search(odd, 10).await.unwrap();
    }
    assert_eq!(events.search("door* OR (", 10).await.unwrap().len(), 1);
    store.close().await;
}
