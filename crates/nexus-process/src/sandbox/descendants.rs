//! Every process below this one, found by ancestry in `/proc` and ended.
//!
//! The caller is a child subreaper: whatever loses its parent becomes its child, so nothing leaves the tree by
//! forking twice, a session of its own or an empty environment.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, WaitOptions, pidfd_open, pidfd_send_signal, wait};

use crate::group::{PARENT_FIELD, START_FIELD, stat_field};

/// How long processes that fork faster than they are ended are followed.
const MAX_CHASE: Duration = Duration::from_secs(10);
const PAUSE: Duration = Duration::from_millis(1);

/// Reaps what has ended and returns whether anything is left.
pub(super) fn any_left() -> bool {
    loop {
        match wait(WaitOptions::NOHANG) {
            Ok(Some(_)) | Err(Errno::INTR) => {}
            Ok(None) => return true,
            Err(_) => return false,
        }
    }
}

/// Kills every descendant and reaps it; returns once there is none.
pub(super) fn end_all() {
    let begun = Instant::now();
    while any_left() && begun.elapsed() < MAX_CHASE {
        for process in descendants() {
            kill(process);
        }
        std::thread::sleep(PAUSE);
    }
}

/// Takes the handle first and compares the start time after it: if the number changed hands in between, the handle
/// points at a process that is gone.
fn kill((process, started): (i32, u64)) {
    let Some(pid) = Pid::from_raw(process) else { return };
    let Ok(handle) = pidfd_open(pid, PidfdFlags::empty()) else { return };
    if stat_field(process, START_FIELD) == Some(started) {
        let _ = pidfd_send_signal(&handle, Signal::KILL);
    }
}

fn descendants() -> Vec<(i32, u64)> {
    let Ok(table) = std::fs::read_dir("/proc") else { return Vec::new() };
    let mut children: BTreeMap<i32, Vec<i32>> = BTreeMap::new();
    for process in table.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok()) {
        if let Some(parent) = stat_field(process, PARENT_FIELD).and_then(|parent| i32::try_from(parent).ok())
        {
            children.entry(parent).or_default().push(process);
        }
    }
    let mut found = BTreeSet::new();
    let mut open = vec![rustix::process::getpid().as_raw_nonzero().get()];
    while let Some(parent) = open.pop() {
        for child in children.remove(&parent).unwrap_or_default() {
            if found.insert(child) {
                open.push(child);
            }
        }
    }
    found.into_iter().filter_map(|process| Some((process, stat_field(process, START_FIELD)?))).collect()
}
