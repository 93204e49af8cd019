//! Right and wrong tokens.

use std::time::{Duration, Instant};

use nexus_protocol::status::Health;

use super::fake::{Served, TOKEN};

#[tokio::test]
async fn health_tells_strangers_one_word_and_the_owner_everything() {
    let served = Served::start().await;
    let brief = served.ask("GET", "/health", None, "").await;
    assert_eq!((brief.status, brief.body.as_str()), (200, r#"{"status":"healthy"}"#));
    assert_eq!(served.get("/health").await.json()["pid"], 7);
    for (health, status) in [
        (Health::Starting, 503),
        (Health::Healthy, 200),
        (Health::Degraded, 200),
        (Health::Unhealthy, 503),
        (Health::Stopping, 503),
    ] {
        *served.daemon.health.lock().unwrap() = health;
        assert_eq!(served.ask("GET", "/health", None, "").await.status, status);
        assert_eq!(served.get("/health").await.status, status);
    }
}

#[tokio::test]
async fn wrong_tokens_wait_on_every_route_and_the_owner_never_does() {
    let served = Served::start().await;
    let begun = Instant::now();
    for _ in 0..2 {
        assert_eq!(served.ask("GET", "/api/sessions", Some("wrong"), "").await.status, 401);
    }
    // The open route answers as to a stranger, but no faster: it would tell right from wrong.
    let brief = served.ask("GET", "/health", Some("wrong"), "").await;
    assert_eq!(brief.body, r#"{"status":"healthy"}"#);
    assert!(begun.elapsed() >= Duration::from_millis(100 + 200 + 400), "{:?}", begun.elapsed());

    // While many wrong ones wait, the right one is answered at once.
    let guesses: Vec<_> = (0..40)
        .map(|guess| {
            let port = served.port;
            tokio::task::spawn_blocking(move || {
                let bytes =
                    nexus_testkit::http::request("GET", port, "/api/requests", Some(&format!("{guess}")), "");
                nexus_testkit::http::exchange(port, &bytes).unwrap().status
            })
        })
        .collect();
    let begun = Instant::now();
    let client = served.client();
    for _ in 0..20 {
        client.requests(Some(1)).await.unwrap();
    }
    assert!(begun.elapsed() < Duration::from_millis(700), "the owner waited {:?}", begun.elapsed());
    for guess in guesses {
        assert_eq!(guess.await.unwrap(), 401);
    }
}

#[tokio::test]
async fn what_is_no_bearer_token_is_no_token() {
    let served = Served::start().await;
    let port = served.port;
    let long = "x".repeat(600);
    for header in [
        format!("Authorization: Basic {TOKEN}"),
        "Authorization: Bearer".to_owned(),
        "Authorization: Bearer  ".to_owned(),
        format!("Authorization: {TOKEN}"),
        format!("Authorization: Bearer {long}"),
        format!("Authorization: Bearer {TOKEN}\r\nAuthorization: Bearer {TOKEN}"),
        format!("X-Authorization: Bearer {TOKEN}"),
        format!("Cookie: token={TOKEN}"),
    ] {
        let bytes = format!(
            "GET /api/requests HTTP/1.1\r\nHost: localhost:{port}\r\n{header}\r\nConnection: close\r\n\r\n"
        );
        assert_eq!(served.raw(bytes).await.status, 401, "{header}");
    }
    let bytes = format!(
        "GET /api/requests HTTP/1.1\r\nHost: localhost:{port}\r\nauthorization: bearer {TOKEN}\r\nConnection: close\r\n\r\n"
    );
    assert_eq!(served.raw(bytes).await.status, 200);
}
