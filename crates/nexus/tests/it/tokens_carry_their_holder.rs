//! What the holder of a given-out token does stands under that holder's name, not the owner's.

use nexus_testkit::http::{self, Answer};
use nexus_testkit::{Daemon, DaemonOptions, Workspace};
use serde_json::{Value, json};

fn call_as(daemon: &Daemon, token: &str, method: &str, params: &Value) -> Answer {
    let body = json!({ "method": method, "params": params }).to_string();
    http::post(daemon.port(), "/api/call", Some(token), &body).unwrap()
}

fn token(daemon: &Daemon, scopes: &Value) -> String {
    let made = call_as(daemon, daemon.token(), "tokens.create", &json!({ "scopes": scopes })).json();
    made["token"].as_str().unwrap_or_else(|| panic!("{made}")).to_owned()
}

#[test]
fn s14_a_key_of_one_caller_makes_no_duplicate_of_another_s_message() {
    let workspace = Workspace::initialized(env!("CARGO_BIN_EXE_nexus"));
    let daemon = Daemon::start(&workspace, &DaemonOptions::default());
    let (one, two) = (token(&daemon, &json!(["control.chat.*"])), token(&daemon, &json!(["control.chat.*"])));
    let body = json!({ "message": "Hello", "idempotencyKey": "same" });
    let mut requests = Vec::new();
    for caller in [one.as_str(), two.as_str(), daemon.token()] {
        let first = call_as(&daemon, caller, "chat.send", &body).json();
        let again = call_as(&daemon, caller, "chat.send", &body).json();
        assert_eq!(
            (&first["duplicate"], &again["duplicate"]),
            (&json!(false), &json!(true)),
            "{first} {again}"
        );
        assert_eq!(first["requestId"], again["requestId"], "{first} {again}");
        requests.push(first["requestId"].to_string());
    }
    requests.sort();
    requests.dedup();
    assert_eq!(requests.len(), 3, "{requests:?}");
    // Another body under the same key is refused to whoever used it, and to nobody else.
    let other = json!({ "message": "Something else", "idempotencyKey": "mine" });
    assert_eq!(call_as(&daemon, &one, "chat.send", &other).status, 200);
    let hello = json!({ "message": "Hello", "idempotencyKey": "mine" });
    assert_eq!(call_as(&daemon, daemon.token(), "chat.send", &hello).status, 200);
    assert_eq!(call_as(&daemon, &one, "chat.send", &hello).status, 400);
}
