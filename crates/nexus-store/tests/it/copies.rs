//! A copy is of one moment, whole, and made beside a writer that goes on.

use nexus_store::{DatabaseName, OpenMode, Store};

#[tokio::test]
async fn a_copy_beside_a_busy_writer_is_whole_and_of_one_moment() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    Store::create(&data).unwrap();
    let store = Store::open(&data, OpenMode::ReadWrite).unwrap();
    let writing = store.clone();
    let busy = tokio::spawn(async move {
        for number in 0..200 {
            writing.runtime().kv_set("count", &number.to_string()).await.unwrap();
        }
    });
    let target = folder.path().join("copy");
    std::fs::create_dir(&target).unwrap();
    let (from, to) = (data.clone(), target.clone());
    let copies = tokio::task::spawn_blocking(move || Store::backup_to(&from, &to)).await.unwrap().unwrap();
    busy.await.unwrap();
    assert_eq!(copies.len(), 6);
    store.close().await;
    for name in DatabaseName::ALL {
        assert_eq!(Store::faults(&target, name).unwrap(), Vec::<String>::new(), "{name}");
    }
    let copy = Store::open(&target, OpenMode::ReadWrite).unwrap();
    copy.runtime().kv_set("alive", "yes").await.unwrap();
    copy.close().await;
    assert_eq!(Store::hold_back(&target).unwrap(), nexus_store::HeldBack::default());
    // A second copy into the same folder would mix two moments.
    assert!(Store::backup_to(&data, &target).is_err());
}

#[test]
fn a_damaged_database_is_not_copied_quietly() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    Store::create(&data).unwrap();
    let path = DatabaseName::Memory.file_in(&data);
    let mut bytes = std::fs::read(&path).unwrap();
    // The heads of all pages but the first.
    for page in (4096..bytes.len()).step_by(4096) {
        bytes[page..page + 16].fill(0xff);
    }
    nexus_base::file::replace(&path, &bytes, 0o600, nexus_base::file::Durability::Crash).unwrap();
    let target = folder.path().join("copy");
    std::fs::create_dir(&target).unwrap();
    let faults = Store::faults(&data, DatabaseName::Memory);
    assert!(faults.is_err() || !faults.unwrap().is_empty());
    assert!(Store::backup_to(&data, &target).is_err());
}
