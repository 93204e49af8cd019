use super::*;

const ONE: &[Migration] =
    &[Migration { name: "one", sql: "CREATE TABLE a (id INTEGER PRIMARY KEY) STRICT;" }];
const TWO: &[Migration] = &[ONE[0], Migration { name: "two", sql: "ALTER TABLE a ADD COLUMN b TEXT;" }];

fn source(folder: &Path, migrations: &'static [Migration]) -> Source {
    Source { busy_timeout: Duration::from_millis(50), ..Source::new(folder.join("a.db"), "a", migrations) }
}

#[test]
fn a_database_somebody_keeps_locked_is_refused_and_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let source = source(folder.path(), ONE);
    prepare(&source).unwrap();
    let other = open(&source.path, OpenFlags::SQLITE_OPEN_READ_WRITE).unwrap();
    other
        .execute_batch("PRAGMA locking_mode = EXCLUSIVE; BEGIN IMMEDIATE; INSERT INTO a VALUES (1)")
        .unwrap();
    let locked = StoreError::Locked { path: source.path.clone() };
    assert_eq!(open_writer(&source).unwrap_err(), locked);
    assert_eq!(open_outside_reader(&source).unwrap_err(), locked);
    assert!(locked.hint().unwrap().contains("a.db"));
    drop(other);
    open_writer(&source).unwrap();
}

#[test]
fn an_upgrade_that_meets_another_writer_is_refused_whole() {
    let folder = tempfile::tempdir().unwrap();
    prepare(&source(folder.path(), ONE)).unwrap();
    let new = source(folder.path(), TWO);
    let other = open(&new.path, OpenFlags::SQLITE_OPEN_READ_WRITE).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    assert_eq!(open_writer(&new).unwrap_err(), StoreError::Locked { path: new.path.clone() });
    drop(other);
    assert_eq!(prepare(&new).unwrap(), Prepared::Migrated { from: 1 });
    assert_eq!(prepare(&new).unwrap(), Prepared::AlreadyThere);
    assert!(!sidecar(&new.path, "-wal").exists());
}

#[test]
fn reading_an_older_schema_says_how_to_bring_it_up_to_date() {
    let folder = tempfile::tempdir().unwrap();
    prepare(&source(folder.path(), ONE)).unwrap();
    let new = source(folder.path(), TWO);
    let error = open_outside_reader_current(&new).unwrap_err();
    assert_eq!(error, StoreError::OlderSchema { path: new.path, found: 1, known: 2 });
    assert!(error.hint().unwrap().contains("nexus start"));
    let error = open_writer(&source(folder.path(), &TWO[1..])).unwrap_err();
    assert!(matches!(error, StoreError::AlteredMigration { version: 1, .. }), "{error:?}");
}

#[test]
fn a_writer_has_the_settings_the_design_asks_for() {
    let folder = tempfile::tempdir().unwrap();
    let source = Source::new(folder.path().join("a.db"), "a", ONE);
    prepare(&source).unwrap();
    let writer = open_writer(&source).unwrap();
    let text = |name: &str| -> String {
        writer
            .query_row(&format!("SELECT CAST({name} AS TEXT) FROM pragma_{name}"), [], |row| row.get(0))
            .unwrap()
    };
    assert_eq!(text("journal_mode"), "wal");
    assert_eq!(text("synchronous"), "1");
    assert_eq!(text("foreign_keys"), "1");
    assert_eq!(text("cache_size"), "-1024");
    let timeout: i64 = writer.query_row("PRAGMA busy_timeout", [], |row| row.get(0)).unwrap();
    assert_eq!(timeout, 5000);
    let automatic: i64 = writer.query_row("PRAGMA wal_autocheckpoint", [], |row| row.get(0)).unwrap();
    assert_eq!(automatic, 0);
}
