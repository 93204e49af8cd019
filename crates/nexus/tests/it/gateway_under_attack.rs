//! What an attacker tries beyond the known incidents: odd names, smuggled requests, frames in pieces,
//! links in the workspace, two answers at once. Always against the real binary.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use nexus_testkit::http::{self, Answer};
use nexus_testkit::{Daemon, DaemonOptions, Workspace, until};
use rustix::process::Signal;
use serde_json::{Value, json};

fn running() -> (Workspace, Daemon) {
    let workspace = Workspace::initialized(env!("CARGO_BIN_EXE_nexus"));
    let daemon = Daemon::start(&workspace, &DaemonOptions::default());
    (workspace, daemon)
}

fn call(daemon: &Daemon, method: &str, params: &Value) -> Answer {
    daemon.post("/api/call", &json!({ "method": method, "params": params }))
}

/// Sends bytes and returns everything that came back until the other side closed or fell silent.
fn raw(daemon: &Daemon, bytes: &[u8]) -> String {
    let mut stream = TcpStream::connect(("127.0.0.1", daemon.port())).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    let _ = stream.write_all(bytes);
    let mut received = Vec::new();
    let _ = stream.read_to_end(&mut received);
    String::from_utf8_lossy(&received).into_owned()
}

fn statuses(answers: &str) -> Vec<String> {
    let after = answers.split("HTTP/1.1 ").skip(1);
    after.map(|answer| answer.chars().take(3).collect()).collect()
}

#[test]
fn t03_odd_forms_of_a_host_are_foreign() {
    let (_workspace, daemon) = running();
    let (port, token) = (daemon.port(), daemon.token());
    let ask = |target: &str, headers: &str| {
        let request = format!(
            "GET {target} HTTP/1.1\r\n{headers}Authorization: Bearer {token}\r\nConnection: close\r\n\r\n"
        );
        statuses(&raw(&daemon, request.as_bytes()))
    };
    for host in [
        "127.0.0.1".to_owned(),
        format!("127.1:{port}"),
        format!("0x7f000001:{port}"),
        format!("2130706433:{port}"),
        format!("localhost.:{port}"),
        format!("0.0.0.0:{port}"),
        format!("[::ffff:127.0.0.1]:{port}"),
        format!("127.0.0.1:{port}.evil.example"),
        format!("evil.example@127.0.0.1:{port}"),
        format!("127.0.0.1:0{port}"),
        format!("127.0.0.1:{port}/"),
        format!("127.0.0.1:{port} evil.example"),
        String::new(),
    ] {
        let status = ask("/api/sessions", &format!("Host: {host}\r\n"));
        assert!(status == ["403"] || status == ["400"], "{host:?}: {status:?}");
    }
    let own = format!("Host: 127.0.0.1:{port}\r\n");
    assert_eq!(ask("/api/sessions", &own), ["200"]);
    assert_eq!(ask("/api/sessions", &format!("{own}{own}")), ["400"], "two of them");
    assert_eq!(ask("/api/sessions", &format!("{own}Host: evil.example\r\n")), ["400"]);
    assert_eq!(ask("/api/sessions", ""), ["400"], "none at all");
    assert_eq!(ask("http://evil.example/api/sessions", &own), ["403"], "an absolute address elsewhere");
    assert_eq!(ask(&format!("http://127.0.0.1:{port}/api/sessions"), &own), ["200"]);
    // What proxies and frameworks believe is not believed here.
    for claimed in
        ["X-Forwarded-Host: evil.example", "X-Original-URL: /api/sessions", "Forwarded: host=evil.example"]
    {
        assert_eq!(ask("/health", &format!("{own}{claimed}\r\n")), ["200"]);
    }
}

#[test]
fn t02_odd_forms_of_an_origin_are_foreign_and_no_page_is_invited() {
    let (_workspace, daemon) = running();
    let (port, token) = (daemon.port(), daemon.token());
    let own = format!("Host: 127.0.0.1:{port}\r\nAuthorization: Bearer {token}\r\nConnection: close\r\n");
    let ask = |verb: &str, headers: &str| {
        raw(&daemon, format!("{verb} /api/sessions HTTP/1.1\r\n{own}{headers}\r\n").as_bytes())
    };
    for origin in [
        format!("http://127.0.0.1:{port}.evil.example"),
        format!("http://evil.example@127.0.0.1:{port}"),
        format!("http://127.0.0.1:{port}/"),
        format!("HTTP://127.0.0.1:{port}#"),
        format!("ws://127.0.0.1:{port}"),
        "file://".to_owned(),
        "null".to_owned(),
        String::new(),
    ] {
        assert_eq!(statuses(&ask("GET", &format!("Origin: {origin}\r\n"))), ["403"], "{origin:?}");
    }
    let both = format!("Origin: http://127.0.0.1:{port}\r\nOrigin: http://evil.example\r\n");
    assert_eq!(statuses(&ask("GET", &both)), ["403"], "one of two is foreign");
    for site in ["cross-site", "same-site"] {
        assert_eq!(statuses(&ask("GET", &format!("Sec-Fetch-Site: {site}\r\n"))), ["403"], "{site}");
    }
    // A preflight is told nothing that would let a page go on.
    let preflight = ask("OPTIONS", "Origin: http://evil.example\r\nAccess-Control-Request-Method: POST\r\n");
    assert_eq!(statuses(&preflight), ["403"]);
    for answer in [preflight, ask("GET", ""), ask("OPTIONS", "")] {
        assert!(!answer.to_ascii_lowercase().contains("access-control-allow"), "{answer}");
    }
}

#[test]
fn t06_nothing_is_smuggled_past_the_gate() {
    let (_workspace, daemon) = running();
    let (port, token) = (daemon.port(), daemon.token());
    let host = format!("Host: 127.0.0.1:{port}\r\n");
    let owner = format!("Authorization: Bearer {token}\r\n");
    let inner = format!("GET /api/sessions HTTP/1.1\r\n{host}\r\n");
    // A request hidden in another's body, with two lengths that contradict each other.
    for lengths in [
        format!("Content-Length: {}\r\nTransfer-Encoding: chunked\r\n", inner.len() + 5),
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n".to_owned(),
        "Transfer-Encoding: xchunked\r\n".to_owned(),
        "Content-Length: 5\r\nContent-Length: 6\r\n".to_owned(),
        "Content-Length: +5\r\n".to_owned(),
    ] {
        let request = format!("POST /api/chat HTTP/1.1\r\n{host}{lengths}\r\n0\r\n\r\n{inner}");
        let answers = statuses(&raw(&daemon, request.as_bytes()));
        assert!(!answers.contains(&"200".to_owned()), "{lengths:?}: {answers:?}");
    }
    // The owner's request does not open the door for what is sent behind it on the same connection.
    let both = format!("GET /api/sessions HTTP/1.1\r\n{host}{owner}\r\n{inner}");
    assert_eq!(statuses(&raw(&daemon, both.as_bytes())), ["200", "401"]);
    // Other ways to show a token, and other ways to write a path or a verb.
    let shown = |headers: &str| {
        statuses(&raw(
            &daemon,
            format!("GET /api/sessions HTTP/1.1\r\n{host}{headers}Connection: close\r\n\r\n").as_bytes(),
        ))
    };
    for wrong in [
        format!("Authorization: Basic {token}\r\n"),
        format!("Authorization: {token}\r\n"),
        format!("Cookie: token={token}\r\n"),
        format!("X-Auth-Token: {token}\r\n"),
        format!("Sec-WebSocket-Protocol: {token}\r\n"),
        format!("{owner}Authorization: Bearer other\r\n"),
    ] {
        assert_eq!(shown(&wrong), ["401"], "{wrong}");
    }
    for path in [
        "//api/sessions",
        "/api/../api/sessions",
        "/API/sessions",
        "/%61pi/sessions",
        "/health/../api/sessions",
        "/health%2f..%2fapi/sessions",
    ] {
        let answer = statuses(&raw(
            &daemon,
            format!("GET {path} HTTP/1.1\r\n{host}Connection: close\r\n\r\n").as_bytes(),
        ));
        assert!(answer == ["401"] || answer == ["404"], "{path}: {answer:?}");
    }
    for verb in ["HEAD", "PUT", "DELETE", "PATCH", "TRACE", "CONNECT"] {
        let request = format!(
            "{verb} /api/sessions HTTP/1.1\r\n{host}X-HTTP-Method-Override: GET\r\nConnection: close\r\n\r\n"
        );
        let answer = raw(&daemon, request.as_bytes());
        assert!(!answer.contains(" 200 ") && !answer.contains("sessions\":"), "{verb}: {answer}");
    }
    assert_eq!(daemon.get("/api/sessions").status, 200, "still there");
}

/// A socket opened by hand, after its 101.
fn socket(daemon: &Daemon) -> TcpStream {
    let mut stream = TcpStream::connect(("127.0.0.1", daemon.port())).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let head = format!(
        "GET /ws HTTP/1.1\r\nHost: 127.0.0.1:{}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
         Sec-WebSocket-Extensions: permessage-deflate\r\n\
         Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
        daemon.port()
    );
    stream.write_all(head.as_bytes()).unwrap();
    let mut seen = Vec::new();
    let mut byte = [0];
    while !seen.ends_with(b"\r\n\r\n") {
        stream.read_exact(&mut byte).unwrap();
        seen.push(byte[0]);
    }
    let head = String::from_utf8_lossy(&seen).to_ascii_lowercase();
    assert!(head.starts_with("http/1.1 101") && !head.contains("permessage-deflate"), "{head}");
    stream
}

fn frame(first: u8, payload: &[u8], masked: bool) -> Vec<u8> {
    let mask = if masked { 0x80 } else { 0 };
    let mut frame = vec![first];
    match payload.len() {
        short @ 0..126 => frame.push(mask | u8::try_from(short).unwrap()),
        middle @ 126..65_536 => {
            frame.push(mask | 126);
            frame.extend(u16::try_from(middle).unwrap().to_be_bytes());
        }
        long => {
            frame.push(mask | 127);
            frame.extend((long as u64).to_be_bytes());
        }
    }
    if masked {
        frame.extend([0; 4]);
    }
    frame.extend(payload);
    frame
}

#[test]
fn t22_frames_in_any_shape_get_a_stable_code_or_the_door() {
    let (_workspace, daemon) = running();
    let ends_with = |what: &str, bytes: &[u8], code: Option<&str>| {
        let mut stream = socket(&daemon);
        let _ = stream.write_all(bytes);
        let mut received = Vec::new();
        let ended = stream.read_to_end(&mut received);
        let text = String::from_utf8_lossy(&received).into_owned();
        assert!(ended.is_ok() || text.contains("error"), "{what} keeps the socket open: {text}");
        if let Some(code) = code {
            assert!(text.contains(code), "{what}: {text}");
        }
        assert!(!text.contains("hello-ok"), "{what}: {text}");
    };
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    ends_with("nested", &frame(0x81, deep.as_bytes(), true), Some("INVALID_REQUEST"));
    ends_with("not UTF-8", &frame(0x81, &[0xff, 0xfe, 0xc0], true), Some("INVALID_REQUEST"));
    ends_with("binary", &frame(0x82, b"{}", true), Some("INVALID_REQUEST"));
    ends_with("oversized", &frame(0x81, &vec![b' '; 600 * 1024], true), Some("TOO_LARGE"));
    ends_with("unmasked", &frame(0x81, b"{}", false), None);
    ends_with("a reserved opcode", &frame(0x83, b"{}", true), None);
    ends_with("a compressed frame nobody agreed on", &frame(0xc1, b"{}", true), None);
    ends_with("a long ping", &frame(0x89, &[0; 200], true), None);
    ends_with("a stray continuation", &frame(0x80, b"{}", true), None);
    // Pieces that never end: the whole counts, not each piece.
    let mut pieces = frame(0x01, &[b' '; 32 * 1024], true);
    for _ in 0..40 {
        pieces.extend(frame(0x00, &[b' '; 32 * 1024], true));
    }
    ends_with("pieces without end", &pieces, Some("TOO_LARGE"));
    // A length that promises terabytes takes no memory.
    let mut huge = vec![0x81, 0x80 | 127];
    huge.extend((1u64 << 50).to_be_bytes());
    huge.extend([0; 4]);
    ends_with("a promised petabyte", &huge, Some("TOO_LARGE"));
    let status = std::fs::read_to_string(format!("/proc/{}/status", daemon.pid())).unwrap();
    let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    let resident: u64 = resident.trim().trim_end_matches("kB").trim().parse().unwrap();
    assert!(resident < 200 * 1024, "{resident} kB");
    // A frame cut off in the middle ends with its connection and with nothing else.
    let mut cut = socket(&daemon);
    cut.write_all(&frame(0x81, &[b'{'; 1000], true)[..200]).unwrap();
    drop(cut);
    assert_eq!(daemon.get("/api/sessions").status, 200);
}

#[test]
fn t20_links_in_the_workspace_lead_nowhere_over_the_control_plane() {
    let (workspace, daemon) = running();
    let secret = workspace.file("state/config.json");
    workspace.write("state/agents/ada/IDENTITY.md", "---\nname: Ada\n---\n");
    let link = |target: &str, at: &str| {
        std::os::unix::fs::symlink(workspace.path(target), workspace.path(at)).unwrap()
    };
    link("state/config.json", "state/agents/ada/SOUL.md");
    link("state", "state/agents/eve");
    link("state/config.json", "state/user/IDENTITY.md");
    std::fs::create_dir_all(workspace.path("skills")).unwrap();
    link("state", "skills/evil");
    for (method, params) in [
        ("agents.files.get", json!({ "agent": "ada", "file": "SOUL.md" })),
        ("agents.files.get", json!({ "agent": "eve", "file": "IDENTITY.md" })),
        ("agents.files.get", json!({ "agent": "user", "file": "IDENTITY.md" })),
        ("agents.files.set", json!({ "agent": "ada", "file": "SOUL.md", "content": "mine now" })),
        ("agents.files.set", json!({ "agent": "eve", "file": "IDENTITY.md", "content": "mine now" })),
        ("skills.info", json!({ "name": "evil" })),
        ("skills.info", json!({ "name": "../state" })),
        ("skills.status", json!({})),
        ("agents.list", json!({})),
    ] {
        let answer = call(&daemon, method, &params);
        assert!(
            !answer.body.contains(daemon.token()) && !answer.body.contains("\"auth\""),
            "{method}: {}",
            answer.body
        );
        assert!(
            answer.status != 200 || !answer.body.contains("mine now"),
            "{method} {params}: {}",
            answer.body
        );
    }
    assert_eq!(workspace.file("state/config.json"), secret, "written through a link");
    assert!(!workspace.path("state/IDENTITY.md").exists(), "written through a linked folder");
}

#[test]
fn two_answers_at_once_leave_one() {
    let (_workspace, daemon) = running();
    let (port, token) = (daemon.port(), daemon.token().to_owned());
    for round in 0..10 {
        let ask = json!({ "kind": "access", "summary": "x", "resources": [format!("race:{round}")] });
        let id = call(&daemon, "approvals.request", &ask).json()["id"].clone();
        let answers: Vec<_> = ["approvals.approve", "approvals.deny", "approvals.approve", "approvals.deny"]
            .map(|method| {
                let (token, id) = (token.clone(), id.clone());
                std::thread::spawn(move || {
                    let body =
                        json!({ "method": method, "params": { "id": id, "scope": "always" } }).to_string();
                    let answer = http::post(port, "/api/call", Some(&token), &body).unwrap();
                    (answer.status == 200).then(|| answer.json()["status"].clone())
                })
            })
            .into_iter()
            .filter_map(|thread| thread.join().unwrap())
            .collect();
        let stands = call(&daemon, "approvals.show", &json!({ "id": id })).json();
        assert!(
            !answers.is_empty() && answers.iter().all(|said| *said == stands["status"]),
            "{answers:?} {stands}"
        );
        // A refusal leaves no consent behind, whoever was first.
        let grants = call(&daemon, "grants.list", &json!({})).json();
        let mine = |grant: &&Value| grant["resources"] == json!([format!("race:{round}")]);
        let count = grants["grants"].as_array().unwrap().iter().filter(mine).count();
        assert_eq!(count, usize::from(stands["status"] == "approved"), "{grants}");
    }
}

#[test]
fn t08_a_token_written_into_the_file_counts_after_a_reload() {
    let (workspace, daemon) = running();
    let given = call(&daemon, "tokens.create", &json!({ "scopes": ["control.*.read"] })).json();
    let given = given["token"].as_str().unwrap().to_owned();
    let mut config = workspace.json("state/config.json");
    config["runtime"]["auth"]["token"] = json!("b".repeat(48));
    workspace.write("state/config.json", &config.to_string());
    assert_eq!(daemon.get("/api/sessions").status, 200, "not before it is read");
    daemon.signal(Signal::HUP);
    until("the old token to end", Duration::from_secs(20), || {
        (daemon.get("/api/sessions").status == 401).then_some(())
    });
    let new = "b".repeat(48);
    assert_eq!(http::get(daemon.port(), "/api/sessions", Some(&new)).unwrap().status, 200);
    until("given-out tokens to end with it", Duration::from_secs(20), || {
        (http::get(daemon.port(), "/api/sessions", Some(&given)).unwrap().status == 401).then_some(())
    });
}
