//! One traced call: read what the program wants, find the file itself, act on it if it lies in a folder of the program's.

use std::ffi::{CString, OsString};
use std::fs::File;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::ffi::OsStringExt as _;
use std::os::unix::fs::{FileExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use nix::sys::ptrace;
use nix::unistd::Pid;
use rustix::fs::{AtFlags, Mode, OFlags, ResolveFlags, Timespec, Timestamps};
use rustix::io::Errno;

use crate::sandbox::{Access, SandboxProfile, resolved};

/// The longest path the kernel takes.
const MAX_PATH: usize = 4096;
/// Permission bits that are passed on; not those that make others run a file as its owner.
const ORDINARY_BITS: u32 = 0o3777;
const SYS_FCHMODAT2: i64 = 452;

/// Where modes and times may be changed.
#[derive(Debug)]
pub(super) struct Folders(Vec<PathBuf>);

impl Folders {
    pub(super) fn of(profile: &SandboxProfile) -> Self {
        let writable =
            profile.grants().iter().filter(|grant| matches!(grant.access, Access::Write | Access::Edit));
        Self(writable.map(|grant| resolved(&grant.path)).collect())
    }

    fn hold(&self, path: &Path) -> bool {
        self.0.iter().any(|folder| path.starts_with(folder))
    }
}

/// What a program names a file by.
enum Named {
    /// A descriptor.
    Open(i32),
    /// A path, from a folder that is a descriptor or the current one.
    Path { from: i32, path: u64, follow: bool },
}

enum Change {
    Mode(u32),
    Times(Timestamps),
}

/// Makes the call that `process` is stopped at in its place and puts the result into its registers.
pub(super) fn serve(process: Pid, folders: &Folders) {
    let Ok(mut registers) = ptrace::getregs(process) else { return };
    let result = match wanted(process, &registers) {
        Ok((named, change)) => find(process, &named).and_then(|file| act(&file, &change, folders)),
        Err(error) => Err(error),
    };
    // No call of this number exists, so the kernel makes none.
    registers.orig_rax = u64::MAX;
    registers.rax = match result {
        Ok(()) => 0,
        Err(error) => i64::from(-error.raw_os_error()).cast_unsigned(),
    };
    let _ = ptrace::setregs(process, registers);
}

fn wanted(process: Pid, registers: &libc::user_regs_struct) -> Result<(Named, Change), Errno> {
    let [a, b, c, d] = [registers.rdi, registers.rsi, registers.rdx, registers.r10];
    let path = |from: u64, path: u64, flags: u64| Named::Path {
        from: descriptor(from),
        path,
        follow: flags & u64::from(AtFlags::SYMLINK_NOFOLLOW.bits()) == 0,
    };
    let here = i64::from(libc::AT_FDCWD).cast_unsigned();
    let mode = |value: u64| Change::Mode(low(value));
    Ok(match registers.orig_rax.cast_signed() {
        libc::SYS_chmod => (path(here, a, 0), mode(b)),
        libc::SYS_fchmod => (Named::Open(descriptor(a)), mode(b)),
        libc::SYS_fchmodat => (path(a, b, 0), mode(c)),
        SYS_FCHMODAT2 if d & u64::from(AtFlags::EMPTY_PATH.bits()) != 0 => {
            (Named::Open(descriptor(a)), mode(c))
        }
        SYS_FCHMODAT2 => (path(a, b, d), mode(c)),
        libc::SYS_utime => (path(here, a, 0), times(process, b, 8, 0)?),
        libc::SYS_utimes => (path(here, a, 0), times(process, b, 16, 1000)?),
        libc::SYS_futimesat => (path(a, b, 0), times(process, c, 16, 1000)?),
        libc::SYS_utimensat if b == 0 => (Named::Open(descriptor(a)), times(process, c, 16, 1)?),
        libc::SYS_utimensat => (path(a, b, d), times(process, c, 16, 1)?),
        _ => return Err(Errno::PERM),
    })
}

/// Reads two times: `size` bytes each, the second half of which is a fraction to be multiplied.
fn times(process: Pid, at: u64, size: usize, fraction: i64) -> Result<Change, Errno> {
    let now = Timespec { tv_sec: 0, tv_nsec: rustix::fs::UTIME_NOW };
    if at == 0 {
        return Ok(Change::Times(Timestamps { last_access: now, last_modification: now }));
    }
    let bytes = memory(process, at, 2 * size)?;
    let number = |place: usize| {
        let word = bytes.get(place..place + 8).and_then(|word| word.try_into().ok());
        word.map(i64::from_ne_bytes).ok_or(Errno::FAULT)
    };
    let time = |place: usize| {
        let tv_nsec = if fraction == 0 { 0 } else { number(place + 8)?.saturating_mul(fraction) };
        Ok::<_, Errno>(Timespec { tv_sec: number(place)?, tv_nsec })
    };
    Ok(Change::Times(Timestamps { last_access: time(0)?, last_modification: time(size)? }))
}

/// Opens the file itself, as the program would find it.
fn find(process: Pid, named: &Named) -> Result<OwnedFd, Errno> {
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    let open_of =
        |number: i32| rustix::fs::open(format!("/proc/{process}/fd/{number}"), flags, Mode::empty());
    let (from, path, follow) = match named {
        Named::Open(number) => return open_of(*number),
        Named::Path { from, path, follow } => (*from, text(process, *path)?, *follow),
    };
    // The C library changes a file it has open through this.
    let own = ["/proc/self/fd/", "/proc/thread-self/fd/", "/dev/fd/"];
    let own = own.iter().find_map(|folder| path.to_str().ok()?.strip_prefix(folder)?.parse().ok());
    if let Some(number) = own {
        return open_of(number);
    }
    let folder = match from {
        libc::AT_FDCWD => rustix::fs::open(format!("/proc/{process}/cwd"), flags, Mode::empty())?,
        number => open_of(number)?,
    };
    let flags = if follow { flags } else { flags | OFlags::NOFOLLOW };
    rustix::fs::openat2(folder, path, flags, Mode::empty(), ResolveFlags::NO_MAGICLINKS)
}

fn act(file: &OwnedFd, change: &Change, folders: &Folders) -> Result<(), Errno> {
    let own = format!("/proc/self/fd/{}", file.as_raw_fd());
    let real = rustix::fs::readlink(&own, Vec::new())?;
    if !folders.hold(&PathBuf::from(OsString::from_vec(real.into_bytes()))) {
        return Err(Errno::PERM);
    }
    match change {
        Change::Mode(mode) => {
            let permissions = std::fs::Permissions::from_mode(mode & ORDINARY_BITS);
            std::fs::set_permissions(own, permissions)
                .map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::PERM))
        }
        Change::Times(times) => rustix::fs::utimensat(file, "", times, AtFlags::EMPTY_PATH),
    }
}

fn text(process: Pid, at: u64) -> Result<CString, Errno> {
    let mut bytes = Vec::new();
    while bytes.len() < MAX_PATH {
        // Page by page: what follows the text may not be there.
        let place = at.wrapping_add(bytes.len() as u64);
        let left = MAX_PATH - usize::try_from(place % MAX_PATH as u64).unwrap_or(0);
        let part = memory(process, place, left)?;
        let end = part.iter().position(|byte| *byte == 0);
        bytes.extend_from_slice(part.get(..end.unwrap_or(part.len())).unwrap_or_default());
        if end.is_some() {
            return CString::new(bytes).map_err(|_| Errno::INVAL);
        }
    }
    Err(Errno::NAMETOOLONG)
}

fn memory(process: Pid, at: u64, length: usize) -> Result<Vec<u8>, Errno> {
    let mut bytes = vec![0; length];
    let file = File::open(format!("/proc/{process}/mem")).map_err(|_| Errno::PERM)?;
    file.read_exact_at(&mut bytes, at).map_err(|_| Errno::FAULT)?;
    Ok(bytes)
}

/// The low half of a register, which is all the kernel looks at for descriptors and modes.
#[expect(clippy::cast_possible_truncation, reason = "the kernel ignores the upper half, too")]
const fn low(value: u64) -> u32 {
    value as u32
}

const fn descriptor(value: u64) -> i32 {
    low(value).cast_signed()
}
