//! The file system as a program in namespaces sees it: everything read-only but the granted folders, empty `/tmp`
//! and `/dev/shm` of its own, and a `/proc` that knows no other process.

use std::ffi::OsString;
use std::fs::File;
use std::io::Read as _;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, FileType, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;
use rustix::mount::{
    MountFlags, MountPropagationFlags, MoveMountFlags, OpenTreeFlags, mount, mount_change, mount_remount,
    move_mount, open_tree,
};

use super::{Access, SandboxProfile, rules};

/// Folders that programs share, replaced by empty ones, and how large these may grow.
const SHARED_FOLDERS: [(&str, &str); 2] =
    [("/tmp", "mode=1777,size=512m,nr_inodes=100k"), ("/dev/shm", "mode=1777,size=256m,nr_inodes=10k")];
const TREE: OpenTreeFlags = OpenTreeFlags::OPEN_TREE_CLONE
    .union(OpenTreeFlags::OPEN_TREE_CLOEXEC)
    .union(OpenTreeFlags::AT_EMPTY_PATH)
    .union(OpenTreeFlags::AT_RECURSIVE);

/// Returns the shared folders that are replaced for `profile`, with their options; none for a program that has no use
/// for them. One that holds something closed
/// stays as it is: a program that tries to get there is to be told no, not to find nothing.
pub(super) fn private_folders(
    profile: &SandboxProfile,
) -> impl Iterator<Item = (&'static str, &'static str)> {
    let holds_closed =
        |folder: &str| profile.protected.iter().any(|closed| super::resolved(closed).starts_with(folder));
    let wanted =
        move |folder: &str| profile.private_folders && is_folder(Path::new(folder)) && !holds_closed(folder);
    SHARED_FOLDERS.into_iter().filter(move |(folder, _)| wanted(folder))
}

/// A granted path, taken out of the tree to be put back where it was.
struct Kept {
    path: PathBuf,
    tree: OwnedFd,
    is_folder: bool,
}

/// Rebuilds the view of the file system for `profile`. The process must be alone in its mount namespace.
pub(super) fn rebuild(profile: &SandboxProfile) -> Result<(), String> {
    let folder = std::env::current_dir().map_err(|error| format!("finding the folder to run in: {error}"))?;
    mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)
        .map_err(|error| format!("detaching the mounts: {error}"))?;
    let private: Vec<_> = private_folders(profile).collect();
    let writable = keep(profile, &private, &[], |access| matches!(access, Access::Write | Access::Edit))?;
    close_all()?;
    let covered: Vec<PathBuf> = writable.iter().map(|kept| kept.path.clone()).collect();
    let mut kept =
        keep(profile, &private, &covered, |access| !matches!(access, Access::Write | Access::Edit))?;
    kept.extend(writable);
    // What lies inside another goes on top of it.
    kept.sort_by(|one, other| one.path.cmp(&other.path));
    for (path, options) in &private {
        mounted("tmpfs", path, MountFlags::NOSUID | MountFlags::NODEV, options)?;
    }
    let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    mounted("proc", "/proc", flags, "")?;
    for kept in &kept {
        put_back(kept, &private).map_err(|error| format!("opening {}: {error}", kept.path.display()))?;
    }
    // The folder we stand in is the closed one from before.
    std::env::set_current_dir(&folder).map_err(|error| format!("entering {}: {error}", folder.display()))
}

/// Takes the granted paths out that need putting back: writable ones, and any other that lies in a private folder.
fn keep(
    profile: &SandboxProfile,
    private: &[(&str, &str)],
    covered: &[PathBuf],
    wanted: impl Fn(Access) -> bool,
) -> Result<Vec<Kept>, String> {
    let mut kept: Vec<Kept> = Vec::new();
    for grant in profile.grants().iter().filter(|grant| wanted(grant.access)) {
        let failed = |error: Errno| format!("granting {}: {error}", grant.path.display());
        let handle = match rules::open(grant) {
            Ok(handle) => handle,
            Err(_) if !grant.required => continue,
            Err(error) => return Err(format!("granting {}: {error}", grant.path.display())),
        };
        let path = real_path(&handle).map_err(failed)?;
        let is_writable = matches!(grant.access, Access::Write | Access::Edit);
        let is_hidden = private.iter().any(|(folder, _)| path.starts_with(folder));
        let is_covered = covered.iter().any(|above| path.starts_with(above));
        if (!is_writable && (!is_hidden || is_covered)) || kept.iter().any(|other| other.path == path) {
            continue;
        }
        let kind = rustix::fs::fstat(&handle).map_err(failed)?.st_mode;
        let tree = open_tree(&handle, "", TREE).map_err(failed)?;
        kept.push(Kept { path, tree, is_folder: FileType::from_raw_mode(kind) == FileType::Directory });
    }
    Ok(kept)
}

/// Makes every mount read-only, or none: one that stays open is a way around the rest.
fn close_all() -> Result<(), String> {
    let mut table = Vec::new();
    File::open("/proc/self/mountinfo")
        .and_then(|mut file| file.read_to_end(&mut table))
        .map_err(|error| format!("reading the mounts: {error}"))?;
    for line in table.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
        let mut fields = line.split(|byte| *byte == b' ');
        let (Some(path), Some(options)) = (fields.nth(4), fields.next()) else {
            return Err("the list of mounts cannot be read".to_owned());
        };
        let path = unescaped(path);
        // Covered by a new one below.
        if path.starts_with("/proc") && path != Path::new("/proc") {
            continue;
        }
        let flags = MountFlags::BIND | MountFlags::RDONLY | kept_flags(options);
        match mount_remount(&path, flags, "") {
            Ok(()) => {}
            // What we cannot reach, the program cannot reach either: it has fewer rights.
            Err(Errno::ACCESS | Errno::NOENT) if !reachable(&path) => {}
            Err(error) => return Err(format!("making {} read-only: {error}", path.display())),
        }
    }
    Ok(())
}

fn reachable(path: &Path) -> bool {
    rustix::fs::open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).is_ok()
}

/// The flags a mount has already; the kernel refuses to take some of them away.
fn kept_flags(options: &[u8]) -> MountFlags {
    options.split(|byte| *byte == b',').fold(MountFlags::empty(), |flags, option| {
        flags
            | match option {
                b"nosuid" => MountFlags::NOSUID,
                b"nodev" => MountFlags::NODEV,
                b"noexec" => MountFlags::NOEXEC,
                b"noatime" => MountFlags::NOATIME,
                b"nodiratime" => MountFlags::NODIRATIME,
                b"relatime" => MountFlags::RELATIME,
                b"nosymfollow" => MountFlags::NOSYMFOLLOW,
                _ => MountFlags::empty(),
            }
    })
}

/// Undoes the kernel's octal escapes of blanks, tabs, line ends and backslashes.
fn unescaped(text: &[u8]) -> PathBuf {
    let mut path = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((first, after)) = rest.split_first() {
        let digits = after.get(..3).filter(|digits| digits.iter().all(|digit| (b'0'..=b'7').contains(digit)));
        match (first, digits) {
            (b'\\', Some(digits)) => {
                path.push(
                    digits.iter().fold(0u8, |value, digit| value.wrapping_mul(8).wrapping_add(digit - b'0')),
                );
                rest = after.get(3..).unwrap_or_default();
            }
            _ => {
                path.push(*first);
                rest = after;
            }
        }
    }
    PathBuf::from(OsString::from_vec(path))
}

fn put_back(kept: &Kept, private: &[(&str, &str)]) -> Result<(), String> {
    if private.iter().any(|(folder, _)| kept.path.starts_with(folder)) {
        make_place(kept).map_err(|error| error.to_string())?;
    }
    let to = rustix::fs::openat2(
        CWD,
        &kept.path,
        OFlags::PATH | OFlags::CLOEXEC,
        Mode::empty(),
        ResolveFlags::NO_SYMLINKS,
    )
    .map_err(|error| error.to_string())?;
    let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
    move_mount(&kept.tree, "", to.as_fd(), "", flags).map_err(|error| error.to_string())
}

/// Makes the folder or file that a tree in a private folder is put on.
fn make_place(kept: &Kept) -> std::io::Result<()> {
    if kept.path.symlink_metadata().is_ok() {
        return Ok(());
    }
    if kept.is_folder {
        return std::fs::create_dir_all(&kept.path);
    }
    if let Some(above) = kept.path.parent() {
        std::fs::create_dir_all(above)?;
    }
    File::create_new(&kept.path).map(|_| ())
}

fn mounted(kind: &str, path: &str, flags: MountFlags, options: &str) -> Result<(), String> {
    let options = std::ffi::CString::new(options).map_err(|error| error.to_string())?;
    mount(kind, path, kind, flags, options.as_c_str())
        .map_err(|error| format!("mounting {kind} on {path}: {error}"))
}

fn is_folder(path: &Path) -> bool {
    path.symlink_metadata().is_ok_and(|found| found.is_dir())
}

fn real_path(handle: &OwnedFd) -> Result<PathBuf, Errno> {
    use std::os::fd::AsRawFd as _;
    let link = format!("/proc/self/fd/{}", handle.as_raw_fd());
    let target = rustix::fs::readlink(link, Vec::new())?;
    Ok(PathBuf::from(OsString::from_vec(target.into_bytes())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_of_mounts_are_read_as_written() {
        assert_eq!(unescaped(b"/a\\040b\\134c"), Path::new("/a b\\c"));
        assert_eq!(unescaped(b"/plain\\9"), Path::new("/plain\\9"));
        assert_eq!(unescaped(b"/end\\04"), Path::new("/end\\04"));
    }
}
