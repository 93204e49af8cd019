//! A disk that is full and a folder that may not be written.

use std::os::unix::fs::{PermissionsExt, chown};
use std::path::Path;
use std::process::Output;

use crate::support::{Made, child, is_root, told};

/// Runs a task on a file system of its own, in a mount namespace that ends with the child.
fn on_small_disk(task: &str, size: &str) {
    let folder = tempfile::tempdir().unwrap();
    let mount = format!("mount -t tmpfs -o size={size},mode=0777 tmpfs \"$0\" && exec \"$@\"");
    let place = folder.path().to_str().unwrap();
    let rights: &[&[&str]] = &[&["unshare", "--mount"], &["unshare", "--user", "--map-root-user", "--mount"]];
    let mut refusals = Vec::new();
    for rights in rights {
        let mut wrapper = rights.to_vec();
        wrapper.extend(["sh", "-c", &mount, place]);
        if can_mount(&wrapper, folder.path()) {
            let output = child(task, folder.path(), &wrapper, None);
            assert!(output.status.success(), "{}", told(&output));
            return;
        }
        refusals.push(rights.join(" "));
    }
    assert!(!is_root(), "root, but no small file system can be mounted with any of {refusals:?}");
    eprintln!("skipped: only root or a user namespace can mount a small disk");
}

fn can_mount(wrapper: &[&str], folder: &Path) -> bool {
    let wrapped: Vec<&str> = wrapper.iter().copied().chain(["true"]).collect();
    let output: Output = child("", folder, &wrapped, None);
    output.status.success()
}

#[test]
fn a_full_disk_while_making_leaves_no_half_made_file() {
    on_small_disk("fill-while-making", "256k");
}

#[test]
fn a_full_disk_while_running_refuses_writes_and_loses_none_that_were_acknowledged() {
    on_small_disk("fill-while-running", "8m");
}

/// Runs a task as somebody who may not write, and fails if that could not be arranged.
fn without_rights(task: &str, folder: &Path) {
    let nobody = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups"];
    let wrapper: &[&str] = if is_root() { &nobody } else { &[] };
    let output = child(task, folder, wrapper, None);
    assert!(output.status.success(), "{}", told(&output));
}

fn set_modes(folder: &Path, file_mode: u32, folder_mode: u32) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if is_root() {
            chown(&path, Some(65534), Some(65534)).unwrap();
        }
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(file_mode)).unwrap();
    }
    std::fs::set_permissions(folder, std::fs::Permissions::from_mode(folder_mode)).unwrap();
}

#[test]
fn a_write_protected_store_is_refused_for_writing_and_readable() {
    let made = Made::new();
    set_modes(made.path(), 0o400, 0o555);
    without_rights("refuse-writing", made.path());
    set_modes(made.path(), 0o600, 0o755);
}

#[test]
fn a_folder_that_takes_no_new_files_is_refused_for_writing() {
    let made = Made::new();
    set_modes(made.path(), 0o600, 0o555);
    without_rights("refuse-writing", made.path());
    set_modes(made.path(), 0o600, 0o755);
}

#[test]
fn an_unreadable_store_is_named_so() {
    let made = Made::new();
    set_modes(made.path(), 0o000, 0o755);
    without_rights("refuse-reading", made.path());
    set_modes(made.path(), 0o600, 0o755);
}
