//! From document, environment and flags to settings.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use nexus_workspace::config::{ConfigError, Document, Loaded, Overrides, Source, load, resolve, schema};
use nexus_workspace::trust::Trust;
use serde_json::{Value, json};

use crate::support::{Place, put};

fn token() -> String {
    "0123456789abcdef".repeat(3)
}

fn document(extra: &Value) -> Document {
    let mut whole = json!({ "runtime": { "auth": { "mode": "token", "token": token() } } });
    merge(&mut whole, extra);
    Document::parse(&whole.to_string(), Path::new("config.json")).unwrap()
}

fn merge(into: &mut Value, from: &Value) {
    match (into, from) {
        (Value::Object(into), Value::Object(from)) => {
            for (name, value) in from {
                merge(into.entry(name).or_insert(Value::Null), value);
            }
        }
        (into, from) => *into = from.clone(),
    }
}

fn loaded(extra: &Value) -> Loaded {
    resolve(document(extra), Trust::Trusted, &Overrides::default()).unwrap()
}

fn refused(extra: &Value) -> String {
    let error = resolve(document(extra), Trust::Trusted, &Overrides::default()).unwrap_err();
    format!("error: {error}\nhint: {}", error.hint())
}

fn warned(extra: &Value) -> String {
    let warnings = loaded(extra).warnings;
    warnings.iter().map(|one| format!("{one} | {}", one.fix)).collect::<Vec<_>>().join("\n")
}

#[test]
fn a_fresh_workspace_has_all_defaults_and_no_warning() {
    let place = Place::initialised();
    let loaded = load(&place.layout, Trust::Trusted, &Overrides::default()).unwrap();
    assert_eq!(loaded.warnings, []);
    let lines: Vec<String> =
        loaded.values.iter().map(|one| format!("{} = {} ({:?})", one.key, one.value, one.source)).collect();
    insta::assert_snapshot!(lines.join("\n"));
    let debug = format!("{:?}", loaded.settings);
    assert!(!debug.contains(loaded.settings.runtime.auth.token.expose()));
    insta::assert_snapshot!(format!("{:#?}", loaded.settings));
}

#[test]
fn flag_beats_environment_beats_file_beats_default() {
    let file = json!({ "runtime": { "port": 1000 }, "providers": {
        "openai": { "base_url": "http://file:1" }, "anthropic": { "base_url": "http://file:2" } } });
    let environment = [("OPENAI_BASE_URL".to_owned(), "http://env:1".to_owned()), ("X".into(), "y".into())];
    let overrides = Overrides { flags: vec![("runtime.port", json!(2000))], environment: &environment };
    let loaded = resolve(document(&file), Trust::Trusted, &overrides).unwrap();
    assert_eq!(loaded.settings.runtime.port, 2000);
    assert_eq!(loaded.settings.providers["openai"].base_url.as_deref(), Some("http://env:1"));
    assert_eq!(loaded.settings.providers["anthropic"].base_url.as_deref(), Some("http://file:2"));
    let sources = ["runtime.port", "providers.openai.base_url", "providers.anthropic.base_url", "queue.cap"]
        .map(|key| loaded.source(key));
    use Source::{Default, Environment, File, Flag};
    assert_eq!(sources, [Some(Flag), Some(Environment), Some(File), Some(Default)]);
}

#[test]
fn a_bad_flag_is_an_error_and_a_bad_variable_a_warning() {
    let overrides = Overrides { flags: vec![("runtime.port", json!(70_000))], environment: &[] };
    let error = resolve(document(&json!({})), Trust::Trusted, &overrides).unwrap_err();
    assert_eq!(error.to_string(), "runtime.port: must be a whole number from 1 to 65535");
    let environment = [("OPENAI_BASE_URL".to_owned(), "gopher://x".to_owned())];
    let overrides = Overrides { flags: vec![], environment: &environment };
    let loaded = resolve(document(&json!({})), Trust::Trusted, &overrides).unwrap();
    assert_eq!(loaded.warnings[0].key, "providers.openai.base_url from OPENAI_BASE_URL");
    assert!(loaded.settings.providers.is_empty());
}

#[test]
fn a_wrong_runtime_section_names_key_and_fix() {
    insta::assert_snapshot!(refused(&json!({ "runtime": { "port": "eighty" } })), @"
    error: runtime.port: must be a whole number from 1 to 65535
    hint: run `nexus config set runtime.port 18789`
    ");
    insta::assert_snapshot!(refused(&json!({ "runtime": { "bind": "0.0.0.0" } })), @"
    error: runtime.bind: must be loopback: listening beyond this machine needs an explicit flag, which this version does not have
    hint: run `nexus config set runtime.bind loopback`; reach it from elsewhere through an SSH tunnel
    ");
    insta::assert_snapshot!(refused(&json!({ "runtime": { "auth": { "mode": "none" } } })), @"
    error: runtime.auth.mode: must be token: every route requires the owner's token
    hint: run `nexus config set runtime.auth.mode token`
    ");
    insta::assert_snapshot!(refused(&json!({ "runtime": { "auth": { "token": "short" } } })), @"
    error: runtime.auth.token: must be 22 to 512 printable ASCII characters without spaces
    hint: run `nexus config rotate-token` to create a new one
    ");
    insta::assert_snapshot!(refused(&json!({ "runtime": { "auth": { "token": "[redacted]" }, "port": 0 } })), @"
    error: runtime.auth.token: is only the placeholder used in copies (and 1 more)
    hint: run `nexus config rotate-token` to create a new one
    ");
    insta::assert_snapshot!(refused(&json!({ "runtime": { "auth": { "token": null } } })), @"
    error: runtime.auth.token: is missing
    hint: run `nexus config rotate-token` to create one
    ");
    insta::assert_snapshot!(refused(&json!({ "runtime": [] })), @"
    error: runtime: must be an object (and 1 more)
    hint: run `nexus config set runtime '{}'`
    ");
}

#[test]
fn a_wrong_optional_section_only_degrades() {
    let extra =
        json!({ "queue": { "mode": "panic", "cap": 7 }, "logging": "loud", "agent": { "fallbacks": [1] } });
    insta::assert_snapshot!(warned(&extra), @"
    queue.mode: must be one of interrupt, steer, followup, collect, queue; the default is used | run `nexus config set queue.mode interrupt`
    logging: must be an object; the default is used | run `nexus config set logging '{}'`
    agent.fallbacks: must be a list of at most 16 strings; the default is used | run `nexus config set agent.fallbacks '[\"…\"]'`
    ");
    let settings = loaded(&extra).settings;
    assert_eq!(settings.queue.cap, 7);
    assert_eq!(settings, { loaded(&json!({ "queue": { "cap": 7 } })).settings });
}

#[test]
fn unknown_keys_are_named_and_sections_of_relatives_tolerated() {
    let extra = json!({ "hooks": { "a": 1 }, "channels": [], "queue": { "Debounce-MS": 5 }, "wether": 1,
        "runtime": { "mode": "local", "queue": { "cap": 1 } } });
    insta::assert_snapshot!(warned(&extra), @"
    runtime.mode: is not a known key and is ignored | did you mean runtime.auth.mode? otherwise remove it
    runtime.queue: is not a known key and is ignored | remove it, or see `nexus config list` for the known keys
    queue.Debounce-MS: is not a known key and is ignored | did you mean queue.debounce_ms? otherwise remove it
    wether: is not a known key and is ignored | remove it, or see `nexus config list` for the known keys
    ");
    assert_eq!(loaded(&extra).get("wether"), Some(json!(1)));
}

#[test]
fn a_literal_key_is_refused_wherever_it_hides_and_never_quoted() {
    let key = format!("sk-ant-{}", "a1".repeat(12));
    for (extra, place) in [
        (json!({ "providers": { "anthropic": { "api_key": key } } }), "providers.anthropic.api_key"),
        (json!({ "agent": { "model": key } }), "agent.model"),
        (json!({ "mystery": [{ "x": key }] }), "mystery.0.x"),
        (json!({ "adapters": { "chat": { "botToken": "abcdefghijklmnop" } } }), "adapters.chat.botToken"),
        (json!({ "hooks": { "token": ["abcdefghijklmnop"] } }), "hooks.token.0"),
    ] {
        let text = refused(&extra);
        assert!(text.starts_with(&format!("error: {place}: contains a secret in plain text")), "{text}");
        assert!(text.contains("nexus credential add"));
        assert!(!text.contains(&key) && !text.contains("abcdefghijklmnop"));
    }
    for extra in [
        json!({ "adapters": { "chat": { "token": "env:CHAT_BOT_TOKEN_X" } } }),
        json!({ "adapters": { "chat": { "token": "slack/env:SLACK_BOT" } } }),
        json!({ "adapters": { "chat": { "max_tokens": 100_000 } } }),
    ] {
        assert_eq!(warned(&extra), "");
    }
}

#[test]
fn an_untrusted_workspace_brings_no_addresses_adapters_servers_or_policies() {
    let extra = json!({ "providers": { "openai": { "base_url": "http://evil" } }, "adapters": { "a": {} },
        "mcp": { "b": {} }, "acl": { "policies": [{}] }, "project": { "catalog": "roles" }, "queue": { "cap": 3 } });
    let environment = [("ANTHROPIC_BASE_URL".to_owned(), "http://127.0.0.1:9".to_owned())];
    let overrides = Overrides { flags: vec![], environment: &environment };
    let loaded = resolve(document(&extra), Trust::OtherFolder, &overrides).unwrap();
    let settings = &loaded.settings;
    assert!(settings.adapters.is_empty() && settings.mcp.is_empty() && settings.acl.policies.is_empty());
    assert_eq!(settings.providers.keys().collect::<Vec<_>>(), ["anthropic"]);
    assert_eq!((settings.queue.cap, &settings.project.catalog), (3, &None));
    assert_eq!(loaded.warnings.len(), 5);
    assert_eq!(loaded.warnings[0].fix, "review what it brings, then run `nexus trust`");
    let trusted = resolve(document(&extra), Trust::Trusted, &overrides).unwrap().settings;
    assert_eq!(trusted.project.catalog.as_deref(), Some("roles"));
}

#[test]
fn a_document_that_cannot_be_read_is_named() {
    let place = Place::initialised();
    let folder = place.folder.path().display().to_string();
    let refused = || {
        let error = load(&place.layout, Trust::Trusted, &Overrides::default()).unwrap_err();
        format!("error: {error}\nhint: {}", error.hint()).replace(&folder, "T")
    };
    put(place.layout.config(), "{ \"runtime\": ");
    insta::assert_snapshot!(refused(), @"
    error: T/workspace/state/config.json is not a JSON object: EOF while parsing a value at line 1 column 13
    hint: correct the JSON, or copy the valid parts from state/config.last-good.json
    ");
    put(place.layout.config(), "[]");
    insta::assert_snapshot!(refused(), @"
    error: T/workspace/state/config.json is not a JSON object: the outermost value is not an object
    hint: correct the JSON, or copy the valid parts from state/config.last-good.json
    ");
    put(place.layout.config(), &" ".repeat(300 * 1024));
    insta::assert_snapshot!(refused(), @"
    error: reading T/workspace/state/config.json
    hint: check the file's owner, permissions and free space
    ");
    std::fs::remove_file(place.layout.config()).unwrap();
    insta::assert_snapshot!(refused(), @"
    error: T/workspace/state/config.json does not exist
    hint: run `nexus init` first
    ");
    assert!(matches!(
        load(&place.layout, Trust::Trusted, &Overrides::default()),
        Err(ConfigError::Missing { .. })
    ));
}

#[test]
fn a_document_others_can_read_is_warned_about() {
    let place = Place::initialised();
    std::fs::set_permissions(place.layout.config(), std::fs::Permissions::from_mode(0o644)).unwrap();
    let loaded = load(&place.layout, Trust::Trusted, &Overrides::default()).unwrap();
    assert_eq!(loaded.warnings[0].message, "is readable by other users of this machine");
}

#[test]
fn what_is_shown_has_no_token() {
    let loaded = loaded(&json!({ "future": { "note": "kept" } }));
    assert_eq!(loaded.get("runtime.auth.token"), Some(json!("[redacted]")));
    assert!(!loaded.get("runtime").unwrap().to_string().contains(&token()));
    assert!(!serde_json::to_string(&loaded.values).unwrap().contains(&token()));
    assert_eq!(loaded.get("future.note"), Some(json!("kept")));
    assert_eq!(loaded.get("nothing.here"), None);
}

#[test]
fn the_schema_follows_the_table() {
    let schema: Value = serde_json::from_str(&schema()).unwrap();
    assert_eq!(schema["properties"]["runtime"]["properties"]["port"]["maximum"], json!(65_535));
    let provider = &schema["properties"]["providers"]["additionalProperties"]["properties"]["base_url"];
    assert_eq!(provider["pattern"], json!("^https?://"));
    assert_eq!(schema["properties"]["queue"]["properties"]["mode"]["default"], json!("interrupt"));
}
