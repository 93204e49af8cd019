//! `nexus credential scan`, shallow and deep, and the import after it.

use nexus_credentials::{Depth, scan};

use crate::support::{Place, environment};

#[test]
fn known_variables_are_found_and_masked() {
    let found = scan(
        &environment(&[
            ("GITHUB_TOKEN", "abcdefghijklmnopqrst"),
            ("ANTHROPIC_API_KEY", "0123456789abcdefghij"),
            ("BRAVE_SEARCH_API_KEY", "short"),
            ("OPENAI_API_KEY", "   "),
            ("HOME", "/home/ada"),
            ("MY_API_KEY", "0123456789abcdefghij"),
        ]),
        Depth::Known,
    );
    insta::assert_json_snapshot!(found, @r#"
    {
      "findings": [
        {
          "variable": "ANTHROPIC_API_KEY",
          "service": "anthropic",
          "kind": "api_key",
          "masked": "…ghij",
          "known": true,
          "imported": false
        },
        {
          "variable": "BRAVE_SEARCH_API_KEY",
          "service": "brave-search",
          "kind": "api_key",
          "masked": "…",
          "known": true,
          "imported": false
        },
        {
          "variable": "GITHUB_TOKEN",
          "service": "github",
          "kind": "token",
          "masked": "…qrst",
          "known": true,
          "imported": false
        }
      ],
      "imported": []
    }
    "#);
}

#[test]
fn a_deep_scan_goes_by_names_and_looks() {
    let tail = "a1".repeat(12);
    let values = [
        ("WORK_KEY", format!("sk-ant-{tail}")),
        ("SOME_SETTING", format!("ghp_{tail}")),
        ("TEAM_SLACK_TOKEN", "0123456789abcdef".into()),
        ("MYSTERY_API_KEY", "0123456789-abcdef".into()),
        ("MYSTERY_SECRET", "Z9".repeat(20)),
        ("GIT_COMMIT", "0a".repeat(20)),
        ("GIT_AUTHOR_NAME", "Ada Lovelace".into()),
        ("SSH_AUTH_SOCK", "/run/user/1000/agent".into()),
        ("DB_PASSWORD", "hunter2".into()),
        ("AUTH_URL", "https://login.example.com".into()),
        ("NEXUS_KEY_FILE_TOKEN", "0123456789abcdef".into()),
    ];
    let values: Vec<(String, String)> =
        values.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
    let found = scan(&values, Depth::Deep);
    let lines: Vec<String> = found
        .findings
        .iter()
        .map(|one| format!("{} {} {:?} {}", one.variable, one.service, one.kind, one.known))
        .collect();
    insta::assert_snapshot!(lines.join("\n"), @r#"
    MYSTERY_API_KEY unknown ApiKey false
    MYSTERY_SECRET unknown Other("unknown") false
    SOME_SETTING github Token true
    TEAM_SLACK_TOKEN slack Token true
    WORK_KEY anthropic ApiKey true
    "#);
    assert!(!serde_json::to_string(&found).unwrap().contains(&tail));
}

#[test]
fn an_import_adds_pointers_once() {
    let place = Place::empty();
    assert!(place.folder.is_empty().unwrap());
    let set = environment(&[("GITHUB_TOKEN", "abcdefghijklmnopqrst"), ("X_SECRET", "abcdefghijkl")]);
    let mut found = scan(&set, Depth::Deep);
    place.folder.import(&mut found).unwrap();
    assert_eq!(found.imported, ["github/env:GITHUB_TOKEN"]);
    assert_eq!(found.findings.iter().map(|one| one.imported).collect::<Vec<_>>(), [true, false]);
    let before = place.files();
    assert_eq!(
        before.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(),
        ["github/env%3AGITHUB_TOKEN.json", "index.json"]
    );
    let mut again = scan(&set, Depth::Deep);
    place.folder.import(&mut again).unwrap();
    assert_eq!(again.imported, Vec::<String>::new());
    assert_eq!(again.findings, found.findings);
    assert_eq!(place.files(), before);
    insta::assert_json_snapshot!(place.folder.list().unwrap(), @r#"
    [
      {
        "reference": "github/env:GITHUB_TOKEN/token",
        "service": "github",
        "account": "env:GITHUB_TOKEN",
        "kind": "token",
        "storage": "variable GITHUB_TOKEN",
        "status": "ready"
      }
    ]
    "#);
}
