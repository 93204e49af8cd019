//! Files that are not what they should be are refused, named, and left exactly as they were.

use std::path::PathBuf;

use nexus_store::{DatabaseName, OpenMode, Store, StoreError};

use crate::support::{Made, sql};

/// Spoils one file of a made store and returns what each way of opening says.
fn refused(spoil: impl Fn(&PathBuf)) -> [StoreError; 3] {
    let made = Made::new();
    let path = DatabaseName::Runtime.file_in(made.path());
    spoil(&path);
    let before = std::fs::read(&path).unwrap();
    let errors = [
        Store::open(made.path(), OpenMode::ReadWrite).unwrap_err(),
        Store::open(made.path(), OpenMode::ReadOnly).unwrap_err(),
        Store::create(made.path()).unwrap_err(),
    ];
    assert!(std::fs::read(&path).unwrap() == before, "the file was changed");
    for error in &errors {
        assert_eq!(error.path(), path);
        assert!(error.hint().is_some(), "{error:?} has no remedy");
        assert!(error.to_string().contains("runtime.db"), "{error}");
    }
    errors
}

fn replace(path: &PathBuf, content: &[u8]) {
    std::fs::remove_file(path).unwrap();
    std::io::Write::write_all(&mut std::fs::File::create(path).unwrap(), content).unwrap();
}

#[test]
fn a_file_that_is_no_database() {
    for content in [b"hello\n".to_vec(), vec![b'x'; 100_000], vec![0; 8192]] {
        for error in refused(|path| replace(path, &content)) {
            assert!(matches!(error, StoreError::NotADatabase { .. }), "{error:?}");
        }
    }
}

#[test]
fn a_folder_where_the_database_should_be() {
    let made = Made::new();
    let path = DatabaseName::Runtime.file_in(made.path());
    std::fs::remove_file(&path).unwrap();
    std::fs::create_dir(&path).unwrap();
    let expected = StoreError::NotADatabase { path };
    assert_eq!(Store::open(made.path(), OpenMode::ReadWrite).unwrap_err(), expected);
    assert_eq!(Store::create(made.path()).unwrap_err(), expected);
}

#[test]
fn an_emptied_file_is_damage_and_not_a_file_still_to_be_made() {
    for error in refused(|path| replace(path, b"")) {
        assert!(matches!(error, StoreError::Damaged { .. }), "{error:?}");
    }
}

#[test]
fn a_schema_newer_than_ours() {
    for error in refused(|path| {
        sql(path, "INSERT INTO schema_version VALUES (700, 'from the future', 'abc', 1)");
    }) {
        assert!(matches!(error, StoreError::NewerSchema { found: 700, .. }), "{error:?}");
    }
}

#[test]
fn a_migration_whose_checksum_was_altered() {
    for error in refused(|path| sql(path, "UPDATE schema_version SET checksum = 'abc' WHERE version = 1")) {
        assert!(matches!(error, StoreError::AlteredMigration { version: 1, .. }), "{error:?}");
    }
}

#[test]
fn somebody_elses_database() {
    for statements in
        ["CREATE TABLE recipes (id)", "CREATE TABLE schema_version (v)", "PRAGMA user_version = 3"]
    {
        for error in refused(|path| {
            std::fs::remove_file(path).unwrap();
            sql(path, statements);
        }) {
            assert!(matches!(error, StoreError::Foreign { .. }), "{statements}: {error:?}");
        }
    }
}

#[test]
fn another_of_our_databases_under_this_name() {
    let made = Made::new();
    std::fs::copy(DatabaseName::Memory.file_in(made.path()), DatabaseName::Events.file_in(made.path()))
        .unwrap();
    let error = Store::open(made.path(), OpenMode::ReadWrite).unwrap_err();
    assert!(matches!(error, StoreError::AlteredMigration { .. }), "{error:?}");
}

#[tokio::test]
async fn a_damaged_page_is_an_error_and_not_a_panic() {
    let made = Made::new();
    let store = made.open();
    for number in 0..200 {
        store.runtime().kv_set(&format!("key {number}"), &"value ".repeat(50)).await.unwrap();
    }
    store.close().await;
    let path = DatabaseName::Runtime.file_in(made.path());
    let mut bytes = std::fs::read(&path).unwrap();
    let after_header = 4096;
    bytes[after_header..].fill(0xA5);
    replace(&path, &bytes);
    match Store::open(made.path(), OpenMode::ReadWrite) {
        Err(error) => assert!(matches!(error, StoreError::Damaged { .. }), "{error:?}"),
        Ok(store) => {
            let error = store.runtime().kv_get("key 7").await.unwrap_err();
            assert!(matches!(error, StoreError::Damaged { .. }), "{error:?}");
            assert!(error.hint().unwrap().contains("restore"));
            store.close().await;
        }
    }
}
