//! What a model is sent, through the real program: small, the same bytes from turn to turn, recorded part
//! by part; summed up when it no longer fits, paid for, and taken back.

use std::time::Duration;

use nexus_testkit::model::{Asked, ModelServer, Reply, Tokens, Wire};
use nexus_testkit::witness::onboard;
use nexus_testkit::{Daemon, DaemonOptions, Workspace, until};
use serde_json::{Value, json};

const BINARY: &str = env!("CARGO_BIN_EXE_nexus");

/// A workspace that the guide has onboarded and that talks to `server` from now on.
fn onboarded(server: &ModelServer, wire: Wire) -> Workspace {
    let mut workspace = Workspace::initialized(BINARY);
    let daemon = Daemon::start(&workspace, &DaemonOptions::default());
    let tokio = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    tokio.block_on(onboard(&daemon.client())).unwrap();
    daemon.stop();
    server.configure(&mut workspace, wire);
    workspace
}

fn say(daemon: &Daemon, message: &str, session: &str) -> (String, Vec<String>) {
    let body = json!({ "message": message, "session": session, "queueMode": "followup" });
    let accepted = daemon.post("/api/chat", &body).json();
    let request = accepted["requestId"].as_str().unwrap_or_else(|| panic!("{accepted}")).to_owned();
    let waited = daemon.get(&format!("/api/chat/wait?request={request}&timeoutMs=60000")).json();
    assert_eq!(waited["quiescent"], true, "{waited}\n{}", daemon.log());
    let replies = waited["replies"].as_array().cloned().unwrap_or_default();
    let texts = replies.iter().map(|line| line["text"].as_str().unwrap_or_default().to_owned()).collect();
    (request, texts)
}

/// A message without the marks that tell a provider what to keep.
fn without_cache_marks(value: &Value) -> Value {
    match value {
        Value::Object(fields) => fields
            .iter()
            .filter(|(name, _)| *name != "cache_control")
            .map(|(name, value)| (name.clone(), without_cache_marks(value)))
            .collect(),
        Value::Array(items) => items.iter().map(without_cache_marks).collect(),
        other => other.clone(),
    }
}

fn messages(asked: &Asked) -> Vec<Value> {
    asked.messages().iter().map(without_cache_marks).collect()
}

#[test]
fn a_request_is_small_and_its_beginning_stays_the_same_byte_for_byte() {
    for wire in Wire::BOTH {
        let server = ModelServer::start();
        server.otherwise(Reply::text("Hello yourself.").tokens(Tokens {
            input: 900,
            output: 20,
            cache_read: 0,
            cache_write: 0,
        }));
        let workspace = onboarded(&server, wire);
        let daemon = Daemon::start(&workspace, &DaemonOptions::default());
        let (hello, replies) = say(&daemon, "hello", "chat:one");
        assert_eq!(replies, ["Hello yourself."], "{}", daemon.log());
        for words in ["Which colours does the sea have?", "thanks"] {
            say(&daemon, words, "chat:one");
        }
        let asked = server.asked();
        assert_eq!(asked.len(), 3);
        assert!(asked[0].bytes.len() <= 12_000, "{} bytes in {wire:?}", asked[0].bytes.len());
        for pair in asked.windows(2) {
            assert_eq!(pair[0].system(), pair[1].system());
            assert_eq!(pair[0].body["tools"].to_string(), pair[1].body["tools"].to_string());
            let (before, after) = (messages(&pair[0]), messages(&pair[1]));
            assert_eq!(before[..], after[..before.len()], "{wire:?}");
        }
        let last = asked[0].last_text();
        for fact in ["time: 20", "zone: ", "platform: control-plane", "sender: owner", "model: "] {
            assert!(last.contains(fact), "{fact} in {last}");
        }
        assert!(!asked[0].system().contains("## Onboarding"));
        // Every part with its size, as a table and as JSON.
        let view = workspace.nexus(&["trace", "--prompt", &hello, "--json"]).json();
        let size = |section: &str, name: &str| {
            let parts = view["parts"].as_array().unwrap().iter();
            parts
                .filter(|part| part["section"] == section && (name.is_empty() || part["name"] == name))
                .map(|part| part["bytes"].as_u64().unwrap())
                .sum::<u64>()
        };
        assert!(size("tools", "") <= 3_000, "{view}");
        assert!(size("system", "AGENTS.md") <= 3_200, "{view}");
        assert!(size("system", "rules") <= 1_800, "{view}");
        let persona =
            size("system", "Agent Identity") + size("system", "Agent Soul") + size("system", "User Identity");
        assert!((200..=2_600).contains(&persona), "{view}");
        assert!(size("message", "") <= 800, "{view}");
        let table = workspace.nexus(&["trace", "--prompt", &hello]).ok().stdout;
        for word in ["SECTION", "AGENTS.md", "Agent Soul", "words", "total"] {
            assert!(table.contains(word), "{word} in {table}");
        }
        assert_eq!(workspace.nexus(&["trace", "--prompt", "nothing"]).code(), Some(3));
        // And every word of it, but for secrets.
        let full = workspace.nexus(&["trace", "--prompt", "--full", &hello]).ok().stdout;
        for word in ["system · AGENTS.md", "tools · agent_send", "platform: control-plane", "message · words"]
        {
            assert!(full.contains(word), "{word} in {full}");
        }
        let view = workspace.nexus(&["trace", "--prompt", "--full", &hello, "--json"]).json();
        let parts = view["parts"].as_array().unwrap();
        let texts = parts.iter().filter(|part| part["section"] == "system").map(|part| part["text"].as_str());
        assert_eq!(texts.collect::<Option<String>>().as_deref(), Some(asked[0].system().as_str()));
        assert!(parts.iter().any(|part| part["name"] == "words" && part["text"] == "hello"), "{view}");
        let key = format!("sk-ant-{}", "a1b2".repeat(8));
        let rules = workspace.file("AGENTS.md");
        workspace.write("AGENTS.md", &format!("{rules}\nThe key is {key}.\n"));
        let (told, _) = say(&daemon, "and now?", "chat:one");
        let full = workspace.nexus(&["trace", "--prompt", "--full", &told]).ok().stdout;
        assert!(full.contains("The key is [redacted") && !full.contains(&key), "{full}");
        daemon.stop();
        let stored = std::fs::read(workspace.path("state/data/agents.db")).unwrap();
        assert!(!stored.windows(key.len()).any(|window| window == key.as_bytes()));
    }
}

#[test]
fn what_was_learnt_is_told_when_it_matters_and_the_record_says_so() {
    let server = ModelServer::start();
    server.otherwise(Reply::text("With Grace."));
    let workspace = onboarded(&server, Wire::OpenAi);
    workspace.nexus(&["memory", "add", "The spare key is with Grace"]).ok();
    let daemon = Daemon::start(&workspace, &DaemonOptions::default());
    let (request, _) = say(&daemon, "Where is the spare key?", "chat:keys");
    let asked = server.asked();
    assert!(asked[0].last_text().contains("<memory_context>"), "{}", asked[0].last_text());
    let view = workspace.nexus(&["trace", "--prompt", &request, "--json"]).json();
    assert!(view["memory"][0]["text"].as_str().unwrap().contains("with Grace"), "{view}");
    assert!(view["memory"][0]["score"].as_f64().unwrap() >= 0.5, "{view}");
    daemon.stop();
}

#[test]
fn a_long_conversation_is_summed_up_paid_for_and_can_be_taken_back() {
    let server = ModelServer::start();
    server.answer(|asked| {
        asked
            .system()
            .starts_with("You summarise a long conversation")
            .then(|| Reply::text("They counted sheep."))
    });
    server.otherwise(Reply::text("Noted."));
    let workspace = onboarded(&server, Wire::Anthropic);
    workspace.edit_config(|config| {
        config["models"]["table"] = json!({"scripted-1": {"context": 40_000, "input": 2.0, "output": 10.0}});
    });
    let daemon = Daemon::start(&workspace, &DaemonOptions::default());
    let rules = {
        say(&daemon, "hello", "chat:long");
        server.asked()[0].system()
    };
    for number in 0..12 {
        say(&daemon, &format!("sheep {number} {}", "baa ".repeat(2_200)), "chat:long");
    }
    let listed = workspace.nexus(&["sessions", "compactions", "chat:long", "--json"]).json();
    let first = &listed["compactions"][0];
    assert_eq!(
        (&first["summary"], &first["cause"]),
        (&json!("They counted sheep."), &json!("context_limit")),
        "{listed}"
    );
    let table = workspace.nexus(&["sessions", "compactions"]).ok().stdout;
    assert!(table.contains("in force") && table.contains("They counted sheep."), "{table}");
    // Rules and identity are there afterwards, the beginning of the talk is not.
    let asked = server.asked();
    let last = asked.last().unwrap();
    assert_eq!(last.system(), rules);
    assert!(last.contains("They counted sheep.") && !last.contains("sheep 0 baa"));
    // Every call was counted, the summary's too.
    let used = workspace.nexus(&["usage", "--by", "session", "--json"]).json();
    let row = used["sessions"].as_array().unwrap().iter().find(|row| row["session"] == "chat:long").unwrap();
    assert_eq!(row["calls"].as_u64().unwrap() as usize, asked.len(), "{used}");
    assert!(
        row["costUsd"].as_f64().unwrap() > 0.0 && used["today"]["tokens"].as_u64().unwrap() > 10_000,
        "{used}"
    );
    assert!(row.get("turns").is_none() && used["total"].get("turns").is_none(), "calls are counted: {used}");
    assert_eq!(used["total"]["calls"], row["calls"], "{used}");
    let days = workspace.nexus(&["usage", "--json"]).json();
    let tokens = |sum: &Value| {
        ["inputTokens", "cachedInputTokens", "outputTokens"].map(|name| sum[name].as_u64().unwrap())
    };
    let models = workspace.nexus(&["usage", "--by", "model", "--json"]).json();
    for rows in [&days["days"], &models["models"]] {
        let paid = rows.as_array().unwrap().iter().find(|row| row["provider"] == "anthropic").unwrap();
        assert_eq!(tokens(paid), tokens(row), "summaries are in both: {rows} {used}");
        assert_eq!(tokens(paid).iter().sum::<u64>(), days["today"]["tokens"].as_u64().unwrap(), "{days}");
    }
    assert!(days["days"].as_array().unwrap().iter().any(|day| day["provider"] == "anthropic"), "{days}");
    assert!(workspace.nexus(&["usage", "--by", "model"]).ok().stdout.contains("anthropic/scripted-1"));
    // Taken back through the daemon that holds the workspace.
    let id = first["id"].as_str().unwrap();
    workspace.nexus(&["sessions", "undo", id]).ok();
    assert!(!workspace.nexus(&["sessions", "undo", id]).status.success());
    assert_eq!(workspace.nexus(&["sessions", "undo", "nothing"]).code(), Some(3));
    let listed = workspace.nexus(&["sessions", "compactions", "--json"]).json();
    let undone = listed["compactions"].as_array().unwrap().iter().find(|one| one["id"] == id).unwrap();
    assert!(undone["undoneAt"].is_number() || undone["undoneAt"].is_string(), "{undone}");
    // And without one, by the command that takes the workspace for a moment.
    workspace.nexus(&["sessions", "compact", "chat:long"]).ok();
    daemon.stop();
    let newest = || {
        workspace.nexus(&["sessions", "compactions", "chat:long", "--json"]).json()["compactions"][0].clone()
    };
    let compaction = newest();
    assert!(compaction["id"] != id && compaction["undoneAt"].is_null(), "{compaction}");
    workspace.nexus(&["sessions", "undo", compaction["id"].as_str().unwrap()]).ok();
    assert!(!newest()["undoneAt"].is_null(), "{}", newest());
}

#[test]
fn budgets_of_the_configuration_end_turns_with_their_name() {
    let server = ModelServer::start();
    server.otherwise(Reply::text("Sure.").tokens(Tokens {
        input: 600,
        output: 400,
        cache_read: 0,
        cache_write: 0,
    }));
    let workspace = onboarded(&server, Wire::OpenAi);
    workspace.edit_config(|config| {
        config["models"]["table"] =
            json!({"scripted-1": {"context": 100_000, "input": 1000.0, "output": 1000.0}});
        config["budgets"] = json!({"usd_per_day": 1.5});
    });
    let daemon = Daemon::start(&workspace, &DaemonOptions::default());
    assert_eq!(say(&daemon, "one", "chat:a").1, ["Sure."]);
    assert_eq!(say(&daemon, "two", "chat:b").1, ["Sure."]);
    // Two dollars are spent: nobody is asked a third time, whatever the session, not even after a restart.
    let (request, told) = say(&daemon, "three", "chat:c");
    assert!(
        told[0].contains("today's 1.50 US dollars are spent") && told[0].contains("budgets.usd_per_day"),
        "{told:?}"
    );
    assert_eq!(server.asked().len(), 2);
    let trace = until("the trace to end", Duration::from_secs(10), || {
        let trace = daemon.get(&format!("/api/requests/{request}")).json();
        (trace["status"] != "processing").then_some(trace)
    });
    assert_eq!(trace["status"], "failed");
    daemon.stop();
    let daemon = Daemon::start(&workspace, &DaemonOptions::default());
    assert!(say(&daemon, "four", "chat:a").1[0].contains("US dollars"));
    assert_eq!(server.asked().len(), 2);
    daemon.stop();
}
