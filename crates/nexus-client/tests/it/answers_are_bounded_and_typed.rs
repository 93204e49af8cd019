use std::time::Duration;

use nexus_base::id::RequestId;
use nexus_client::{Client, ClientError};
use nexus_protocol::error::ErrorCode;
use nexus_protocol::status::Health;

use crate::peer::{Act, Peer, answer};

async fn client_of(script: Vec<Act>) -> (Client, Peer) {
    let peer = Peer::start(script).await;
    (Client::new(peer.port, "t".to_owned().into()), peer)
}

#[tokio::test]
async fn nobody_there() {
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    drop(listener);
    let outcome = Client::new(port, "t".to_owned().into()).sessions(None).await;
    assert!(matches!(outcome, Err(ClientError::NotRunning { port: tried }) if tried == port), "{outcome:?}");
}

#[tokio::test]
async fn the_daemons_own_error_comes_through_with_its_status() {
    let body = r#"{"error":{"code":"NOT_FOUND","message":"no request named x","hint":"look again"}}"#;
    let (client, _peer) = client_of(vec![Act::Say(answer("404 Not Found", body))]).await;
    let error = client.request(&RequestId::new("x")).await.unwrap_err();
    assert_eq!(error.hint(), Some("look again"));
    assert_eq!(error.to_string(), "no request named x");
    assert!(matches!(error, ClientError::Wire(wire, 404) if wire.code == ErrorCode::NotFound));
}

#[tokio::test]
async fn another_program_on_the_port_is_told_apart() {
    for body in [&answer("200 OK", "<html>")[..], &answer("500 Oh", "<html>"), b"SSH-2.0-OpenSSH_9\r\n"] {
        let (client, _peer) = client_of(vec![Act::Say(body.to_vec())]).await;
        let outcome = client.sessions(None).await;
        assert!(matches!(outcome, Err(ClientError::BadAnswer { .. })), "{outcome:?}");
    }
}

#[tokio::test]
async fn an_endless_answer_is_cut_off() {
    let mut pieces = vec![b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n".to_vec()];
    let mut chunk = b"100000\r\n".to_vec();
    chunk.extend(vec![b' '; 0x10_0000]);
    chunk.extend(b"\r\n");
    pieces.extend(vec![chunk; 20]);
    let (client, _peer) = client_of(vec![Act::SayInPieces(pieces)]).await;
    let outcome = client.sessions(None).await;
    assert!(
        matches!(&outcome, Err(ClientError::BadAnswer { reason, .. }) if reason.contains("longer")),
        "{outcome:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_silent_daemon_is_not_waited_for_without_end() {
    let (client, _peer) = client_of(vec![Act::Silence]).await;
    let outcome = client.sessions(None).await;
    assert!(matches!(outcome, Err(ClientError::Timeout { .. })), "{outcome:?}");
}

#[tokio::test]
async fn health_is_read_also_when_the_daemon_is_not_well() {
    let (_, peer) =
        client_of(vec![Act::Say(answer("503 Service Unavailable", r#"{"status":"starting"}"#))]).await;
    assert_eq!(nexus_client::probe(peer.port).await.unwrap().status, Health::Starting);
}

#[tokio::test]
async fn the_brief_health_given_to_a_wrong_token_is_called_unauthorized() {
    let (client, _peer) = client_of(vec![Act::Say(answer("200 OK", r#"{"status":"healthy"}"#))]).await;
    let outcome = client.health().await;
    assert!(
        matches!(&outcome, Err(ClientError::Wire(wire, 401)) if wire.code == ErrorCode::Unauthorized),
        "{outcome:?}"
    );
}

#[tokio::test]
async fn waiting_asks_again_until_quiescent() {
    let line = |quiescent: bool| format!(r#"{{"requestId":"r","quiescent":{quiescent},"replies":[]}}"#);
    let (client, peer) = client_of(vec![
        Act::Say(answer("200 OK", &line(false))),
        Act::Say(answer("200 OK", &line(false))),
        Act::Say(answer("200 OK", &line(true))),
    ])
    .await;
    let waited = client.wait(&RequestId::new("r"), Duration::from_secs(120)).await.unwrap();
    assert!(waited.quiescent);
    let requests = peer.seen().requests;
    assert_eq!(requests.len(), 3);
    assert!(
        requests[0].starts_with("GET /api/chat/wait?request=r&timeoutMs=60000 HTTP/1.1\r\n"),
        "{}",
        requests[0]
    );
}
