use nexus_client::{Client, ClientError};
use nexus_protocol::chat::{ChatAbort, ChatSend};

use crate::peer::{Act, Peer, answer};

const ACCEPTED: &str = r#"{"requestId":"r","eventId":"e","session":"s","duplicate":false}"#;

fn hello() -> ChatSend {
    ChatSend {
        message: "hello".to_owned(),
        session: None,
        idempotency_key: None,
        project: None,
        queue_mode: None,
        model: None,
    }
}

#[tokio::test]
async fn calls_in_a_row_share_one_connection() {
    let peer = Peer::start(vec![Act::Say(answer("200 OK", r#"{"sessions":[]}"#)); 5]).await;
    let client = Client::new(peer.port, "t".to_owned().into());
    for _ in 0..5 {
        assert_eq!(client.clone().sessions(None).await.unwrap(), []);
    }
    assert_eq!(peer.seen().connections, 1);
}

#[tokio::test]
async fn a_connection_closed_while_idle_is_replaced() {
    let listing = answer("200 OK", r#"{"requests":[]}"#);
    let peer = Peer::start(vec![
        Act::SayInPieces(vec![listing.clone()]),
        Act::SayInPieces(vec![listing.clone()]),
        Act::SayInPieces(vec![listing]),
    ])
    .await;
    let client = Client::new(peer.port, "t".to_owned().into());
    for _ in 0..3 {
        assert_eq!(client.requests(Some(3)).await.unwrap(), []);
    }
    assert_eq!(peer.seen().connections, 3);
}

#[tokio::test]
async fn a_message_whose_acknowledgement_was_lost_is_sent_again_under_the_same_key() {
    let peer = Peer::start(vec![Act::HangUp, Act::Say(answer("200 OK", ACCEPTED))]).await;
    let client = Client::new(peer.port, "t".to_owned().into());
    assert_eq!(client.send(hello()).await.unwrap().request_id.as_str(), "r");
    let bodies: Vec<String> = peer
        .seen()
        .requests
        .iter()
        .map(|request| request.split_once("\r\n\r\n").unwrap().1.to_owned())
        .collect();
    assert_eq!(bodies.len(), 2);
    assert_eq!(bodies[0], bodies[1]);
    assert!(bodies[0].contains("idempotencyKey"), "{}", bodies[0]);
}

#[tokio::test]
async fn an_abort_is_never_sent_twice() {
    let peer = Peer::start(vec![Act::HangUp, Act::Say(answer("200 OK", r#"{"aborted":true}"#))]).await;
    let client = Client::new(peer.port, "t".to_owned().into());
    let outcome = client.abort(&ChatAbort { session: None, workers: false }).await;
    assert!(matches!(outcome, Err(ClientError::Disconnected { .. })), "{outcome:?}");
    assert_eq!(peer.seen().requests.len(), 1);
}
