//! The event stream as a client sees it.

use std::time::Duration;

use nexus_protocol::bus::BusBody;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::fake::{Served, TOKEN};

fn stage(request: &str) -> BusBody {
    serde_json::from_value(
        json!({"type": "nex.request.stage", "properties": {"request_id": request, "stage": "x"}}),
    )
    .unwrap()
}

async fn open(served: &Served, query: &str, headers: &str) -> TcpStream {
    let mut stream = TcpStream::connect(("127.0.0.1", served.port)).await.unwrap();
    let head = format!(
        "GET /api/events/stream{query} HTTP/1.1\r\nHost: localhost:{}\r\nAuthorization: Bearer {TOKEN}\r\n{headers}\r\n",
        served.port
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    stream
}

async fn read_until(stream: &mut TcpStream, seen: &mut String, what: &str) {
    timeout(Duration::from_secs(60), async {
        let mut buffer = [0; 4096];
        while !seen.contains(what) {
            let count = stream.read(&mut buffer).await.unwrap();
            assert_ne!(count, 0, "the stream ended without {what}: {seen}");
            seen.push_str(&String::from_utf8_lossy(&buffer[..count]));
        }
    })
    .await
    .unwrap_or_else(|_| panic!("no {what} in {seen}"));
}

#[tokio::test]
async fn events_have_number_name_and_data() {
    let served = Served::start().await;
    let mut stream = open(&served, "", "").await;
    let mut seen = String::new();
    read_until(&mut stream, &mut seen, ": open\nretry: 1000\n\n").await;
    assert!(seen.contains("content-type: text/event-stream\r\n"), "{seen}");
    served.publish(Some("r1"), stage("r1"));
    read_until(&mut stream, &mut seen, "\n\n\r\n").await;
    read_until(&mut stream, &mut seen, "id: 1\nevent: nex.request.stage\ndata: {\"seq\":1,").await;
}

#[tokio::test]
async fn a_client_sees_its_own_tree_from_where_it_left_off() {
    let served = Served::start().await;
    for root in ["r1", "r2", "r1", "r2", "r1"] {
        served.publish(Some(root), stage(root));
    }
    let root = serde_json::from_value(json!("r1")).unwrap();
    let mut events = served.client().events(Some(&root), Some(1)).await.unwrap();
    assert_eq!(events.next().await.unwrap().unwrap().seq, 3);
    assert_eq!(events.next().await.unwrap().unwrap().seq, 5);
    served.publish(Some("r2"), stage("r2"));
    served.publish(Some("r1"), stage("r1"));
    assert_eq!(events.next().await.unwrap().unwrap().seq, 7);
    assert_eq!(events.last_seen(), Some(7));
}

#[tokio::test]
async fn kinds_can_be_chosen() {
    let served = Served::start().await;
    let mut stream = open(&served, "?types=system.config_reloaded", "").await;
    let mut seen = String::new();
    read_until(&mut stream, &mut seen, ": open").await;
    served.publish(None, stage("r1"));
    served.publish(None, BusBody::ConfigReloaded);
    read_until(&mut stream, &mut seen, "event: system.config_reloaded").await;
    assert!(!seen.contains("nex.request.stage"), "{seen}");
}

#[tokio::test]
async fn a_number_that_cannot_be_an_event_s_is_refused() {
    let served = Served::start().await;
    for number in ["x", "-1", "", "18446744073709551615", "99999999999999999999"] {
        let head = format!(
            "GET /api/events/stream HTTP/1.1\r\nHost: localhost:{}\r\nAuthorization: Bearer {TOKEN}\r\n\
             Last-Event-ID: {number}\r\nConnection: close\r\n\r\n",
            served.port
        );
        assert_eq!(timeout(Duration::from_secs(20), served.raw(head)).await.unwrap().status, 400, "{number}");
    }
}

#[tokio::test(start_paused = true)]
async fn silence_is_filled_with_heartbeats() {
    let served = Served::start().await;
    let mut stream = open(&served, "", "").await;
    let mut seen = String::new();
    let begun = tokio::time::Instant::now();
    read_until(&mut stream, &mut seen, ": still here").await;
    assert!(begun.elapsed() >= Duration::from_secs(15));
}

#[tokio::test]
async fn a_slow_reader_learns_what_it_missed_and_holds_nobody_up() {
    let served = Served::start().await;
    let mut slow = served.client().events(None, None).await.unwrap();
    let mut quick = served.client().events(None, None).await.unwrap();
    let text = "x".repeat(4096);
    let delta = |number: u32| -> BusBody {
        serde_json::from_value(json!({"type": "agent.streaming.token", "properties": {
            "request_id": "r", "session": "s", "turn_id": "t", "attempt": number, "text": text}}))
        .unwrap()
    };
    // More than the sockets and the bus hold together.
    const MANY: u32 = 8_000;
    for number in 0..MANY {
        served.publish(None, delta(number));
        let event = quick.next().await.unwrap().unwrap();
        assert!(matches!(event.body, BusBody::Delta { attempt, .. } if attempt == number), "{event:?}");
    }
    let (mut received, mut missed) = (0, 0);
    while received + missed < u64::from(MANY) {
        match slow.next().await.unwrap().unwrap().body {
            BusBody::Gap { missed: more } => missed += more,
            _ => received += 1,
        }
    }
    assert!(missed > 0 && received > 1000, "{received} received, {missed} missed");
}

#[tokio::test]
async fn a_stopping_daemon_ends_streams_after_what_was_said() {
    let served = Served::start().await;
    let mut events = served.client().events(None, None).await.unwrap();
    served.publish(None, stage("r1"));
    served.publish(None, BusBody::Stopping);
    served.daemon.stopping.cancel();
    assert_eq!(events.next().await.unwrap().unwrap().seq, 1);
    assert_eq!(events.next().await.unwrap().unwrap().body, BusBody::Stopping);
    assert_eq!(timeout(Duration::from_secs(10), events.next()).await.unwrap().unwrap(), None);
}
