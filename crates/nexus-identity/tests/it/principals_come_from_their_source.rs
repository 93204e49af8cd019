use nexus_base::id::EntityId;
use nexus_identity::{Permissions, Principal, SeededOwner, Source, seed_owner};

use crate::support::place;

fn sender(platform: &str, sender: Option<&str>) -> Source {
    Source::Sender {
        platform: platform.into(),
        space: None,
        sender: sender.map(str::to_owned),
        name: Some("Bo".into()),
    }
}

#[tokio::test]
async fn the_owner_is_made_once_and_recognised() {
    let place = place();
    let entity = EntityId::new("entity-owner");
    let before = place.access.principal(Source::Owner { entity: entity.clone() }).await.unwrap();
    assert_eq!(before, Principal::Unknown, "nobody is the owner before there is one");
    let made = seed_owner(place.store.identity()).await.unwrap();
    assert_eq!(made, SeededOwner { entity: entity.clone(), name: "Owner".into(), created: true });
    place.store.identity().rename_entity(entity.clone(), "Ada").await.unwrap();
    let again = seed_owner(place.store.identity()).await.unwrap();
    assert_eq!(again, SeededOwner { entity: entity.clone(), name: "Ada".into(), created: false });
    let owner = place.access.principal(Source::Owner { entity: entity.clone() }).await.unwrap();
    assert_eq!(owner, Principal::Owner { entity, name: "Ada".into() });
    assert_eq!((owner.kind(), owner.name()), ("owner", Some("Ada")));
    place.store.close().await;
}

#[tokio::test]
async fn a_sender_gets_an_entity_and_its_tags() {
    let place = place();
    let first = place.access.principal(sender("test", Some("user-001"))).await.unwrap();
    let entity = EntityId::new("test:user-001");
    assert_eq!(first, Principal::Known { entity: entity.clone(), name: "Bo".into(), tags: vec![] });
    place.store.identity().tag_entity(entity.clone(), "friend").await.unwrap();
    let second = place.access.principal(sender("test", Some("user-001"))).await.unwrap();
    assert!(matches!(second, Principal::Known { tags, .. } if tags == ["friend"]));
    let contacts = place.store.identity().list_contacts(Some(entity), 10).await.unwrap();
    assert_eq!(contacts[0].message_count, 2);
    place.store.close().await;
}

#[tokio::test]
async fn a_sender_nobody_can_name_is_unknown() {
    let place = place();
    let long = "x".repeat(201);
    for source in
        [sender("test", None), sender("test", Some(" ")), sender("", Some("a")), sender("test", Some(&long))]
    {
        assert_eq!(place.access.principal(source).await.unwrap(), Principal::Unknown);
    }
    place.store.close().await;
}

#[tokio::test]
async fn nobody_becomes_the_owner_by_taking_the_owners_name() {
    let place = place();
    seed_owner(place.store.identity()).await.unwrap();
    let source = Source::Sender {
        platform: "test".into(),
        space: None,
        sender: Some("entity-owner".into()),
        name: Some("Owner".into()),
    };
    let principal = place.access.principal(source).await.unwrap();
    assert_eq!(principal.kind(), "known");
    place.store.close().await;
}

#[tokio::test]
async fn machines_are_what_they_are() {
    let place = place();
    let kinds = [
        Source::System { name: "boot".into() },
        Source::Webhook { name: "deploy".into() },
        Source::Agent {
            session: nexus_base::id::SessionLabel::new("worker:1"),
            inherited: Permissions::nothing(),
        },
    ];
    let mut seen = Vec::new();
    for source in kinds {
        let principal = place.access.principal(source).await.unwrap();
        assert_eq!(principal.entity_id(), None);
        seen.push(format!("{} {}", principal.kind(), principal.name().unwrap()));
    }
    assert_eq!(seen, ["system boot", "webhook deploy", "agent worker:1"]);
    place.store.close().await;
}
