//! Every route there is, from the router's own table.

use nexus_protocol::methods::Method;

use super::fake::{Fake, READING, Served, TOKEN, error_of};
use crate::routes::{Access, table};

const METHODS: [&str; 7] = ["GET", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"];

fn paths(wanted: impl Fn(Access) -> bool) -> Vec<&'static str> {
    table::<Fake>().iter().filter(|route| wanted(route.access)).map(|route| route.path).collect()
}

fn closed_paths() -> Vec<&'static str> {
    paths(|access| matches!(access, Access::PerCall | Access::Method(_)))
}

#[test]
fn only_health_is_open_and_only_the_socket_takes_its_token_later() {
    assert_eq!(paths(|access| access == Access::Anyone), ["/health"]);
    assert_eq!(paths(|access| access == Access::Handshake), ["/ws"]);
    assert_eq!(closed_paths().len(), 11);
}

#[test]
fn whatever_changes_something_is_no_get_but_the_socket() {
    for route in crate::routes() {
        let is_get = route.verb == "GET";
        assert_eq!(is_get, !route.is_mutating || route.path == "/ws", "{route:?}");
    }
}

#[tokio::test]
async fn a_token_that_may_only_look_changes_nothing_on_any_route() {
    let served = Served::start().await;
    // A stream that may be read does not end by itself.
    let ends = |route: &&crate::RouteInfo| route.permission.is_some() && route.path != "/api/events/stream";
    for route in crate::routes().iter().filter(ends) {
        let answer = served.ask(route.verb, &route.path.replace("{id}", "x"), Some(READING), "{}").await;
        assert_eq!(answer.status == 403, route.is_mutating, "{route:?}: {}", answer.status);
    }
    for method in Method::ALL {
        let body = serde_json::json!({ "method": method.entry().name }).to_string();
        let refused = served.ask("POST", "/api/call", Some(READING), &body);
        if method.entry().is_mutating() {
            assert_eq!(refused.await.status, 403, "{method:?}");
        }
    }
    assert!(served.daemon.taken.lock().unwrap().is_empty());
}

#[tokio::test]
async fn without_a_token_no_route_and_no_method_answers() {
    let served = Served::start().await;
    for path in
        closed_paths().into_iter().chain(["/", "/nothing", "/health/", "//health", "/HEALTH", "/WS", "/ws/"])
    {
        for method in METHODS {
            let answer = served.ask(method, path, None, "{}").await;
            let (status, code, _) = error_of(&answer);
            assert_eq!((status, code.as_str()), (401, "UNAUTHORIZED"), "{method} {path}");
            assert_eq!(answer.header("www-authenticate"), Some("Bearer"));
        }
    }
    assert!(served.daemon.taken.lock().unwrap().is_empty());
}

#[tokio::test]
async fn a_foreign_host_or_page_is_refused_on_every_route_with_the_right_token() {
    let served = Served::start().await;
    let own = format!("127.0.0.1:{}", served.port);
    for route in table::<Fake>() {
        for headers in [
            "Host: evil.example".to_owned(),
            format!("Host: evil.example:{}", served.port),
            format!("Host: {own}\r\nOrigin: http://evil.example"),
            format!("Host: {own}\r\nOrigin: http://127.0.0.1:{}", served.port.wrapping_add(1)),
            format!("Host: {own}\r\nOrigin: null"),
            format!("Host: {own}\r\nSec-Fetch-Site: cross-site"),
        ] {
            for method in ["GET", "POST", "OPTIONS"] {
                let upgrade = "Connection: Upgrade\r\nUpgrade: websocket";
                let path = route.path;
                let bytes = format!(
                    "{method} {path} HTTP/1.1\r\n{headers}\r\nAuthorization: Bearer {TOKEN}\r\n{upgrade}\r\n\r\n"
                );
                let answer = served.raw(bytes).await;
                assert_eq!(answer.status, 403, "{method} {path} {headers}");
            }
        }
    }
    let bytes =
        format!("GET /health HTTP/1.1\r\nHost: {own}\r\nOrigin: http://{own}\r\nConnection: close\r\n\r\n");
    assert_eq!(served.raw(bytes).await.status, 200);
}

#[tokio::test]
async fn a_token_in_the_address_is_refused_on_every_route() {
    let served = Served::start().await;
    for route in table::<Fake>() {
        for token in [None, Some(TOKEN)] {
            let answer = served.ask("GET", &format!("{}?token={TOKEN}", route.path), token, "").await;
            let (status, code, message) = error_of(&answer);
            assert_eq!((status, code.as_str()), (400, "INVALID_REQUEST"), "{}", route.path);
            assert!(!answer.body.contains(TOKEN) && message.contains("token"));
        }
    }
}

#[tokio::test]
async fn unknown_routes_and_wrong_methods_say_so_in_json() {
    let served = Served::start().await;
    assert_eq!(
        error_of(&served.get("/nothing").await),
        (404, "NOT_FOUND".to_owned(), "no such route".to_owned())
    );
    let answer = served.ask("DELETE", "/api/chat", Some(TOKEN), "").await;
    let expected = (405, "INVALID_REQUEST".to_owned(), "this route does not accept DELETE".to_owned());
    assert_eq!(error_of(&answer), expected);
    assert_eq!(answer.header("allow"), Some("POST"));
}

#[tokio::test]
async fn odd_request_targets_reach_nothing() {
    let served = Served::start().await;
    let own = format!("127.0.0.1:{}", served.port);
    for (line, status) in [
        (format!("CONNECT {own} HTTP/1.1"), 404),
        ("CONNECT evil.example:80 HTTP/1.1".to_owned(), 403),
        ("OPTIONS * HTTP/1.1".to_owned(), 404),
        (format!("GET http://{own}/api/requests HTTP/1.1"), 200),
        ("GET http://evil.example/api/requests HTTP/1.1".to_owned(), 403),
        ("GET /api/../health HTTP/1.1".to_owned(), 404),
        ("GET /api%2Fchat HTTP/1.1".to_owned(), 404),
    ] {
        let bytes =
            format!("{line}\r\nHost: {own}\r\nAuthorization: Bearer {TOKEN}\r\nConnection: close\r\n\r\n");
        assert_eq!(served.raw(bytes).await.status, status, "{line}");
    }
}

#[tokio::test]
async fn every_answer_forbids_caching_and_guessing() {
    let served = Served::start().await;
    for answer in
        [served.get("/health").await, served.get("/nothing").await, served.ask("GET", "/", None, "").await]
    {
        assert_eq!(answer.header("x-content-type-options"), Some("nosniff"));
        assert_eq!(answer.header("cache-control"), Some("no-store"));
        assert_eq!(answer.header("content-type"), Some("application/json"));
    }
}
