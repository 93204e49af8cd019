//! Requests against a little server on loopback: who is reached, who is not, and what is cut.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use nexus_net::{BaseUrl, Kept, Net, NetError, Reach, Request};

struct Server {
    port: u16,
    seen: Arc<AtomicUsize>,
}

/// Answers every connection with the same bytes.
fn server(answer: String) -> Server {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let seen = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&seen);
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            counted.fetch_add(1, Ordering::SeqCst);
            let mut head = [0; 4096];
            let _ = stream.read(&mut head);
            let _ = stream.write_all(answer.as_bytes());
        }
    });
    Server { port, seen }
}

fn plain(body: &str) -> String {
    format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}", body.len())
}

fn configured(port: u16) -> Reach {
    Reach::Configured(BaseUrl::parse(&format!("http://127.0.0.1:{port}")).unwrap())
}

#[tokio::test]
async fn an_address_of_unknown_origin_never_reaches_this_machine() {
    let server = server(plain("secret of the house"));
    let net = Net::new();
    for host in ["127.0.0.1", "localhost", "[::1]", "0.0.0.0"] {
        let address = format!("http://{host}:{}/x?token=y", server.port);
        let error = net.send(Request::get(&address), &Reach::Public).await.unwrap_err();
        assert!(matches!(error, NetError::Kept { kept: Kept::Loopback, .. }), "{host}: {error:?}");
        assert!(!error.to_string().contains("token"));
    }
    assert_eq!(server.seen.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn a_configured_base_is_reached_wherever_it_lies() {
    let server = server(plain("hello"));
    let net = Net::new();
    let address = format!("http://127.0.0.1:{}/v1/models", server.port);
    let answer = net.send(Request::get(&address), &configured(server.port)).await.unwrap();
    assert_eq!(answer.status(), 200);
    assert_eq!(answer.bytes(100).await.unwrap(), b"hello");
    let answer = net.send(Request::get(&address), &Reach::Loopback).await.unwrap();
    assert!(matches!(answer.bytes(3).await, Err(NetError::TooLong { limit: 3, .. })));
}

#[tokio::test]
async fn a_configured_host_cannot_send_a_credential_elsewhere() {
    let target = server(plain("stolen"));
    let redirecting = server(format!(
        "HTTP/1.1 307 Temporary Redirect\r\nlocation: http://127.0.0.1:{}/\r\ncontent-length: 0\r\n\
         connection: close\r\n\r\n",
        target.port
    ));
    let request = Request::get(format!("http://127.0.0.1:{}/", redirecting.port)).header("x-api-key", "k");
    let answer = Net::new().send(request, &configured(redirecting.port)).await.unwrap();
    assert_eq!(answer.status(), 307);
    assert_eq!(target.seen.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn silence_and_absence_are_told_apart() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let request = Request::get(format!("http://127.0.0.1:{port}/")).deadline(Duration::from_millis(50));
    let error = Net::new().send(request, &Reach::Loopback).await.unwrap_err();
    assert!(matches!(error, NetError::TimedOut { .. }), "{error:?}");
    drop(listener);
    let request = Request::get(format!("http://127.0.0.1:{port}/"));
    let error = Net::new().send(request, &Reach::Loopback).await.unwrap_err();
    assert!(matches!(error, NetError::Unreachable { .. }), "{error:?}");
}
