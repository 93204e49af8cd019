use nexus_base::id::RequestId;
use nexus_client::Client;

use crate::peer::{Act, Peer, answer};

#[tokio::test]
async fn a_probe_shows_no_token() {
    let peer = Peer::start(vec![Act::Say(answer("200 OK", r#"{"status":"healthy"}"#))]).await;
    nexus_client::probe(peer.port).await.unwrap();
    let request = peer.seen().requests.remove(0).to_ascii_lowercase();
    assert!(!request.contains("authorization"), "{request}");
}

#[tokio::test]
async fn the_token_is_in_the_header_and_nowhere_else() {
    let peer = Peer::start(vec![Act::Say(answer("404 Not Found", "{}"))]).await;
    let client = Client::new(peer.port, "canary-token".to_owned().into());
    let error = client.request(&RequestId::new("r")).await.unwrap_err();
    let request = peer.seen().requests.remove(0);
    assert_eq!(request.matches("canary-token").count(), 1);
    assert!(request.contains("\r\nauthorization: Bearer canary-token\r\n"), "{request}");
    assert!(request.contains(&format!("\r\nhost: 127.0.0.1:{}\r\n", peer.port)), "{request}");
    assert!(!format!("{client:?} {error:?} {error}").contains("canary-token"));
}
