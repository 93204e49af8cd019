//! What use teaches: rests, the order of trying, and an index that can be made again.

use std::time::Duration;

use nexus_base::clock::Timestamp;
use nexus_credentials::{
    AccessRules, Account, AccountName, FailureKind, Kind, Reference, ServiceName, Status, Storage,
};

use crate::support::Place;

fn service() -> ServiceName {
    ServiceName::new("anthropic").unwrap()
}

fn reference(account: &str) -> Reference {
    Reference {
        service: service(),
        account: AccountName::new(account).unwrap(),
        credential: "api_key".into(),
    }
}

fn place() -> Place {
    let place = Place::empty();
    for account in ["a", "b", "c/with slash"] {
        let account = Account::with_pointer(
            service(),
            AccountName::new(account).unwrap(),
            "api_key",
            Kind::ApiKey,
            Storage::Env { var: "X".into() },
            Timestamp::now(),
        );
        place.folder.write(&account).unwrap();
    }
    place
}

fn order(place: &Place) -> Vec<String> {
    let rules = AccessRules { level: 1, blocked: vec!["*/forbidden".into()], allowed: Vec::new() };
    let chosen = place.folder.choose(&service(), None, &rules).unwrap();
    chosen.iter().map(|one| one.reference.account.to_string()).collect()
}

#[test]
fn failing_accounts_rest_and_good_ones_come_first() {
    let place = place();
    assert_eq!(order(&place), ["a", "b", "c/with slash"]);
    place.folder.set_order(&service(), vec![AccountName::new("b").unwrap()]).unwrap();
    assert_eq!(order(&place), ["b", "a", "c/with slash"]);
    place.folder.note_success(&reference("c/with slash")).unwrap();
    assert_eq!(order(&place), ["c/with slash", "b", "a"]);
    place.folder.note_failure(&reference("c/with slash"), FailureKind::RateLimit, None).unwrap();
    assert_eq!(order(&place), ["b", "a"]);
    let rests = place.folder.list().unwrap();
    let resting = rests.iter().find(|one| one.status == Status::Cooldown).unwrap();
    let left = resting.cooldown_until.unwrap().since(Timestamp::now());
    assert!(left > Duration::from_secs(50) && left <= Duration::from_secs(60), "{left:?}");
    let asked = Some(Duration::from_secs(0));
    place.folder.note_failure(&reference("c/with slash"), FailureKind::RateLimit, asked).unwrap();
    assert_eq!(order(&place), ["c/with slash", "b", "a"]);
}

#[test]
fn the_index_is_made_again_from_the_accounts() {
    let place = place();
    place.folder.note_failure(&reference("a"), FailureKind::Auth, None).unwrap();
    let before = place.folder.rebuild_index().unwrap();
    std::fs::remove_file(place.folder.path().join("index.json")).unwrap();
    let after = place.folder.rebuild_index().unwrap();
    assert_eq!(before.services, after.services);
    assert_eq!(before.usage_stats, after.usage_stats);
    assert_eq!(after.usage_stats["anthropic:a"]["failureReasons"]["auth"], 1);
    crate::support::put(&place.folder.path().join("index.json"), "{ broken");
    assert_eq!(place.folder.rebuild_index().unwrap().services, before.services);
}

#[test]
fn names_lead_to_credentials() {
    let place = place();
    let found = |given: &str| place.folder.find(given).map(|found| found.len()).unwrap_or_default();
    assert_eq!(found("anthropic"), 3);
    assert_eq!(found("anthropic/a"), 1);
    assert_eq!(found("anthropic/c/with slash"), 1);
    assert_eq!(found("anthropic/c/with slash/api_key"), 1);
    assert_eq!(found("anthropic/a/token"), 0);
    assert_eq!(found("nobody"), 0);
    assert_eq!(found("../x"), 0);
}
