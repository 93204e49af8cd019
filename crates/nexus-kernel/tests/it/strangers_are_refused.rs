//! A process of another user, for real: a thread that gave up root before it connects.
#![cfg(target_os = "linux")]

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nexus_kernel::{Authority, Client, ClientError, RunDir, ServeOptions, Server};
use rustix::process::{Gid, Uid};

const NOBODY: u32 = 65_534;

/// Runs something as nobody; the change is this thread's alone and ends with it.
fn as_nobody<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| {
        scope
            .spawn(|| {
                let (user, group) = (Uid::from_raw(NOBODY), Gid::from_raw(NOBODY));
                rustix::thread::set_thread_groups(&[]).expect("this test runs as root");
                rustix::thread::set_thread_res_gid(group, group, group).unwrap();
                rustix::thread::set_thread_res_uid(user, user, user).unwrap();
                assert_eq!(rustix::process::geteuid().as_raw(), NOBODY);
                work()
            })
            .join()
            .unwrap()
    })
}

fn open_up(path: &Path, mode: u32) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}

#[test]
fn another_user_cannot_reach_the_sockets_and_is_refused_if_it_can() {
    let folder = tempfile::tempdir().unwrap();
    let run_dir = RunDir::new(folder.path().join("run"));
    let _server = Server::start(ServeOptions::new(run_dir.clone())).unwrap();
    let sockets = [run_dir.root_socket(), run_dir.kernel_socket()];
    let connect = |socket: &PathBuf| Client::connect(socket, Duration::from_secs(5));

    as_nobody(|| {
        for socket in &sockets {
            assert!(matches!(connect(socket), Err(ClientError::Connect(_))), "{}", socket.display());
        }
    });

    // Somebody opened all doors: now only the peer's user id stands between.
    open_up(folder.path(), 0o711);
    open_up(run_dir.path(), 0o711);
    for socket in &sockets {
        open_up(socket.parent().unwrap(), 0o711);
        open_up(socket, 0o666);
    }
    as_nobody(|| {
        for socket in &sockets {
            let mut client = connect(socket).unwrap();
            let error = client.handshake(Authority::OPERATOR).unwrap_err();
            assert_eq!(error.to_string(), "refused with code 202: peer_not_owner");
            assert!(matches!(client.receive(), Err(ClientError::Closed)));
        }
    });
    for log in [run_dir.root_log(), run_dir.kernel_log()] {
        let text = std::fs::read_to_string(log).unwrap();
        assert!(text.contains(r#""decision":"REJECT","code":202,"reason":"peer_not_owner""#), "{text}");
    }
    // The owner is served as before.
    connect(&sockets[0]).unwrap().handshake(Authority::USER).unwrap();
}
