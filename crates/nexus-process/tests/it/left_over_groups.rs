//! A daemon that died is cleaned up after.

use std::sync::{Arc, Mutex};

use nexus_process::{FileRecord, GroupRecord, LiveGroup, end_group, end_left_over};

use crate::machine::{Machine, eventually, sleepers, unique_sleep};

#[derive(Default)]
struct Notes(Mutex<Vec<String>>);

impl GroupRecord for Notes {
    fn live(&self, group: &LiveGroup) {
        self.0.lock().unwrap().push(format!("live {}", group.leader.is_some()));
    }

    fn ended(&self, _mark: &str) {
        self.0.lock().unwrap().push("ended".to_owned());
    }
}

#[tokio::test]
async fn a_run_is_written_down_before_it_starts() {
    let machine = Machine::new();
    let notes = Arc::new(Notes::default());
    machine.bash("true").record(notes.clone()).run().await.unwrap();
    assert_eq!(*notes.0.lock().unwrap(), ["live false", "live true", "ended"]);
}

#[tokio::test]
async fn what_the_record_names_can_be_ended_later() {
    let (machine, sleep) = (Machine::new(), unique_sleep());
    let path = machine.temp.join("groups.json");
    let (record, left) = FileRecord::open(&path).unwrap();
    assert_eq!(left, []);
    let running = tokio::spawn(
        machine.bash(&format!("sleep {sleep} & setsid sleep {sleep} & wait")).record(Arc::new(record)).run(),
    );
    eventually("the command runs", || sleepers(&sleep) == 2).await;

    // What the next daemon would do, with nothing but the file.
    let (_, left) = FileRecord::open(&path).unwrap();
    assert_eq!(left.len(), 1);
    assert!(left[0].leader.is_some());
    assert!(end_left_over(&left[0]) >= 1);
    let outcome = running.await.unwrap().unwrap();
    assert!(!outcome.succeeded());
    assert_eq!(sleepers(&sleep), 0);
    assert_eq!(end_left_over(&left[0]), 0);
}

#[tokio::test]
async fn a_group_is_ended_by_its_leaders_number_and_start() {
    let (machine, sleep) = (Machine::new(), unique_sleep());
    let (sender, receiver) = std::sync::mpsc::channel();
    let launch = machine.bash(&format!("sleep {sleep} & wait"));
    let running = tokio::spawn(async move {
        launch.run_reporting(&move |group: &LiveGroup| sender.send(group.leader).unwrap()).await
    });
    eventually("the command runs", || sleepers(&sleep) == 1).await;
    let mut leader = receiver.recv().unwrap().unwrap();
    leader.started += 1;
    assert_eq!(end_group(leader), 0);
    leader.started -= 1;
    assert_eq!(end_group(leader), 1);
    assert!(!running.await.unwrap().unwrap().succeeded());
    assert_eq!(sleepers(&sleep), 0);
    assert_eq!(end_group(leader), 0);
}
