//! Bodies, parameters and errors on their way in and out.

use std::time::Duration;

use nexus_protocol::chat::{ChatAbort, ChatSend};
use nexus_protocol::error::ErrorCode;
use nexus_testkit::client::ClientError;
use proptest::prelude::*;
use serde_json::json;

use super::fake::{CANARY, Served, error_of};

fn message(text: &str) -> ChatSend {
    serde_json::from_value(json!({"message": text})).unwrap()
}

#[tokio::test]
async fn the_typed_client_and_the_routes_agree() {
    let served = Served::start().await;
    let client = served.client();
    assert_eq!(client.health().await.unwrap().pid, 7);
    let accepted = client.send(message("hello")).await.unwrap();
    assert_eq!(accepted.request_id.as_str(), "r1");
    let session = serde_json::from_value(json!("dm:entity owner/ü")).unwrap();
    let history = client.history(Some(&session), Some(7)).await.unwrap();
    assert_eq!(history.session.as_str(), r#"Some("dm:entity owner/ü")/7"#);
    assert_eq!(client.history(None, None).await.unwrap().session.as_str(), "None/50");
    let waited = client.wait(&accepted.request_id, Duration::from_millis(1500)).await.unwrap();
    assert!(waited.request_id.as_str().starts_with("r1/1"), "{waited:?}");
    assert!(client.abort(&ChatAbort { session: None, workers: true }).await.unwrap().aborted);
    assert_eq!(client.requests(Some(2)).await.unwrap().len(), 2);
    let odd = serde_json::from_value(json!("a/../b ?c#%2f")).unwrap();
    let error = client.request(&odd).await.unwrap_err();
    assert_eq!(error.to_string(), "no request named a/../b ?c#%2f");
    assert!(matches!(error, ClientError::Wire(wire, 404) if wire.code == ErrorCode::NotFound));
    assert_eq!(*served.daemon.taken.lock().unwrap(), ["hello"]);
}

#[tokio::test]
async fn what_is_wrong_with_a_body_is_said() {
    let served = Served::start().await;
    for (body, expected) in [
        ("", "EOF while parsing"),
        ("nonsense", "expected ident"),
        ("{\"message\":\"a\"", "EOF while parsing"),
        (r#"{"message":"a","massage":1}"#, "unknown field `massage`"),
        (r#"{"session":"a"}"#, "missing field `message`"),
        (r#"{"message":7}"#, "invalid type: integer `7`"),
        (r#"{"message":"a","queueMode":"jump"}"#, "unknown variant `jump`"),
        (r#"{"message":"a"} {"#, "trailing characters"),
        (&"[".repeat(100_000), "invalid type"),
    ] {
        let (status, code, text) = error_of(&served.post("/api/chat", body).await);
        assert_eq!((status, code.as_str()), (400, "INVALID_REQUEST"), "{body:.40}");
        assert!(text.contains(expected), "{text}");
    }
    let mut bytes = nexus_testkit::http::request(
        "POST",
        served.port,
        "/api/chat",
        Some(super::fake::TOKEN),
        "{\"message\":\"??\"}",
    );
    let place = bytes.windows(2).position(|pair| pair == b"??").unwrap();
    bytes[place..place + 2].copy_from_slice(&[0xff, 0xfe]);
    assert_eq!(error_of(&served.raw(bytes).await).0, 400);
    assert!(served.daemon.taken.lock().unwrap().is_empty());
}

#[tokio::test]
async fn what_is_wrong_with_parameters_is_said() {
    let served = Served::start().await;
    let long = "x".repeat(600);
    for (target, expected) in [
        ("/api/chat/history?limit=0", "between 1 and 1000"),
        ("/api/chat/history?limit=1001", "between 1 and 1000"),
        ("/api/chat/history?limit=-1", "invalid digit"),
        ("/api/chat/history?session=", "session must have"),
        ("/api/chat/history?sesion=a", "unknown field `sesion`"),
        ("/api/chat/wait", "missing field `request`"),
        ("/api/chat/wait?request=a&timeoutMs=600001", "at most 600000"),
        ("/api/chat/wait?request=a%0Ab", "no control characters"),
        (&format!("/api/requests/{long}"), "1 to 512 bytes"),
        ("/api/requests/%ff", "Invalid UTF-8"),
        ("/api/events/stream?types=chat.finale", "an unknown event"),
        ("/api/events/stream?since=4", "unknown field `since`"),
    ] {
        let (status, code, text) = error_of(&served.get(target).await);
        assert_eq!((status, code.as_str()), (400, "INVALID_REQUEST"), "{target:.60}");
        assert!(text.contains(expected), "{target:.60}: {text}");
    }
    let answer = served.get("/api/chat/wait?request=a").await;
    assert_eq!(answer.json()["requestId"], "a/30000");
}

#[tokio::test]
async fn the_daemon_s_own_refusal_keeps_its_code_and_hint() {
    let served = Served::start().await;
    let answer = served.post("/api/chat", r#"{"message":""}"#).await;
    assert_eq!(answer.status, 400);
    assert_eq!(
        answer.json(),
        json!({"error": {"code": "INVALID_REQUEST", "message": "empty", "hint": "say it"}})
    );
}

#[tokio::test]
async fn a_defect_ends_its_request_and_nothing_else() {
    let served = Served::start().await;
    for answer in
        [served.post("/api/chat", r#"{"message":"panic"}"#).await, served.get("/api/sessions").await]
    {
        assert_eq!(error_of(&answer).1, "INTERNAL");
        assert_eq!(answer.status, 500);
    }
    assert_eq!(served.post("/api/chat", r#"{"message":"on"}"#).await.status, 200);
}

#[tokio::test]
async fn a_message_is_taken_to_its_end_although_its_sender_hung_up() {
    let served = Served::start().await;
    let client = served.client();
    let sending = tokio::spawn(async move { client.send(message("slow")).await });
    served.daemon.begun.notified().await;
    sending.abort();
    assert!(sending.await.unwrap_err().is_cancelled());
    // The server sees the closed connection before the daemon goes on.
    assert_eq!(served.get("/health").await.status, 200);
    served.daemon.release.notify_one();
    tokio::time::timeout(Duration::from_secs(10), async {
        while served.daemon.taken.lock().unwrap().is_empty() {
            tokio::task::yield_now().await;
        }
    })
    .await
    .unwrap();
    assert_eq!(*served.daemon.taken.lock().unwrap(), ["slow"]);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn any_bytes_get_an_answer_or_a_closed_door(bytes in proptest::collection::vec(any::<u8>(), 1..400)) {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        runtime.block_on(async {
            let served = Served::start().await;
            let port = served.port;
            let sent = tokio::task::spawn_blocking(move || {
                use std::io::{Read, Write};
                let mut stream = std::net::TcpStream::connect(("127.0.0.1", port)).unwrap();
                let _ = stream.write_all(&bytes);
                let _ = stream.shutdown(std::net::Shutdown::Write);
                let mut answer = Vec::new();
                let _ = stream.read_to_end(&mut answer);
                answer
            });
            let answer = sent.await.unwrap();
            assert!(!answer.starts_with(b"HTTP/1.1 2"), "{}", String::from_utf8_lossy(&answer));
            assert_eq!(served.ask("GET", "/health", None, "").await.status, 200);
        });
    }
}

#[tokio::test]
async fn an_answer_that_holds_a_secret_comes_without_it_and_whole() {
    let served = Served::start().await;
    let answer = served.get(&format!("/api/requests/{CANARY}")).await;
    assert_eq!((answer.status, answer.body.contains("[redacted]")), (404, true), "{answer:?}");
    let answer = served.post("/api/call", r#"{"method":"status"}"#).await;
    assert_eq!((answer.status, &answer.json()["canary"]), (200, &"[redacted]".into()));
}
