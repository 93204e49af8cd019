//! Changing the document without breaking or losing anything.

use nexus_base::lock::HeldLock;
use nexus_workspace::config::{ConfigError, Document, Overrides, load, parse_value, rotate_token, set};
use nexus_workspace::trust::Trust;
use proptest::prelude::*;
use serde_json::{Value, json};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use crate::support::{Place, put};

fn text(place: &Place) -> String {
    std::fs::read_to_string(place.layout.config()).unwrap()
}

fn token(place: &Place) -> String {
    let loaded = load(&place.layout, Trust::Trusted, &Overrides::default()).unwrap();
    loaded.settings.runtime.auth.token.expose().to_owned()
}

#[test]
fn setting_a_key_keeps_everything_else_and_the_last_good_copy() {
    let place = Place::initialised();
    let before = text(&place).replacen("{\n", "{\n  \"mine\": {\"b\": 1, \"a\": [2]},\n", 1);
    put(place.layout.config(), &before);
    let loaded = set(&place.layout, "queue.cap", json!(9)).unwrap();
    assert_eq!(loaded.settings.queue.cap, 9);
    let token = token(&place);
    insta::assert_snapshot!(text(&place).replace(&token, "TOKEN"), @r#"
    {
      "mine": {
        "b": 1,
        "a": [
          2
        ]
      },
      "runtime": {
        "port": 18789,
        "bind": "loopback",
        "auth": {
          "mode": "token",
          "token": "TOKEN"
        }
      },
      "queue": {
        "cap": 9
      }
    }
    "#);
    let copy = place.layout.config_last_good();
    let kept = std::fs::read_to_string(&copy).unwrap();
    assert!(kept.contains("[redacted]") && kept.contains("\"mine\"") && !kept.contains(&token));
    for path in [copy.as_path(), place.layout.config()] {
        assert_eq!(std::fs::metadata(path).unwrap().permissions().mode() & 0o777, 0o600);
    }
    set(&place.layout, "queue.cap", Value::Null).unwrap();
    assert!(!text(&place).contains("\"cap\""));
}

#[test]
fn a_refused_edit_changes_nothing() {
    let place = Place::initialised();
    let before = text(&place);
    let refused = |key: &str, value: Value| {
        let error = set(&place.layout, key, value).unwrap_err();
        assert_eq!(text(&place), before, "{key} was written");
        format!("error: {error}\nhint: {}", error.hint())
    };
    insta::assert_snapshot!(refused("queue.mode", json!("panic")), @"
    error: queue.mode: must be one of interrupt, steer, followup, collect, queue
    hint: run `nexus config set queue.mode interrupt`
    ");
    insta::assert_snapshot!(refused("queue.mod", json!("queue")), @"
    error: queue.mod: is not a known key
    hint: see `nexus config list`
    ");
    insta::assert_snapshot!(refused("runtime.bind", json!("lan")), @"
    error: runtime.bind: must be loopback: listening beyond this machine needs an explicit flag, which this version does not have
    hint: run `nexus config set runtime.bind loopback`; reach it from elsewhere through an SSH tunnel
    ");
    insta::assert_snapshot!(refused("runtime.auth.token", json!("x".repeat(48))), @"
    error: runtime.auth.token: cannot be set by hand
    hint: run `nexus config rotate-token`: a token on a command line ends up in shell histories
    ");
    insta::assert_snapshot!(refused("runtime", json!({})), @"
    error: runtime.auth.token: is missing
    hint: run `nexus config rotate-token` to create one
    ");
    insta::assert_snapshot!(refused("agent", json!({ "modle": "x" })), @"
    error: agent.modle: is not a known key and is ignored
    hint: remove it, or see `nexus config list` for the known keys
    ");
    insta::assert_snapshot!(refused("adapters..x", json!(1)), @r#"
    error: "adapters..x" is not a usable key: a part of it is empty
    hint: use a dotted path such as agent.model; `nexus config list` shows them
    "#);
    assert!(!place.layout.config_last_good().exists());
}

#[test]
fn an_edit_can_repair_a_broken_document() {
    let place = Place::initialised();
    let broken = text(&place).replace("18789", "\"many\"");
    put(place.layout.config(), &broken);
    assert!(load(&place.layout, Trust::Trusted, &Overrides::default()).is_err());
    set(&place.layout, "runtime.port", json!(4000)).unwrap();
    let loaded = load(&place.layout, Trust::Trusted, &Overrides::default()).unwrap();
    assert_eq!(loaded.settings.runtime.port, 4000);
    assert!(!place.layout.config_last_good().exists(), "a broken document is not a good one");
}

#[test]
fn an_edit_of_a_document_without_a_token_makes_one() {
    let place = Place::initialised();
    put(place.layout.config(), r#"{"runtime": {"port": "many"}}"#);
    assert!(nexus_workspace::config::lacks_token(&place.layout));
    assert!(set(&place.layout, "queue.cap", json!(0)).is_err(), "a wrong value is refused as ever");
    assert!(nexus_workspace::config::lacks_token(&place.layout), "and nothing was written");
    set(&place.layout, "runtime.port", json!(4000)).unwrap();
    assert_eq!(token(&place).len(), 48);
}

#[test]
fn a_new_token_replaces_the_old_one() {
    let place = Place::initialised();
    let before = token(&place);
    rotate_token(&place.layout).unwrap();
    let after = token(&place);
    assert_ne!(before, after);
    assert_eq!(after.len(), 48);
    put(place.layout.config(), r#"{"runtime": {"auth": {"token": "[redacted]"}}}"#);
    rotate_token(&place.layout).unwrap();
    assert_eq!(token(&place).len(), 48);
}

#[test]
fn two_editors_do_not_lose_each_others_changes() {
    let place = Place::initialised();
    let held = HeldLock::acquire(&place.layout.config_lock()).unwrap();
    assert!(matches!(set(&place.layout, "queue.cap", json!(3)), Err(ConfigError::Busy { .. })));
    held.release();
    set(&place.layout, "queue.cap", json!(3)).unwrap();
}

#[test]
fn values_are_read_as_meant() {
    let value = |key: &str, text: &str| parse_value(key, text).unwrap();
    assert_eq!(value("runtime.port", "4000"), json!(4000));
    assert_eq!(value("agent.id", "7"), json!("7"));
    assert_eq!(value("agent.id", "\"7\""), json!("7"));
    assert_eq!(value("agent.id", "null"), Value::Null);
    assert_eq!(value("agent.model", "my model"), json!("my model"));
    assert_eq!(value("agent.fallbacks", "[\"a/b\"]"), json!(["a/b"]));
    assert_eq!(value("models.local.enabled", "false"), json!(false));
    assert_eq!(value("adapters.x.y", "{\"z\": 1}"), json!({ "z": 1 }));
    assert!(parse_value("agent.id", &"x".repeat(100_000)).is_err());
}

proptest! {
    #[test]
    fn what_is_set_is_found_and_what_is_removed_is_gone(
        key in "[a-z]{1,4}(\\.[a-z]{1,4}){0,4}",
        others in proptest::collection::vec("[a-z]{1,4}(\\.[a-z]{1,4}){0,4}", 0..6),
        number in any::<i32>(),
    ) {
        let mut document = Document::default();
        for other in &others {
            // A path through an earlier plain value is refused, which must leave that value alone.
            let before = document.clone();
            if document.set(other, json!("other")).is_err() {
                prop_assert_eq!(&document, &before);
            }
        }
        if document.set(&key, json!(number)).is_ok() {
            prop_assert_eq!(document.get(&key), Some(&json!(number)));
            let again = Document::parse(&document.render(), Path::new("x")).unwrap();
            prop_assert_eq!(&again, &document);
            prop_assert_eq!(document.remove(&key).unwrap(), Some(json!(number)));
            prop_assert_eq!(document.get(&key), None);
        }
    }

    #[test]
    fn no_key_makes_it_panic(key in "\\PC{0,40}", text in "\\PC{0,40}") {
        let mut document = Document::default();
        let _ = document.set(&key, json!(text));
        let _ = document.remove(&key);
        let _ = document.get(&key);
        let _ = parse_value(&key, &text);
    }
}
