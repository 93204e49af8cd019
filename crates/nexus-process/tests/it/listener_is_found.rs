#[cfg(target_os = "linux")]
#[test]
fn a_listener_is_found_by_its_port() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    assert_eq!(nexus_process::listener_of(port), Some(std::process::id()));
    drop(listener);
    assert_eq!(nexus_process::listener_of(port), None);
}
