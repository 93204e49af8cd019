use nexus_base::id::{EventId, FactId};
use nexus_memory::{MAX_FACT_LEN, MAX_LIMIT, Memory, MemoryError, Provenance, RecallRequest, Recalled};
use nexus_store::{OpenMode, Store};
use proptest::prelude::*;

struct Place {
    _folder: tempfile::TempDir,
    store: Store,
    memory: Memory,
}

fn place() -> Place {
    let folder = tempfile::tempdir().unwrap();
    Store::create(folder.path()).unwrap();
    let store = Store::open(folder.path(), OpenMode::ReadWrite).unwrap();
    let memory = Memory::new(&store);
    Place { _folder: folder, store, memory }
}

async fn recall(memory: &Memory, query: &str, limit: usize) -> Vec<Recalled> {
    memory.recall(RecallRequest::new(query).limit(limit)).await.unwrap().items
}

async fn texts(memory: &Memory, query: &str) -> Vec<String> {
    recall(memory, query, 5).await.into_iter().map(|found| found.text).collect()
}

#[tokio::test]
async fn what_was_remembered_is_recalled_with_its_origin() {
    let place = place();
    let memory = &place.memory;
    let id = memory
        .remember("  Ada's sister\n lives in\tLisbon. ", Some(EventId::new("cli:1")), Provenance::Owner)
        .await
        .unwrap();
    memory.remember("The bakery in Lisbon opens at seven.", None, Provenance::Untrusted).await.unwrap();
    memory.remember("Ada drinks tea.", None, Provenance::Agent).await.unwrap();

    let found = recall(memory, "where does the sister of Ada live?", 5).await;
    assert_eq!(found[0].fact_id(), Some(&id));
    assert_eq!(found[0].text, "Ada's sister lives in Lisbon.");
    assert_eq!(found[0].provenance, Provenance::Owner);
    assert!(found.windows(2).all(|pair| pair[0].score > pair[1].score));
    assert!(found[0].score <= 1.0);

    let bakery = recall(memory, "bakery", 5).await;
    assert_eq!(bakery[0].provenance, Provenance::Untrusted);
    assert_eq!(texts(memory, "volcano").await, Vec::<String>::new());
    assert_eq!(texts(memory, "").await, Vec::<String>::new());
    place.store.close().await;
}

#[tokio::test]
async fn the_same_sentence_is_kept_once_and_a_stranger_cannot_change_whose_it_is() {
    let place = place();
    let first = place.memory.remember("Ada drinks tea.", None, Provenance::Owner).await.unwrap();
    let second = place.memory.remember(" Ada  drinks tea. ", None, Provenance::Untrusted).await.unwrap();
    assert_eq!(first, second);
    assert_eq!(place.memory.counts().await.unwrap().facts, 1);
    assert_eq!(recall(&place.memory, "tea", 1).await[0].provenance, Provenance::Owner);
    place.store.close().await;
}

#[tokio::test]
async fn a_secret_never_becomes_a_row() {
    let place = place();
    let key = format!("sk-ant-{}", "a1".repeat(12));
    place.memory.remember(&format!("The key is {key} for now."), None, Provenance::Owner).await.unwrap();
    assert_eq!(texts(&place.memory, "key").await, ["The key is [redacted] for now."]);
    place.store.close().await;
}

#[tokio::test]
async fn nothing_and_too_much_are_refused_with_advice() {
    let place = place();
    for text in ["", "  \n", "…!?"] {
        let error = place.memory.remember(text, None, Provenance::Owner).await.unwrap_err();
        assert!(matches!(error, MemoryError::Empty), "{text:?}");
        assert!(error.hint().is_some());
    }
    let error =
        place.memory.remember(&"x".repeat(MAX_FACT_LEN + 1), None, Provenance::Owner).await.unwrap_err();
    assert_eq!(error.to_string(), "a fact of 2001 bytes is longer than 2000");
    assert_eq!(place.memory.counts().await.unwrap().facts, 0);
    place.store.close().await;
}

#[tokio::test]
async fn limits_hold_and_forgetting_is_for_good() {
    let place = place();
    for number in 0..MAX_LIMIT + 5 {
        place
            .memory
            .remember(&format!("Fact number {number} is about cheese."), None, Provenance::Owner)
            .await
            .unwrap();
    }
    let found = recall(&place.memory, "cheese", usize::MAX).await;
    assert_eq!(found.len(), MAX_LIMIT);
    assert_eq!(recall(&place.memory, "cheese", 0).await.len(), 1);
    assert_eq!(place.memory.recent(3).await.unwrap().len(), 3);
    let gone = found[0].fact_id().unwrap().clone();
    assert!(place.memory.forget(gone.clone()).await.unwrap());
    assert!(!place.memory.forget(gone).await.unwrap());
    assert!(!place.memory.forget(FactId::new("none")).await.unwrap());
    place.store.close().await;
}

#[test]
fn any_text_can_be_asked_for_and_remembered() {
    let place = place();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    proptest!(ProptestConfig::with_cases(64), |(text in "\\PC{0,200}", long in "[a-zä\"*() ]{900,1100}")| {
        runtime.block_on(async {
            let _ = place.memory.remember(&text, None, Provenance::Agent).await;
            recall(&place.memory, &text, 3).await;
            recall(&place.memory, &long, 3).await;
        });
    });
    place.store.close_blocking();
}
