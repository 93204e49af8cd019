use std::time::Duration;

use nexus_base::id::EntityId;
use nexus_identity::{NewTokenRequest, TokenError, Tokens, hash_of, seed_owner};

use nexus_store::identity::NewToken;

use crate::support::place;

fn reading(lasts: Option<Duration>) -> NewTokenRequest {
    NewTokenRequest { label: Some("phone".into()), scopes: vec!["control.*.read".into()], lasts }
}

/// The hash of the owner's token.
fn under() -> String {
    hash_of("the owner's")
}

#[tokio::test]
async fn a_token_lives_until_it_is_ended_rotated_or_run_out() {
    let place = place();
    let owner = seed_owner(place.store.identity()).await.unwrap().entity;
    let tokens = Tokens::new(place.store.identity().clone());
    let made = tokens.create(&owner, &reading(None), under()).await.unwrap();
    assert!(made.token.len() >= 4 + 32, "at least 128 bits");
    let holder = tokens.holder(&made.token, &under()).await.unwrap().unwrap();
    assert!(holder.scopes.cover("control.chat.read") && !holder.scopes.cover("control.chat.write"));
    // Nothing stored gives it back.
    let stored = format!("{:?} {made:?}", tokens.list().await.unwrap());
    assert!(!stored.contains(&made.token) && stored.contains(&made.row.new.prefix));

    let next = tokens.rotate(&made.row.new.id, under()).await.unwrap();
    assert_eq!(next.row.new.scopes, made.row.new.scopes);
    assert_eq!(tokens.holder(&made.token, &under()).await.unwrap(), None);
    assert!(tokens.holder(&next.token, &under()).await.unwrap().is_some());
    tokens.revoke(&next.row.new.id).await.unwrap();
    assert_eq!(tokens.holder(&next.token, &under()).await.unwrap(), None);
    assert!(matches!(tokens.revoke(&next.row.new.id).await, Err(TokenError::Missing(_))));

    // Worth nothing under another owner's token, and again under its own: nothing was ended by asking.
    let bound = tokens.create(&owner, &reading(None), under()).await.unwrap();
    assert_eq!(tokens.holder(&bound.token, &hash_of("another")).await.unwrap(), None);
    assert!(!tokens.is_live(&bound.row.new.id, &hash_of("another")).await.unwrap());
    assert!(tokens.holder(&bound.token, &under()).await.unwrap().is_some());

    let brief = tokens.create(&owner, &reading(Some(Duration::ZERO)), under()).await.unwrap();
    assert_eq!(tokens.holder(&brief.token, &under()).await.unwrap(), None);
}

#[tokio::test]
async fn only_whole_tokens_count_and_only_sound_scopes_are_given() {
    let place = place();
    let owner = seed_owner(place.store.identity()).await.unwrap().entity;
    let tokens = Tokens::new(place.store.identity().clone());
    let made = tokens.create(&owner, &reading(None), under()).await.unwrap();
    for wrong in
        ["", "nxt_", &made.token[..made.token.len() - 1], &made.row.new.hash, &made.token.to_uppercase()]
    {
        assert_eq!(tokens.holder(wrong, &under()).await.unwrap(), None, "{wrong}");
    }
    let odd = NewTokenRequest { label: None, scopes: vec!["operator.admin".into()], lasts: None };
    assert!(matches!(tokens.create(&owner, &odd, under()).await, Err(TokenError::Scopes(_))));
    let odd = NewTokenRequest { label: Some("a\nb".into()), ..reading(None) };
    assert!(matches!(tokens.create(&EntityId::new("x"), &odd, under()).await, Err(TokenError::Label)));
    assert_eq!(tokens.end_others("another").await.unwrap(), 1);
    assert_eq!(tokens.holder(&made.token, &under()).await.unwrap(), None);
}

#[tokio::test]
async fn rows_from_before_tokens_were_bound_count_once_they_are_bound() {
    let place = place();
    let owner = seed_owner(place.store.identity()).await.unwrap().entity;
    let tokens = Tokens::new(place.store.identity().clone());
    let made = tokens.create(&owner, &reading(None), under()).await.unwrap();
    let old = format!("{}old", made.token);
    let row = NewToken { id: "old".into(), hash: hash_of(&old), issued_under: None, ..made.row.new.clone() };
    place.store.identity().add_token(row).await.unwrap();
    assert_eq!(tokens.holder(&old, &under()).await.unwrap(), None, "bound to nothing, worth nothing");
    tokens.adopt(&under()).await.unwrap();
    assert!(tokens.holder(&old, &under()).await.unwrap().is_some());
    assert_eq!(tokens.end_others(&under()).await.unwrap(), 0);
}
