//! Whatever comes on a line, it is answered or passed over, and the next line is heard.

use serde_json::{Value, json};

use crate::source::{Client, initialize};

#[test]
fn tools_are_listed_with_schemas_and_hints_and_called() {
    let client = Client::new();
    let hello = client.ask(&initialize("2025-06-18"));
    assert_eq!(hello["result"]["instructions"], "Call echo.");
    assert_eq!(hello["result"]["serverInfo"]["name"], "nexus");
    let list = client.ask(&json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/list" }));
    let tools = &list["result"]["tools"];
    assert_eq!(tools.as_array().unwrap().len(), 3);
    assert_eq!(tools[0]["inputSchema"]["properties"]["text"]["type"], "string");
    assert_eq!(tools[0]["annotations"], json!({ "readOnlyHint": true, "openWorldHint": false }));
    assert_eq!(
        tools[1]["annotations"],
        json!({ "readOnlyHint": false, "destructiveHint": false, "idempotentHint": false, "openWorldHint": false })
    );
    let echoed = client.call(2, "echo", &json!({ "text": "ä\n" }));
    assert_eq!(echoed["result"]["content"], json!([{ "type": "text", "text": "ä\n" }]));
    assert_eq!(echoed["result"]["isError"], false);
    let failed = client.call(3, "fail", &json!({}));
    assert_eq!(failed["result"]["isError"], true);
    let unknown = client.call(4, "nothing", &json!({}));
    assert_eq!((&unknown["id"], &unknown["error"]["code"]), (&json!(4), &json!(-32602)));
    assert_eq!(client.leave(), Ok(()));
}

#[test]
fn damaged_lines_are_answered_and_the_conversation_goes_on() {
    let client = Client::initialized("2025-06-18");
    let code = |answer: &Value| answer["error"]["code"].as_i64().unwrap_or_else(|| panic!("{answer}"));
    client.say("{\"jsonrpc\":");
    assert_eq!(code(&client.hear()), -32700);
    client.say("[{}]");
    assert_eq!(code(&client.hear()), -32600);
    assert_eq!(code(&client.ask(&json!({ "id": 7, "method": "ping" }))), -32600);
    let wrong = json!({ "jsonrpc": "2.0", "id": 8, "method": "tools/call", "params": { "name": 5 } });
    let answer = client.ask(&wrong);
    assert_eq!(answer["id"], 8, "{answer}");
    assert!(matches!(code(&answer), -32602 | -32601), "{answer}");
    let strange = client.ask(&json!({ "jsonrpc": "2.0", "id": 9, "method": "no/such" }));
    assert_eq!(code(&strange), -32601);
    // Answers to nothing and empty lines are passed over in silence.
    client.say(r#"{"jsonrpc":"2.0","id":null,"error":{"code":1,"message":"x"}}"#);
    client.say("");
    assert_eq!(client.call(10, "echo", &json!({ "text": "on" }))["result"]["content"][0]["text"], "on");
    assert_eq!(client.leave(), Ok(()));
}

#[test]
fn ten_megabytes_pass_and_more_than_a_line_may_have_is_refused() {
    let client = Client::initialized("2025-06-18");
    let long = "x".repeat(10 * 1024 * 1024);
    let answer = client.call(1, "measure", &json!({ "text": long }));
    assert_eq!(answer["result"]["content"][0]["text"], long.len().to_string());
    client.say(&"y".repeat(nexus_mcp::MAX_LINE_LEN + 1));
    let refused = client.hear();
    assert_eq!(refused["error"]["code"], -32600);
    assert!(refused["error"]["message"].as_str().unwrap().contains("allowed"), "{refused}");
    assert_eq!(client.call(2, "echo", &json!({ "text": "on" }))["id"], 2);
    assert_eq!(client.leave(), Ok(()));
}

#[test]
fn what_comes_before_the_first_request_does_no_harm() {
    let client = Client::new();
    client.say(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
    client.say(r#"{"jsonrpc":"2.0","id":1,"result":{}}"#);
    client.say("nonsense");
    assert_eq!(client.hear()["error"]["code"], -32700);
    let early = client.ask(&json!({ "jsonrpc": "2.0", "id": 2, "method": "tools/list" }));
    assert_eq!(early["id"], 2);
    assert!(early["error"].is_object(), "{early}");
    assert!(client.ask(&initialize("2025-06-18"))["result"].is_object());
    assert_eq!(client.leave(), Ok(()));
    assert_eq!(Client::new().leave(), Ok(()), "leaving without a word is no fault");
}

#[test]
fn requests_in_another_form_are_told_from_unknown_ones() {
    let client = Client::initialized("2025-06-18");
    for params in [
        json!({ "name": "echo", "arguments": [] }),
        json!({ "name": "echo", "arguments": "x" }),
        json!({ "name": 5 }),
        json!({}),
    ] {
        let answer =
            client.ask(&json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params }));
        let message = answer["error"]["message"].as_str().unwrap();
        assert_eq!(answer["error"]["code"], -32602, "{answer}");
        assert!(message.starts_with("invalid parameters for tools/call: "), "{message}");
    }
    let unknown = client.ask(&json!({ "jsonrpc": "2.0", "id": 2, "method": "tools/nothing" }));
    assert_eq!((&unknown["id"], &unknown["error"]["code"]), (&json!(2), &json!(-32601)));
    assert_eq!(unknown["error"]["message"], "there is no method \"tools/nothing\"");
    assert_eq!(client.leave(), Ok(()));
}

#[test]
fn what_is_said_at_once_is_answered_in_turn() {
    let client = Client::initialized("2025-06-18");
    for id in 1..=50 {
        client.say(&json!({ "jsonrpc": "2.0", "id": id, "method": "ping" }).to_string());
        client.say(r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}"#);
    }
    for id in 1..=50 {
        assert_eq!(client.hear()["id"], id);
    }
    assert_eq!(client.leave(), Ok(()));
}

#[test]
fn a_defect_in_a_call_is_its_answer_and_the_next_call_is_heard() {
    let client = Client::initialized("2025-06-18");
    let failed = client.call(1, "fail", &json!({ "text": "badly" }));
    assert_eq!(failed["result"]["isError"], true, "{failed}");
    let echoed = client.call(2, "echo", &json!({ "text": "still here" }));
    assert_eq!(echoed["result"]["content"][0]["text"], "still here");
    assert_eq!(client.leave(), Ok(()));
}

#[test]
fn nobody_is_waited_for_who_does_not_listen() {
    let client = Client::initialized("2025-06-18");
    let ended = client.turn_away(r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#);
    assert_eq!(ended, Ok(()));
}
