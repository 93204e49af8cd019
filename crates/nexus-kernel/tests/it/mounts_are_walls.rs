//! Mounts inside the run folder, for real: neither followed nor half destroyed.
#![cfg(target_os = "linux")]

use std::path::{Path, PathBuf};
use std::time::Duration;

use nexus_kernel::{Authority, Client, RunDir, ServeOptions, Server};
use rustix::mount::{MountFlags, UnmountFlags, mount, mount_bind, mount_remount, unmount};
use serde_json::json;

struct Mounted(PathBuf);

impl Mounted {
    fn tmpfs(path: &Path) -> Self {
        mount("none", path, "tmpfs", MountFlags::empty(), Some(c"size=1m,mode=0700"))
            .expect("this test runs as root and may mount");
        Self(path.to_owned())
    }

    fn bind(from: &Path, path: &Path) -> Self {
        mount_bind(from, path).expect("this test runs as root and may mount");
        Self(path.to_owned())
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = unmount(&self.0, UnmountFlags::DETACH);
    }
}

fn serve(folder: &Path) -> (RunDir, Server, Client) {
    let run_dir = RunDir::new(folder.join("run"));
    let server = Server::start(ServeOptions::new(run_dir.clone())).unwrap();
    let mut client = Client::connect(&run_dir.root_socket(), Duration::from_secs(10)).unwrap();
    client.handshake(Authority::USER).unwrap();
    (run_dir, server, client)
}

fn refusal(client: &mut Client, method: &str, id: &str) -> String {
    client.call(method, &json!({ "ws_id": id }), Authority::OPERATOR).unwrap_err().to_string()
}

#[test]
fn a_mount_inside_a_workspace_stops_its_destruction_before_it_begins() {
    let folder = tempfile::tempdir().unwrap();
    let (run_dir, _server, mut client) = serve(folder.path());
    for id in ["tmpfs", "bound"] {
        client.call("ws_create", &json!({ "ws_id": id }), Authority::OPERATOR).unwrap();
        std::fs::create_dir_all(run_dir.path().join(id).join("a/b")).unwrap();
    }
    // A bind mount of the same file system has the same device number and must be seen all the same.
    let outside = folder.path().join("outside");
    std::fs::create_dir_all(outside.join("kept")).unwrap();
    let tmpfs = Mounted::tmpfs(&run_dir.path().join("tmpfs/a/b"));
    let bound = Mounted::bind(&outside, &run_dir.path().join("bound/a/b"));
    std::fs::create_dir(tmpfs.0.join("kept")).unwrap();
    for id in ["tmpfs", "bound"] {
        assert_eq!(refusal(&mut client, "ws_destroy", id), "refused with code 300: jail_violation");
        for path in ["manifest.json", "logs", "a/b/kept"] {
            assert!(run_dir.path().join(id).join(path).exists(), "{id}/{path} is gone");
        }
    }
    drop((tmpfs, bound));
    for id in ["tmpfs", "bound"] {
        let answer = client.call("ws_destroy", &json!({ "ws_id": id }), Authority::OPERATOR).unwrap();
        assert_eq!(answer["destroyed"], true);
    }
    assert!(outside.join("kept").is_dir());
}

#[test]
fn a_workspace_that_is_itself_a_mount_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let (run_dir, _server, mut client) = serve(folder.path());
    let path = run_dir.path().join("mounted");
    std::fs::create_dir(&path).unwrap();
    let mounted = Mounted::tmpfs(&path);
    for method in ["ws_create", "ws_destroy"] {
        assert_eq!(refusal(&mut client, method, "mounted"), "refused with code 300: jail_violation");
    }
    assert!(std::fs::read_dir(&mounted.0).unwrap().next().is_none(), "something was written into it");
}

#[test]
fn a_read_only_disk_is_an_answer_and_not_an_end() {
    let folder = tempfile::tempdir().unwrap();
    let (run_dir, _server, mut client) = serve(folder.path());
    client.call("ws_create", &json!({ "ws_id": "frozen" }), Authority::OPERATOR).unwrap();
    std::fs::remove_file(run_dir.path().join("frozen/manifest.json")).unwrap();
    let path = run_dir.path().join("frozen");
    let frozen = Mounted::bind(&path, &path);
    mount_remount(&frozen.0, MountFlags::BIND | MountFlags::RDONLY, c"").unwrap();
    assert!(std::fs::create_dir(path.join("probe")).is_err(), "the mount is not read-only");
    for method in ["ws_create", "ws_destroy"] {
        assert_eq!(refusal(&mut client, method, "frozen"), "refused with code 300: jail_violation");
    }
    drop(frozen);
    let answer = client.call("ws_destroy", &json!({ "ws_id": "frozen" }), Authority::OPERATOR).unwrap();
    assert_eq!(answer["destroyed"], true);
}
