//! Every way a pointer can be bad: named within ten seconds, in the way of nobody, mended when it is.

use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, Instant};

use nexus_credentials::{
    Account, AccountName, Breakage, FileFormat, Kind, Resolver, ServiceName, Status, Storage,
};

use crate::support::{Place, environment, put};

fn add(place: &Place, account: &str, storage: Storage) {
    let account = Account::with_pointer(
        ServiceName::new("openai").unwrap(),
        AccountName::new(account).unwrap(),
        "api_key",
        Kind::ApiKey,
        storage,
        nexus_base::clock::Timestamp::now(),
    );
    place.folder.write(&account).unwrap();
}

fn script(place: &Place, name: &str, body: &str) -> String {
    let path = place.temporary.path().join("bin").join(name);
    put(&path, &format!("#!/bin/sh\n{body}\n"));
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    path.display().to_string()
}

fn command(words: &[&str]) -> Storage {
    Storage::External { command: words.iter().map(|word| (*word).to_owned()).collect(), json_path: None }
}

fn keychain() -> Storage {
    Storage::Keychain { service: "nexus:openai/api_key".into(), account: Some("k".into()), json_path: None }
}

#[tokio::test]
async fn each_bad_pointer_is_broken_with_its_reason_within_ten_seconds() {
    let place = Place::empty();
    place.put("broken.json", "{ nope");
    place.put("empty.json", "{}");
    let file = |name: &str| Storage::File {
        path: place.temporary.path().join(name),
        format: FileFormat::Json,
        json_path: Some("token".into()),
    };
    // A locked keychain waits for somebody who is not there.
    script(&place, "secret-tool", "exec sleep 60");
    let hanging = script(&place, "hanging", "trap '' TERM; while :; do sleep 1; done");
    let failing = script(&place, "failing", "echo the-canary-value; echo the-canary-value >&2; exit 3");
    let silent = script(&place, "silent", "exit 0");
    let good = script(&place, "good", "echo works");
    add(&place, "a-variable", Storage::Env { var: "NOT_SET_ANYWHERE".into() });
    add(&place, "b-json", file("broken.json"));
    add(&place, "c-empty", file("empty.json"));
    add(&place, "d-missing", file("missing.json"));
    add(&place, "e-folder", Storage::File { path: "/".into(), format: FileFormat::Text, json_path: None });
    add(&place, "f-hanging", command(&[&hanging]));
    add(&place, "g-failing", command(&[&failing]));
    add(&place, "h-silent", command(&[&silent]));
    add(&place, "i-absent", command(&["no-such-program-anywhere"]));
    add(&place, "j-locked", keychain());
    add(&place, "k-good", command(&[&good]));
    add(&place, "l-sealed", Storage::Sealed { file: "openai/none.sealed".into() });

    let path = format!("{}:/usr/bin:/bin", place.temporary.path().join("bin").display());
    let resolver = Resolver::new(place.folder.path(), environment(&[("PATH", &path)])).with_commands(true);
    let clock = Instant::now();
    let checked = place.folder.check(&resolver, nexus_credentials::Observer::Daemon).await.unwrap();
    assert!(clock.elapsed() < Duration::from_secs(11), "{:?}", clock.elapsed());

    let shown: Vec<String> = checked
        .iter()
        .map(|one| {
            let problem = one.problem.as_deref().unwrap_or("fine");
            let root = place.temporary.path().display().to_string();
            format!("{}: {}", one.reference.account, problem.replace(&root, "…"))
        })
        .collect();
    insta::assert_snapshot!(shown.join("\n"), @r#"
    a-variable: variable NOT_SET_ANYWHERE is not set
    b-json: …/broken.json is not JSON
    c-empty: …/empty.json contains no secret at token
    d-missing: …/missing.json does not exist
    e-folder: / contains no secret
    f-hanging: hanging did not answer within 9 seconds
    g-failing: failing ended with exit code 3
    h-silent: silent printed no secret
    i-absent: program no-such-program-anywhere was not found
    j-locked: secret-tool did not answer within 9 seconds
    k-good: fine
    l-sealed: storage "sealed" is not supported
    "#);
    let listed = place.folder.list().unwrap();
    let broken = listed.iter().filter(|one| one.status == Status::Broken).count();
    assert_eq!(broken, 11);
    assert!(listed.iter().all(|one| one.last_error.is_none() || one.breakage == Some(Breakage::Pointer)));
    assert!(place.files().iter().all(|(_, text)| !text.contains("the-canary-value")));
}

#[tokio::test]
async fn a_pointer_that_works_again_is_mended() {
    let place = Place::empty();
    add(&place, "v", Storage::Env { var: "LATER_SET".into() });
    let without = Resolver::new(place.folder.path(), Vec::new());
    place.folder.check(&without, nexus_credentials::Observer::Daemon).await.unwrap();
    assert_eq!(place.folder.list().unwrap()[0].status, Status::Broken);
    let with = Resolver::new(place.folder.path(), environment(&[("LATER_SET", "now it is")]));
    place.folder.check(&with, nexus_credentials::Observer::Daemon).await.unwrap();
    assert_eq!(place.folder.list().unwrap()[0].status, Status::Ready);
}

#[tokio::test]
async fn a_strangers_workspace_runs_no_command() {
    let place = Place::empty();
    let mark = place.temporary.path().join("ran");
    let program = script(&place, "mark", &format!("touch {}; echo secret", mark.display()));
    add(&place, "c", command(&[&program]));
    let checked = place
        .folder
        .check(&Resolver::new(place.folder.path(), Vec::new()), nexus_credentials::Observer::Daemon)
        .await
        .unwrap();
    assert!(checked[0].problem.as_deref().unwrap().contains("not trusted"));
    assert!(!mark.exists());
}
