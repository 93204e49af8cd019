//! A pointer gives what is there now, or says what is missing.

use nexus_credentials::{FileFormat, ResolveError, Storage, resolve};
use secrecy::ExposeSecret;

use crate::support::{Place, environment};

fn file(place: &Place, json_path: Option<&str>) -> Storage {
    let format = if json_path.is_some() { FileFormat::Json } else { FileFormat::Text };
    Storage::File {
        path: place.temporary.path().join("login"),
        format,
        json_path: json_path.map(str::to_owned),
    }
}

#[test]
fn the_present_value_is_fetched() {
    let place = Place::empty();
    let set = environment(&[("A", " value \n")]);
    assert_eq!(resolve(&Storage::Env { var: "A".into() }, &set).unwrap().expose_secret(), "value");
    for value in ["first", "second"] {
        place.put("login", &format!("{{\"a\": {{\"b\": \"{value}\"}}}}"));
        assert_eq!(resolve(&file(&place, Some("a.b")), &[]).unwrap().expose_secret(), value);
    }
    place.put("login", "plain\n");
    assert_eq!(resolve(&file(&place, None), &[]).unwrap().expose_secret(), "plain");
}

#[test]
fn what_is_missing_is_said_without_the_secret() {
    let place = Place::empty();
    let folder = place.temporary.path().display().to_string();
    let said = |storage: &Storage| {
        let error = resolve(storage, &environment(&[("EMPTY", " ")])).unwrap_err();
        format!("error: {error}\nhint: {}", error.hint()).replace(&folder, "T")
    };
    insta::assert_snapshot!(said(&Storage::Env { var: "EMPTY".into() }), @"
    error: variable EMPTY is not set
    hint: start the daemon with that variable set, or remove the credential
    ");
    insta::assert_snapshot!(said(&file(&place, None)), @"
    error: T/login does not exist
    hint: log in with the tool that owns the file, then run `nexus credential sync`
    ");
    place.put("login", r#"{"a": {"b": 7, "secret": "canary"}}"#);
    insta::assert_snapshot!(said(&file(&place, Some("a.b"))), @"
    error: T/login contains no secret at a.b
    hint: log in with the tool that owns the file, then run `nexus credential sync`
    ");
    let keychain: Storage = serde_json::from_str(r#"{"provider": "keychain", "service": "x"}"#).unwrap();
    insta::assert_snapshot!(said(&keychain), @r#"
    error: storage "keychain" is not supported
    hint: add the credential again with another storage
    "#);
    place.put("login", &"x".repeat(2 << 20));
    assert!(matches!(resolve(&file(&place, None), &[]), Err(ResolveError::File(_))));
}

#[test]
fn a_relative_path_is_never_followed() {
    let storage: Storage = serde_json::from_str(r#"{"provider": "file", "path": "login"}"#).unwrap();
    assert!(matches!(resolve(&storage, &[]), Err(ResolveError::Unsupported { .. })));
}
