use std::collections::BTreeSet;

use nexus_base::id::EntityId;
use nexus_identity::{DataLevel, Principal};
use nexus_memory::{Provenance, RecallRequest, Scope, Viewer};
use nexus_store::events::conversation_key;
use nexus_store::identity::{EntitySource, NewEntity, OWNER_ID};
use nexus_store::memory::NewFact;

use crate::support::Place;

fn principal(id: &str, tags: &[&str]) -> Principal {
    let tags = tags.iter().map(|tag| (*tag).to_owned()).collect();
    Principal::Known { entity: EntityId::new(id), name: id.to_owned(), tags }
}

async fn person(place: &Place, id: &str) {
    let new = NewEntity {
        id: EntityId::new(id),
        name: id.to_owned(),
        kind: "person".to_owned(),
        source: EntitySource::Delivery,
    };
    place.store.identity().upsert_entity(new).await.unwrap();
}

async fn fact(place: &Place, text: &str, about: &[&str], conversation: Option<&str>) {
    let fact = NewFact {
        text: text.to_owned(),
        context: None,
        as_of: nexus_base::clock::Timestamp::now(),
        source_event_id: None,
        metadata: serde_json::json!({"provenance": Provenance::Owner.as_str()}),
        entity_ids: about.iter().map(|id| EntityId::new(*id)).collect(),
        conversation: conversation.map(str::to_owned),
    };
    place.store.memory().add_fact(fact).await.unwrap();
}

async fn texts(place: &Place, viewer: Viewer) -> BTreeSet<String> {
    let request = RecallRequest::new("surprise party secret plans cheese").limit(50).viewer(viewer);
    place.recall(request).await.into_iter().map(|item| item.text).collect()
}

#[tokio::test]
async fn two_people_never_see_what_is_not_shared_with_them() {
    let place = Place::new().await;
    for id in ["bob", "carol", "dora"] {
        person(&place, id).await;
    }
    place.store.identity().tag_entity(EntityId::new("dora"), "family").await.unwrap();
    place.said("owner-dm", OWNER_ID, "I plan a surprise party for Bob", "2026-03-01T10:00:00").await;
    place.said("bob-dm", "bob", "I love cheese and secret plans", "2026-03-01T11:00:00").await;
    place.said("carol-dm", "carol", "My secret plans are none of your cheese", "2026-03-01T12:00:00").await;
    fact(&place, "The surprise party is in June", &[OWNER_ID], None).await;
    fact(&place, "Bob likes cheese", &["bob"], None).await;
    fact(&place, "The owner has secret plans with Bob", &[OWNER_ID, "bob"], None).await;
    fact(&place, "Dora bakes cheese cake", &["dora"], None).await;
    fact(&place, "Secret plans that are about nobody", &[], None).await;
    fact(&place, "Carol hides cheese", &["carol", "eve"], Some("chat:carol-dm")).await;
    // So many that a filter behind the ranking would leave nothing for anybody else.
    for number in 0..300 {
        fact(&place, &format!("Surprise party secret plans cheese {number}"), &[OWNER_ID], None).await;
    }

    let room = conversation_key("chat", "bob-dm");
    let bob = place
        .memory
        .viewer_of(&principal("bob", &["family"]), DataLevel::Contextual, Some(&room))
        .await
        .unwrap();
    let expected = ["Bob likes cheese", "Dora bakes cheese cake", "I love cheese and secret plans"];
    assert_eq!(texts(&place, bob).await, expected.map(str::to_owned).into());

    let room = conversation_key("chat", "carol-dm");
    let carol = place
        .memory
        .viewer_of(&principal("carol", &["family"]), DataLevel::Minimal, Some(&room))
        .await
        .unwrap();
    let expected = ["Carol hides cheese", "My secret plans are none of your cheese"];
    assert_eq!(
        texts(&place, carol).await,
        expected.map(str::to_owned).into(),
        "a tag needs more than minimal"
    );

    for data in [DataLevel::Minimal, DataLevel::Contextual, DataLevel::Full] {
        let nobody = place.memory.viewer_of(&Principal::Unknown, data, None).await.unwrap();
        assert_eq!(texts(&place, nobody).await, BTreeSet::new());
    }
    let none = place.memory.viewer_of(&principal("bob", &[]), DataLevel::None, Some(&room)).await.unwrap();
    assert_eq!(none, Viewer::Nobody);
    assert_eq!(texts(&place, none).await, BTreeSet::new());

    let owner = Principal::Owner { entity: EntityId::new(OWNER_ID), name: "Ada".to_owned() };
    let owner = place.memory.viewer_of(&owner, DataLevel::Full, None).await.unwrap();
    assert_eq!(owner, Viewer::Owner);
    assert_eq!(texts(&place, owner).await.len(), 50);
    place.store.close().await;
}

#[tokio::test]
async fn a_viewer_cannot_widen_their_view_by_naming_a_conversation() {
    let place = Place::new().await;
    person(&place, "bob").await;
    place.said("owner-dm", OWNER_ID, "The safe opens with cheese", "2026-03-01T10:00:00").await;
    let viewer = Viewer::of(&principal("bob", &[]), DataLevel::Full, Some("chat:bob-dm"));
    let mut request = RecallRequest::new("cheese").viewer(viewer).scope(Scope::ALL);
    request.conversation = Some(conversation_key("control-plane", "owner-dm"));
    assert_eq!(place.recall(request).await, []);
    place.store.close().await;
}
