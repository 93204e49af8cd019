//! Every dated version of the protocol, with and without the handshake.

use serde_json::{Value, json};

use crate::source::{Client, initialize};

const WITH_HANDSHAKE: [&str; 4] = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"];

#[test]
fn a_client_gets_the_version_it_asks_for() {
    for version in WITH_HANDSHAKE {
        let client = Client::new();
        let hello = client.ask(&initialize(version));
        assert_eq!(hello["result"]["protocolVersion"], version);
        assert!(client.call(1, "echo", &json!({ "text": version }))["result"]["resultType"].is_null());
        assert_eq!(client.leave(), Ok(()));
    }
}

#[test]
fn a_client_of_an_unknown_version_is_offered_the_newest_with_a_handshake() {
    for version in ["1999-01-01", "2026-07-28", "2099-01-01"] {
        let client = Client::new();
        assert_eq!(client.ask(&initialize(version))["result"]["protocolVersion"], "2025-11-25", "{version}");
        assert_eq!(client.leave(), Ok(()));
    }
}

fn inline(id: u64, method: &str, mut params: Value, version: &str) -> Value {
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": version,
        "io.modelcontextprotocol/clientCapabilities": {},
        "io.modelcontextprotocol/clientInfo": { "name": "test", "version": "1" },
    });
    json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })
}

#[test]
fn the_newest_version_needs_no_handshake() {
    let client = Client::new();
    let found = client.ask(&inline(1, "server/discover", json!({}), "2026-07-28"));
    let versions = found["result"]["supportedVersions"].as_array().unwrap_or_else(|| panic!("{found}"));
    let mut expected: Vec<&str> = WITH_HANDSHAKE.to_vec();
    expected.push("2026-07-28");
    assert_eq!(versions.iter().map(|version| version.as_str().unwrap()).collect::<Vec<_>>(), expected);
    let list = client.ask(&inline(2, "tools/list", json!({}), "2026-07-28"));
    assert_eq!(list["result"]["tools"].as_array().unwrap().len(), 3, "{list}");
    let call = json!({ "name": "echo", "arguments": { "text": "new" } });
    let called = client.ask(&inline(3, "tools/call", call, "2026-07-28"));
    assert_eq!(called["result"]["content"][0]["text"], "new");
    assert_eq!(called["result"]["resultType"], "complete");
    let unknown = client.ask(&inline(4, "tools/list", json!({}), "2099-01-01"));
    assert!(unknown["error"].is_object(), "{unknown}");
    assert_eq!(client.leave(), Ok(()));
}
