//! A token that may change the configuration does not become the owner by it, and every token that was given out ends
//! with the owner's token it was given out under, whichever way that was replaced.

use std::time::Duration;

use nexus_testkit::http::{self, Answer};
use nexus_testkit::{Daemon, DaemonOptions, Workspace, until};
use rustix::process::Signal;
use serde_json::{Value, json};

const WITHIN: Duration = Duration::from_secs(20);

fn running() -> (Workspace, Daemon) {
    let workspace = Workspace::initialized(env!("CARGO_BIN_EXE_nexus"));
    let daemon = Daemon::start(&workspace, &DaemonOptions::default());
    (workspace, daemon)
}

fn call(port: u16, token: &str, method: &str, params: &Value) -> Answer {
    let body = json!({ "method": method, "params": params }).to_string();
    http::post(port, "/api/call", Some(token), &body).unwrap()
}

fn token(daemon: &Daemon, scopes: &[&str]) -> String {
    let made = call(daemon.port(), daemon.token(), "tokens.create", &json!({ "scopes": scopes })).json();
    made["token"].as_str().unwrap_or_else(|| panic!("{made}")).to_owned()
}

fn opens(port: u16, token: &str) -> bool {
    match http::get(port, "/api/sessions", Some(token)).unwrap().status {
        200 => true,
        401 => false,
        other => panic!("status {other}"),
    }
}

/// Puts a token of our choice into the file, as a person with an editor would.
fn write_token(workspace: &Workspace, token: &str) {
    let mut config: Value = serde_json::from_str(&workspace.file("state/config.json")).unwrap();
    config["runtime"]["auth"]["token"] = json!(token);
    workspace.write("state/config.json", &config.to_string());
}

#[test]
fn s6_a_config_admin_changes_nothing_that_makes_an_owner() {
    let (workspace, daemon) = running();
    let mine = "m".repeat(48);
    let auth = json!({ "mode": "token", "token": mine });
    let runtime = json!({ "auth": auth, "port": 18_789 });
    let server = json!({ "x": { "command": "/bin/sh", "args": ["-c", "true"] } });
    let policy = json!([{ "name": "all", "effect": "allow", "match": {} }]);
    let tries = [
        ("runtime.auth", auth.clone()),
        ("runtime", runtime.clone()),
        ("runtime.auth.token", json!(mine)),
        ("runtime.auth.token.x", json!(1)),
        ("", json!({ "runtime": runtime })),
        (".", json!({ "runtime": runtime })),
        ("runtime.", runtime.clone()),
        (".runtime", runtime),
        ("runtime..auth", auth.clone()),
        ("Runtime.Auth", auth.clone()),
        ("\"runtime\".\"auth\"", auth.clone()),
        ("runtime[auth]", auth.clone()),
        ("runtime/auth", auth.clone()),
        ("runtime\\.auth", auth.clone()),
        ("runtime.auth\u{200b}", auth.clone()),
        ("runtime.port", json!(1)),
        ("runtime.credentials.level", json!(0)),
        ("providers", json!({ "anthropic": { "base_url": "http://127.0.0.1:1" } })),
        ("providers.anthropic", json!({ "base_url": "http://127.0.0.1:1" })),
        ("providers.anthropic.base_url", json!("http://127.0.0.1:1")),
        ("providers.anthropic.headers", json!({ "x": "y" })),
        ("mcp", server.clone()),
        ("mcp.x", server["x"].clone()),
        ("adapters", server),
        ("acl.policies", policy),
        ("acl", json!({ "unknown_sender_policy": "ask" })),
        ("tools", json!({ "bash": { "network": "allow" } })),
        ("tools.bash.network", json!("allow")),
        ("tools.web.allow", json!(["http://127.0.0.1:1"])),
        ("project.catalog", json!("/tmp")),
        ("agent.provider", json!("anthropic")),
        ("agent.model", json!("openai/gpt-5-mini")),
        ("models.local.ports", json!(["1"])),
        ("hooks.x", json!(1)),
    ];
    let before = workspace.file("state/config.json");
    for scopes in [&["control.config.admin"][..], &["control.config.*"], &["control.*.*"]] {
        let admin = token(&daemon, scopes);
        for (key, value) in &tries {
            let set = call(daemon.port(), &admin, "config.set", &json!({ "key": key, "value": value }));
            assert_eq!(set.status, 403, "{scopes:?} {key:?}: {}", set.body);
            let gone = call(daemon.port(), &admin, "config.set", &json!({ "key": key, "value": null }));
            assert_eq!(gone.status, 403, "{scopes:?} {key:?} taken away: {}", gone.body);
            let values = json!({ "values": { "queue.cap": 7, *key: value } });
            let patch = call(daemon.port(), &admin, "config.patch", &values);
            assert_eq!(patch.status, 403, "{scopes:?} {key:?}: {}", patch.body);
        }
        assert_eq!(workspace.file("state/config.json"), before);
        assert!(!opens(daemon.port(), &mine) && opens(daemon.port(), daemon.token()));
    }
    // What it is for still works, and the refusals are on record.
    let admin = token(&daemon, &["control.config.admin"]);
    for (key, value) in [("queue.cap", json!(9)), ("queue", json!({ "cap": 8 })), ("models.table", json!({}))]
    {
        let set = call(daemon.port(), &admin, "config.set", &json!({ "key": key, "value": value }));
        assert_eq!(set.status, 200, "{key}: {}", set.body);
    }
    assert_eq!(call(daemon.port(), &admin, "config.reload", &json!({})).status, 200);
    // Not even the owner puts a token there by way of a section, and they may change the rest.
    let owner = |key: &str, value: &Value| {
        call(daemon.port(), daemon.token(), "config.set", &json!({ "key": key, "value": value }))
    };
    let by_hand = owner("runtime.auth", &auth);
    assert!(by_hand.status == 400 && by_hand.body.contains("cannot be set by hand"), "{}", by_hand.body);
    assert_eq!(owner("tools.bash.network", &json!("ask")).status, 200);
    let command = workspace.nexus(&["config", "set", "runtime.auth", &auth.to_string()]);
    assert_eq!(command.code(), Some(1), "{command:?}");
}

#[test]
fn s6_every_way_to_replace_the_owner_s_token_ends_the_others() {
    let (workspace, mut daemon) = running();
    let first = workspace.token();
    let ways = [
        "rotated over the wire",
        "edited and reloaded over the wire",
        "edited and SIGHUP",
        "edited while down",
        "rotated while down",
        "the first one again",
    ];
    for (number, way) in ways.into_iter().enumerate() {
        let given = token(&daemon, &["control.*.read"]);
        let admin = token(&daemon, &["control.config.admin"]);
        assert!(opens(daemon.port(), &given), "{way}");
        let own = format!("{number}").repeat(40);
        match number {
            0 => workspace.nexus(&["config", "rotate-token"]).ok().stdout.clear(),
            1 => {
                write_token(&workspace, &own);
                assert_eq!(call(daemon.port(), &admin, "config.reload", &json!({})).status, 200);
            }
            2 => {
                write_token(&workspace, &own);
                daemon.signal(Signal::HUP);
                until("the new token to count", WITHIN, || opens(daemon.port(), &own).then_some(()));
            }
            _ => {
                daemon.stop();
                match number {
                    3 => write_token(&workspace, &own),
                    4 => workspace.nexus(&["config", "rotate-token"]).ok().stdout.clear(),
                    _ => write_token(&workspace, &first),
                }
                daemon = Daemon::start(&workspace, &DaemonOptions::default());
            }
        }
        for token in [&given, &admin] {
            assert!(!opens(daemon.port(), token), "{way}: a token given out before still opens");
        }
        daemon.stop();
        daemon = Daemon::start(&workspace, &DaemonOptions::default());
        assert!(
            !opens(daemon.port(), &given) && opens(daemon.port(), daemon.token()),
            "{way}: after a start"
        );
        let listed = call(daemon.port(), daemon.token(), "tokens.list", &json!({})).json();
        let is_live = |row: &&Value| row["revokedAt"].is_null();
        assert_eq!(listed["tokens"].as_array().unwrap().iter().filter(is_live).count(), 0, "{way}: {listed}");
    }
}

#[test]
fn s6_a_start_with_the_same_token_ends_nothing() {
    let (workspace, daemon) = running();
    let given = token(&daemon, &["control.*.read"]);
    daemon.stop();
    let daemon = Daemon::start(&workspace, &DaemonOptions::default());
    workspace.nexus(&["config", "reload"]).ok();
    assert!(opens(daemon.port(), &given));
}

#[test]
fn s6_the_documents_name_exactly_what_a_config_admin_changes() {
    let text = include_str!("../../../../docs/security.md");
    let row = text.lines().find(|line| line.starts_with("| `runtime.handshake_ms`")).unwrap();
    let named: Vec<&str> = row.split('|').nth(1).unwrap().split('`').skip(1).step_by(2).collect();
    let is_named = |key: &str| {
        named.iter().any(|name| match name.strip_suffix('*') {
            Some(section) => key.starts_with(section),
            None => key == *name,
        })
    };
    for key in nexus_workspace::config::known_keys() {
        assert_eq!(is_named(key), !nexus_workspace::config::is_owner_only(key), "{key}");
    }
}
