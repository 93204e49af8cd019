//! The socket of a tool call reaches the program and nothing else does.

use std::io::{Read as _, Write as _};
use std::os::fd::AsRawFd as _;
use std::os::unix::net::UnixStream;

use nexus_process::{Confinement, Launch};

use crate::machine::{Machine, helper};

/// Answers `ping` with `pong` on the inherited socket; run inside the sandbox by the test below.
#[test]
fn inside() {
    let Ok(number) = std::env::var("TEST_RUN_FD") else { return };
    let mut socket = nexus_process::inherited_socket(number.parse().unwrap()).unwrap();
    socket.write_all(b"ping").unwrap();
    let mut answer = [0u8; 4];
    socket.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"pong");
}

#[tokio::test]
async fn the_program_talks_through_its_socket() {
    let machine = Machine::new();
    let own = std::env::current_exe().unwrap();
    for confinement in [Confinement::Sandbox(machine.profile()), Confinement::Unsandboxed] {
        let (mut ours, theirs) = UnixStream::pair().unwrap();
        let answering = tokio::task::spawn_blocking(move || {
            let mut question = [0u8; 4];
            ours.read_exact(&mut question).unwrap();
            assert_eq!(&question, b"ping");
            ours.write_all(b"pong").unwrap();
            // The end: the other side closes with the program, since nobody else holds it.
            assert_eq!(ours.read(&mut question).unwrap(), 0);
        });
        let outcome = Launch::new("/bin/bash", machine.task(), confinement)
            .arguments(["-c", &format!("{} --exact run_socket::inside", own.display())])
            .environment(machine.environment())
            .helper(helper())
            .tool_socket("TEST_RUN_FD", theirs)
            .run()
            .await
            .unwrap();
        assert!(outcome.succeeded(), "{} {}", outcome.stdout.text(), outcome.stderr.text());
        assert!(outcome.stdout.text().contains("1 passed"));
        answering.await.unwrap();
    }
}

#[tokio::test]
async fn no_other_descriptor_is_inherited() {
    let machine = Machine::new();
    let ran = machine.run("echo /proc/$$/fd/*").await.must_work();
    let numbers: Vec<&str> =
        ran.stdout.split_whitespace().filter_map(|path| path.rsplit('/').next()).collect();
    // 255 is where bash keeps its script; the folder being listed takes one number for a moment.
    assert!(numbers.iter().all(|number| ["0", "1", "2", "3", "255"].contains(number)), "{numbers:?}");
}

#[test]
fn a_number_that_is_no_socket_is_an_error() {
    assert!(nexus_process::inherited_socket(1).is_err());
    assert!(nexus_process::inherited_socket(987_654).is_err());
    let (reader, _writer) = std::io::pipe().unwrap();
    assert!(nexus_process::inherited_socket(reader.as_raw_fd()).is_err());
}
