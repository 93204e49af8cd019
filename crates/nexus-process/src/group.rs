//! Process groups: signalling them, remembering the live ones, ending what a dead daemon left behind.
//!
//! Every run carries a random mark in its environment. A left-over process is recognised by that mark or by
//! the leader's start time, never by its number alone, so a recycled number is never killed.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use nexus_base::file::{self, Durability, FileError};
use rustix::process::{Pid, Signal};
use serde::{Deserialize, Serialize};

use crate::environment::RUN_MARK_VARIABLE;

/// The most environment bytes read of a process when looking for a mark.
const ENVIRONMENT_LIMIT: u64 = 256 * 1024;
/// The longest record file accepted.
const RECORD_LIMIT: u64 = 4 * 1024 * 1024;
/// How many further sweeps are made because a process showed no environment.
const UNCLEAR_SWEEPS: usize = 3;
/// Where the parent's number stands in a process's status line, counted after its name.
pub(crate) const PARENT_FIELD: usize = 1;
/// Where the group's number stands.
const GROUP_FIELD: usize = 2;
/// Where the start time stands.
pub(crate) const START_FIELD: usize = 19;
/// How often the process table is swept before giving up on something that forks faster than we kill.
const SWEEPS: usize = 200;
/// The pause between two sweeps.
const SWEEP_PAUSE: Duration = Duration::from_millis(1);

/// One run whose processes may still live.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LiveGroup {
    /// Random mark carried in the environment of every process of the run.
    pub mark: String,
    /// Which boot of the machine it belongs to; process numbers mean nothing across boots.
    pub boot: String,
    /// The leader, whose number is the group's too, once it is started.
    pub leader: Option<Leader>,
}

/// The process that leads a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Leader {
    /// Its number.
    pub process: i32,
    /// When it started, in the kernel's ticks since boot; tells it from a later owner of the number.
    pub started: u64,
}

/// Where live groups are written down, so that the next daemon can end left-over ones.
pub trait GroupRecord: Send + Sync {
    /// A run is about to start (no leader yet) or has started (leader known).
    fn live(&self, group: &LiveGroup);
    /// Every process of the run is gone.
    fn ended(&self, mark: &str);
}

/// Keeps live groups in one small JSON file.
#[derive(Debug)]
pub struct FileRecord {
    path: PathBuf,
    live: Mutex<BTreeMap<String, LiveGroup>>,
}

impl FileRecord {
    /// Opens the record at `path` and returns it with the groups an earlier process left in it.
    ///
    /// # Errors
    /// The file is there and cannot be read. A damaged file counts as empty: it only names processes.
    pub fn open(path: &Path) -> Result<(Self, Vec<LiveGroup>), FileError> {
        let left_over: BTreeMap<String, LiveGroup> = match file::read_text(path, RECORD_LIMIT) {
            Ok(text) => serde_json::from_str(&text).unwrap_or_else(|error| {
                tracing::warn!(path = %path.display(), %error, "process record damaged; ignored");
                BTreeMap::new()
            }),
            Err(error) if error.source.kind() == std::io::ErrorKind::NotFound => BTreeMap::new(),
            Err(error) => return Err(error),
        };
        let groups = left_over.values().cloned().collect();
        Ok((Self { path: path.to_owned(), live: Mutex::new(left_over) }, groups))
    }

    fn update(&self, change: impl FnOnce(&mut BTreeMap<String, LiveGroup>)) {
        let mut live = self.live.lock().unwrap_or_else(PoisonError::into_inner);
        change(&mut live);
        let Ok(text) = serde_json::to_vec(&*live) else { return };
        // The record is a safety net: a run must not fail because the net could not be written.
        if let Err(error) = file::replace(&self.path, &text, 0o600, Durability::Crash) {
            tracing::warn!(path = %self.path.display(), error = %error.source, "process record not written");
        }
    }
}

impl GroupRecord for FileRecord {
    fn live(&self, group: &LiveGroup) {
        self.update(|live| {
            live.insert(group.mark.clone(), group.clone());
        });
    }

    fn ended(&self, mark: &str) {
        self.update(|live| {
            live.remove(mark);
        });
    }
}

/// Ends what is left of `group` and returns how many processes were killed. Blocks for milliseconds.
pub fn end_left_over(group: &LiveGroup) -> usize {
    if group.boot != boot_id() {
        return 0;
    }
    let mut killed = 0;
    if let Some(leader) = group.leader
        && let Some(process) = Pid::from_raw(leader.process)
        && start_of(leader.process) == Some(leader.started)
        && rustix::process::kill_process_group(process, Signal::KILL).is_ok()
    {
        killed += 1;
    }
    killed + kill_marked(&group.mark)
}

/// Ends the group that `leader` led, when only its number and start time were kept; returns how many
/// processes were killed.
///
/// A leader that is gone may have left members. They are ours only if they carry a run's mark: the number
/// could have led another group since.
pub fn end_group(leader: Leader) -> usize {
    match (start_of(leader.process), Pid::from_raw(leader.process)) {
        (Some(started), Some(process)) if started == leader.started => {
            usize::from(rustix::process::kill_process_group(process, Signal::KILL).is_ok())
        }
        (Some(_), _) | (None, None) => 0,
        (None, Some(_)) => marks_in_group(leader.process).iter().map(|mark| kill_marked(mark)).sum(),
    }
}

impl LiveGroup {
    pub(crate) fn new(mark: String) -> Self {
        Self { mark, boot: boot_id(), leader: None }
    }

    pub(crate) fn led_by(&mut self, process: i32) {
        self.leader = start_of(process).map(|started| Leader { process, started });
    }
}

/// Kills every process that carries `mark`, repeatedly, until a sweep finds none; returns how many there were.
pub(crate) fn kill_marked(mark: &str) -> usize {
    let needle = format!("{RUN_MARK_VARIABLE}={mark}").into_bytes();
    let mut killed = BTreeSet::new();
    let mut unclear_sweeps = 0;
    for _ in 0..SWEEPS {
        let found = sweep(&needle, &mut killed);
        unclear_sweeps += usize::from(found == Found::Unclear);
        if found == Found::Nothing || unclear_sweeps > UNCLEAR_SWEEPS {
            return killed.len();
        }
        // The killed ones need a moment to be gone; what they forked meanwhile is found next time.
        std::thread::sleep(SWEEP_PAUSE);
    }
    tracing::warn!(mark, "processes of a finished run keep appearing");
    killed.len()
}

/// What a look at one process, or at all of them, gave.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Found {
    /// Nothing of the run.
    Nothing,
    /// Somebody showed no environment at all, as a process does for an instant while it starts a program.
    Unclear,
    Mark,
}

/// One pass over the process table; signals what carries the mark and notes it in `killed`.
fn sweep(needle: &[u8], killed: &mut BTreeSet<i32>) -> Found {
    let Ok(table) = std::fs::read_dir("/proc") else { return Found::Nothing };
    let mut most = Found::Nothing;
    for number in table.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok()) {
        let found = look(number, needle);
        if found == Found::Mark && kill_if_marked(number, needle) {
            killed.insert(number);
        }
        most = most.max(found);
    }
    most
}

/// The handle is taken first and the mark read through the same number after it: if the number changed hands
/// in between, the handle points at a dead process and the signal goes nowhere.
#[cfg(target_os = "linux")]
fn kill_if_marked(number: i32, needle: &[u8]) -> bool {
    let Some(process) = Pid::from_raw(number) else { return false };
    let Ok(handle) = rustix::process::pidfd_open(process, rustix::process::PidfdFlags::empty()) else {
        return false;
    };
    look(number, needle) == Found::Mark && rustix::process::pidfd_send_signal(&handle, Signal::KILL).is_ok()
}

/// Without process handles only the group itself can be ended.
#[cfg(not(target_os = "linux"))]
fn kill_if_marked(_number: i32, _needle: &[u8]) -> bool {
    false
}

fn look(number: i32, needle: &[u8]) -> Found {
    use std::io::Read as _;
    let mut environment = Vec::new();
    let read = std::fs::File::open(format!("/proc/{number}/environ"))
        .and_then(|file| file.take(ENVIRONMENT_LIMIT).read_to_end(&mut environment));
    match read {
        // Gone, or somebody else's.
        Err(_) => Found::Nothing,
        // Zombies (no live status) and the kernel's own threads (children of 2) never have one.
        Ok(0) => match stat_field(number, PARENT_FIELD) {
            None | Some(0 | 2) => Found::Nothing,
            Some(_) => Found::Unclear,
        },
        Ok(_) if environment.split(|byte| *byte == 0).any(|variable| variable == needle) => Found::Mark,
        Ok(_) => Found::Nothing,
    }
}

/// Returns the marks carried by the members of a group whose leader is gone.
fn marks_in_group(group: i32) -> BTreeSet<String> {
    let Ok(table) = std::fs::read_dir("/proc") else { return BTreeSet::new() };
    table
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok())
        .filter(|number| stat_field(*number, GROUP_FIELD) == u64::try_from(group).ok())
        .filter_map(|number| {
            let environment = std::fs::read(format!("/proc/{number}/environ")).ok()?;
            let prefix = format!("{RUN_MARK_VARIABLE}=").into_bytes();
            let mark = environment.split(|byte| *byte == 0).find_map(|text| text.strip_prefix(&*prefix))?;
            String::from_utf8(mark.to_vec()).ok()
        })
        .collect()
}

/// Returns when a live process started, in ticks since boot; `None` when it is gone or a zombie.
pub(crate) fn start_of(number: i32) -> Option<u64> {
    stat_field(number, START_FIELD)
}

/// Returns a numeric field of a live process's status line, counted after its name.
pub(crate) fn stat_field(number: i32, field: usize) -> Option<u64> {
    let text = std::fs::read_to_string(format!("/proc/{number}/stat")).ok()?;
    // The second field is the program's name in parentheses and may itself contain anything.
    let fields: Vec<&str> = text.get(text.rfind(')')? + 1..)?.split_whitespace().collect();
    if matches!(fields.first(), Some(&"Z" | &"X")) {
        return None;
    }
    fields.get(field)?.parse().ok()
}

fn boot_id() -> String {
    std::fs::read_to_string("/proc/sys/kernel/random/boot_id")
        .map_or_else(|_| "unknown".to_owned(), |text| text.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_recycled_number_is_left_alone() {
        let own = i32::try_from(std::process::id()).unwrap();
        let mut group = LiveGroup::new("no-such-mark".to_owned());
        group.leader = Some(Leader { process: own, started: start_of(own).unwrap() + 1 });
        // Were the start time not compared, this would kill the test itself.
        assert_eq!(end_left_over(&group), 0);
    }

    #[test]
    fn groups_of_an_earlier_boot_are_left_alone() {
        let own = i32::try_from(std::process::id()).unwrap();
        let mut group = LiveGroup::new("no-such-mark".to_owned());
        group.led_by(own);
        group.boot = "another".to_owned();
        assert_eq!(end_left_over(&group), 0);
    }

    #[test]
    fn the_record_survives_its_process() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("groups.json");
        let (record, left) = FileRecord::open(&path).unwrap();
        assert_eq!(left, []);
        let group = LiveGroup::new("m1".to_owned());
        record.live(&group);
        record.live(&LiveGroup::new("m2".to_owned()));
        record.ended("m2");
        let (_, left) = FileRecord::open(&path).unwrap();
        assert_eq!(left, [group]);
    }

    #[test]
    fn a_damaged_record_counts_as_empty() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("groups.json");
        file::replace(&path, b"{nonsense", 0o600, Durability::Crash).unwrap();
        assert_eq!(FileRecord::open(&path).unwrap().1, []);
    }
}
