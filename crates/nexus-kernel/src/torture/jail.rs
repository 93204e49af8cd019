//! Attempts to make the Kernel touch something outside a workspace, and disks that say no.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use super::arena::{
    self, Arena, OPERATOR, Then, answered, complain, control, create, destroy, ensure, refused, shoot,
};
use super::{Case, Check};
use crate::code;

pub(super) const CASES: &[Case] = &[
    Case { name: "links inside a workspace are removed, not followed", run: links_inside },
    Case { name: "a workspace that is itself a link is refused", run: link_as_workspace },
    Case { name: "a link as manifest is left alone", run: link_as_manifest },
    Case { name: "a plain file or socket with the workspace's name is refused", run: plain_file },
    Case { name: "a deep tree is destroyed whole", run: deep_tree },
    Case { name: "leftovers of a crash are swept at start", run: leftovers },
    Case { name: "disk full: 500, nothing left, destroy still works", run: disk_full },
    Case { name: "sockets 0600, folders 0700, files 0600", run: modes },
];

fn plant_outside(arena: &Arena) -> Result<std::path::PathBuf, String> {
    let outside = arena.outside("precious");
    fs::create_dir_all(outside.join("inner")).map_err(complain)?;
    fs::File::create(outside.join("inner/file")).map_err(complain)?;
    Ok(outside)
}

fn is_whole(outside: &Path) -> Check {
    ensure(outside.join("inner/file").is_file(), || "something outside was removed".to_owned())
}

fn links_inside(arena: &mut Arena) -> Check {
    let outside = plant_outside(arena)?;
    let mut client = arena.ready()?;
    answered(&mut client, "t", &create("sym"), r#"{"status":"ok","ws_id":"sym","created":true}"#)?;
    symlink(&outside, arena.inside("sym/absolute")).map_err(complain)?;
    symlink("../../precious/inner", arena.inside("sym/logs/relative")).map_err(complain)?;
    symlink("/", arena.inside("sym/root")).map_err(complain)?;
    symlink("self", arena.inside("sym/self")).map_err(complain)?;
    answered(&mut client, "t", &destroy("sym"), r#"{"status":"ok","ws_id":"sym","destroyed":true}"#)?;
    arena.nothing_made()?;
    is_whole(&outside)
}

fn link_as_workspace(arena: &mut Arena) -> Check {
    let outside = plant_outside(arena)?;
    symlink(&outside, arena.inside("escape")).map_err(complain)?;
    symlink("nowhere", arena.inside("dangling")).map_err(complain)?;
    let mut client = arena.ready()?;
    for id in ["escape", "dangling"] {
        for payload in [create(id), destroy(id)] {
            let bytes = control("t-link", OPERATOR, &payload);
            refused(&mut client, &bytes, code::JAIL_VIOLATION, Then::Open)?;
        }
        ensure(arena.inside(id).is_symlink(), || format!("{id} was replaced"))?;
    }
    ensure(!outside.join("manifest.json").exists(), || "a manifest was written outside".to_owned())?;
    is_whole(&outside)?;
    let refusals = [("ATTEMPT", 0), ("REJECT", 300)].repeat(4);
    arena.logged(&arena.run_dir.kernel_log(), "t-link", &refusals)
}

fn link_as_manifest(arena: &mut Arena) -> Check {
    let outside = plant_outside(arena)?;
    fs::create_dir(arena.inside("trap")).map_err(complain)?;
    symlink(outside.join("made"), arena.inside("trap/manifest.json")).map_err(complain)?;
    let mut client = arena.ready()?;
    answered(&mut client, "t", &create("trap"), r#"{"status":"ok","ws_id":"trap","created":false}"#)?;
    ensure(!outside.join("made").exists(), || "the link was followed".to_owned())
}

fn plain_file(arena: &mut Arena) -> Check {
    fs::File::create(arena.inside("file")).map_err(complain)?;
    let _socket = std::os::unix::net::UnixListener::bind(arena.inside("sock")).map_err(complain)?;
    let mut client = arena.ready()?;
    for id in ["file", "sock"] {
        for payload in [create(id), destroy(id)] {
            let bytes = control("t-file", OPERATOR, &payload);
            refused(&mut client, &bytes, code::NOT_A_WORKSPACE, Then::Open)?;
        }
        ensure(arena.inside(id).symlink_metadata().is_ok(), || format!("{id} is gone"))?;
    }
    Ok(())
}

fn deep_tree(arena: &mut Arena) -> Check {
    let mut client = arena.ready()?;
    answered(&mut client, "t", &create("deep"), r#"{"status":"ok","ws_id":"deep","created":true}"#)?;
    let mut path = arena.inside("deep");
    for _ in 0..300 {
        path.push("d");
    }
    fs::create_dir_all(&path).map_err(complain)?;
    answered(&mut client, "t", &destroy("deep"), r#"{"status":"ok","ws_id":"deep","destroyed":true}"#)?;
    arena.nothing_made()
}

fn leftovers(arena: &mut Arena) -> Check {
    let outside = plant_outside(arena)?;
    arena.stop();
    for name in [".new-half-1-2-3", ".del-gone-1-2-3"] {
        fs::create_dir_all(arena.inside(name).join("logs")).map_err(complain)?;
        symlink(&outside, arena.inside(name).join("link")).map_err(complain)?;
    }
    fs::create_dir(arena.inside(".someone-elses")).map_err(complain)?;
    arena.restart(|_| {})?;
    ensure(arena.leavings()? == [".someone-elses"], || format!("left {:?}", arena.leavings()))?;
    is_whole(&outside)
}

fn disk_full(arena: &mut Arena) -> Check {
    let _small = SmallDisk::below(arena)?;
    arena.restart(|_| {})?;
    let mut client = arena.ready()?;
    answered(&mut client, "t", &create("first"), r#"{"status":"ok","ws_id":"first","created":true}"#)?;
    let filler = arena.inside("first/filler");
    let is_real = fill(&filler).is_ok();
    if !is_real {
        // Nothing small can be mounted here, so the Kernel is told to pretend.
        arena.server.as_ref().ok_or("no server")?.pretend_disk_full(true);
    }
    let bytes = control("t-full", OPERATOR, &create("second"));
    refused(&mut client, &bytes, code::NO_SPACE, Then::Open)?;
    ensure(arena.leavings()? == ["first"], || format!("left {:?}", arena.leavings()))?;
    let reply = shoot(&mut client, &control("t-free", OPERATOR, &destroy("first")))?;
    ensure(reply.json()["destroyed"] == true, || arena::text(&reply))?;
    if !is_real {
        arena.server.as_ref().ok_or("no server")?.pretend_disk_full(false);
    }
    answered(&mut client, "t", &create("second"), r#"{"status":"ok","ws_id":"second","created":true}"#)?;
    arena.stop();
    Ok(())
}

/// Writes until the disk is full; an error if it is far too big for that.
fn fill(path: &Path) -> Check {
    use std::io::Write as _;
    let mut file = fs::File::create(path).map_err(complain)?;
    for _ in 0..512 {
        if file.write_all(&[0; 4096]).is_err() {
            return Ok(());
        }
    }
    drop(file);
    fs::remove_file(path).map_err(complain)?;
    Err("the disk does not fill up".to_owned())
}

/// A file system of a few hundred kilobytes mounted on the run folder, where that is allowed.
struct SmallDisk {
    #[cfg(target_os = "linux")]
    mounted: Option<std::path::PathBuf>,
}

impl SmallDisk {
    #[cfg(target_os = "linux")]
    fn below(arena: &mut Arena) -> Result<Self, String> {
        use rustix::mount::{MountFlags, mount};
        arena.stop();
        let folder = arena.run_dir.path().to_owned();
        let flags = MountFlags::NOSUID | MountFlags::NODEV;
        let mounted = mount("none", &folder, "tmpfs", flags, Some(c"size=256k,mode=0700")).is_ok();
        Ok(Self { mounted: mounted.then_some(folder) })
    }

    #[cfg(not(target_os = "linux"))]
    fn below(arena: &mut Arena) -> Result<Self, String> {
        arena.stop();
        Ok(Self {})
    }
}

#[cfg(target_os = "linux")]
impl Drop for SmallDisk {
    fn drop(&mut self) {
        if let Some(folder) = &self.mounted {
            let _ = rustix::mount::unmount(folder, rustix::mount::UnmountFlags::DETACH);
        }
    }
}

fn modes(arena: &mut Arena) -> Check {
    use std::os::unix::fs::PermissionsExt as _;
    let mut client = arena.ready()?;
    answered(&mut client, "t", &create("modes"), r#"{"status":"ok","ws_id":"modes","created":true}"#)?;
    for (path, expected) in [
        (arena.run_dir.path().to_owned(), 0o700),
        (arena.inside("root"), 0o700),
        (arena.inside("kernel"), 0o700),
        (arena.run_dir.root_socket(), 0o600),
        (arena.run_dir.kernel_socket(), 0o600),
        (arena.run_dir.root_log(), 0o600),
        (arena.run_dir.kernel_log(), 0o600),
        (arena.inside("modes"), 0o700),
        (arena.inside("modes/logs"), 0o700),
        (arena.inside("modes/manifest.json"), 0o600),
    ] {
        let mode = fs::metadata(&path).map_err(complain)?.permissions().mode() & 0o777;
        ensure(mode == expected, || format!("{} has mode {mode:o}", path.display()))?;
    }
    Ok(())
}
