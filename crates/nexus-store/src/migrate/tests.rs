use std::collections::BTreeMap;
use std::path::PathBuf;

use proptest::prelude::*;
use rusqlite::types::Value;

use super::*;
use crate::open::{self, Prepared, Source};
use crate::schema::DatabaseName;

/// A history with the steps that real ones have: a table, a column, a rebuilt table, an index.
const HISTORY: &[Migration] = &[
    Migration { name: "initial", sql: "CREATE TABLE people (id INTEGER PRIMARY KEY, name TEXT NOT NULL) STRICT;
        CREATE TABLE pets (id INTEGER PRIMARY KEY, person INTEGER NOT NULL REFERENCES people (id) ON DELETE CASCADE) STRICT;" },
    Migration { name: "age", sql: "ALTER TABLE people ADD COLUMN age INTEGER;" },
    Migration { name: "rebuild", sql: "CREATE TABLE people_new (id INTEGER PRIMARY KEY, name TEXT NOT NULL, age INTEGER, note TEXT NOT NULL DEFAULT '') STRICT;
        INSERT INTO people_new (id, name, age) SELECT id, name, age FROM people;
        DROP TABLE people; ALTER TABLE people_new RENAME TO people;" },
    Migration { name: "index", sql: "CREATE INDEX people_by_name ON people (name);" },
];

fn memory() -> Connection {
    Connection::open_in_memory().unwrap()
}

fn path() -> PathBuf {
    PathBuf::from("test.db")
}

/// Everything in the schema, without the bookkeeping.
fn schema(connection: &Connection) -> Vec<(String, String)> {
    let mut statement =
        connection.prepare("SELECT name, coalesce(sql, '') FROM sqlite_schema ORDER BY type, name").unwrap();
    statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).unwrap().map(Result::unwrap).collect()
}

/// Rows of every table that holds some, by table.
fn rows(connection: &Connection) -> BTreeMap<String, Vec<Vec<Value>>> {
    let tables: Vec<String> = connection
        .prepare("SELECT name FROM pragma_table_list WHERE type IN ('table', 'virtual') AND name NOT LIKE 'sqlite%'")
        .unwrap()
        .query_map([], |row| row.get(0))
        .unwrap()
        .map(Result::unwrap)
        .collect();
    tables
        .into_iter()
        .filter(|table| table != "schema_version")
        .map(|table| {
            let mut statement = connection.prepare(&format!("SELECT * FROM \"{table}\"")).unwrap();
            let columns = statement.column_count();
            let rows = statement
                .query_map([], |row| (0..columns).map(|column| row.get(column)).collect())
                .unwrap()
                .map(Result::unwrap)
                .collect();
            (table, rows)
        })
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_older_version_becomes_the_newest_with_its_rows(
        older in 0..HISTORY.len(),
        names in proptest::collection::vec("[a-zA-Zé ]{1,12}", 0..6),
    ) {
        let fresh = memory();
        migrate(&fresh, &path(), "test", HISTORY).unwrap();
        let upgraded = memory();
        migrate(&upgraded, &path(), "test", &HISTORY[..older]).unwrap();
        if older > 0 {
            for (number, name) in names.iter().enumerate() {
                upgraded.execute("INSERT INTO people (id, name) VALUES (?1, ?2)", params![number, name]).unwrap();
                upgraded.execute("INSERT INTO pets (person) VALUES (?1)", [number]).unwrap();
            }
        }
        migrate(&upgraded, &path(), "test", HISTORY).unwrap();
        prop_assert_eq!(schema(&upgraded), schema(&fresh));
        let kept: Vec<String> = upgraded
            .prepare("SELECT name FROM people ORDER BY id").unwrap()
            .query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect();
        prop_assert_eq!(&kept, if older > 0 { &names } else { &kept });
        let pets: usize = upgraded.query_row("SELECT count(*) FROM pets", [], |row| row.get(0)).unwrap();
        prop_assert_eq!(pets, kept.len(), "a rebuilt table must not cascade into the tables that refer to it");
        prop_assert_eq!(inspect(&upgraded, &path(), HISTORY).unwrap(), SchemaState::Current);
    }
}

#[test]
fn every_released_version_upgrades_with_a_row_in_every_table() {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures");
    for name in DatabaseName::ALL {
        let known = name.migrations();
        for version in 1..=known.len() {
            let connection = memory();
            connection.pragma_update(None, "foreign_keys", true).unwrap();
            migrate(&connection, &path(), name.as_str(), &known[..version]).unwrap();
            let fixture = fixtures.join(name.as_str()).join(format!("{version:04}.sql"));
            let sql = std::fs::read_to_string(&fixture).unwrap_or_else(|error| {
                panic!("{}: each version has rows to upgrade: {error}", fixture.display())
            });
            connection.execute_batch(&sql).unwrap_or_else(|error| panic!("{}: {error}", fixture.display()));
            let before = rows(&connection);
            for (table, rows) in &before {
                assert!(!rows.is_empty(), "{}: add a row to {table}", fixture.display());
            }
            migrate(&connection, &path(), name.as_str(), known).unwrap();
            let after = rows(&connection);
            for (table, rows) in before.iter().filter(|(table, _)| after.contains_key(*table)) {
                assert_eq!(rows.len(), after[table].len(), "{name} version {version}: rows of {table}");
            }
        }
    }
}

#[test]
fn sums_of_days_begin_with_what_the_ledger_holds() {
    let connection = memory();
    let known = DatabaseName::Runtime.migrations();
    migrate(&connection, &path(), "runtime", &known[..2]).unwrap();
    let add = |id: &str, day: &str| {
        let sql = "INSERT INTO usage_ledger (id, at, day, provider, model, input_tokens, output_tokens, \
                   cached_input_tokens, cache_write_tokens, cost_micro_usd) VALUES (?1, 1, ?2, 'p', 'm', 1, 20, 300, 4000, 7)";
        connection.execute(sql, [id, day]).unwrap();
    };
    add("u1", "2026-01-01");
    add("u2", "2026-01-01");
    add("u3", "2026-01-02");
    migrate(&connection, &path(), "runtime", known).unwrap();
    add("u4", "2026-01-02");
    add("u5", "2026-01-03");
    let mut statement =
        connection.prepare("SELECT day, tokens, cost_micro_usd FROM usage_days ORDER BY day").unwrap();
    let days: Vec<(String, u64, u64)> = statement
        .query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))
        .unwrap()
        .collect::<Result<_, _>>()
        .unwrap();
    let expected = [("2026-01-01", 8642, 14), ("2026-01-02", 8642, 14), ("2026-01-03", 4321, 7)];
    assert_eq!(days, expected.map(|(day, tokens, cost)| (day.to_owned(), tokens, cost)));
}

#[test]
fn a_step_that_fails_leaves_the_version_before_it() {
    const BROKEN: &[Migration] = &[
        Migration { name: "initial", sql: "CREATE TABLE a (id INTEGER PRIMARY KEY) STRICT;" },
        Migration {
            name: "broken",
            sql: "CREATE TABLE b (id INTEGER) STRICT; SELECT nonsense FROM nowhere;",
        },
    ];
    const DANGLING: &[Migration] = &[Migration {
        name: "dangling",
        sql: "CREATE TABLE a (id INTEGER PRIMARY KEY) STRICT; CREATE TABLE b (a INTEGER REFERENCES a (id)) STRICT;
              INSERT INTO b VALUES (1);",
    }];
    let connection = memory();
    let error = migrate(&connection, &path(), "test", BROKEN).unwrap_err();
    assert!(
        matches!(&error, StoreError::Migration { version: 2, name, .. } if name == "broken"),
        "{error:?}"
    );
    assert_eq!(inspect(&connection, &path(), BROKEN).unwrap(), SchemaState::Behind(1));
    assert!(!rows(&connection).contains_key("b"));
    let error = migrate(&memory(), &path(), "test", DANGLING).unwrap_err();
    assert!(matches!(error, StoreError::Migration { version: 1, .. }), "{error:?}");
}

/// Variable that turns this binary's test below into the process that is killed.
const CHILD: &str = "NEXUS_STORE_UPGRADE_CHILD";

#[test]
fn a_killed_upgrade_is_completed_by_the_next_start() {
    if let Some(file) = std::env::var_os(CHILD) {
        let source = Source::new(PathBuf::from(file), "upgrade", HISTORY);
        drop(open::open_writer(&source).unwrap());
        return;
    }
    for version in 2..=HISTORY.len() {
        for pass in [1, 2] {
            let folder = tempfile::tempdir().unwrap();
            let file = folder.path().join("upgrade.db");
            let old = Source::new(file.clone(), "upgrade", &HISTORY[..1]);
            assert_eq!(open::prepare(&old).unwrap(), Prepared::Created);
            let writer = open::open_writer(&old).unwrap();
            writer.execute("INSERT INTO people (name) VALUES ('Ada')", []).unwrap();
            drop(writer);

            #[expect(clippy::disallowed_methods, reason = "the test starts itself to be killed")]
            let status = std::process::Command::new(std::env::current_exe().unwrap())
                .args(["migrate::tests::a_killed_upgrade_is_completed_by_the_next_start", "--exact"])
                .env(CHILD, &file)
                .env(failpoint::VARIABLE, format!("store.migrate.upgrade.{version}@{pass}"))
                .stdout(std::process::Stdio::null())
                .status()
                .unwrap();
            assert_eq!(std::os::unix::process::ExitStatusExt::signal(&status), Some(9), "{version}@{pass}");

            let reached = version - 2 + pass;
            let new = Source::new(file, "upgrade", HISTORY);
            let (reader, state) = open::open_outside_reader(&new).unwrap();
            let expected = if reached == HISTORY.len() {
                SchemaState::Current
            } else {
                SchemaState::Behind(u32::try_from(reached).unwrap())
            };
            assert_eq!(state, expected, "{version}@{pass}");
            drop(reader);
            let upgraded = open::open_writer(&new).unwrap();
            let fresh = memory();
            migrate(&fresh, &path(), "test", HISTORY).unwrap();
            assert_eq!(schema(&upgraded), schema(&fresh));
            let name: String = upgraded.query_row("SELECT name FROM people", [], |row| row.get(0)).unwrap();
            assert_eq!(name, "Ada");
        }
    }
}
