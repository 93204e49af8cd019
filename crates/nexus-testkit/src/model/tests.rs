//! The server itself: both formats from one script, holds, cuts and refusals.

use serde_json::json;

use super::*;
use crate::http;

fn post(server: &ModelServer, path: &str) -> http::Answer {
    let body = json!({"model": "m", "stream": true, "stream_options": {"include_usage": true},
        "messages": [{"role": "user", "content": "hello"}]});
    http::post(server.port(), path, None, &body.to_string()).expect("an answer")
}

#[test]
fn one_script_speaks_both_formats() {
    let server = ModelServer::start();
    for _ in Wire::BOTH {
        server.script([Reply::text("héllo")
            .call("bash", &json!({"command": "ls"}))
            .pieces(2)
            .bytes_at_once(1)]);
    }
    let anthropic = post(&server, "/v1/messages").body;
    assert!(anthropic.contains(r#""partial_json":"{\"comman"#), "{anthropic}");
    assert!(
        anthropic.contains(r#""text":"hél""#) && anthropic.contains("event: message_stop"),
        "{anthropic}"
    );
    let openai = post(&server, "/v1/chat/completions").body;
    assert!(openai.contains(r#""content":"hél""#) && openai.ends_with("data: [DONE]\n\n"), "{openai}");
    let asked = server.asked();
    assert_eq!(asked.iter().map(|one| one.wire).collect::<Vec<_>>(), Wire::BOTH.map(Some));
    assert_eq!((asked[0].model(), asked[1].last_text().as_str()), ("m", "hello"));
}

#[test]
fn trouble_comes_as_scripted() {
    let server = ModelServer::start();
    server.script([Reply::status(429, "slow").header("retry-after", "7"), Reply::text("gone").cut_after(2)]);
    server.answer(|asked| asked.contains("nobody says this").then(|| Reply::text("never")));
    let refused = post(&server, "/v1/messages");
    assert_eq!((refused.status, refused.header("retry-after")), (429, Some("7")));
    assert_eq!(refused.json()["error"]["type"], "rate_limit_error");
    let cut = post(&server, "/v1/messages").body;
    assert!(cut.contains("content_block_start") && !cut.contains("message_stop"), "{cut}");
    assert_eq!(post(&server, "/v1/messages").status, 400);
    let list = http::get(server.port(), "/v1/models", None).expect("an answer").json();
    assert_eq!(list["data"][0]["id"], MODEL);
}

#[test]
fn a_gate_holds_and_a_hangup_is_seen() {
    let server = ModelServer::start();
    let gate = Gate::new();
    server.script([Reply::text("held").hold_after(1, &gate)]);
    let bytes = http::request("POST", server.port(), "/v1/messages", None, "{}");
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, server.port())).expect("it listens");
    std::io::Write::write_all(&mut stream, &bytes).expect("it reads");
    gate.wait_reached();
    assert!(!server.asked()[0].hung_up());
    drop(stream);
    server.wait_for_hangup(0);
}
