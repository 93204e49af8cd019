use std::path::Path;

use nexus_base::file::{self, Durability};
use nexus_base::id::{FactId, RequestId};
use nexus_memory::{Beside, MemoryError, Provenance, RecallRequest};
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

    let beside = Beside { folder: logs, except: Vec::new() };
    let forgotten = place.memory.forget_source(learnt.added[0].as_str(), &beside).await.unwrap();
    assert_eq!((forgotten.event.as_ref(), forgotten.facts.len()), (Some(&id), 2));
    assert_eq!(forgotten.files, std::slice::from_ref(&log));
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

    let again = place.memory.forget_source(id.as_str(), &beside).await.unwrap();
    assert_eq!(again.facts, [], "doing it again does no harm");
    assert!(matches!(place.memory.forget_source("nothing", &beside).await, Err(MemoryError::Unknown { .. })));
    place.store.close().await;
    for word in ["quarantania", "xanthipp"] {
        assert_eq!(files_with(place.folder.path(), word), Vec::<String>::new(), "after closing: {word}");
    }
}

/// Variable that turns this binary's test below into the process that is killed.
const CHILD: &str = "NEXUS_MEMORY_FORGETTING_CHILD";

/// Begins the id of a fact that is forgotten without its source.
const FACT_ALONE: &str = "fact:";

/// Every place at which forgetting commits something.
const PLACES: [&str; 10] = [
    "forget.noted",
    "forget.overwritten@1",
    "forget.overwritten@2",
    "forget.overwritten@3",
    "forget.overwritten@4",
    "forget.overwritten@5",
    "forget.overwritten@6",
    "forget.files_wiped",
    "forget.all_overwritten",
    "forget.scrubbed",
];

#[expect(
    clippy::disallowed_methods,
    reason = "the test runs itself again; nexus-process is not below this test"
)]
fn dies_at(place: &str, folder: &Path, id: &str) -> bool {
    use std::os::unix::process::ExitStatusExt;
    let output = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "forgotten_is_gone::child_forgets"])
        .env(CHILD, format!("{id}\n{}", folder.display()))
        .env("NEXUS_FAILPOINT", place)
        .output()
        .unwrap();
    output.status.signal() == Some(9)
}

/// Not a test of its own: the other half of the function above.
#[tokio::test]
async fn child_forgets() {
    let Ok(told) = std::env::var(CHILD) else { return };
    let (id, folder) = told.split_once('\n').unwrap();
    let folder = Path::new(folder);
    let store = nexus_store::Store::open(&folder.join("data"), nexus_store::OpenMode::ReadWrite).unwrap();
    let memory = nexus_memory::Memory::new(&store);
    if let Some(fact) = id.strip_prefix(FACT_ALONE) {
        memory.forget_fact(FactId::new(fact)).await.unwrap();
        return;
    }
    let beside = Beside { folder: folder.join("logs"), except: Vec::new() };
    memory.forget_source(id, &beside).await.unwrap();
}

#[tokio::test]
async fn a_fact_whose_forgetting_was_cut_off_leaves_no_vector() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    nexus_store::Store::create(&data).unwrap();
    let open = || nexus_store::Store::open(&data, nexus_store::OpenMode::ReadWrite).unwrap();
    let store = open();
    store.identity().seed_owner().await.unwrap();
    let memory = nexus_memory::Memory::new(&store);
    let text = "Ada's locker opens with quarantania.";
    let id = memory.remember(text, None, Provenance::Owner).await.unwrap().to_string();
    memory.catch_up(100).await.unwrap();
    store.close().await;
    assert!(dies_at("forget.fact_removed", folder.path(), &format!("{FACT_ALONE}{id}")));

    let store = open();
    let beside = Beside { folder: folder.path().join("logs"), except: Vec::new() };
    std::fs::create_dir(&beside.folder).unwrap();
    nexus_memory::Memory::new(&store).finish_forgetting(&beside).await.unwrap();
    assert!(store.memory().fact(FactId::new(id)).await.unwrap().is_none());
    assert_eq!(store.unfinished_forgetting().await.unwrap(), []);
    store.close().await;
    assert_eq!(files_with(folder.path(), "quarantania"), Vec::<String>::new());
}

#[tokio::test]
async fn a_death_in_the_middle_of_forgetting_is_made_good_by_the_next_start() {
    let folder = tempfile::tempdir().unwrap();
    let (data, logs) = (folder.path().join("data"), folder.path().join("logs"));
    nexus_store::Store::create(&data).unwrap();
    std::fs::create_dir(&logs).unwrap();
    let open = || nexus_store::Store::open(&data, nexus_store::OpenMode::ReadWrite).unwrap();
    open().identity().seed_owner().await.unwrap();
    for (number, place) in PLACES.into_iter().enumerate() {
        let store = open();
        let memory = nexus_memory::Memory::new(&store);
        let mut event = NewEvent::message(
            "control-plane",
            place,
            OWNER_ID,
            "My wife's name is Xanthippe. I live in Quarantania.",
        );
        event.container_id = Some("dm".to_owned());
        let id = event.id();
        let request = RequestId::new(format!("r{number}"));
        store.events().receive(event, request, "hash".to_owned()).await.unwrap();
        store.events().close_inbox(id.clone(), InboxOutcome::Done).await.unwrap();
        let words = owner_says("My wife's name is Xanthippe. I live in Quarantania.", Some(id.clone()));
        assert_eq!(memory.learn(words).await.unwrap().added.len(), 2, "{place}");
        // A later message quotes it, and a log does.
        let mut later =
            NewEvent::message("chat", &format!("q{number}"), "bob", "She said: I live in Quarantania");
        later.container_id = Some("room".to_owned());
        store.events().insert_outbound(later).await.unwrap();
        file::replace(&logs.join("log"), b"I live in Quarantania\n", 0o600, Durability::Crash).unwrap();
        assert!(!memory.recall(RecallRequest::new("Quarantania")).await.unwrap().items.is_empty());
        store.close().await;

        assert!(dies_at(place, folder.path(), id.as_str()), "{place}: it died there");
        let store = open();
        let memory = nexus_memory::Memory::new(&store);
        let beside = Beside { folder: logs.clone(), except: Vec::new() };
        assert_eq!(memory.finish_forgetting(&beside).await.unwrap(), 1, "{place}");
        assert_eq!(memory.finish_forgetting(&beside).await.unwrap(), 0, "{place}: once");
        for query in ["Xanthippe wife", "Quarantania"] {
            let found = memory.recall(RecallRequest::new(query)).await.unwrap().items;
            assert!(found.is_empty(), "{place}: {query}: {found:?}");
        }
        store.close().await;
        for word in ["quarantania", "xanthipp"] {
            assert_eq!(files_with(folder.path(), word), Vec::<String>::new(), "{place}: {word}");
        }
    }
}

#[tokio::test]
async fn a_fact_whose_vector_a_death_left_behind_is_cleaned_up() {
    let place = Place::new().await;
    let id = place.memory.remember("Ada keeps a quaggamussel.", None, Provenance::Owner).await.unwrap();
    place.memory.catch_up(u64::MAX).await.unwrap();
    place.store.flush().await.unwrap();
    let before = place.memory.vector_counts().await.unwrap().facts;
    // What a death right after the first commit leaves.
    place.store.forget_fact(id).await.unwrap().unwrap();
    let beside = Beside { folder: place.folder.path().join("none"), except: Vec::new() };
    assert_eq!(place.memory.finish_forgetting(&beside).await.unwrap(), 1);
    assert_eq!(place.memory.vector_counts().await.unwrap().facts, before - 1);
    assert_eq!(files_with(place.folder.path(), "quaggamussel"), Vec::<String>::new());
    place.store.close().await;
}
