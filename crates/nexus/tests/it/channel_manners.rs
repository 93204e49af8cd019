//! On a channel an agent quotes by tags that never leave, stays silent in a group when it likes, and knows the
//! platform's rules; elsewhere none of this exists.

use nexus_testkit::model::{Asked, ModelServer, Reply, Wire};
use nexus_testkit::{Daemon, DaemonOptions, Workspace};
use serde_json::{Value, json};

use crate::scripted;

fn channel(wire: Wire) -> (ModelServer, Workspace, Daemon) {
    let server = ModelServer::start();
    server.answer(|asked: &Asked| {
        let last = asked.last_text();
        Some(match () {
            () if last.contains("quote me") => Reply::text("[[reply_to_current]] Here you are."),
            () if last.contains("quote seven") => Reply::text("Look up. [[reply_to:m-7]]"),
            () if last.contains("banter") && asked.results().is_empty() => Reply::calls("wait", &json!({})),
            () if last.contains("nothing") => Reply::text(""),
            () => Reply::text("Hello [[wiki]]."),
        })
    });
    let mut workspace = scripted::workspace(&server);
    server.configure(&mut workspace, wire);
    let daemon = Daemon::start(&workspace, &DaemonOptions::default());
    (server, workspace, daemon)
}

fn say(daemon: &Daemon, session: &str, message: &str) -> Vec<String> {
    let accepted = daemon.post("/api/chat", &json!({ "message": message, "session": session })).json();
    let request = accepted["requestId"].as_str().unwrap_or_else(|| panic!("{accepted}"));
    let waited = daemon.get(&format!("/api/chat/wait?request={request}&timeoutMs=60000")).json();
    assert_eq!(waited["quiescent"], true, "{waited}");
    let replies = waited["replies"].as_array().cloned().unwrap_or_default();
    replies.iter().map(|line| line["text"].as_str().unwrap_or_default().to_owned()).collect()
}

fn shown(daemon: &Daemon, session: &str) -> String {
    let history: Value = daemon.get(&format!("/api/chat/history?session={session}")).json();
    history["lines"].to_string()
}

#[test]
fn w17_reply_tags_are_taken_out_and_acted_on() {
    for wire in Wire::BOTH {
        for session in ["group:discord:7", "dm:telegram:42"] {
            let (_server, workspace, daemon) = channel(wire);
            assert_eq!(say(&daemon, session, "quote me"), ["Here you are."]);
            assert_eq!(say(&daemon, session, "quote seven"), ["Look up."]);
            assert_eq!(say(&daemon, session, "hello"), ["Hello [[wiki]]."]);
            let history = shown(&daemon, session);
            assert!(!history.contains("reply_to"), "{history}");
            daemon.stop();
            let store =
                nexus_store::Store::open(&workspace.path("state/data"), nexus_store::OpenMode::ReadOnly)
                    .unwrap();
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            let ended = runtime.block_on(store.agents().newest_ended(3)).unwrap();
            let mut quoted = Vec::new();
            for request in ended {
                let item = runtime.block_on(store.agents().item_of_request(&request)).unwrap().unwrap();
                let lines = runtime.block_on(store.agents().lines_of_request(&request)).unwrap();
                let event = item.new.source_event_id.map(|id| id.to_string());
                quoted.push((item.new.content, lines[0].reply_to.clone(), event));
            }
            for (words, quotes, event) in quoted {
                let expected = match words.as_str() {
                    "quote me" => event,
                    "quote seven" => Some("m-7".to_owned()),
                    _ => None,
                };
                assert_eq!(quotes, expected, "{words}");
            }
        }
    }
}

#[test]
fn w17_an_agent_in_a_group_can_stay_silent() {
    for wire in Wire::BOTH {
        let (server, _workspace, daemon) = channel(wire);
        for message in ["banter", "nothing to say"] {
            let replies = say(&daemon, "group:discord:7", message);
            assert_eq!(
                replies,
                Vec::<String>::new(),
                "{message}: {}",
                server.asked().last().unwrap().last_text()
            );
        }
        assert!(!shown(&daemon, "group:discord:7").contains("without a reply"));
        // A person who talks to it alone is never left before silence.
        for session in ["dm:telegram:42", "chat:garden"] {
            let replies = say(&daemon, session, "nothing to say");
            assert!(replies.iter().any(|reply| reply.contains("without a reply")), "{session}: {replies:?}");
        }
        daemon.stop();
    }
}

#[test]
fn w17_channels_and_only_they_have_the_rules_of_their_platform() {
    let (server, _workspace, daemon) = channel(Wire::Anthropic);
    let told = |session: &str| {
        say(&daemon, session, "hello");
        server.asked().last().unwrap().system()
    };
    for (session, platform, is_group) in
        [("group:discord:7", "discord", true), ("dm:whatsapp:42", "whatsapp", false)]
    {
        let system = told(session);
        assert!(system.contains(&format!("You are writing on {platform}")), "{session}: {system}");
        assert!(
            system.contains("[[reply_to_current]]") && system.contains("Formatting: no tables"),
            "{system}"
        );
        assert_eq!(system.contains("In a group you are"), is_group, "{session}: {system}");
    }
    for session in ["chat:garden", "dm:entity-owner"] {
        let system = told(session);
        assert!(!system.contains("## This channel"), "{session}: {system}");
    }
    // There the tags are ordinary words.
    assert_eq!(say(&daemon, "chat:garden", "quote me"), ["[[reply_to_current]] Here you are."]);
    daemon.stop();
}
