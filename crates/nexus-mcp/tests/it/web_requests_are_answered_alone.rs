//! Over HTTP each request stands alone and gets one JSON text.

use std::sync::Arc;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::{Request, StatusCode};
use serde_json::{Value, json};
use tower_service::Service as _;

use crate::source::{Three, initialize};

fn post(body: impl Into<Bytes>, headers: &[(&str, &str)]) -> (StatusCode, String, Value) {
    let mut request = Request::post("/mcp")
        .header("host", "localhost:1")
        .header("content-type", "application/json")
        .header("accept", "application/json, text/event-stream");
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let request = request.body(Full::new(body.into())).unwrap();
    tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(async {
        let response = nexus_mcp::endpoint(Arc::new(Three)).call(request).await.unwrap();
        let kind = response.headers().get("content-type");
        let kind = kind.map(|kind| kind.to_str().unwrap().to_owned()).unwrap_or_default();
        let status = response.status();
        let body = response.into_body().collect().await.unwrap().to_bytes();
        let text = String::from_utf8_lossy(&body).into_owned();
        (status, kind, serde_json::from_slice(&body).unwrap_or(Value::String(text)))
    })
}

#[test]
fn a_call_needs_no_session() {
    let (status, kind, hello) = post(initialize("2025-06-18").to_string(), &[]);
    assert_eq!((status, kind.as_str()), (StatusCode::OK, "application/json"));
    assert_eq!(hello["result"]["protocolVersion"], "2025-06-18");
    let call = json!({
        "jsonrpc": "2.0", "id": 1, "method": "tools/call",
        "params": { "name": "echo", "arguments": { "text": "alone" } },
    });
    for version in ["2025-03-26", "2025-06-18", "2025-11-25"] {
        let (status, kind, answer) = post(call.to_string(), &[("mcp-protocol-version", version)]);
        assert_eq!((status, kind.as_str()), (StatusCode::OK, "application/json"), "{answer}");
        assert_eq!(answer["result"]["content"][0]["text"], "alone", "{version}");
    }
    let (status, _, _) = post(call.to_string(), &[("mcp-protocol-version", "1999-01-01")]);
    assert_eq!(status, StatusCode::BAD_REQUEST);
    let notification = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
    assert_eq!(post(notification.to_string(), &[]).0, StatusCode::ACCEPTED);
}

#[test]
fn the_newest_version_is_spoken_without_a_handshake() {
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
        "io.modelcontextprotocol/clientInfo": { "name": "test", "version": "1" },
    });
    let call = json!({
        "jsonrpc": "2.0", "id": 1, "method": "tools/call",
        "params": { "name": "echo", "arguments": { "text": "new" }, "_meta": meta },
    });
    let headers =
        [("mcp-protocol-version", "2026-07-28"), ("mcp-method", "tools/call"), ("mcp-name", "echo")];
    let (status, kind, answer) = post(call.to_string(), &headers);
    assert_eq!((status, kind.as_str()), (StatusCode::OK, "application/json"), "{answer}");
    assert_eq!(answer["result"]["content"][0]["text"], "new");
    assert_eq!(answer["result"]["resultType"], "complete");
    let (status, _, answer) = post(call.to_string(), &headers[..1]);
    assert!(status.is_client_error(), "{answer}");
}

#[test]
fn what_is_no_request_is_refused() {
    assert!(post("{\"jsonrpc\":", &[]).0.is_client_error());
    assert!(post("[]", &[]).0.is_client_error());
    assert_eq!(post("x".repeat(13 * 1024 * 1024), &[]).0, StatusCode::PAYLOAD_TOO_LARGE);
}
