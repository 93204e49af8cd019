//! Memory at the command line beside a running daemon: asked, added to, looked at, and made to forget.

use std::path::Path;
use std::time::Duration;

use nexus_testkit::{Daemon, DaemonOptions, Workspace, until};
use serde_json::{Value, json};

fn say(daemon: &Daemon, message: &str) -> String {
    let accepted = daemon.post("/api/chat", &json!({ "message": message })).json();
    let request = accepted["requestId"].as_str().unwrap_or_else(|| panic!("{accepted}"));
    let waited = daemon.get(&format!("/api/chat/wait?request={request}&timeoutMs=30000")).json();
    assert_eq!(waited["quiescent"], true, "{waited}\n{}", daemon.log());
    accepted["eventId"].as_str().unwrap().to_owned()
}

/// Names of the files below a folder that hold a word, whatever its letters' case.
fn files_with(folder: &Path, word: &str) -> Vec<String> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files_with(&path, word));
        } else if let Ok(bytes) = std::fs::read(&path)
            && String::from_utf8_lossy(&bytes).to_lowercase().contains(word)
        {
            found.push(path.display().to_string());
        }
    }
    found
}

fn items(answer: &Value) -> Vec<&str> {
    answer["items"].as_array().unwrap().iter().map(|item| item["text"].as_str().unwrap()).collect()
}

#[test]
fn memory_is_asked_added_to_and_made_to_forget_beside_a_daemon() {
    let workspace = Workspace::initialized(env!("CARGO_BIN_EXE_nexus"));
    let daemon = Daemon::start(&workspace, &DaemonOptions::default());
    for message in ["Hello", "I am Ada", "Your name is Nova"] {
        say(&daemon, message);
    }
    let event = say(&daemon, "My dentist is called Wolfgangson and I live in Quarantania.");
    say(&daemon, "What is the weather like?");
    until("the facts", Duration::from_secs(30), || {
        let found =
            workspace.nexus(&["memory", "recall", "Quarantania", "--scope", "facts", "--json"]).json();
        items(&found).iter().any(|text| text.contains("lives in Quarantania")).then_some(())
    });
    let added = workspace.nexus(&["memory", "add", "The spare key is with Grace", "--json"]).json();
    let found = workspace.nexus(&["memory", "recall", "who has the spare key", "--json"]).json();
    assert_eq!(found["items"][0]["id"], added["id"], "{found}");
    assert_eq!(found["items"][0]["provenance"], "owner");
    assert!(found["items"][0]["why"]["keyword"].as_f64().unwrap() > 0.5, "{found}");
    let told =
        workspace.nexus(&["memory", "recall", "Quarantania", "--scope", "turns", "--explain"]).ok().stdout;
    assert!(told.contains("owner: My dentist") && told.contains("keyword 1.00"), "{told}");
    let stats = workspace.nexus(&["memory", "stats", "--json"]).json();
    assert!(stats["facts"].as_u64().unwrap() >= 3 && stats["turns"].as_u64().unwrap() >= 8, "{stats}");
    let changes = workspace.nexus(&["memory", "changes", "--json"]).json();
    assert_eq!(changes["items"][0]["id"], added["id"], "{changes}");
    assert_eq!(
        workspace.nexus(&["memory", "changes", "--untrusted"]).ok().stdout,
        "nothing has been learned yet\n"
    );

    // The fact alone: its source stays, and is named.
    let fact = changes["items"]
        .as_array()
        .unwrap()
        .iter()
        .find(|item| item["text"].as_str().unwrap().contains("Wolfgangson"));
    let fact = fact.unwrap()["id"].as_str().unwrap();
    let gone = workspace.nexus(&["memory", "forget", fact, "--json"]).json();
    assert_eq!((&gone["sourceEvent"], &gone["sourceRemains"]), (&json!(event), &json!(true)), "{gone}");
    assert_eq!(workspace.nexus(&["memory", "forget", fact]).code(), Some(3));

    // Everything it came from.
    let gone = workspace.nexus(&["memory", "forget", &event, "--source", "--json"]).json();
    assert_eq!(gone["sourceRemains"], false, "{gone}");
    for word in ["quarantania", "wolfgangson"] {
        assert_eq!(files_with(workspace.root(), word), Vec::<String>::new(), "{word}\n{gone}");
    }
    let found = workspace.nexus(&["memory", "recall", "Quarantania", "--json"]).json();
    assert!(items(&found).iter().all(|text| !text.contains("Quarantania")), "{found}");
    let history = daemon.get("/api/chat/history?limit=50").body;
    assert!(!history.contains("Quarantania") && history.contains("[forgotten]"), "{history}");
    let found = workspace.nexus(&["memory", "recall", "spare key", "--json"]).json();
    assert_eq!(found["items"][0]["id"], added["id"], "the rest is still there");
    say(&daemon, "Hello again");
    daemon.stop();
    for word in ["quarantania", "wolfgangson"] {
        assert_eq!(files_with(workspace.root(), word), Vec::<String>::new(), "after the end: {word}");
    }
    // And without a daemon, in the files.
    let found = workspace.nexus(&["memory", "recall", "spare key", "--json"]).json();
    assert_eq!(found["facts"][0]["id"], added["id"], "{found}");
    let id = added["id"].as_str().unwrap();
    assert!(workspace.nexus(&["memory", "forget", id]).ok().stdout.starts_with("forgot 1 fact"));
    assert_eq!(
        workspace.nexus(&["memory", "recall", "spare key", "--scope", "facts", "--json"]).json()["items"],
        json!([])
    );
}

#[test]
fn recall_is_measured_on_conversations_of_ones_own() {
    let workspace = Workspace::new(env!("CARGO_BIN_EXE_nexus"));
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name).display().to_string();
    let write = |name: &str, text: &str| {
        let path = folder.path().join(name);
        nexus_base::file::replace(&path, text.as_bytes(), 0o600, nexus_base::file::Durability::Crash)
            .unwrap();
    };
    let documents: Vec<String> = [
        ("a1", "a", "Ines", "Morning! How was the pottery class?"),
        ("a2", "a", "Tomas", "Great, I made a blue bowl with a crooked rim."),
        ("a3", "a", "Ines", "I adopted a greyhound called Juno."),
        ("b1", "b", "Ravi", "The greyhound race was cancelled."),
    ]
    .iter()
    .map(|(id, ns, speaker, text)| {
        json!({"id": id, "ns": ns, "session_id": "s1", "speaker": speaker, "ts": "2026-01-10T09:00:00", "text": text}).to_string()
    })
    .collect();
    write("docs", &documents.join("\n"));
    let queries = [
        json!({"id": "q1", "ns": "a", "query": "Which greyhound does Ines have?"}).to_string(),
        json!({"id": "q2", "ns": "a", "query": "What did Tomas make in class?"}).to_string(),
    ];
    write("queries", &queries.join("\n"));
    let run = |store: &str| {
        let (docs, queries, out, store) = (file("docs"), file("queries"), file("out"), file(store));
        workspace.nexus(&[
            "memory",
            "eval",
            "--docs",
            &docs,
            "--queries",
            &queries,
            "--out",
            &out,
            "--store",
            &store,
            "-k",
            "50",
        ])
    };
    run("store").ok();
    let results: Vec<Value> = std::fs::read_to_string(file("out"))
        .unwrap()
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(
        (&results[0]["ranked"][0], &results[1]["ranked"][0]),
        (&json!("a3"), &json!("a2")),
        "{results:?}"
    );
    assert!(!results[0].to_string().contains("b1"), "another store's documents stay out: {results:?}");
    assert_eq!(results[0]["ranked"].as_array().unwrap().len(), 3, "as many as there are");
    assert_eq!(run("store").code(), Some(2), "a store is measured once");
}

#[test]
fn an_evaluation_takes_data_as_people_have_it_and_names_what_it_cannot_take() {
    let workspace = Workspace::new(env!("CARGO_BIN_EXE_nexus"));
    let path = |name: &str| workspace.home().join(name).display().to_string();
    let put = |name: &str, text: &str| {
        let file = workspace.home().join(name);
        nexus_base::file::replace(&file, text.as_bytes(), 0o600, nexus_base::file::Durability::Crash)
            .unwrap();
    };
    let eval = |number: usize| {
        let (docs, queries, out) = (path("docs"), path("queries"), path("out"));
        let store = path(&format!("store{number}"));
        let words = [
            "memory",
            "eval",
            "--docs",
            &docs,
            "--queries",
            &queries,
            "--out",
            &out,
            "--store",
            &store,
            "-k",
            "5",
        ];
        workspace.nexus(&words)
    };
    let ranked = || -> Vec<Value> {
        let text = std::fs::read_to_string(workspace.home().join("out")).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    };
    // A byte order mark, Windows line ends, numbers for ids, the same id twice, odd and missing times, no
    // speaker, other scripts, a document as long as a book.
    let long = "pudding ".repeat(60_000);
    put(
        "docs",
        &format!(
            "\u{feff}{}\r\n{}\r\n\r\n{}\n{}\n{}\n{}\n",
            json!({"id": 1, "ns": "a", "session_id": 7, "speaker": "Ann", "ts": 1_700_000_000, "text": "The boat is in Porto."}),
            json!({"id": "d2", "ns": "a", "session_id": "s", "speaker": "Bo", "ts": "1:56 pm on 8 May, 2023", "text": "私は東京に住んでいます。"}),
            json!({"id": "d3", "ns": "a", "text": "The kettle whistles.", "more": [1]}),
            json!({"id": "d3", "ns": "a", "ts": "2023-05-08", "text": "The kettle is new."}),
            json!({"id": "d4", "ns": "a", "ts": "2023/05/09", "speaker": null, "text": long}),
            json!({"id": "d5", "ns": "b", "ts": "2023-05-08 13:56", "text": "Another boat is in Faro."}),
        ),
    );
    put(
        "queries",
        &format!(
            "{}\n{}\n{}\n{}\n{}\n",
            json!({"id": "q1", "ns": "a", "query": "Where is the boat?"}),
            json!({"id": 2, "ns": "a", "query": "東京", "ts": "never"}),
            json!({"id": "q3", "ns": "a", "query": "kettle"}),
            json!({"id": "q4", "ns": "a", "query": ""}),
            json!({"id": "q5", "ns": "nowhere", "query": "boat"}),
        ),
    );
    std::fs::create_dir(workspace.home().join("store0")).unwrap();
    let told = eval(0).ok();
    assert!(told.stderr.contains("6 documents, 5 queries"), "{told:?}");
    assert!(told.stderr.contains("2 documents have no readable time"), "{told:?}");
    let found = ranked();
    assert_eq!((&found[0]["id"], &found[0]["ranked"][0]), (&json!("q1"), &json!("1")), "{found:?}");
    assert!(!found[0].to_string().contains("d5"), "nothing of another conversation: {found:?}");
    assert_eq!((&found[1]["id"], &found[1]["ranked"][0]), (&json!("2"), &json!("d2")), "{found:?}");
    let kettles = found[2]["ranked"].as_array().unwrap();
    assert_eq!(kettles.iter().filter(|id| **id == "d3").count(), 1, "{found:?}");
    assert_eq!((&found[3]["ranked"], &found[4]["ranked"]), (&json!([]), &json!([])));
    assert!(eval(0).stderr.contains("already exists"));

    put("docs", "");
    eval(1).ok();
    assert!(ranked().iter().all(|line| line["ranked"] == json!([])));
    for (number, broken) in
        ["{\"id\": \"d\", \"ns\": \"a\"}", "{\"id\": [1], \"text\": \"x\"}", "no json"].iter().enumerate()
    {
        put("docs", &format!("\n{broken}\n"));
        let refused = eval(2 + number);
        assert_eq!(refused.code(), Some(2), "{refused:?}");
        assert!(refused.stderr.contains("docs line 2"), "{refused:?}");
    }
}
