use std::path::PathBuf;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use super::*;
use crate::database::Database;
use crate::migrate::Migration;
use crate::open;

const NOTES: &[Migration] = &[Migration {
    name: "notes",
    sql: "CREATE TABLE notes (id INTEGER PRIMARY KEY, text TEXT NOT NULL UNIQUE) STRICT;
          CREATE TABLE replies (note INTEGER REFERENCES notes (id) DEFERRABLE INITIALLY DEFERRED) STRICT;",
}];

fn database() -> (tempfile::TempDir, Database) {
    let folder = tempfile::tempdir().unwrap();
    let source = Source::new(folder.path().join("notes.db"), "notes", NOTES);
    open::prepare(&source).unwrap();
    (folder, Database::open(source).unwrap())
}

fn insert(connection: &Connection, text: &str) -> Result<i64, StoreError> {
    connection.execute("INSERT INTO notes (text) VALUES (?1)", [text])?;
    Ok(connection.last_insert_rowid())
}

async fn texts(database: &Database) -> Vec<String> {
    database
        .read(|connection| {
            let mut statement = connection.prepare("SELECT text FROM notes ORDER BY id")?;
            let rows = statement.query_map([], |row| row.get(0))?;
            Ok(rows.collect::<rusqlite::Result<_>>()?)
        })
        .await
        .unwrap()
}

/// Keeps the writer busy until the returned sender is dropped, so that a batch can gather.
fn hold(database: &Database) -> mpsc::Sender<()> {
    let (release, released) = mpsc::channel::<()>();
    let (entered, inside) = mpsc::channel();
    database.write_later(move |_| {
        entered.send(()).unwrap();
        let _ = released.recv();
        Ok(())
    });
    inside.recv().unwrap();
    release
}

#[tokio::test]
async fn waiting_jobs_share_one_commit_and_keep_their_order() {
    let (_folder, database) = database();
    let held = hold(&database);
    for number in 0..100 {
        database.write_later(move |connection| insert(connection, &format!("{number:03}")).map(drop));
    }
    let before = database.figures();
    drop(held);
    let last = database.write(Sync::Normal, |connection| insert(connection, "last")).await.unwrap();
    assert_eq!(last, 101);
    let after = database.figures();
    // One for the holding job, one for the gathered ones, one more if "last" came too late for it.
    assert!(after.commits - before.commits <= 3, "{before:?} {after:?}");
    let mut expected: Vec<String> = (0..100).map(|number| format!("{number:03}")).collect();
    expected.push("last".to_owned());
    assert_eq!(texts(&database).await, expected);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_waiters_need_fewer_commits_than_jobs() {
    let (_folder, database) = database();
    let held = hold(&database);
    let waiters: Vec<_> = (0..200)
        .map(|number| {
            let database = database.clone();
            tokio::spawn(async move {
                database.write(Sync::Full, move |connection| insert(connection, &number.to_string())).await
            })
        })
        .collect();
    drop(held);
    for waiter in waiters {
        waiter.await.unwrap().unwrap();
    }
    let figures = database.figures();
    assert_eq!(figures.jobs, 201);
    assert!(figures.commits < 201, "{figures:?}");
    assert!(figures.synced_commits <= figures.commits);
}

#[tokio::test]
async fn a_failing_job_takes_only_its_own_rows_with_it() {
    let (_folder, database) = database();
    let held = hold(&database);
    database.write_later(|connection| insert(connection, "before").map(drop));
    database.write_later(|connection| {
        insert(connection, "lost")?;
        insert(connection, "before").map(drop)
    });
    database.write_later(|connection| insert(connection, "after").map(drop));
    drop(held);
    database.flush().await.unwrap();
    assert_eq!(texts(&database).await, ["before", "after"]);
    assert_eq!(database.failed_later(), 1);
    let error = database.write(Sync::Normal, |connection| insert(connection, "after")).await.unwrap_err();
    assert!(matches!(&error, StoreError::Constraint { path, .. } if path == database.path()), "{error:?}");
    assert_eq!(database.trouble(), None, "one job's mistake is not the database's trouble");
}

#[tokio::test]
async fn a_panicking_job_leaves_the_writer_alive() {
    let (_folder, database) = database();
    let held = hold(&database);
    database.write_later(|connection| {
        insert(connection, "half")?;
        panic!("a bug in a job");
    });
    database.write_later(|connection| insert(connection, "whole").map(drop));
    drop(held);
    let error = database
        .write(Sync::Normal, |_| -> Result<(), StoreError> { panic!("another one") })
        .await
        .unwrap_err();
    assert_eq!(error, StoreError::Panicked { path: database.path().to_owned() });
    assert_eq!(texts(&database).await, ["whole"]);
    let error =
        database.read(|_| -> Result<(), StoreError> { panic!("and one that reads") }).await.unwrap_err();
    assert_eq!(error, StoreError::Panicked { path: database.path().to_owned() });
    assert_eq!(texts(&database).await, ["whole"]);
}

fn level(connection: &Connection) -> Result<i64, StoreError> {
    Ok(connection.query_row("PRAGMA synchronous", [], |row| row.get(0))?)
}

#[tokio::test]
async fn one_job_that_wants_a_sync_makes_it_the_whole_batchs() {
    const NORMAL: i64 = 1;
    const FULL: i64 = 2;
    let (_folder, database) = database();
    assert_eq!(database.write(Sync::Normal, level).await.unwrap(), NORMAL);
    assert_eq!(database.write(Sync::Full, level).await.unwrap(), FULL);
    assert_eq!(database.write(Sync::Normal, level).await.unwrap(), NORMAL);
    let before = database.figures();
    let held = hold(&database);
    let (told, seen) = mpsc::channel();
    database.write_later(move |connection| {
        told.send(level(connection)?).unwrap();
        Ok(())
    });
    let full = tokio::spawn({
        let database = database.clone();
        async move { database.write(Sync::Full, level).await }
    });
    tokio::task::yield_now().await;
    drop(held);
    assert_eq!(full.await.unwrap().unwrap(), FULL);
    assert_eq!(seen.recv().unwrap(), FULL);
    assert_eq!(database.figures().synced_commits - before.synced_commits, 1);
}

#[tokio::test]
async fn a_commit_that_fails_is_everybodys_error_and_nobodys_end() {
    let (_folder, database) = database();
    let held = hold(&database);
    let good = tokio::spawn({
        let database = database.clone();
        async move { database.write(Sync::Normal, |connection| insert(connection, "good")).await }
    });
    tokio::task::yield_now().await;
    // The dangling reference is only looked at when the whole batch commits.
    database.write_later(|connection| {
        connection.execute("INSERT INTO replies (note) VALUES (999)", [])?;
        Ok(())
    });
    drop(held);
    let error = good.await.unwrap().unwrap_err();
    assert!(matches!(error, StoreError::Constraint { .. }), "{error:?}");
    assert_eq!(database.trouble(), Some(error));
    database.write(Sync::Full, |connection| insert(connection, "again")).await.unwrap();
    assert_eq!(texts(&database).await, ["again"]);
    assert_eq!(database.trouble(), None);
}

#[tokio::test]
async fn jobs_after_a_lost_transaction_get_one_of_their_own() {
    let (_folder, database) = database();
    let held = hold(&database);
    database.write_later(|connection| insert(connection, "lost with the transaction").map(drop));
    database.write_later(|connection| {
        // What SQLite does by itself after some errors of the disk.
        connection.execute_batch("ROLLBACK")?;
        Err(StoreError::DiskFull { path: PathBuf::new() })
    });
    database.write_later(|connection| insert(connection, "kept").map(drop));
    drop(held);
    database.flush().await.unwrap();
    assert_eq!(texts(&database).await, ["kept"]);
    // The job that only held the writer was committed before the other three were taken.
    assert_eq!(database.failed_later(), 2);
}

#[tokio::test]
async fn a_full_database_refuses_and_recovers() {
    let (_folder, database) = database();
    let grow = |connection: &Connection| {
        connection.execute("INSERT INTO notes (text) VALUES (hex(zeroblob(200000)))", [])?;
        Ok(())
    };
    database
        .write(Sync::Normal, |connection| Ok(connection.execute_batch("PRAGMA max_page_count = 10")?))
        .await
        .unwrap();
    let error = database.write(Sync::Full, grow).await.unwrap_err();
    assert_eq!(error, StoreError::DiskFull { path: database.path().to_owned() });
    database
        .write(Sync::Normal, |connection| Ok(connection.execute_batch("PRAGMA max_page_count = 10000")?))
        .await
        .unwrap();
    database.write(Sync::Full, grow).await.unwrap();
    assert_eq!(texts(&database).await.len(), 1);
}

#[tokio::test]
async fn readers_see_what_is_committed_and_cannot_write() {
    let (_folder, database) = database();
    database.write(Sync::Normal, |connection| insert(connection, "seen")).await.unwrap();
    assert_eq!(texts(&database).await, ["seen"]);
    let error = database.read(|connection| insert(connection, "no")).await.unwrap_err();
    assert!(matches!(error, StoreError::Unwritable { .. }), "{error:?}");
    // More readers than connections: they wait their turn.
    let readers: Vec<_> = (0..50)
        .map(|_| {
            let database = database.clone();
            tokio::spawn(async move { texts(&database).await })
        })
        .collect();
    for reader in readers {
        assert_eq!(reader.await.unwrap(), ["seen"]);
    }
}

#[test]
fn a_reading_job_sees_one_state_throughout() {
    let (_folder, database) = database();
    let count = |connection: &Connection| -> Result<i64, StoreError> {
        Ok(connection.query_row("SELECT count(*) FROM notes", [], |row| row.get(0))?)
    };
    let writing = database.clone();
    let seen = database
        .read_blocking(|connection| {
            let before = count(connection)?;
            writing.write_blocking(Sync::Normal, |connection| insert(connection, "meanwhile"))?;
            Ok((before, count(connection)?))
        })
        .unwrap();
    assert_eq!(seen, (0, 0));
    assert_eq!(database.read_blocking(count).unwrap(), 1);
    database.close_blocking();
}

#[test]
fn callers_without_a_runtime_write_and_read() {
    let (folder, database) = database();
    assert_eq!(database.write_blocking(Sync::Full, |connection| insert(connection, "one")).unwrap(), 1);
    let count: i64 = database
        .read_blocking(|connection| {
            Ok(connection.query_row("SELECT count(*) FROM notes", [], |row| row.get(0))?)
        })
        .unwrap();
    assert_eq!(count, 1);
    database.close_blocking();
    assert!(!folder.path().join("notes.db-wal").exists());
}

#[tokio::test]
async fn closing_writes_the_queue_and_refuses_what_comes_later() {
    let (folder, database) = database();
    for number in 0..50 {
        database.write_later(move |connection| insert(connection, &number.to_string()).map(drop));
    }
    let closing = database.clone();
    tokio::task::spawn_blocking(move || closing.close_blocking()).await.unwrap();
    let closed = StoreError::Closed { path: database.path().to_owned() };
    assert_eq!(database.flush().await.unwrap_err(), closed);
    assert_eq!(database.read(|_| Ok(())).await.unwrap_err(), closed);
    database.write_later(|_| Ok(()));
    assert_eq!(database.failed_later(), 1);
    let again = Database::open(Source::new(folder.path().join("notes.db"), "notes", NOTES)).unwrap();
    assert_eq!(texts(&again).await.len(), 50);
    again.close_blocking();
}

#[tokio::test]
async fn a_large_log_is_checkpointed_while_jobs_keep_coming() {
    let (folder, database) = database();
    for number in 0..40 {
        database
            .write(Sync::Normal, move |connection| {
                let sql = "INSERT INTO notes (text) VALUES (?1 || hex(zeroblob(250000)))";
                connection.execute(sql, [number])?;
                Ok(())
            })
            .await
            .unwrap();
    }
    assert!(database.figures().checkpoints >= 1, "{:?}", database.figures());
    let log = std::fs::metadata(folder.path().join("notes.db-wal")).unwrap().len();
    assert!(log < 16 * 1024 * 1024, "the log grew to {log} bytes");
}

#[tokio::test]
async fn a_log_of_some_size_is_checkpointed_in_a_quiet_moment() {
    let (_folder, database) = database();
    database
        .write(Sync::Normal, |connection| {
            connection.execute("INSERT INTO notes (text) VALUES (hex(zeroblob(1000000)))", [])?;
            Ok(())
        })
        .await
        .unwrap();
    let deadline = Instant::now() + Duration::from_secs(10);
    while database.figures().checkpoints == 0 {
        assert!(Instant::now() < deadline, "no checkpoint came");
        tokio::task::yield_now().await;
    }
}
