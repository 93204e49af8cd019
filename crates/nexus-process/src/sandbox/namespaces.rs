//! New user, process, mount and IPC namespaces for the next child.

use nix::sched::{CloneFlags, unshare};
use rustix::thread::{CapabilitySet, capabilities, configure_capability_in_ambient_set, set_capabilities};

/// Puts the next child into namespaces of its own, with the right to mount in them.
pub(super) fn enter() -> Result<(), String> {
    let mut flags = CloneFlags::CLONE_NEWPID | CloneFlags::CLONE_NEWNS | CloneFlags::CLONE_NEWIPC;
    let held = capabilities(None).map_err(|error| format!("asking for capabilities: {error}"))?;
    let may_mount = held.effective.contains(CapabilitySet::SYS_ADMIN);
    let (user, group) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    if !may_mount {
        flags |= CloneFlags::CLONE_NEWUSER;
    }
    unshare(flags).map_err(|error| format!("making namespaces: {error}"))?;
    if may_mount {
        return Ok(());
    }
    // Everybody keeps their number; only one's own is known inside.
    for (file, text) in [
        ("setgroups", "deny".to_owned()),
        ("uid_map", format!("{user} {user} 1")),
        ("gid_map", format!("{group} {group} 1")),
    ] {
        write_own(file, &text)?;
    }
    // Carried over the next exec, and given up there once the mounts are made.
    let failed = |error| format!("keeping the right to mount: {error}");
    let mut sets = capabilities(None).map_err(failed)?;
    sets.inheritable |= CapabilitySet::SYS_ADMIN;
    set_capabilities(None, sets).map_err(failed)?;
    configure_capability_in_ambient_set(CapabilitySet::SYS_ADMIN, true).map_err(failed)
}

/// Writes to a file of this process in `/proc`, in one go as the kernel wants it.
pub(super) fn write_own(file: &str, text: &str) -> Result<(), String> {
    use std::io::Write as _;
    let path = format!("/proc/self/{file}");
    std::fs::OpenOptions::new()
        .write(true)
        .open(&path)
        .and_then(|mut file| file.write_all(text.as_bytes()))
        .map_err(|error| format!("writing {path}: {error}"))
}
