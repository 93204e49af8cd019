//! The owner, contacts and decisions about them.

use nexus_base::clock::Timestamp;
use nexus_base::id::{EntityId, EventId};
use nexus_store::DatabaseName;
use nexus_store::identity::{AccessEffect, AccessLogRow, EntitySource, NewEntity, OWNER_ID};
use serde_json::json;

use crate::support::{Made, sql};

#[tokio::test]
async fn there_is_one_owner_however_often_it_is_seeded() {
    let made = Made::new();
    let store = made.open();
    let identity = store.identity();
    assert_eq!(identity.owner().await.unwrap(), None);
    assert!(identity.seed_owner().await.unwrap());
    assert!(identity.rename_entity(EntityId::new(OWNER_ID), " Ada  Lovelace ").await.unwrap());
    assert!(!identity.seed_owner().await.unwrap());
    let owner = identity.owner().await.unwrap().unwrap();
    assert_eq!((owner.id.as_str(), owner.name.as_str(), owner.is_user), (OWNER_ID, "Ada  Lovelace", true));
    assert!(!identity.rename_entity(EntityId::new("nobody"), "x").await.unwrap());
    store.close().await;
    // Even SQL behind our back cannot make a second one.
    let second = "INSERT INTO entities (id, name, type, normalized, is_user, created_at, updated_at)
                  VALUES ('other', 'x', 'person', 'x', 1, 1, 1)";
    let path = DatabaseName::Identity.file_in(made.path());
    assert!(std::panic::catch_unwind(|| sql(&path, second)).is_err());
}

#[tokio::test]
async fn the_first_message_makes_a_contact_and_its_entity() {
    let made = Made::new();
    let store = made.open();
    let identity = store.identity();
    let id = identity.record_contact("discord", Some("guild"), "42", Some("Grace")).await.unwrap();
    assert_eq!(id.as_str(), "discord:guild:42");
    let again = identity.record_contact("discord", Some("guild"), "42", None).await.unwrap();
    assert_eq!(again, id);
    let mail = identity.record_contact("email", None, "g@example.org", None).await.unwrap();
    assert_eq!(mail.as_str(), "email:g@example.org");
    let entity = identity.entity(id.clone()).await.unwrap().unwrap();
    assert_eq!((entity.name.as_str(), entity.kind.as_str()), ("Grace", "discord_handle"));
    assert_eq!(entity.source, EntitySource::Delivery);
    let contacts = identity.list_contacts(Some(id), 10).await.unwrap();
    assert_eq!(contacts.len(), 1);
    assert_eq!((contacts[0].message_count, contacts[0].sender_name.as_deref()), (2, Some("Grace")));
    assert_eq!(identity.list_contacts(None, 10).await.unwrap().len(), 2);
    store.close().await;
}

#[tokio::test]
async fn merges_are_followed_to_their_end_and_cycles_end_too() {
    let made = Made::new();
    let store = made.open();
    for number in 0..40 {
        let id = EntityId::new(format!("e{number:02}"));
        let new = NewEntity {
            id,
            name: format!("n{number}"),
            kind: "person".to_owned(),
            source: EntitySource::Manual,
        };
        store.identity().upsert_entity(new).await.unwrap();
    }
    store.close().await;
    let path = DatabaseName::Identity.file_in(made.path());
    sql(
        &path,
        "UPDATE entities SET merged_into = 'e01' WHERE id = 'e00';
                UPDATE entities SET merged_into = 'e02' WHERE id = 'e01';
                UPDATE entities SET merged_into = 'e11' WHERE id = 'e10';
                UPDATE entities SET merged_into = 'e10' WHERE id = 'e11';",
    );
    let store = made.open();
    let resolve = async |id: &str| {
        let found = store.identity().resolve_canonical(EntityId::new(id)).await.unwrap();
        found.map(|entity| entity.id.to_string())
    };
    assert_eq!(resolve("e00").await.as_deref(), Some("e02"));
    assert_eq!(resolve("e05").await.as_deref(), Some("e05"));
    assert_eq!(resolve("e10").await, None);
    assert_eq!(resolve("nobody").await, None);
    assert_eq!(store.identity().list_entities(1000).await.unwrap().len(), 36, "merged ones are not listed");
    store.identity().tag_entity(EntityId::new("e05"), "family").await.unwrap();
    store.identity().tag_entity(EntityId::new("e05"), "family").await.unwrap();
    assert_eq!(store.identity().entity_tags(EntityId::new("e05")).await.unwrap(), ["family"]);
    store.close().await;
}

#[tokio::test]
async fn decisions_are_logged_whole() {
    let made = Made::new();
    let store = made.open();
    let row = AccessLogRow {
        timestamp: Timestamp(7),
        event_id: Some(EventId::new("cli:1")),
        request_id: None,
        platform: "cli".to_owned(),
        sender_id: "me".to_owned(),
        container_kind: Some("dm".to_owned()),
        principal_id: Some(EntityId::new(OWNER_ID)),
        principal_type: "owner".to_owned(),
        principal_name: Some("Owner".to_owned()),
        policies_matched: Some(json!(["owner-full-access"])),
        effect: AccessEffect::Allow,
        deny_reason: None,
        tools_allowed: Some(json!(["*"])),
        tools_denied: None,
        credentials_allowed: None,
        data_access: Some("full".to_owned()),
        persona: None,
        session_key: None,
        grants_applied: None,
        processing_time_ms: Some(1),
        operation: None,
    };
    store.identity().log_access_later(row.clone());
    store.identity().flush().await.unwrap();
    assert_eq!(store.identity().recent_access(10).await.unwrap(), [row]);
    store.close().await;
}
