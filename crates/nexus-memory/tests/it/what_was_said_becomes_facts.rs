use nexus_base::id::EntityId;
use nexus_memory::{Provenance, RecallRequest, Scope, Utterance, Voice};
use nexus_store::identity::{EntitySource, NewEntity, OWNER_ID};

use crate::support::{Place, bob_says, owner_says};

#[tokio::test]
async fn an_onboarding_enriches_the_owner_and_makes_the_persona() {
    let place = Place::new().await;
    let event =
        place.said("dm", OWNER_ID, "My name is Ada. I'll call you Atlas.", "2026-03-18T10:00:00").await;
    let words =
        "My name is Ada. I'll call you Atlas. I live in Lisbon, and my sister Grace works at a bakery.";
    let learnt = place.memory.learn(owner_says(words, Some(event.clone()))).await.unwrap();
    assert_eq!(learnt.owner_name.as_deref(), Some("Ada"));
    assert_eq!(learnt.added.len(), 4, "{learnt:?}");
    let owner = place.store.identity().owner().await.unwrap().unwrap();
    assert_eq!((owner.name.as_str(), owner.id.as_str()), ("Ada", OWNER_ID));
    assert_eq!(place.memory.counts().await.unwrap().episodes, 1, "and the stretch it was said in");
    let persona = place.store.identity().entities_named("atlas").await.unwrap();
    assert_eq!(persona[0].kind, "persona");
    let about = place.store.memory().facts_about(EntityId::new(OWNER_ID), 10).await.unwrap();
    assert_eq!(about.len(), 3, "everything but the persona's name is about the owner");
    assert!(
        about.iter().all(|fact| fact.source_event_id.as_ref() == Some(&event)),
        "with where it came from"
    );
    assert!(about.iter().all(|fact| fact.conversation.as_deref() == Some("nexus:dm")));

    let again = place.memory.learn(owner_says(words, Some(event))).await.unwrap();
    assert_eq!((again.added.len(), again.owner_name), (0, None), "the same words add nothing");
    let later = place.memory.learn(owner_says("I live in Lisbon.", None)).await.unwrap();
    let texts = place.ask("where does Ada live").await;
    assert_eq!(texts[0], "Ada lives in Lisbon.", "{texts:?}");
    assert_eq!((later.added.len(), later.known.len()), (0, 1), "nor does a part of them");
    place.memory.remember("the spare key is under the fig tree", None, Provenance::Owner).await.unwrap();
    let words = "Remember that the spare key is under the fig tree.";
    let kept = place.memory.learn(owner_says(words, None)).await.unwrap();
    assert_eq!((kept.added.len(), kept.known.len()), (0, 1), "what was kept by hand is known");
    place.store.close().await;
}

#[tokio::test]
async fn nobody_else_changes_what_is_known_of_the_owner() {
    let place = Place::new().await;
    place.memory.learn(owner_says("My name is Ada.", None)).await.unwrap();
    let bob = NewEntity {
        id: EntityId::new("bob"),
        name: "Bob".to_owned(),
        kind: "person".to_owned(),
        source: EntitySource::Delivery,
    };
    place.store.identity().upsert_entity(bob).await.unwrap();
    let learnt =
        place.memory.learn(bob_says("My name is Ada. I live in Oslo. My boss is Ada.")).await.unwrap();
    assert_eq!(learnt.owner_name, None);
    let claims = Utterance {
        voice: Voice::Person { entity: EntityId::new(OWNER_ID), name: "Ada".to_owned() },
        ..owner_says("I live in Paris", None)
    };
    place.memory.learn(claims).await.unwrap();
    let about = place.store.memory().facts_about(EntityId::new(OWNER_ID), 10).await.unwrap();
    let texts: Vec<&str> = about.iter().map(|fact| fact.text.as_str()).collect();
    assert_eq!(texts, ["The owner is called Ada."]);
    let found = place.recall(RecallRequest::new("Oslo").scope(Scope::FACTS)).await;
    assert_eq!((found[0].text.as_str(), found[0].provenance), ("Bob lives in Oslo.", Provenance::Untrusted));
    assert_eq!(place.store.identity().owner().await.unwrap().unwrap().name, "Ada");

    let untrusted =
        Utterance { voice: Voice::Untrusted, ..owner_says("My name is Eve. I live in Rome.", None) };
    assert_eq!(place.memory.learn(untrusted).await.unwrap().added, []);
    // A change that nobody vouches for is listed with its origin and can be taken back.
    let changes = place.memory.recent(10).await.unwrap();
    let unvouched: Vec<_> = changes.iter().filter(|fact| fact.provenance == Provenance::Untrusted).collect();
    assert!(!unvouched.is_empty());
    for fact in unvouched {
        assert!(place.memory.forget(fact.fact_id().unwrap().clone()).await.unwrap());
    }
    assert_eq!(place.recall(RecallRequest::new("Oslo").scope(Scope::FACTS)).await, []);
    place.store.close().await;
}

/// Variable that turns this binary's test below into the process that is killed.
const CHILD: &str = "NEXUS_MEMORY_LEARNING_CHILD";

#[expect(
    clippy::disallowed_methods,
    reason = "the test runs itself again; nexus-process is not below this test"
)]
fn dies_at(place: &str, folder: &std::path::Path, event: &str) -> bool {
    use std::os::unix::process::ExitStatusExt;
    let output = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "what_was_said_becomes_facts::child_learns"])
        .env(CHILD, format!("{event}\n{}", folder.display()))
        .env("NEXUS_FAILPOINT", place)
        .output()
        .unwrap();
    output.status.signal() == Some(9)
}

const INTRODUCTION: &str = "My name is Ada. My sister Grace lives in Lisbon.";

/// Not a test of its own: the other half of the function above.
#[tokio::test]
async fn child_learns() {
    let Ok(told) = std::env::var(CHILD) else { return };
    let (event, folder) = told.split_once('\n').unwrap();
    let folder = std::path::Path::new(folder);
    let store = nexus_store::Store::open(folder, nexus_store::OpenMode::ReadWrite).unwrap();
    let words = owner_says(INTRODUCTION, Some(nexus_base::id::EventId::new(event)));
    nexus_memory::Memory::new(&store).learn(words).await.unwrap();
}

#[tokio::test]
async fn a_death_in_the_middle_of_learning_loses_nothing_and_doubles_nothing() {
    for place in ["learn.episode", "learn.named", "learn.mentioned", "learn.fact"] {
        let there = Place::new().await;
        let event = there.said("dm", OWNER_ID, INTRODUCTION, "2026-03-18T10:00:00").await;
        there.store.close().await;
        assert!(dies_at(place, there.folder.path(), event.as_str()), "{place}: it died there");
        let store = nexus_store::Store::open(there.folder.path(), nexus_store::OpenMode::ReadWrite).unwrap();
        let memory = nexus_memory::Memory::new(&store);
        let learnt = memory.learn(owner_says(INTRODUCTION, Some(event))).await.unwrap();
        let mut texts: Vec<String> =
            store.memory().recent_facts(10).await.unwrap().into_iter().map(|fact| fact.text).collect();
        texts.sort();
        assert_eq!(learnt.added.len() + learnt.known.len(), texts.len(), "{place}: {texts:?} {learnt:?}");
        assert_eq!(texts.iter().filter(|text| text.contains("Lisbon")).count(), 1, "{place}: {texts:?}");
        let known = store.identity().list_entities(50).await.unwrap();
        assert_eq!(known.iter().filter(|entity| entity.name == "Grace").count(), 1, "{place}: {known:?}");
        assert_eq!(store.identity().owner().await.unwrap().unwrap().name, "Ada", "{place}");
        assert_eq!(store.memory().counts().await.unwrap().episodes, 1, "{place}");
        store.close().await;
    }
}
