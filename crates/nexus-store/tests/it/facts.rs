//! Facts are stored once and found by word, by part of a word, and by whom they are about.

use nexus_base::clock::Timestamp;
use nexus_base::id::{EntityId, EventId};
use nexus_store::Embeddings;
use nexus_store::embeddings::{StoredVector, VectorKind, VectorView};
use nexus_store::memory::NewFact;
use serde_json::json;

use crate::support::Made;

fn fact(text: &str, about: &[&str]) -> NewFact {
    NewFact {
        text: text.to_owned(),
        context: Some("a chat".to_owned()),
        as_of: Timestamp(5),
        source_event_id: Some(EventId::new("cli:1")),
        metadata: json!({"trusted": true}),
        entity_ids: about.iter().map(|id| EntityId::new(*id)).collect(),
        conversation: None,
    }
}

#[tokio::test]
async fn the_same_sentence_is_one_fact() {
    let made = Made::new();
    let store = made.open();
    let memory = store.memory();
    let first = memory.add_fact(fact("Ada keeps bees", &["ada"])).await.unwrap();
    let again = memory.add_fact(fact("Ada keeps bees", &["ada", "bees"])).await.unwrap();
    assert_eq!(first, again);
    let stored = memory.fact(first.clone()).await.unwrap().unwrap();
    assert_eq!(stored.text, "Ada keeps bees");
    assert_eq!(stored.metadata, json!({"trusted": true}));
    assert_eq!(stored.entity_ids, [EntityId::new("ada"), EntityId::new("bees")]);
    memory.count_access_later(vec![first.clone()]);
    memory.add_fact(fact("Bees like lavender", &["bees"])).await.unwrap();
    assert_eq!(memory.fact(first.clone()).await.unwrap().unwrap().access_count, 1);
    assert_eq!(memory.facts_about(EntityId::new("bees"), 10).await.unwrap().len(), 2);
    let newest = memory.recent_facts(1).await.unwrap();
    assert_eq!(newest[0].text, "Bees like lavender");
    let counts = memory.counts().await.unwrap();
    assert_eq!((counts.facts, counts.entities), (2, 2));
    assert_eq!(memory.forget(first.clone()).await.unwrap(), Some(1));
    assert_eq!(memory.forget(first.clone()).await.unwrap(), None);
    assert_eq!(memory.fact(first).await.unwrap(), None);
    assert_eq!(memory.search_facts("keeps", 10).await.unwrap(), [], "a forgotten fact is not found");
    assert_eq!(memory.facts_about(EntityId::new("ada"), 10).await.unwrap(), []);
    store.close().await;
}

#[tokio::test]
async fn facts_are_found_by_what_people_type() {
    let made = Made::new();
    let store = made.open();
    for text in [
        "Grace prefers black coffee",
        "Grace's sister lives in Zürich",
        "祖母は東京に住んでいる",
        "The coffee grinder and the coffee machine broke",
    ] {
        store.memory().add_fact(fact(text, &[])).await.unwrap();
    }
    let found = async |query: &str| -> Vec<String> {
        let facts = store.memory().search_facts(query, 10).await.unwrap();
        facts.into_iter().map(|fact| fact.text.chars().take(12).collect()).collect()
    };
    assert_eq!(found("preferring").await, ["Grace prefer"], "word forms");
    assert_eq!(found("zurich").await, ["Grace's sist"], "without diacritics");
    assert_eq!(found("coffee machine").await[0], "The coffee g", "more matches rank first");
    assert_eq!(found("rinde").await, ["The coffee g"], "part of a word");
    assert_eq!(found("住んでいる").await, ["祖母は東京に住んでいる"], "no spaces between words");
    assert_eq!(found("東京").await, ["祖母は東京に住んでいる"], "two characters");
    for odd in ["", "\"", "*", "a OR", "NOT", "(", "100% _", "col:x", "'"] {
        found(odd).await;
    }
    assert_eq!(found("of").await, Vec::<String>::new());
    assert_eq!(store.memory().search_facts("coffee", 1).await.unwrap().len(), 1);
    store.close().await;
}

async fn all(vectors: &Embeddings) -> Vec<StoredVector> {
    let visit = |made: &mut Vec<StoredVector>, view: VectorView<'_>| {
        let VectorView { row, audience, at, speaker, bytes } = view;
        made.push(StoredVector { row, audience, at, speaker, bytes: bytes.to_vec() });
    };
    vectors.visit(VectorKind::Fact, visit).await.unwrap()
}

#[tokio::test]
async fn vectors_of_another_model_are_not_mixed() {
    let made = Made::new();
    let store = made.open();
    let vectors = store.embeddings();
    let vector =
        |row: i64, bytes: &[u8]| StoredVector { row, audience: 4, at: 5, speaker: 6, bytes: bytes.to_vec() };
    vectors.append(VectorKind::Fact, "m1", vec![vector(1, &[1]), vector(2, &[2])], 2).await.unwrap();
    vectors.append(VectorKind::Fact, "m1", vec![vector(2, &[3])], 1).await.unwrap();
    vectors.append(VectorKind::Turn, "m1", vec![vector(1, &[9])], 1).await.unwrap();
    let found = all(vectors).await;
    assert_eq!(found, [vector(1, &[1]), vector(2, &[3])]);
    let set = vectors.vector_set(VectorKind::Fact).await.unwrap().unwrap();
    assert_eq!((set.model.as_str(), set.through), ("m1", 2), "the mark never goes back");
    assert!(vectors.remove(VectorKind::Fact, 1).await.unwrap());
    assert!(!vectors.remove(VectorKind::Fact, 1).await.unwrap());
    vectors.append(VectorKind::Fact, "m2", vec![vector(1, &[7])], 1).await.unwrap();
    assert_eq!(all(vectors).await, [vector(1, &[7])]);
    assert_eq!(vectors.vector_set(VectorKind::Fact).await.unwrap().unwrap().through, 1);
    assert_eq!(vectors.count(VectorKind::Turn).await.unwrap(), 1, "the other kind is left alone");
    store.close().await;
}

#[tokio::test]
async fn many_vectors_are_packed_and_stay_what_they_were() {
    let made = Made::new();
    let store = made.open();
    let vectors = store.embeddings();
    let vector = |row: i64| StoredVector {
        row,
        audience: row % 7 - 3,
        at: row * 1_000,
        speaker: u32::try_from(row).unwrap(),
        bytes: vec![u8::try_from(row % 251).unwrap(); 12],
    };
    // One by one until runs are made of them, in whole runs, and again in part.
    let kind = VectorKind::Fact;
    for row in 1..=3i64 {
        vectors.append(kind, "m1", vec![vector(row * 2)], row * 2).await.unwrap();
    }
    vectors.append(kind, "m1", (4..=700).map(|row| vector(row * 2)).collect(), 1_400).await.unwrap();
    vectors.append(kind, "m1", (600..=1_500).map(|row| vector(row * 2)).collect(), 3_000).await.unwrap();
    let expected: Vec<StoredVector> = (1..=1_500).map(|row| vector(row * 2)).collect();
    assert_eq!(all(vectors).await, expected);
    assert_eq!(vectors.count(kind).await.unwrap(), 1_500);

    // A packed one, one of the last, one that was never there.
    for row in [10, 3_000] {
        assert!(vectors.remove(kind, row).await.unwrap(), "{row}");
        assert!(!vectors.remove(kind, row).await.unwrap(), "{row} again");
    }
    assert!(!vectors.remove(kind, 11).await.unwrap());
    // Somebody who caught up at the same time does not bring a forgotten one back.
    vectors.append(kind, "m1", vec![vector(10)], 10).await.unwrap();
    let left: Vec<StoredVector> =
        expected.into_iter().filter(|vector| ![10, 3_000].contains(&vector.row)).collect();
    assert_eq!(all(vectors).await, left);
    assert_eq!(vectors.count(kind).await.unwrap(), 1_498);
    vectors.append(kind, "m2", vec![vector(1)], 1).await.unwrap();
    assert_eq!(all(vectors).await, [vector(1)], "another model begins anew");
    store.close().await;
}
