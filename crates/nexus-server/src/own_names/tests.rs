use axum::http::StatusCode;
use axum::response::IntoResponse;
use proptest::prelude::*;

use super::*;

const PORT: u16 = 4310;

/// Returns the status of the refusal, or 200.
fn check(uri: &str, headers: &[(&str, &str)]) -> StatusCode {
    let mut request = Request::builder().uri(uri);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    match OwnNames::new(PORT).check(&request.body(()).unwrap()) {
        Ok(()) => StatusCode::OK,
        Err(refusal) => refusal.into_response().status(),
    }
}

#[test]
fn only_loopback_names_with_our_port_are_ours() {
    for host in ["127.0.0.1:4310", "localhost:4310", "LocalHost:4310", "[::1]:4310"] {
        assert_eq!(check("/health", &[("host", host)]), StatusCode::OK, "{host}");
    }
    for host in [
        "evil.example",
        "evil.example:4310",
        "127.0.0.1",
        "localhost",
        "127.0.0.1:4311",
        "127.0.0.2:4310",
        "localhost.:4310",
        "localhost:4310.evil.example",
        "user@localhost:4310",
        "0.0.0.0:4310",
        "[::ffff:127.0.0.1]:4310",
        "::1:4310",
        "",
    ] {
        assert_eq!(check("/health", &[("host", host)]), StatusCode::FORBIDDEN, "{host}");
    }
    assert_eq!(check("/health", &[]), StatusCode::BAD_REQUEST);
    let two = [("host", "127.0.0.1:4310"), ("host", "127.0.0.1:4310")];
    assert_eq!(check("/health", &two), StatusCode::BAD_REQUEST);
}

#[test]
fn an_absolute_address_must_be_ours_too() {
    let host = [("host", "127.0.0.1:4310")];
    assert_eq!(check("http://127.0.0.1:4310/health", &host), StatusCode::OK);
    assert_eq!(check("http://evil.example/health", &host), StatusCode::FORBIDDEN);
}

#[test]
fn a_page_may_only_ask_where_it_came_from() {
    let with = |origin| check("/api/chat", &[("host", "127.0.0.1:4310"), ("origin", origin)]);
    assert_eq!(with("http://127.0.0.1:4310"), StatusCode::OK);
    for origin in [
        "null",
        "http://localhost:4310",
        "http://127.0.0.1:4311",
        "http://127.0.0.1",
        "https://127.0.0.1:4310",
        "http://127.0.0.1:4310/",
        "http://127.0.0.1:4310.evil.example",
        "http://evil.example",
        "",
        "file://",
        "chrome-extension://abcdef",
    ] {
        assert_eq!(with(origin), StatusCode::FORBIDDEN, "{origin}");
    }
    let host = ("host", "127.0.0.1:4310");
    for (site, expected) in [
        ("none", StatusCode::OK),
        ("same-origin", StatusCode::OK),
        ("same-site", StatusCode::FORBIDDEN),
        ("cross-site", StatusCode::FORBIDDEN),
    ] {
        assert_eq!(check("/health", &[host, ("sec-fetch-site", site)]), expected, "{site}");
    }
}

#[test]
fn a_token_in_the_address_is_refused_however_it_is_written() {
    let host = [("host", "127.0.0.1:4310")];
    for query in [
        "token=x",
        "a=1&token=x",
        "%74oken=x",
        "TOKEN",
        "a=1;token=x",
        "access_token=x",
        "tok%65N=x",
        "authToken=",
    ] {
        assert_eq!(check(&format!("/health?{query}"), &host), StatusCode::BAD_REQUEST, "{query}");
    }
    for query in ["root=token", "limit=5", "", "%zz=%4"] {
        assert_eq!(check(&format!("/health?{query}"), &host), StatusCode::OK, "{query}");
    }
}

proptest! {
    #[test]
    fn no_other_host_gets_in(host in "[ -~]{0,40}") {
        let own = ["127.0.0.1:4310", "localhost:4310", "[::1]:4310"];
        prop_assume!(!own.iter().any(|own| own.eq_ignore_ascii_case(host.trim())));
        prop_assert_ne!(check("/health", &[("host", &host)]), StatusCode::OK);
    }

    #[test]
    fn any_query_is_decoded_without_harm(query in "[!-~]{0,60}") {
        if let Ok(address) = format!("/health?{query}").parse() {
            let _ = no_secret_in_query(&address);
        }
    }
}
