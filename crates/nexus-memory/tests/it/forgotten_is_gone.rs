use std::path::Path;

use nexus_base::file::{self, Durability};
use nexus_base::id::RequestId;
use nexus_memory::{MemoryError, Provenance, RecallRequest, wipe_files};
use nexus_store::events::{InboxOutcome, NewEvent};
use nexus_store::identity::OWNER_ID;

use crate::support::{Place, owner_says};

/// Every file below a folder that holds a word, upper and lower case aside.
fn files_with(folder: &Path, word: &str) -> Vec<String> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files_with(&path, word));
            continue;
        }
        let text = String::from_utf8_lossy(&std::fs::read(&path).unwrap()).to_lowercase();
        if text.contains(word) {
            found.push(path.file_name().unwrap().to_string_lossy().into_owned());
        }
    }
    found
}

#[tokio::test]
async fn a_forgotten_fact_leaves_no_trace_but_its_source() {
    let place = Place::new().await;
    let event = place.said("dm", OWNER_ID, "My locker code is zebrafish.", "2026-03-01T10:00:00").await;
    let id = place
        .memory
        .remember("Ada's locker opens with quaggamussel.", Some(event.clone()), Provenance::Owner)
        .await
        .unwrap();
    let other = place.memory.remember("Ada's bicycle is red.", None, Provenance::Owner).await.unwrap();
    assert!(!place.ask("locker quaggamussel").await.is_empty());
    let forgotten = place.memory.forget_fact(id.clone()).await.unwrap();
    assert_eq!(forgotten.source, Some(event), "and where the words still are");
    assert_eq!(files_with(place.folder.path(), "quaggamussel"), Vec::<String>::new());
    let found = place.recall(RecallRequest::new("locker bicycle")).await;
    assert!(found.iter().all(|item| item.fact_id() != Some(&id)));
    assert!(found.iter().any(|item| item.fact_id() == Some(&other)));
    assert!(matches!(place.memory.forget_fact(id).await, Err(MemoryError::Unknown { .. })));
    place.store.close().await;
}

#[tokio::test]
async fn a_forgotten_source_is_in_no_file_any_more() {
    let place = Place::new().await;
    let events = place.store.events();
    let mut event = NewEvent::message(
        "control-plane",
        "k1",
        OWNER_ID,
        "My wife's name is Xanthippe. I live in Quarantania.",
    );
    event.container_id = Some("dm".to_owned());
    let id = event.id();
    events.receive(event, RequestId::new("r1"), "hash".to_owned()).await.unwrap();
    events.close_inbox(id.clone(), InboxOutcome::Done).await.unwrap();
    let mut reply = NewEvent::message("nexus", "o1", "nexus", "Noted: Xanthippe, in Quarantania.");
    (reply.reply_to, reply.container_id) = (Some(id.to_string()), Some("dm".to_owned()));
    events.insert_outbound(reply).await.unwrap();
    place.said("dm", OWNER_ID, "Thank you, and now the weather", "2026-03-01T10:00:00").await;
    let words = owner_says("My wife's name is Xanthippe. I live in Quarantania.", Some(id.clone()));
    let learnt = place.memory.learn(words).await.unwrap();
    assert_eq!(learnt.added.len(), 2, "{learnt:?}");
    assert!(!place.ask("Quarantania").await.is_empty());
    place.store.flush().await.unwrap();
    assert!(!files_with(place.folder.path(), "quarantania").is_empty());

    let logs = place.folder.path().join("logs");
    std::fs::create_dir(&logs).unwrap();
    let log = logs.join("commands.jsonl");
    let lines = "{\"command\":\"echo 'I live in Quarantania'\"}\n{\"command\":\"date\"}\n";
    file::replace(&log, lines.as_bytes(), 0o600, Durability::Crash).unwrap();

    let forgotten = place.memory.forget_source(learnt.added[0].as_str()).await.unwrap();
    assert_eq!((forgotten.event.as_str(), forgotten.facts.len()), (id.as_str(), 2));
    let changed = wipe_files(&logs, &[], &forgotten.quotes).unwrap();
    assert_eq!(changed, std::slice::from_ref(&log));
    assert!(
        std::fs::read_to_string(&log).unwrap().ends_with("{\"command\":\"date\"}\n"),
        "the rest is whole"
    );
    for word in ["quarantania", "quarantan", "xanthipp"] {
        assert_eq!(files_with(place.folder.path(), word), Vec::<String>::new(), "{word}");
    }
    assert_eq!(place.ask("Quarantania wife").await, Vec::<String>::new());
    assert_eq!(events.get(id.clone()).await.unwrap().unwrap().body.content, "[forgotten]");
    assert_eq!(
        place.ask("weather").await,
        ["Thank you, and now the weather"],
        "the turn after it is still found"
    );

    let again = place.memory.forget_source(id.as_str()).await.unwrap();
    assert_eq!(again.facts, [], "doing it again does no harm");
    assert!(matches!(place.memory.forget_source("nothing").await, Err(MemoryError::Unknown { .. })));
    place.store.close().await;
    for word in ["quarantania", "xanthipp"] {
        assert_eq!(files_with(place.folder.path(), word), Vec::<String>::new(), "after closing: {word}");
    }
}
