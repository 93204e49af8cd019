//! Losing power takes what was not synced: the end of the history, the mark in the queue's file, the
//! removal of what was archived. Here that is done by hand to the files, in every way a disk may.

use std::fs::{self, File, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use nexus_base::failpoint;
use nexus_project::{Project, Tool};
use serde_json::json;

use crate::child::{ask, plan, read, start};

const CYCLES: u64 = 4;

fn history(root: &Path) -> PathBuf {
    root.join(".nexus/history.json")
}

/// A project with closed cycles, and the bytes of history, plan and tasks before each was closed.
struct Closed {
    folder: tempfile::TempDir,
    before: Vec<[Vec<u8>; 3]>,
    after: Vec<u8>,
}

fn closed() -> Closed {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    let project = Project::open(root).unwrap();
    let mut before = Vec::new();
    for id in 1..=CYCLES + 1 {
        assert_eq!(ask(&project, Tool::PlanStart, plan())["plan_id"], id);
        ask(&project, Tool::TaskAdd, json!({ "title": format!("task {id}"), "context": "c".repeat(900) }));
        // The first one makes the file and syncs it; what comes after is appended.
        if id > 1 {
            before.push(
                [history(root), root.join(".nexus/state/plan.json"), root.join(".nexus/state/tasks.json")]
                    .map(|path| fs::read(path).unwrap()),
            );
        }
        assert_eq!(ask(&project, Tool::TaskClose, json!({}))["total_cycles"], id);
    }
    let after = fs::read(history(root)).unwrap();
    Closed { folder, before, after }
}

/// Another start of the machine: what the mark said counts no more.
fn reboot(root: &Path) {
    File::create(root.join(".nexus/state/nexus/project.lock")).unwrap();
}

/// Puts bytes into the same file, as losing some of it would.
fn overwrite(path: &Path, bytes: &[u8]) {
    let file = OpenOptions::new().write(true).open(path).unwrap();
    file.write_all_at(bytes, 0).unwrap();
    file.set_len(bytes.len() as u64).unwrap();
}

fn total(root: &Path) -> u64 {
    ask(&Project::open(root).unwrap(), Tool::HistorySearch, json!({}))["total"].as_u64().unwrap()
}

#[test]
fn whatever_of_the_appends_is_lost_comes_back() {
    let Closed { folder, before, after } = closed();
    let root = folder.path();
    let synced = before[0][0].len();
    let mut ends: Vec<Vec<u8>> = before.iter().map(|files| files[0].clone()).collect();
    for cut in (synced..after.len()).step_by(97) {
        ends.push(after[..cut].to_vec());
        let mut holes = after.clone();
        holes[cut..].fill(0);
        ends.push(holes);
        let mut hole = after.clone();
        hole[cut..(cut + 40).min(after.len())].fill(0);
        ends.push(hole);
    }
    assert!(ends.len() > 30, "{}", ends.len());
    let journal = root.join(".nexus/state/nexus/archive-journal.bin");
    let records = fs::read(&journal).unwrap();
    for (at, end) in ends.iter().enumerate() {
        overwrite(&history(root), end);
        overwrite(&journal, &records);
        reboot(root);
        assert_eq!(total(root), CYCLES + 1, "{at}");
        assert_eq!(fs::read(history(root)).unwrap(), after, "{at}");
    }
}

#[test]
fn what_was_archived_does_not_come_back_as_open() {
    let Closed { folder, before, after } = closed();
    let root = folder.path();
    let [_, plan_bytes, tasks_bytes] = before.last().unwrap();
    for (name, bytes) in [("plan.json", plan_bytes), ("tasks.json", tasks_bytes)] {
        File::create(root.join(".nexus/state").join(name)).unwrap().write_all(bytes).unwrap();
    }
    reboot(root);
    assert_eq!(total(root), CYCLES + 1);
    assert_eq!(fs::read(history(root)).unwrap(), after);
    assert!(read(root, "state/plan.json").is_none() && read(root, "state/tasks.json").is_none());
}

#[test]
fn a_plan_of_one_s_own_stays_open() {
    let Closed { folder, .. } = closed();
    let root = folder.path();
    let project = Project::open(root).unwrap();
    assert_eq!(ask(&project, Tool::PlanStart, plan())["plan_id"], CYCLES + 2);
    reboot(root);
    assert_eq!(total(root), CYCLES + 1);
    assert_eq!(read(root, "state/plan.json").unwrap()["id"], CYCLES + 2);
}

#[test]
fn a_history_that_somebody_put_there_is_left_alone() {
    let Closed { folder, before, .. } = closed();
    let root = folder.path();
    // As git does when an older state is checked out: another file under the same name.
    let older = &before[1][0];
    fs::remove_file(history(root)).unwrap();
    File::create(history(root)).unwrap().write_all(older).unwrap();
    reboot(root);
    assert_eq!(total(root), 2);
    assert_eq!(&fs::read(history(root)).unwrap(), older);

    // The same file with cycles of somebody else in it.
    let Closed { folder, after, .. } = closed();
    let root = folder.path();
    let other = String::from_utf8(after).unwrap().replace("task 4", "of others");
    overwrite(&history(root), other.as_bytes());
    reboot(root);
    assert_eq!(total(root), CYCLES + 1);
    assert_eq!(fs::read_to_string(history(root)).unwrap(), other);

    // None at all.
    fs::remove_file(history(root)).unwrap();
    reboot(root);
    assert_eq!(total(root), 0);
    assert!(!history(root).exists());
}

#[test]
fn a_death_while_repeating_is_repeated() {
    for place in ["project.journal.repeating", "project.journal.done", "project.journal.forgotten"] {
        let Closed { folder, before, after } = closed();
        let root = folder.path();
        overwrite(&history(root), &before[1][0]);
        reboot(root);
        let calls = json!([["history_search", {}]]);
        let child = start(root, &calls, &[(failpoint::VARIABLE, place.to_owned())]);
        assert!(!child.wait_with_output().unwrap().status.success(), "{place} was not reached");
        assert_eq!(total(root), CYCLES + 1, "{place}");
        assert_eq!(fs::read(history(root)).unwrap(), after, "{place}");
    }
}

#[test]
fn a_journal_goes_round_and_cycles_larger_than_it_are_kept() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    let project = Project::open(root).unwrap();
    let close = |length: usize| {
        ask(&project, Tool::TaskAdd, json!({ "title": "t", "context": "c".repeat(length) }));
        assert_eq!(ask(&project, Tool::TaskClose, json!({}))["closed"], true);
    };
    for number in 0..12 {
        close(if number == 8 { 400_000 } else { 40_000 });
    }
    let whole = fs::read(history(root)).unwrap();
    reboot(root);
    assert_eq!(total(root), 12);
    assert_eq!(fs::read(history(root)).unwrap(), whole);
    let journal = root.join(".nexus/state/nexus/archive-journal.bin");
    assert_eq!(fs::metadata(&journal).unwrap().len(), 256 * 1024);
    // Damaged or gone, a journal is no reason to stop.
    overwrite(&journal, &vec![0xFF; 256 * 1024]);
    reboot(root);
    close(10);
    overwrite(&journal, b"short");
    close(10);
    close(10);
    let synced = fs::read(history(root)).unwrap();
    fs::remove_file(&journal).unwrap();
    close(10);
    assert_eq!(total(root), 16);
    // What was closed with the new one comes back from it.
    overwrite(&history(root), &synced);
    reboot(root);
    assert_eq!(total(root), 16);
}
