//! Budgets hold against a model that sends workers off without end, and against a provider that counts nothing.

use nexus_testkit::model::{ModelServer, Reply, Tokens};
use nexus_testkit::{Daemon, DaemonOptions};
use serde_json::{Value, json};

use crate::scripted::{self, Scripted};

#[test]
fn s16_one_message_leads_to_a_bounded_number_of_workers() {
    let scripted = Scripted::start(|workspace| {
        workspace.edit_config(|config| config["budgets"] = json!({ "workers_per_request": 3 }));
    });
    let dispatch = |number: usize| json!(["agent_send", {"op": "dispatch", "text": format!("job {number}")}]);
    let done = scripted.manage(&Value::Array((0..5).map(dispatch).collect()));
    let sent = done.results.iter().filter(|result| result.contains("spawned_session_label")).count();
    assert_eq!(sent, 3, "{done:#?}");
    for refused in &done.results[3..] {
        assert!(refused.contains("not dispatched: this request has used its 3 workers"), "{done:#?}");
    }
    // The next message has its own.
    let done = scripted.manage(&json!([dispatch(6)]));
    assert!(done.results[0].contains("spawned_session_label"), "{done:#?}");
}

#[test]
fn s16_a_provider_that_counts_nothing_or_nonsense_does_not_lift_the_budget() {
    let none = Tokens { input: 0, output: 0, cache_read: 0, cache_write: 0 };
    let one = Tokens { input: 1, output: 1, ..none };
    let absurd = Tokens { input: u64::MAX, output: u64::MAX, cache_read: u64::MAX, cache_write: 0 };
    for (tokens, stops_early) in [(none, true), (one, true), (absurd, false)] {
        let server = ModelServer::start();
        server.answer(move |asked| {
            // Never the same call twice, so that only tokens can end it.
            let arguments = json!({ "query": format!("number {}", asked.messages().len()) });
            let reply = if asked.messages().len() < 8 || stops_early {
                Reply::calls("recall", &arguments)
            } else {
                Reply::text("Done.")
            };
            Some(reply.tokens(tokens))
        });
        let workspace = scripted::workspace(&server);
        workspace.edit_config(|config| config["budgets"] = json!({ "tokens_per_turn": 40_000 }));
        let daemon = Daemon::start(&workspace, &DaemonOptions::default());
        let accepted = daemon.post("/api/chat", &json!({ "message": "Go on for ever." })).json();
        let request = accepted["requestId"].as_str().unwrap_or_else(|| panic!("{accepted}"));
        let waited = daemon.get(&format!("/api/chat/wait?request={request}&timeoutMs=60000")).json();
        assert_eq!(waited["quiescent"], true, "{waited}");
        let said = waited["replies"].to_string();
        assert_eq!(said.contains("this turn used up its 40000 tokens"), stops_early, "{said}");
        assert!(server.asked().len() < 40, "it ended by tokens, not by steps: {}", server.asked().len());
    }
}
