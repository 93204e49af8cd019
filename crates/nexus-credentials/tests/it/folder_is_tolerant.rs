//! Damaged, foreign and newer files, and the index that can always be made again.

use nexus_base::clock::Timestamp;
use nexus_credentials::{Account, AccountName, Kind, ServiceName, Status, Storage};

use crate::support::Place;

fn account(service: &str, name: &str) -> Account {
    Account::with_pointer(
        ServiceName::new(service).unwrap(),
        AccountName::new(name).unwrap(),
        "api_key",
        Kind::ApiKey,
        Storage::Env { var: "X_KEY".into() },
        Timestamp(1_000),
    )
}

#[test]
fn the_account_file_has_the_documented_shape() {
    let place = Place::empty();
    place.folder.write(&account("openai", "work")).unwrap();
    insta::assert_snapshot!(place.files()[1].1, @r#"
    {
      "service": "openai",
      "account": "work",
      "owners": [
        "user"
      ],
      "credentials": [
        {
          "id": "api_key",
          "kind": "api_key",
          "storage": {
            "provider": "env",
            "var": "X_KEY"
          },
          "configuredAt": 1000
        }
      ],
      "configuredAt": 1000
    }
    "#);
}

#[test]
fn fields_and_storages_of_later_versions_survive_a_rewrite() {
    let place = Place::empty();
    let text = r#"{"service": "slack", "account": "a", "credentials": [{"id": "t", "kind": "passkey",
        "storage": {"provider": "1password", "vault": "v", "item": "i"}, "configuredAt": 5, "future": [1]}],
        "configuredAt": 5, "color": "blue"}"#;
    place.put("state/credentials/slack/a.json", text);
    let found = place.folder.read_all().unwrap().accounts.remove(0);
    assert_eq!(found.credentials[0].storage.provider(), "1password");
    place.folder.write(&found).unwrap();
    let written: serde_json::Value = serde_json::from_str(&place.files()[1].1).unwrap();
    let mut expected: serde_json::Value = serde_json::from_str(text).unwrap();
    expected["owners"] = serde_json::json!([]);
    assert_eq!(written, expected);
}

#[test]
fn damaged_files_are_named_and_the_rest_is_listed() {
    let place = Place::empty();
    place.folder.write(&account("openai", "work")).unwrap();
    place.put("state/credentials/openai/alias.json", &place.files()[1].1);
    place.put("state/credentials/openai/bad.json", "{");
    place.put("state/credentials/openai/_client.json", "{}");
    place.put("state/credentials/openai/notes.txt", "hello");
    place.put("state/credentials/Not A Service/x.json", "{}");
    let listing = place.folder.read_all().unwrap();
    assert_eq!(listing.accounts.len(), 1);
    assert_eq!(listing.problems.len(), 2);
    assert!(listing.problems[0].contains("alias.json: it describes openai/work"), "{:?}", listing.problems);
    assert_eq!(place.folder.summary().unwrap().broken.len(), 2);
    assert!(!place.folder.is_empty().unwrap());
}

#[test]
fn an_index_alone_is_an_empty_folder_and_a_lost_one_comes_back() {
    let place = Place::empty();
    place.put("state/credentials/index.json", "{}");
    std::fs::create_dir(place.folder.path().join("openai")).unwrap();
    assert!(place.folder.is_empty().unwrap());

    place.folder.write(&account("openai", "work")).unwrap();
    let before = place.folder.read_index();
    std::fs::remove_file(place.folder.path().join("index.json")).unwrap();
    assert_eq!(place.folder.rebuild_index().unwrap().services, before.services);
    let mut index = serde_json::to_value(place.folder.read_index()).unwrap();
    index["lastUpdated"] = "now".into();
    insta::assert_json_snapshot!(index, @r#"
    {
      "version": 1,
      "lastUpdated": "now",
      "services": {
        "openai": {
          "accounts": [
            {
              "id": "work",
              "owners": [
                "user"
              ],
              "kind": "api_key",
              "status": "ready"
            }
          ]
        }
      },
      "order": {},
      "lastGood": {},
      "usageStats": {}
    }
    "#);
}

#[test]
fn candidates_come_in_the_order_to_try_them() {
    let place = Place::empty();
    let names = ["a", "b", "c", "d", "broken", "resting"];
    for (age, name) in names.iter().enumerate() {
        let mut account = account("openai", name);
        account.last_used = (*name == "b").then_some(Timestamp(i64::try_from(age).unwrap()));
        if *name == "broken" {
            account.credentials[0].last_error = Some("401".into());
        }
        if *name == "resting" {
            account.credentials[0].stats =
                serde_json::from_value(serde_json::json!({ "cooldownUntil": i64::MAX })).unwrap();
            assert_eq!(account.status(Timestamp::now()), Status::Cooldown);
        }
        place.folder.write(&account).unwrap();
    }
    let mut index = serde_json::to_value(place.folder.read_index()).unwrap();
    index["order"] = serde_json::json!({ "openai": ["d"] });
    index["lastGood"] = serde_json::json!({ "openai": "c" });
    place.put("state/credentials/index.json", &index.to_string());
    let service = ServiceName::new("openai").unwrap();
    let order: Vec<String> = place
        .folder
        .candidates(&service)
        .unwrap()
        .iter()
        .map(|account| account.account.to_string())
        .collect();
    assert_eq!(order, ["c", "d", "b", "a"]);
    assert!(place.folder.remove(&service, &AccountName::new("c").unwrap()).unwrap());
    assert!(!place.folder.remove(&service, &AccountName::new("c").unwrap()).unwrap());
}
