//! Calls of one reply that only look run side by side; their results stand in the order of the calls, and
//! whatever acts stays in its place.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

use nexus_testkit::model::{Asked, ModelServer, Reply};
use nexus_testkit::{Daemon, DaemonOptions};
use serde_json::json;

/// How many pages are asked for at once.
const PAGES: usize = 4;

/// A site that says nothing before all its pages were asked for, and then answers the last one first: whoever
/// asks for one after the other waits for ever.
fn patient_site() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let base = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        let mut asked: Vec<(String, TcpStream)> = Vec::new();
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            let mut head = [0; 4096];
            let count = stream.read(&mut head).unwrap_or(0);
            let head = String::from_utf8_lossy(&head[..count]).into_owned();
            let path = head.split_whitespace().nth(1).unwrap_or("/").to_owned();
            asked.push((path, stream));
            if asked.len() == PAGES {
                for (path, mut stream) in asked.drain(..).rev() {
                    let body = format!("this is page {path}");
                    let _ = write!(
                        stream,
                        "HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
                        body.len()
                    );
                }
            }
        }
    });
    base
}

/// Sends one worker, whose first reply is `work`.
fn model(work: Reply) -> ModelServer {
    let server = ModelServer::start();
    server.answer(move |asked: &Asked| {
        let is_worker = !asked.has_tool("wait");
        Some(match (is_worker, asked.results().is_empty()) {
            (true, true) => work.clone(),
            (true, false) => Reply::text("Looked."),
            (false, _) if asked.contains("kind: worker_result") => Reply::text("It is done."),
            (false, true) => Reply::calls("agent_send", &json!({"op": "dispatch", "text": "look"})),
            (false, false) => Reply::text("Somebody looks."),
        })
    });
    server
}

#[test]
fn calls_that_look_overlap_and_the_others_keep_their_place() {
    let base = patient_site();
    let mut work = Reply::calls("read", &json!({"path": "note.md"}))
        .call("write", &json!({"path": "note.md", "content": "written in between"}))
        .call("read", &json!({"path": "note.md"}));
    for page in 0..PAGES {
        work = work.call("web_fetch", &json!({"url": format!("{base}/{page}")}));
    }
    work = work.call("list", &json!({})).call("no_such_tool", &json!({}));
    let server = model(work);
    let workspace = crate::scripted::workspace(&server);
    workspace.edit_config(|config| config["tools"] = json!({"web": {"allow": [base]}}));
    let daemon = Daemon::start(&workspace, &DaemonOptions::default());
    let accepted = daemon.post("/api/chat", &json!({ "message": "look at these pages" })).json();
    let request = accepted["requestId"].as_str().unwrap();
    let waited = daemon.get(&format!("/api/chat/wait?request={request}&timeoutMs=20000")).json();
    assert_eq!(waited["quiescent"], true, "{waited}\n{}", daemon.log());

    let asked = server.asked();
    let mut told = asked.iter().filter(|asked| !asked.has_tool("wait")).map(|asked| asked.results());
    let results: Vec<String> = told.next_back().unwrap().into_iter().map(|(_, text)| text).collect();
    assert_eq!(results.len(), PAGES + 5, "{results:?}");
    assert!(results[0].contains("does not exist"), "{results:?}");
    assert!(results[1].starts_with("made home/note.md"), "{results:?}");
    assert!(results[2].contains("written in between"), "{results:?}");
    for page in 0..PAGES {
        assert!(results[3 + page].contains(&format!("this is page /{page}")), "{results:?}");
    }
    assert!(results[3 + PAGES].contains("note.md"), "{results:?}");
    assert!(results[4 + PAGES].contains("there is no tool"), "{results:?}");
    // The story of the worker tells them in the same order.
    let tree = nexus_testkit::until("the worker's trace", Duration::from_secs(10), || {
        let trace = daemon.get(&format!("/api/requests/{request}")).json();
        trace["children"].get(0).filter(|child| child["status"] == "completed").cloned()
    });
    let calls: Vec<&str> =
        tree["toolCalls"].as_array().unwrap().iter().map(|call| call["tool"].as_str().unwrap()).collect();
    let expected: Vec<&str> = ["read", "write", "read"]
        .into_iter()
        .chain(std::iter::repeat_n("web_fetch", PAGES))
        .chain(["list", "no_such_tool"])
        .collect();
    assert_eq!(calls, expected, "{tree}");
    daemon.stop();
}

#[test]
fn a_call_that_waited_for_another_shows_its_own_time() {
    let work = Reply::calls("bash", &json!({"command": "sleep 0.4"}))
        .call("write", &json!({"path": "note.md", "content": "after it"}))
        .call("read", &json!({"path": "note.md"}));
    let server = model(work);
    let workspace = crate::scripted::workspace(&server);
    let daemon = Daemon::start(&workspace, &DaemonOptions::default());
    let accepted = daemon.post("/api/chat", &json!({ "message": "work" })).json();
    let request = accepted["requestId"].as_str().unwrap();
    let tree = nexus_testkit::until("the worker's trace", Duration::from_secs(20), || {
        let trace = daemon.get(&format!("/api/requests/{request}")).json();
        trace["children"].get(0).filter(|child| child["status"] == "completed").cloned()
    });
    let took: Vec<u64> = tree["toolCalls"]
        .as_array()
        .unwrap()
        .iter()
        .map(|call| call["durationMs"].as_u64().unwrap())
        .collect();
    assert_eq!(took.len(), 3, "{tree}");
    assert!(took[0] >= 400 && took[1] < 400 && took[2] < 400, "{took:?}");
    daemon.stop();
}
