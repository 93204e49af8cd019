use std::time::Duration;

use nexus_base::id::EntityId;
use nexus_identity::{NewTokenRequest, TokenError, Tokens, seed_owner};

use crate::support::place;

fn reading(lasts: Option<Duration>) -> NewTokenRequest {
    NewTokenRequest { label: Some("phone".into()), scopes: vec!["control.*.read".into()], lasts }
}

#[tokio::test]
async fn a_token_lives_until_it_is_ended_rotated_or_run_out() {
    let place = place();
    let owner = seed_owner(place.store.identity()).await.unwrap().entity;
    let tokens = Tokens::new(place.store.identity().clone());
    let made = tokens.create(&owner, &reading(None)).await.unwrap();
    assert!(made.token.len() >= 4 + 32, "at least 128 bits");
    let holder = tokens.holder(&made.token).await.unwrap().unwrap();
    assert!(holder.scopes.cover("control.chat.read") && !holder.scopes.cover("control.chat.write"));
    // Nothing stored gives it back.
    let stored = format!("{:?} {made:?}", tokens.list().await.unwrap());
    assert!(!stored.contains(&made.token) && stored.contains(&made.row.new.prefix));

    let next = tokens.rotate(&made.row.new.id).await.unwrap();
    assert_eq!(next.row.new.scopes, made.row.new.scopes);
    assert_eq!(tokens.holder(&made.token).await.unwrap(), None);
    assert!(tokens.holder(&next.token).await.unwrap().is_some());
    tokens.revoke(&next.row.new.id).await.unwrap();
    assert_eq!(tokens.holder(&next.token).await.unwrap(), None);
    assert!(matches!(tokens.revoke(&next.row.new.id).await, Err(TokenError::Missing(_))));

    let brief = tokens.create(&owner, &reading(Some(Duration::ZERO))).await.unwrap();
    assert_eq!(tokens.holder(&brief.token).await.unwrap(), None);
}

#[tokio::test]
async fn only_whole_tokens_count_and_only_sound_scopes_are_given() {
    let place = place();
    let owner = seed_owner(place.store.identity()).await.unwrap().entity;
    let tokens = Tokens::new(place.store.identity().clone());
    let made = tokens.create(&owner, &reading(None)).await.unwrap();
    for wrong in
        ["", "nxt_", &made.token[..made.token.len() - 1], &made.row.new.hash, &made.token.to_uppercase()]
    {
        assert_eq!(tokens.holder(wrong).await.unwrap(), None, "{wrong}");
    }
    let odd = NewTokenRequest { label: None, scopes: vec!["operator.admin".into()], lasts: None };
    assert!(matches!(tokens.create(&owner, &odd).await, Err(TokenError::Scopes(_))));
    let odd = NewTokenRequest { label: Some("a\nb".into()), ..reading(None) };
    assert!(matches!(tokens.create(&EntityId::new("x"), &odd).await, Err(TokenError::Label)));
    assert_eq!(tokens.revoke_all().await.unwrap(), 1);
    assert_eq!(tokens.holder(&made.token).await.unwrap(), None);
}
