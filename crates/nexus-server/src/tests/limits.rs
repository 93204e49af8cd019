//! What nobody may take too much of.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use super::fake::{Served, TOKEN, error_of};

#[tokio::test]
async fn a_body_over_the_limit_is_refused_and_the_answer_is_seen() {
    let served = Served::start().await;
    let body = |length: usize| format!(r#"{{"message":"{}"}}"#, "x".repeat(length - 14));
    assert_eq!(served.post("/api/chat", &body(512 * 1024)).await.status, 200);
    for length in [512 * 1024 + 1, 3 * 1024 * 1024] {
        let answer = served.post("/api/chat", &body(length)).await;
        assert_eq!((error_of(&answer).0, error_of(&answer).1.as_str()), (413, "TOO_LARGE"));
    }
    // Declared enormous: refused without reading it.
    let head = format!(
        "POST /api/chat HTTP/1.1\r\nHost: localhost:{}\r\nAuthorization: Bearer {TOKEN}\r\nContent-Length: 99999999999\r\n\r\n",
        served.port
    );
    assert_eq!(served.raw(head).await.status, 413);
    // Chunked and endless: cut off.
    let chunked = format!(
        "POST /api/chat HTTP/1.1\r\nHost: localhost:{}\r\nAuthorization: Bearer {TOKEN}\r\nTransfer-Encoding: chunked\r\n\r\n{}",
        served.port,
        format!("10000\r\n{}\r\n", "x".repeat(0x10000)).repeat(200),
    );
    assert_eq!(served.raw(chunked).await.status, 413);
}

#[tokio::test]
async fn an_overlong_head_is_refused() {
    let served = Served::start().await;
    let port = served.port;
    let long =
        format!("GET /health HTTP/1.1\r\nHost: localhost:{port}\r\nX-Long: {}\r\n\r\n", "x".repeat(20_000));
    assert_eq!(served.raw(long).await.status, 431);
    let many: String = (0..80).map(|index| format!("X-{index}: 1\r\n")).collect();
    let many = format!("GET /health HTTP/1.1\r\nHost: localhost:{port}\r\n{many}\r\n");
    assert_eq!(served.raw(many).await.status, 431);
}

#[tokio::test]
async fn a_stranger_s_body_is_not_read() {
    let served = Served::start().await;
    let head = format!(
        "POST /api/chat HTTP/1.1\r\nHost: localhost:{}\r\nContent-Length: 500000\r\n\r\n",
        served.port
    );
    // The body never comes, and the answer does not wait for it.
    let begun = Instant::now();
    assert_eq!(served.raw(head).await.status, 401);
    assert!(begun.elapsed() < Duration::from_secs(5));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_idle_strangers_do_not_stop_a_real_client() {
    // The strangers' ends are in this process too.
    nexus_testkit::allow_many_files();
    let served = Served::start().await;
    let port = served.port;
    let client = served.client();
    client.requests(None).await.unwrap();
    let strangers = tokio::task::spawn_blocking(move || {
        let head = format!("GET /health HTTP/1.1\r\nHost: localhost:{port}\r\n");
        (0..1000)
            .map(|number| {
                let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
                // A third say nothing, a third begin, a third ask and then stay.
                let said = match number % 3 {
                    0 => Ok(()),
                    1 => stream.write_all(head.as_bytes()),
                    _ => stream.write_all(format!("{head}\r\n").as_bytes()),
                };
                // Those that came early may have lost their place already.
                let _ = said;
                stream
            })
            .collect::<Vec<TcpStream>>()
    })
    .await
    .unwrap();
    let begun = Instant::now();
    client.requests(None).await.unwrap();
    served.client().requests(None).await.unwrap();
    assert!(begun.elapsed() < Duration::from_secs(2), "{:?}", begun.elapsed());
    // All but a fixed few have been shown the door; the newest are still within their grace.
    let held =
        tokio::task::spawn_blocking(move || strangers.into_iter().filter(is_held).count()).await.unwrap();
    assert!((1..=256).contains(&held), "{held} strangers hold a connection");
}

/// Tells whether the server still holds this connection.
fn is_held(mut stream: &TcpStream) -> bool {
    stream.set_read_timeout(Some(Duration::from_millis(1))).unwrap();
    let mut buffer = [0; 4096];
    loop {
        match stream.read(&mut buffer) {
            Ok(0) => return false,
            Ok(_) => {}
            Err(error) => {
                return matches!(error.kind(), std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut);
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_head_that_never_ends_is_not_waited_for() {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let served = Served::start().await;
    for said in ["", "GET /hea", "GET /health HTTP/1.1\r\nHost: x\r\n"] {
        let mut stream = tokio::net::TcpStream::connect(("127.0.0.1", served.port)).await.unwrap();
        stream.write_all(said.as_bytes()).await.unwrap();
        let mut rest = Vec::new();
        // Time stands still here until everybody waits, and then passes at once.
        stream.read_to_end(&mut rest).await.unwrap();
        assert!(!rest.starts_with(b"HTTP/1.1 2"), "{said}");
    }
}
