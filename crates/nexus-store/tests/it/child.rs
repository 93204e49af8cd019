//! What this binary does when another test starts it as a child process.

use std::path::{Path, PathBuf};

use nexus_base::id::{EventId, RequestId};
use nexus_store::events::{NewEvent, Received};
use nexus_store::{DatabaseName, OpenMode, Store, StoreError};

use crate::support::{CHILD_FOLDER, CHILD_TASK};

#[test]
fn task() {
    let Ok(task) = std::env::var(CHILD_TASK) else { return };
    let folder = PathBuf::from(std::env::var_os(CHILD_FOLDER).unwrap());
    match task.as_str() {
        "create" => drop(Store::create(&folder).unwrap()),
        "receive" => receive(&folder),
        "refuse-writing" => refuse_writing(&folder),
        "refuse-reading" => {
            let error = Store::open(&folder, OpenMode::ReadOnly).unwrap_err();
            assert!(matches!(error, StoreError::Unreadable { .. }), "{error:?}");
        }
        "fill-while-making" => fill_while_making(&folder),
        "fill-while-running" => fill_while_running(&folder),
        other => panic!("no task {other}"),
    }
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

fn receive(folder: &Path) {
    let store = Store::open(folder, OpenMode::ReadWrite).unwrap();
    let event = NewEvent::message("cli", "1", "me", "hello");
    runtime().block_on(store.events().receive(event, RequestId::new("r1"), "hash".to_owned())).unwrap();
    store.close_blocking();
}

fn refuse_writing(folder: &Path) {
    let error = Store::open(folder, OpenMode::ReadWrite).unwrap_err();
    assert!(matches!(error, StoreError::Unwritable { .. }), "{error:?}");
    assert!(error.hint().unwrap().contains("writable"));
    let error = Store::create(&folder.join("deeper")).unwrap_err();
    assert!(matches!(error, StoreError::Unwritable { .. }), "{error:?}");
    // Without the right to write, what is there can still be read.
    let store = Store::open(folder, OpenMode::ReadOnly).unwrap();
    assert_eq!(store.events().counts_blocking().unwrap(), (0, 0));
}

/// The folder is a file system too small for six databases.
fn fill_while_making(folder: &Path) {
    let data = folder.join("data");
    let error = Store::create(&data).unwrap_err();
    assert!(matches!(error, StoreError::DiskFull { .. }), "{error:?}");
    assert!(error.hint().unwrap().contains("space"), "{:?}", error.hint());
    for entry in std::fs::read_dir(&data).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let made = DatabaseName::ALL.iter().any(|database| name == format!("{database}.db"));
        assert!(made, "{name} was left behind");
    }
}

/// The folder is a file system that fills up while the store is open.
fn fill_while_running(folder: &Path) {
    let data = folder.join("data");
    Store::create(&data).unwrap();
    let ballast = folder.join("ballast");
    let ballast_bytes = 5 * 1024 * 1024;
    std::fs::File::create(&ballast)
        .and_then(|mut file| std::io::Write::write_all(&mut file, &vec![1; ballast_bytes]))
        .unwrap();
    let store = Store::open(&data, OpenMode::ReadWrite).unwrap();
    runtime().block_on(async {
        let events = store.events();
        let mut stored = Vec::new();
        let error = loop {
            assert!(stored.len() < 10_000, "the disk never filled up");
            let event = NewEvent::message("cli", &stored.len().to_string(), "me", &"x".repeat(20_000));
            let id = event.id();
            match events.receive(event, RequestId::generate(), "hash".to_owned()).await {
                Ok(received) => assert_eq!(received, Received::New),
                Err(error) => break error,
            }
            stored.push(id);
        };
        assert!(matches!(error, StoreError::DiskFull { .. }), "{error:?}");
        let troubled: Vec<DatabaseName> = store
            .health()
            .into_iter()
            .filter(|health| health.trouble.is_some())
            .map(|health| health.name)
            .collect();
        assert!(troubled.is_empty() || troubled == [DatabaseName::Events], "{troubled:?}");
        std::fs::remove_file(&ballast).unwrap();
        let event = NewEvent::message("cli", "after", "me", "there is room again");
        let id = event.id();
        assert_eq!(
            events.receive(event, RequestId::generate(), "hash".to_owned()).await.unwrap(),
            Received::New
        );
        stored.push(id);
        assert!(store.health().iter().all(|health| health.trouble.is_none()));
        store.close().await;
        check_all_there(&data, &stored).await;
    });
}

/// What was acknowledged is there; what was refused is not.
async fn check_all_there(data: &Path, stored: &[EventId]) {
    let store = Store::open(data, OpenMode::ReadWrite).unwrap();
    let accepted = store.events().accepted(100_000).await.unwrap();
    let ids: Vec<EventId> = accepted.into_iter().map(|accepted| accepted.event.id).collect();
    assert_eq!(ids, stored);
    store.close().await;
}
