//! What a start finds without asking.

use std::time::Duration;

use nexus_credentials::{CredentialFolder, DEFAULT_SYNC_TTL, SyncReport, SyncRequest, boot_sync};

use crate::support::{Place, environment};

fn sync(place: &Place, pairs: &[(&str, &str)], ttl: Duration) -> SyncReport {
    let home = place.home();
    let environment = environment(pairs);
    let request = SyncRequest {
        observer: nexus_credentials::Observer::Daemon,
        environment: &environment,
        home: Some(&home),
        ttl,
    };
    boot_sync(&place.folder, &request).unwrap()
}

#[test]
fn nothing_to_find_leaves_the_folder_empty() {
    let place = Place::empty();
    let report = sync(&place, &[("GITHUB_TOKEN", "abcdefghijklmnop")], DEFAULT_SYNC_TTL);
    assert_eq!(report, SyncReport { looked_for_logins: true, ..SyncReport::default() });
    assert_eq!(place.files(), []);
}

#[test]
fn logins_and_provider_variables_become_pointers_once() {
    let place = Place::empty();
    place.put(
        "home/.claude/.credentials.json",
        r#"{"claudeAiOauth": {"accessToken": "canary-one-aaaaaaaa"}}"#,
    );
    place.put(
        "codex/auth.json",
        r#"{"OPENAI_API_KEY": null, "tokens": {"access_token": "canary-two-bbbbbbbb"}}"#,
    );
    place.put("home/.qwen/oauth_creds.json", r#"{"access_token": "canary-three-cccc"}"#);
    let codex = place.temporary.path().join("codex");
    let pairs = [
        ("CODEX_HOME", codex.to_str().unwrap()),
        ("OPENAI_API_KEY", "canary-four-dddddddd"),
        ("GITHUB_TOKEN", "canary-five-eeeeeeee"),
    ];
    let report = sync(&place, &pairs, DEFAULT_SYNC_TTL);
    assert_eq!(
        report.added,
        ["openai/env:OPENAI_API_KEY", "anthropic/claude-cli", "openai/codex-cli", "qwen/qwen-cli"]
    );
    assert_eq!((report.total, report.problems.len()), (4, 0));
    for (name, text) in place.files() {
        assert!(!text.contains("canary"), "{name} holds a secret");
    }
    let before = place.files();
    let again = sync(&place, &pairs, DEFAULT_SYNC_TTL);
    assert_eq!(again, SyncReport { total: 4, ..SyncReport::default() });
    assert_eq!(place.files(), before);
}

#[test]
fn a_fresh_look_is_not_repeated_but_a_stale_one_is() {
    let place = Place::empty();
    sync(&place, &[("OPENAI_API_KEY", "0123456789abcdef")], DEFAULT_SYNC_TTL);
    place.put("home/.qwen/oauth_creds.json", r#"{"access_token": "0123456789"}"#);
    assert!(!sync(&place, &[], DEFAULT_SYNC_TTL).looked_for_logins);
    let report = sync(&place, &[], Duration::ZERO);
    assert_eq!(report.added, ["qwen/qwen-cli"]);
}

#[test]
fn a_login_file_without_a_login_is_reported_and_nothing_else() {
    let place = Place::empty();
    place.put("home/.claude/.credentials.json", "not json");
    let report = sync(&place, &[], DEFAULT_SYNC_TTL);
    assert_eq!(report.problems.len(), 1);
    assert!(report.problems[0].ends_with("/home/.claude/.credentials.json contains no login of claude-cli"));
    assert_eq!(place.files(), []);
}

#[test]
fn a_missing_folder_is_made_when_there_is_something_to_keep() {
    let temporary = tempfile::tempdir().unwrap();
    let folder = CredentialFolder::new(temporary.path().join("state/credentials"));
    let environment = environment(&[("ANTHROPIC_API_KEY", "0123456789abcdef")]);
    let request = SyncRequest {
        observer: nexus_credentials::Observer::Daemon,
        environment: &environment,
        home: None,
        ttl: DEFAULT_SYNC_TTL,
    };
    assert_eq!(boot_sync(&folder, &request).unwrap().total, 1);
    use std::os::unix::fs::PermissionsExt;
    let mode = |path: &str| std::fs::metadata(folder.path().join(path)).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode("anthropic"), mode("anthropic/env%3AANTHROPIC_API_KEY.json")), (0o700, 0o600));
}
