//! Making, opening and closing the store.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use nexus_store::{DatabaseName, OpenMode, Prepared, Store, StoreError};

/// Name and bytes of every file in the folder.
fn contents(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| {
            let entry = entry.unwrap();
            (entry.file_name().into_string().unwrap(), std::fs::read(entry.path()).unwrap())
        })
        .collect()
}

#[test]
fn a_second_create_leaves_every_byte_as_it_was() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("state/data");
    let first = Store::create(&data).unwrap();
    assert!(first.iter().all(|(_, done)| *done == Prepared::Created), "{first:?}");
    let before = contents(&data);
    let names: Vec<&str> = before.keys().map(String::as_str).collect();
    assert_eq!(names, ["agents.db", "embeddings.db", "events.db", "identity.db", "memory.db", "runtime.db"]);
    for name in names {
        let mode = std::fs::metadata(data.join(name)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{name}");
    }
    let second = Store::create(&data).unwrap();
    assert!(second.iter().all(|(_, done)| *done == Prepared::AlreadyThere), "{second:?}");
    assert_eq!(contents(&data), before);
}

#[tokio::test]
async fn an_opened_and_closed_store_leaves_only_its_databases() {
    let folder = tempfile::tempdir().unwrap();
    Store::create(folder.path()).unwrap();
    let before = contents(folder.path());
    let store = Store::open(folder.path(), OpenMode::ReadWrite).unwrap();
    assert!(store.health().iter().all(|health| health.trouble.is_none()));
    store.close().await;
    assert!(store.health().iter().all(|health| matches!(health.trouble, Some(StoreError::Closed { .. }))));
    assert_eq!(contents(folder.path()), before);
}

#[test]
fn reading_only_leaves_nothing_behind() {
    let folder = tempfile::tempdir().unwrap();
    Store::create(folder.path()).unwrap();
    let before = contents(folder.path());
    let store = Store::open(folder.path(), OpenMode::ReadOnly).unwrap();
    store.close_blocking();
    assert_eq!(contents(folder.path()), before);
}

#[test]
fn reading_works_beside_a_writer_and_on_a_path_with_odd_characters() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("what? 100% #1");
    Store::create(&data).unwrap();
    Store::open(&data, OpenMode::ReadOnly).unwrap().close_blocking();
    let writer = Store::open(&data, OpenMode::ReadWrite).unwrap();
    Store::open(&data, OpenMode::ReadOnly).unwrap().close_blocking();
    writer.close_blocking();
}

#[test]
fn a_missing_database_is_named_with_its_remedy() {
    let folder = tempfile::tempdir().unwrap();
    Store::create(folder.path()).unwrap();
    let path = DatabaseName::Memory.file_in(folder.path());
    std::fs::remove_file(&path).unwrap();
    for mode in [OpenMode::ReadWrite, OpenMode::ReadOnly] {
        let error = Store::open(folder.path(), mode).unwrap_err();
        assert_eq!(error, StoreError::Missing { path: path.clone() });
        assert!(error.hint().unwrap().contains("nexus init"));
    }
    assert!(!path.exists(), "opening must not make the file");
}
