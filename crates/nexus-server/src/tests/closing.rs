//! The way down.

use std::time::{Duration, Instant};

use nexus_protocol::error::ErrorCode;
use nexus_testkit::client::ClientError;
use serde_json::json;
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;

use super::fake::Served;

#[tokio::test]
async fn idle_connections_and_waiting_calls_do_not_delay_the_end() {
    let served = Served::start().await;
    let client = served.client();
    // One idle after use, one never used, one waiting, one streaming.
    client.requests(None).await.unwrap();
    let _unused = TcpStream::connect(("127.0.0.1", served.port)).await.unwrap();
    let mut events = client.events(None, None).await.unwrap();
    let never = serde_json::from_value(json!("never")).unwrap();
    let waiting = tokio::spawn({
        let client = served.client();
        async move { client.wait(&never, Duration::from_secs(60)).await }
    });
    served.daemon.begun.notified().await;
    let begun = Instant::now();
    let closed = served.shut_down();
    timeout(Duration::from_secs(20), closed).await.unwrap().unwrap().unwrap();
    assert!(begun.elapsed() < Duration::from_secs(4), "{:?}", begun.elapsed());
    assert_eq!(events.next().await.unwrap(), None);
    let outcome = waiting.await.unwrap();
    assert!(
        matches!(&outcome, Err(ClientError::Wire(wire, 503)) if wire.code == ErrorCode::Unavailable),
        "{outcome:?}"
    );
    assert!(matches!(client.requests(None).await, Err(ClientError::NotRunning { .. })));
}

#[tokio::test]
async fn a_message_under_way_is_still_acknowledged() {
    let served = Served::start().await;
    let (client, daemon) = (served.client(), std::sync::Arc::clone(&served.daemon));
    let sending = tokio::spawn(async move {
        client.send(serde_json::from_value(json!({"message": "slow"})).unwrap()).await
    });
    daemon.begun.notified().await;
    let port = served.port;
    let closed = served.shut_down();
    timeout(Duration::from_secs(10), async {
        while TcpStream::connect(("127.0.0.1", port)).await.is_ok() {
            tokio::task::yield_now().await;
        }
    })
    .await
    .unwrap();
    daemon.release.notify_one();
    assert_eq!(sending.await.unwrap().unwrap().request_id.as_str(), "r1");
    closed.await.unwrap().unwrap();
}

#[tokio::test]
async fn a_client_that_never_finishes_is_cut_off() {
    let served = Served::start().await;
    let client = served.client();
    let sending = tokio::spawn(async move {
        client.send(serde_json::from_value(json!({"message": "slow"})).unwrap()).await
    });
    served.daemon.begun.notified().await;
    let begun = Instant::now();
    timeout(Duration::from_secs(20), served.shut_down()).await.unwrap().unwrap().unwrap();
    assert!(begun.elapsed() >= Duration::from_secs(4), "{:?}", begun.elapsed());
    assert!(sending.await.unwrap().is_err());
}

#[tokio::test]
async fn other_machines_are_never_served() {
    let listener = TcpListener::bind(("0.0.0.0", 0)).await.unwrap();
    let daemon = super::fake::Fake::idle();
    let error = crate::serve::serve_daemon(daemon, listener, std::future::pending()).await.unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::InvalidInput);
}
