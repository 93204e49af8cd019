//! The network is off unless it is on.

use std::net::TcpListener;

use rustix::net::{AddressFamily, SocketFlags, SocketType};

use crate::machine::Machine;

/// A loopback port somebody listens on for as long as the listener lives.
fn listen() -> (TcpListener, u16) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    (listener, port)
}

#[tokio::test]
async fn tcp_is_refused_with_the_remedy() {
    let machine = Machine::new();
    let (_listener, port) = listen();
    let ran = machine.run(&format!("exec 3<>/dev/tcp/127.0.0.1/{port}")).await;
    ran.must_be_denied("network is off");
}

#[tokio::test]
async fn curl_is_refused_with_the_remedy() {
    let machine = Machine::new();
    let (_listener, port) = listen();
    if machine.environment().find_program("curl").is_some() {
        machine.run(&format!("curl -sS http://127.0.0.1:{port}/")).await.must_be_denied("network is off");
        machine.run("curl -sS http://example.invalid/").await.must_be_denied("network is off");
    }
}

#[tokio::test]
async fn git_push_is_refused_with_the_remedy() {
    let machine = Machine::new();
    let (_listener, port) = listen();
    let ran =
        machine.run(&format!("git init -q . && git push http://127.0.0.1:{port}/x.git HEAD:main")).await;
    assert!(!ran.outcome.succeeded());
    machine
        .run(&format!("cd $TMPDIR && git ls-remote http://127.0.0.1:{port}/x.git"))
        .await
        .must_be_denied("network is off");
}

/// Tries to open one socket of each kind and prints those that opened; run inside the sandbox.
#[test]
fn probe() {
    if std::env::var_os("TEST_PROBE").is_none() {
        return;
    }
    for (name, family, kind) in [
        ("inet-stream", AddressFamily::INET, SocketType::STREAM),
        ("inet-datagram", AddressFamily::INET, SocketType::DGRAM),
        ("inet6-stream", AddressFamily::INET6, SocketType::STREAM),
        ("inet-raw", AddressFamily::INET, SocketType::RAW),
        ("netlink", AddressFamily::NETLINK, SocketType::RAW),
        ("packet", AddressFamily::PACKET, SocketType::RAW),
        ("unix-stream", AddressFamily::UNIX, SocketType::STREAM),
        ("unix-datagram", AddressFamily::UNIX, SocketType::DGRAM),
    ] {
        if rustix::net::socket(family, kind, None).is_ok() {
            println!("opened {name}");
        }
    }
    for (name, kind) in [("stream", SocketType::STREAM), ("datagram", SocketType::DGRAM)] {
        if rustix::net::socketpair(AddressFamily::UNIX, kind, SocketFlags::empty(), None).is_ok() {
            println!("opened pair-{name}");
        }
    }
}

fn opened(text: &str) -> Vec<&str> {
    text.lines().filter_map(|line| line.split_once("opened ")).map(|(_, name)| name).collect()
}

fn probing() -> String {
    let own = std::env::current_exe().unwrap();
    format!("TEST_PROBE=1 {} --exact network::probe --nocapture", own.display())
}

#[tokio::test]
async fn no_socket_opens_but_a_connected_pair() {
    let machine = Machine::new();
    let ran = machine.run(&probing()).await.must_work();
    assert_eq!(opened(&ran.stdout), ["pair-stream"]);
}

#[tokio::test]
async fn allowed_means_internet_and_nothing_local() {
    let machine = Machine::new();
    let ran = machine.run_online(&probing()).await.must_work();
    // The machine itself may lack IPv6.
    let mut found = opened(&ran.stdout);
    found.retain(|name| *name != "inet6-stream");
    assert_eq!(found, ["inet-stream", "inet-datagram", "netlink", "pair-stream"]);
    let (_listener, port) = listen();
    machine.run_online(&format!("exec 3<>/dev/tcp/127.0.0.1/{port}")).await.must_work();
}
