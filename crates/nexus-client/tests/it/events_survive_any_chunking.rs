use nexus_client::{Client, ClientError};
use nexus_protocol::bus::BusBody;

use crate::peer::{Act, Peer};

const STREAM: &str = ": open\n\nid: 1\nevent: system.config_reloaded\ndata: {\"seq\":1,\"at\":5,\"type\":\"system.config_reloaded\"}\n\n\
: hb\n\nid: 2\nevent: bus.gap\ndata: {\"seq\":2,\"at\":6,\"type\":\"bus.gap\",\"properties\":{\"missed\":4}}\n\n";
const HEAD: &str = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";

fn pieces(of: usize, ended: bool) -> Act {
    let mut pieces = vec![HEAD.as_bytes().to_vec()];
    for piece in STREAM.as_bytes().chunks(of) {
        let mut chunk = format!("{:x}\r\n", piece.len()).into_bytes();
        chunk.extend_from_slice(piece);
        chunk.extend_from_slice(b"\r\n");
        pieces.push(chunk);
    }
    if ended {
        pieces.push(b"0\r\n\r\n".to_vec());
    }
    Act::SayInPieces(pieces)
}

#[tokio::test]
async fn events_arrive_in_order_and_the_end_is_seen() {
    for size in [1, 7, 64, 4096] {
        let peer = Peer::start(vec![pieces(size, true)]).await;
        let client = Client::new(peer.port, "t".to_owned().into());
        let mut events = client.events(None, Some(41)).await.unwrap();
        assert_eq!(events.last_seen(), Some(41));
        assert_eq!(events.next().await.unwrap().unwrap().body, BusBody::ConfigReloaded);
        assert_eq!(events.next().await.unwrap().unwrap().body, BusBody::Gap { missed: 4 });
        assert_eq!(events.last_seen(), Some(2));
        assert_eq!(events.next().await.unwrap(), None);
        assert!(peer.seen().requests[0].contains("\r\nlast-event-id: 41\r\n"));
    }
}

#[tokio::test]
async fn a_daemon_that_died_is_no_orderly_end() {
    let peer = Peer::start(vec![pieces(4096, false)]).await;
    let client = Client::new(peer.port, "t".to_owned().into());
    let mut events = client.events(None, None).await.unwrap();
    events.next().await.unwrap().unwrap();
    events.next().await.unwrap().unwrap();
    let outcome = events.next().await;
    assert!(matches!(outcome, Err(ClientError::Disconnected { .. })), "{outcome:?}");
}
