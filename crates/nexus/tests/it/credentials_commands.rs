//! `nexus credential` end to end, with a provider on loopback.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::time::Duration;

use nexus_testkit::{Daemon, DaemonOptions, Run, Workspace, until};

fn workspace() -> Workspace {
    Workspace::initialized(env!("CARGO_BIN_EXE_nexus"))
}

/// A provider that knows one key and refuses one login; answers until the test ends.
fn provider(good: &'static str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let base = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            let mut head = vec![0; 8192];
            let length = stream.read(&mut head).unwrap_or(0);
            let head = String::from_utf8_lossy(&head[..length]).into_owned();
            let (status, body) = if head.contains("anthropic-beta") {
                (
                    400,
                    "{\"error\":{\"message\":\"This credential is only authorized for use with that tool\"}}",
                )
            } else if head.contains(good) {
                (200, "{\"data\":[]}")
            } else {
                (401, "{\"error\":{\"message\":\"invalid key\"}}")
            };
            let answer = format!(
                "HTTP/1.1 {status} X\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
                body.len()
            );
            let _ = stream.write_all(answer.as_bytes());
        }
    });
    base
}

fn add(workspace: &Workspace, service: &str, account: &str, secret: &str) {
    let run = Run::new(&["credential", "add", service, "--account", account]).input(secret);
    workspace.run(&run).ok();
}

fn outcomes(workspace: &Workspace, name: &str) -> Vec<(String, String)> {
    let finished = workspace.nexus(&["credential", "verify", name, "--json"]);
    let report: serde_json::Value = serde_json::from_str(&finished.stdout).expect("JSON");
    report["credentials"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| {
            (one["reference"].as_str().unwrap().to_owned(), one["outcome"].as_str().unwrap().to_owned())
        })
        .collect()
}

#[test]
fn verify_asks_the_configured_provider_and_remembers() {
    let mut workspace = workspace();
    let base = provider("the-good-key");
    workspace.set_variable("OPENAI_BASE_URL", format!("{base}/v1"));
    add(&workspace, "openai", "good", "the-good-key");
    add(&workspace, "openai", "bad", "another-key");
    let expected = [("openai/bad/api_key", "refused"), ("openai/good/api_key", "works")];
    let found = outcomes(&workspace, "openai");
    let found: Vec<(&str, &str)> = found.iter().map(|(one, other)| (one.as_str(), other.as_str())).collect();
    assert_eq!(found, expected);
    let order = workspace.nexus(&["credential", "order", "openai", "--json"]).json();
    assert_eq!(order["order"], serde_json::json!(["good"]), "a broken one is not tried");
    let listed = workspace.nexus(&["credential", "list", "--json"]).json();
    assert_eq!(listed["credentials"][0]["status"], "broken");
    assert_eq!(listed["credentials"][0]["breakage"], "refused");

    workspace.nexus(&["credential", "flag", "openai/bad"]).ok();
    workspace.nexus(&["credential", "order", "openai", "bad", "good"]).ok();
    let order = workspace.nexus(&["credential", "order", "openai", "--json"]).json();
    assert_eq!(order["order"], serde_json::json!(["bad", "good"]));
    workspace.nexus(&["credential", "remove", "openai/bad"]).ok();
    assert_eq!(workspace.nexus(&["credential", "remove", "openai/bad"]).code(), Some(3));
}

#[test]
fn a_login_kept_to_its_own_tool_is_marked_so() {
    let mut workspace = workspace();
    workspace.set_variable("ANTHROPIC_BASE_URL", provider("x"));
    let login = workspace.home().join(".claude/.credentials.json");
    std::fs::create_dir_all(login.parent().unwrap()).unwrap();
    let text = b"{\"claudeAiOauth\":{\"accessToken\":\"a-login\"}}";
    nexus_base::file::replace(&login, text, 0o600, nexus_base::file::Durability::Crash).unwrap();
    let synced = workspace.nexus(&["credential", "sync", "--json"]).json();
    assert_eq!(synced["added"], serde_json::json!(["anthropic/claude-cli"]));
    assert_eq!(
        outcomes(&workspace, "anthropic"),
        [("anthropic/claude-cli/claude-cli".to_owned(), "third_party".to_owned())]
    );
    let listed = workspace.nexus(&["credential", "list", "--json"]).json();
    assert_eq!(listed["credentials"][0]["breakage"], "third_party");
}

#[test]
fn secrets_come_in_unseen_and_go_out_only_when_asked() {
    let workspace = workspace();
    add(&workspace, "github", "me", "a-token-of-mine\n");
    let hidden = workspace.nexus(&["credential", "get", "github/me"]);
    assert_eq!(hidden.code(), Some(2), "{hidden:?}");
    assert!(!format!("{hidden:?}").contains("a-token-of-mine"));
    let shown = workspace.nexus(&["credential", "get", "github/me", "--raw"]).ok();
    assert_eq!(shown.stdout, "a-token-of-mine\n");
    let first = workspace.nexus(&["credential", "add", "gitlab", "--env", "GITLAB_TOKEN"]).ok().stdout;
    let second = workspace.nexus(&["credential", "add", "gitlab", "--env", "OTHER_TOKEN"]).ok().stdout;
    assert!(first.starts_with("added gitlab/") && second.starts_with("replaced gitlab/"), "{first}{second}");
    let gone = workspace.nexus(&["credential", "remove", "gitlab"]).ok();
    assert!(gone.stderr.contains("while OTHER_TOKEN is set"), "{gone:?}");
    let empty = workspace.nexus(&["credential", "add", "github"]);
    assert_eq!(empty.code(), Some(1), "{empty:?}");
    assert!(empty.stderr.contains("empty"));
    let help = workspace.nexus(&["credential", "add", "--help"]).ok().stdout;
    assert!(!help.contains("--secret") && !help.contains("--value"), "{help}");
}

#[test]
fn a_copied_workspace_runs_no_command_of_its_own() {
    let workspace = workspace();
    let mark = workspace.home().join("ran");
    let command = format!("touch {}", mark.display());
    workspace.nexus(&["credential", "add", "x", "--command", &command]).ok();
    workspace.nexus(&["trust", "--revoke"]).ok();
    for arguments in [&["credential", "verify", "x"][..], &["credential", "get", "x", "--raw"], &["doctor"]] {
        let finished = workspace.nexus(arguments);
        assert!(format!("{finished:?}").contains("not trusted"), "{finished:?}");
    }
    assert!(!mark.exists());
}

#[test]
fn a_bad_pointer_is_marked_after_a_start_and_stops_nothing() {
    let workspace = workspace();
    workspace.nexus(&["credential", "add", "openai", "--env", "NOT_SET_ANYWHERE"]).ok();
    workspace.nexus(&["credential", "add", "slow", "--command", "sleep 60"]).ok();
    let daemon = Daemon::start(&workspace, &DaemonOptions::default());
    let listed = until("both are broken", Duration::from_secs(15), || {
        let listed = workspace.nexus(&["credential", "list", "--json"]).json();
        let all = listed["credentials"].as_array().unwrap().clone();
        all.iter().all(|one| one["status"] == "broken").then_some(all)
    });
    assert_eq!(listed[0]["lastError"], "variable NOT_SET_ANYWHERE is not set");
    assert_eq!(listed[1]["lastError"], "sleep did not answer within 9 seconds");
    assert_eq!(daemon.get("/health").status, 200);
}
