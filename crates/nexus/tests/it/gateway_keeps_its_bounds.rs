//! Time and room that one client may take of the real daemon: for its handshake, for its answers, and
//! among many that come at once.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Barrier;
use std::time::{Duration, Instant};

use nexus_testkit::http;
use nexus_testkit::{Daemon, DaemonOptions, Workspace, until};
use serde_json::json;

const WITHIN: Duration = Duration::from_secs(20);

fn running() -> (Workspace, Daemon) {
    let workspace = Workspace::initialized(env!("CARGO_BIN_EXE_nexus"));
    workspace.nexus(&["config", "set", "runtime.handshake_ms", "300"]).ok();
    let daemon = Daemon::start(&workspace, &DaemonOptions::default());
    (workspace, daemon)
}

/// A socket after its 101; the token goes with the upgrade when one is given.
fn socket(daemon: &Daemon, token: Option<&str>) -> TcpStream {
    let mut stream = TcpStream::connect(("127.0.0.1", daemon.port())).unwrap();
    stream.set_read_timeout(Some(WITHIN)).unwrap();
    let shown = token.map(|token| format!("Authorization: Bearer {token}\r\n")).unwrap_or_default();
    let head = format!(
        "GET /ws HTTP/1.1\r\nHost: 127.0.0.1:{}\r\n{shown}Connection: Upgrade\r\nUpgrade: websocket\r\n\
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
    assert!(seen.starts_with(b"HTTP/1.1 101"), "{}", String::from_utf8_lossy(&seen));
    stream
}

/// A text frame as clients send it, with a mask of zeros.
fn frame(text: &str) -> Vec<u8> {
    let length = u16::try_from(text.len()).unwrap();
    let mut bytes = vec![0x81];
    if length < 126 {
        bytes.push(0x80 | u8::try_from(length).unwrap());
    } else {
        bytes.push(0x80 | 126);
        bytes.extend(length.to_be_bytes());
    }
    bytes.extend([0; 4]);
    bytes.extend(text.as_bytes());
    bytes
}

fn figure(daemon: &Daemon, name: &str) -> u64 {
    let figures = daemon.get("/metrics").body;
    let line = figures.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ').map(str::to_owned));
    line.unwrap_or_else(|| panic!("no {name} in {figures}")).parse().unwrap()
}

#[test]
fn t22_a_socket_without_handshake_ends_and_a_client_that_does_not_read_is_dropped() {
    let (_workspace, daemon) = running();
    // With the token in its header it is known, and still has to shake hands.
    for token in [None, Some(daemon.token())] {
        let begun = Instant::now();
        let mut idle = socket(&daemon, token);
        let mut rest = Vec::new();
        idle.read_to_end(&mut rest).unwrap();
        let took = begun.elapsed();
        assert!(String::from_utf8_lossy(&rest).contains("connect.challenge"));
        assert!(took >= Duration::from_millis(250) && took < Duration::from_secs(5), "{took:?}");
        // The last frame is a close with a code: 1001, going away.
        let close =
            rest.windows(4).rposition(|bytes| bytes[0] == 0x88 && bytes[2..4] == 1001u16.to_be_bytes());
        assert!(close.is_some(), "{rest:?}");
    }

    // Asks and asks and never reads an answer.
    let mut greedy = socket(&daemon, Some(daemon.token()));
    let connect = json!({"type": "req", "id": "0", "method": "connect", "params": {"minProtocol": 1, "maxProtocol": 1}});
    greedy.write_all(&frame(&connect.to_string())).unwrap();
    greedy.set_write_timeout(Some(Duration::from_millis(50))).unwrap();
    let ask = frame(&json!({"type": "req", "id": "1", "method": "config.schema"}).to_string());
    assert_eq!(figure(&daemon, "nexus_slow_clients_dropped_total"), 0);
    let mut asked = 0;
    until("the client that does not read to be dropped", WITHIN, || {
        // Until it is gone, or the daemon has stopped taking more.
        asked += (0..50).take_while(|_| greedy.write_all(&ask).is_ok()).count();
        (figure(&daemon, "nexus_slow_clients_dropped_total") == 1).then_some(())
    });
    assert!(asked > 100, "{asked} questions");
    until("its socket to be gone", WITHIN, || (figure(&daemon, "nexus_sockets_open") == 0).then_some(()));
    assert_eq!(daemon.get("/api/sessions").status, 200, "nobody else notices");
}

#[test]
fn t22_two_hundred_fresh_clients_at_once_are_all_served_whoever_else_is_there() {
    const CLIENTS: usize = 200;
    nexus_testkit::allow_many_files();
    let (_workspace, daemon) = running();
    let (port, token) = (daemon.port(), daemon.token());
    let at_once = |what: &str| {
        let start = Barrier::new(CLIENTS);
        let statuses: Vec<Result<u16, std::io::ErrorKind>> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..CLIENTS)
                .map(|_| {
                    scope.spawn(|| {
                        start.wait();
                        let wanted = http::get(port, "/api/sessions", Some(token));
                        wanted.map(|answer| answer.status).map_err(|error| error.kind())
                    })
                })
                .collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        let refused: Vec<_> = statuses.iter().filter(|status| **status != Ok(200)).collect();
        assert!(refused.is_empty(), "{what}: {} of {CLIENTS} were not served: {refused:?}", refused.len());
    };
    at_once("alone");
    // As many strangers as may stay hold their places and say nothing.
    let strangers: Vec<TcpStream> =
        (0..300).map(|_| TcpStream::connect(("127.0.0.1", port)).unwrap()).collect();
    at_once("among strangers");
    drop(strangers);
}
