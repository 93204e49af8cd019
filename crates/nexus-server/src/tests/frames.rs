//! Frames over real sockets: the handshake, requests, events, and what nobody may do with either.

use std::time::{Duration, Instant};

use futures_util::{SinkExt, StreamExt};
use nexus_protocol::bus::BusBody;
use nexus_protocol::methods::Method;
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::{self, Message, client::IntoClientRequest};
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream, connect_async};

use super::fake::{CANARY, READING, Served, TOKEN};

type Socket = WebSocketStream<MaybeTlsStream<TcpStream>>;

struct Peer(Socket);

impl Peer {
    async fn open(served: &Served, headers: &[(&'static str, String)]) -> Result<Self, tungstenite::Error> {
        let mut request = format!("ws://127.0.0.1:{}/ws", served.port).into_client_request().unwrap();
        for (name, value) in headers {
            request.headers_mut().insert(*name, value.parse().unwrap());
        }
        Ok(Self(connect_async(request).await?.0))
    }

    /// Opens a socket and shakes hands.
    async fn known(served: &Served, token: &str) -> Self {
        let mut peer = Self::open(served, &[]).await.unwrap();
        assert_eq!(peer.next().await["event"], "connect.challenge");
        let hello = peer
            .ask("connect", json!({ "minProtocol": 1, "maxProtocol": 1, "auth": { "token": token } }))
            .await;
        assert_eq!(hello["payload"]["type"], "hello-ok", "{hello}");
        peer
    }

    async fn send(&mut self, text: impl Into<String>) {
        self.0.send(Message::text(text.into())).await.unwrap();
    }

    async fn ask(&mut self, method: &str, params: Value) -> Value {
        self.send(json!({ "type": "req", "id": "1", "method": method, "params": params }).to_string()).await;
        loop {
            let frame = self.next().await;
            if frame["type"] == "res" {
                return frame;
            }
        }
    }

    async fn next(&mut self) -> Value {
        match self.message().await {
            Message::Text(text) => serde_json::from_str(&text).unwrap(),
            other => panic!("{other:?}"),
        }
    }

    async fn message(&mut self) -> Message {
        loop {
            let message = timeout(Duration::from_secs(20), self.0.next()).await.unwrap().unwrap().unwrap();
            if !matches!(message, Message::Ping(_) | Message::Pong(_)) {
                return message;
            }
        }
    }

    /// Reads until the close frame and returns its code, or none when the line just ended.
    async fn close_code(&mut self) -> Option<CloseCode> {
        loop {
            match timeout(Duration::from_secs(20), self.0.next()).await.unwrap() {
                Some(Ok(Message::Close(frame))) => return frame.map(|frame| frame.code),
                Some(Ok(_)) => {}
                Some(Err(_)) | None => return None,
            }
        }
    }
}

fn status(error: &tungstenite::Error) -> u16 {
    match error {
        tungstenite::Error::Http(response) => response.status().as_u16(),
        other => panic!("{other}"),
    }
}

#[tokio::test]
async fn a_foreign_page_or_name_is_refused_before_the_upgrade() {
    let served = Served::start().await;
    let own = format!("127.0.0.1:{}", served.port);
    let bearer = ("authorization", format!("Bearer {TOKEN}"));
    for headers in [
        vec![("origin", "http://evil.example".to_owned())],
        vec![("origin", format!("http://127.0.0.1:{}", served.port.wrapping_add(1)))],
        vec![("origin", "null".to_owned()), bearer.clone()],
        vec![("host", "evil.example".to_owned()), bearer.clone()],
        vec![("host", format!("evil.example:{}", served.port)), bearer.clone()],
    ] {
        let refused = Peer::open(&served, &headers).await.map(|_| ()).unwrap_err();
        assert_eq!(status(&refused), 403, "{headers:?}");
    }
    assert!(Peer::open(&served, &[("origin", format!("http://{own}"))]).await.is_ok());
    let wrong =
        Peer::open(&served, &[("authorization", "Bearer wrong".to_owned())]).await.map(|_| ()).unwrap_err();
    assert_eq!(status(&wrong), 401);
}

#[tokio::test]
async fn the_handshake_tells_what_this_token_may_do() {
    let served = Served::start().await;
    let mut peer = Peer::open(&served, &[("authorization", format!("Bearer {READING}"))]).await.unwrap();
    let nonce = peer.next().await["payload"]["nonce"].clone();
    let hello =
        peer.ask("connect", json!({ "minProtocol": 1, "maxProtocol": 9, "nonce": nonce })).await["payload"]
            .clone();
    assert_eq!(hello["protocol"], 1);
    assert_eq!(
        hello["policy"],
        json!({ "maxPayload": 524_288, "maxBufferedBytes": 1_572_864, "tickIntervalMs": 15_000 })
    );
    let methods: Vec<&str> =
        hello["features"]["methods"].as_array().unwrap().iter().map(|name| name.as_str().unwrap()).collect();
    let reading: Vec<&str> = Method::ALL
        .iter()
        .map(|method| method.entry())
        .filter(|entry| !entry.is_mutating())
        .map(|entry| entry.name)
        .collect();
    assert_eq!(methods, reading);
    assert_eq!(peer.ask("chat.send", json!({})).await["error"]["code"], "FORBIDDEN");
}

#[tokio::test]
async fn every_method_of_the_table_is_reachable_over_a_frame() {
    let served = Served::start().await;
    let mut peer = Peer::known(&served, TOKEN).await;
    for method in Method::ALL {
        // Those that wait are tried elsewhere.
        if *method == Method::ChatWait {
            continue;
        }
        let answer = peer.ask(method.entry().name, json!({})).await;
        let expected = *method != Method::Connect;
        assert_eq!(answer["ok"], expected, "{method:?}: {answer}");
        // Only an answer that hands over a token may show what is secret everywhere else.
        let shows = answer.to_string().contains(CANARY);
        assert_eq!(shows, method.hands_over_a_secret(), "{method:?}: {answer}");
    }
    assert_eq!(peer.ask("no.such", json!({})).await["error"]["code"], "NOT_FOUND");
}

#[tokio::test]
async fn a_handshake_that_is_wrong_ends_the_connection() {
    let served = Served::start().await;
    for (method, params, code) in [
        ("health", json!({}), "INVALID_REQUEST"),
        (
            "connect",
            json!({ "minProtocol": 2, "maxProtocol": 3, "auth": { "token": TOKEN } }),
            "INVALID_REQUEST",
        ),
        (
            "connect",
            json!({ "minProtocol": 1, "maxProtocol": 1, "nonce": "other", "auth": { "token": TOKEN } }),
            "INVALID_REQUEST",
        ),
        ("connect", json!({ "minProtocol": 1, "maxProtocol": 1 }), "UNAUTHORIZED"),
        (
            "connect",
            json!({ "minProtocol": 1, "maxProtocol": 1, "auth": { "token": "wrong" } }),
            "UNAUTHORIZED",
        ),
        (
            "connect",
            json!({ "minProtocol": 1, "maxProtocol": 1, "auth": { "password": "x" } }),
            "INVALID_REQUEST",
        ),
        (
            "connect",
            json!({ "minProtocol": 1, "maxProtocol": 1, "auth": { "token": READING }, "scopes": ["control.*.*"] }),
            "FORBIDDEN",
        ),
    ] {
        let mut peer = Peer::open(&served, &[]).await.unwrap();
        let answer = peer.ask(method, params.clone()).await;
        assert_eq!(answer["error"]["code"], code, "{params}");
        assert_eq!(peer.close_code().await, Some(CloseCode::Policy), "{params}");
    }
    assert!(served.daemon.taken.lock().unwrap().is_empty());
}

#[tokio::test]
async fn a_client_may_ask_for_less() {
    let served = Served::start().await;
    let mut peer = Peer::open(&served, &[]).await.unwrap();
    let params = json!({ "minProtocol": 1, "maxProtocol": 1, "auth": { "token": TOKEN }, "scopes": ["control.chat.*"] });
    assert_eq!(peer.ask("connect", params).await["payload"]["scopes"], json!(["control.chat.*"]));
    assert_eq!(peer.ask("chat.send", json!({ "message": "x" })).await["ok"], true);
    assert_eq!(peer.ask("config.get", json!({})).await["error"]["code"], "FORBIDDEN");
}

#[tokio::test]
async fn malformed_frames_get_a_code_and_too_many_of_them_the_door() {
    let served = Served::start().await;
    let mut peer = Peer::known(&served, TOKEN).await;
    let deep = "[".repeat(100_000);
    for text in ["", "{", "null", r#"{"type":"req"}"#, &deep] {
        peer.send(text).await;
        let answer = peer.next().await;
        assert_eq!((&answer["ok"], &answer["error"]["code"]), (&json!(false), &json!("INVALID_REQUEST")));
    }
    // Still there.
    assert_eq!(peer.ask("health", json!({})).await["ok"], true);
    for _ in 0..11 {
        peer.send("{").await;
    }
    assert_eq!(peer.close_code().await, Some(CloseCode::Policy));
}

#[tokio::test]
async fn overlong_binary_and_broken_text_frames_close_with_their_own_code() {
    let served = Served::start().await;
    let mut peer = Peer::known(&served, TOKEN).await;
    peer.send("x".repeat(512 * 1024 + 1)).await;
    assert_eq!(peer.next().await["error"]["code"], "TOO_LARGE");
    assert_eq!(peer.close_code().await, Some(CloseCode::Size));

    let mut peer = Peer::known(&served, TOKEN).await;
    peer.0.send(Message::binary(vec![1, 2, 3])).await.unwrap();
    assert_eq!(peer.next().await["error"]["code"], "INVALID_REQUEST");
    assert_eq!(peer.close_code().await, Some(CloseCode::Unsupported));

    let mut peer = Peer::known(&served, TOKEN).await;
    use tokio_tungstenite::tungstenite::protocol::frame::{
        Frame,
        coding::{Data, OpCode},
    };
    let broken = Frame::message(vec![0xff, 0xfe, 0xfd], OpCode::Data(Data::Text), true);
    peer.0.send(Message::Frame(broken)).await.unwrap();
    assert_eq!(peer.next().await["error"]["code"], "INVALID_REQUEST");
    assert_eq!(peer.close_code().await, Some(CloseCode::Invalid));
    // A frame that fills the limit is taken.
    let mut peer = Peer::known(&served, TOKEN).await;
    let rest =
        json!({ "type": "req", "id": "1", "method": "health", "params": { "x": "" } }).to_string().len();
    let answer = peer.ask("health", json!({ "x": "y".repeat(512 * 1024 - rest) })).await;
    assert_eq!(answer["ok"], true);
}

#[tokio::test]
async fn events_come_only_when_asked_for_and_only_those() {
    let served = Served::start().await;
    let mut peer = Peer::known(&served, TOKEN).await;
    served.publish(None, BusBody::Stopping);
    let answer = peer.ask("events.subscribe", json!({ "types": ["nex.request.stage"], "after": 0 })).await;
    assert_eq!(answer["payload"]["subscribed"], true);
    served.publish(None, BusBody::ConfigReloaded);
    let stage = serde_json::from_value(
        json!({ "type": "nex.request.stage", "properties": { "request_id": "r", "stage": CANARY } }),
    )
    .unwrap();
    served.publish(Some("r"), stage);
    let event = peer.next().await;
    assert_eq!(
        (&event["type"], &event["event"], &event["seq"]),
        (&json!("event"), &json!("nex.request.stage"), &json!(3))
    );
    assert_eq!(event["payload"]["properties"]["stage"], "[redacted]");
    peer.ask("events.unsubscribe", json!({})).await;
    served.publish(None, BusBody::ConfigReloaded);
    assert_eq!(
        peer.ask("events.subscribe", json!({ "types": ["no.such"] })).await["error"]["code"],
        "INVALID_REQUEST"
    );
}

#[tokio::test]
async fn rotation_ends_open_sockets_and_streams_at_once() {
    let served = Served::start().await;
    let mut peer = Peer::known(&served, TOKEN).await;
    let mut other = Peer::known(&served, READING).await;
    let client = served.client();
    let mut events = client.events(None, None).await.unwrap();
    let waiting = tokio::spawn({
        let client = served.client();
        async move { client.wait(&serde_json::from_value(json!("never")).unwrap(), Duration::from_secs(60)).await }
    });
    served.daemon.begun.notified().await;
    *served.daemon.token.lock().unwrap() = "another-token-another-token-another-token".to_owned();
    let begun = Instant::now();
    served.daemon.changes.send_modify(|count| *count += 1);
    assert_eq!(peer.close_code().await, Some(CloseCode::Policy));
    assert_eq!(events.next().await.unwrap(), None);
    assert!(waiting.await.unwrap().is_err());
    assert!(begun.elapsed() < Duration::from_secs(2), "{:?}", begun.elapsed());
    // A token that still holds keeps its socket.
    assert_eq!(other.ask("health", json!({})).await["ok"], true);
    assert_eq!(served.get("/api/requests").await.status, 401);
}

#[tokio::test]
async fn a_client_that_does_not_read_is_dropped_and_nobody_else_notices() {
    let served = Served::start().await;
    let mut slow = Peer::known(&served, TOKEN).await;
    slow.ask("events.subscribe", json!({})).await;
    let mut quick = Peer::known(&served, TOKEN).await;
    let long = "x".repeat(64 * 1024);
    let begun = Instant::now();
    loop {
        let body = json!({ "type": "nex.request.stage", "properties": { "request_id": "r", "stage": long } });
        served.publish(Some("r"), serde_json::from_value(body).unwrap());
        assert_eq!(quick.ask("health", json!({})).await["ok"], true);
        let figures = served.get("/metrics").await.body;
        if figures.contains("nexus_slow_clients_dropped_total 1") {
            break;
        }
        assert!(begun.elapsed() < Duration::from_secs(20), "{figures}");
    }
    assert_eq!(slow.close_code().await, None, "cut, not asked to go");
}

#[tokio::test(start_paused = true)]
async fn a_socket_that_never_shakes_hands_is_not_kept() {
    let served = Served::start().await;
    let mut peer = Peer::open(&served, &[]).await.unwrap();
    assert_eq!(peer.next().await["event"], "connect.challenge");
    // Time passes at once while everybody waits.
    assert!(peer.close_code().await.is_some());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn idle_sockets_of_strangers_make_room_for_a_real_client() {
    nexus_testkit::allow_many_files();
    let served = Served::start().await;
    let mut strangers = Vec::new();
    for _ in 0..400 {
        strangers.push(Peer::open(&served, &[]).await.unwrap());
    }
    let mut peer = Peer::known(&served, TOKEN).await;
    assert_eq!(peer.ask("health", json!({})).await["ok"], true);
    let figures = served.get("/metrics").await.body;
    let open: u64 =
        figures.lines().find_map(|line| line.strip_prefix("nexus_sockets_open ")).unwrap().parse().unwrap();
    assert!(open <= 258, "{open} sockets are held");
}

#[tokio::test]
async fn sockets_end_with_the_server() {
    let served = Served::start().await;
    let mut peer = Peer::known(&served, TOKEN).await;
    let begun = Instant::now();
    let closed = served.shut_down();
    assert_eq!(peer.close_code().await, Some(CloseCode::Away));
    closed.await.unwrap().unwrap();
    assert!(begun.elapsed() < Duration::from_secs(4), "{:?}", begun.elapsed());
}
