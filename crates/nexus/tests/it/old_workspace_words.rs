//! Words stored in rows and files never change by a rename: what an older build wrote is listed, and this build, made
//! to live through the same, writes every one of them.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use nexus_testkit::scenario;
use rusqlite::Connection;
use serde_json::Value;

use crate::old_workspace_opens::fixture;

/// Columns of prose, hashes and texts of others: nothing of them is a word of ours. JSON in them is listed by its keys.
/// How far a request under way has come (`stage`) is a race; the stages are words of `stage_timings`.
const PROSE: &[&str] = &[
    "arguments_json",
    "body_hash",
    "checksum",
    "content",
    "day",
    "description",
    "disabled_reason",
    "last_error",
    "model",
    "model_call_id",
    "normalized",
    "reason",
    "result",
    "script_hash",
    "stage",
    "sources",
    "summary",
    "taint",
    "task_description",
    "text",
    "text_hash",
    "token_hash",
    "token_prefix",
    "value",
];
/// Keys of JSON whose values are words as well.
const NAMING: &[&str] = &[
    "allow",
    "caller",
    "credentials",
    "data",
    "format",
    "is",
    "kind",
    "mode",
    "op",
    "outcome",
    "provenance",
    "provider",
    "schema_version",
    "speaker",
    "stage",
    "status",
    "tool",
];
/// Databases of a workspace.
const DATABASES: [&str; 6] = ["agents", "embeddings", "events", "identity", "memory", "runtime"];

/// Lists the words of a workspace as `where: word`.
#[expect(
    clippy::disallowed_methods,
    reason = "reads the files themselves, past the store that could hide a rename"
)]
fn words(root: &Path) -> BTreeSet<String> {
    let mut words = BTreeSet::new();
    // A copy: opening a database finishes its write-ahead log.
    let folder = tempfile::tempdir().unwrap();
    for name in DATABASES {
        for ending in ["db", "db-wal"] {
            let file = format!("{name}.{ending}");
            fs::copy(root.join("state/data").join(&file), folder.path().join(&file)).unwrap();
        }
        let connection = Connection::open(folder.path().join(format!("{name}.db"))).unwrap();
        words_of_database(name, &connection, &mut words);
    }
    words_of_files(root, root, &mut words);
    words
}

fn words_of_database(name: &str, connection: &Connection, words: &mut BTreeSet<String>) {
    let texts = |sql: &str| -> Vec<String> {
        let mut statement = connection.prepare(sql).unwrap();
        let rows = statement.query_map([], |row| row.get::<_, String>(0)).unwrap();
        rows.map(Result::unwrap).collect()
    };
    // Search indexes are made of the texts again.
    let tables = texts("SELECT name FROM sqlite_master WHERE type = 'table' AND sql LIKE '%) STRICT%'");
    assert!(!tables.is_empty(), "{name} has no tables");
    for table in tables {
        let columns = format!("SELECT name FROM pragma_table_info('{table}') WHERE type = 'TEXT'");
        for column in texts(&columns) {
            let values =
                format!("SELECT DISTINCT \"{column}\" FROM \"{table}\" WHERE \"{column}\" IS NOT NULL");
            for value in texts(&values) {
                let place = format!("{name}.{table}.{column}");
                match serde_json::from_str::<Value>(&value) {
                    Ok(json @ (Value::Object(_) | Value::Array(_))) => keys(&place, &json, words),
                    _ if value.starts_with("<context>") => {
                        let lines = value.lines().filter_map(|line| line.split_once(": "));
                        let keys = lines.filter(|(key, _)| key.bytes().all(|byte| byte.is_ascii_lowercase()));
                        words.extend(keys.map(|(key, _)| format!("{place}: {key}")));
                    }
                    _ if PROSE.contains(&column.as_str()) => {}
                    _ => {
                        words.insert(format!("{place}: {}", shape(&value)));
                    }
                }
            }
        }
    }
}

/// Lists the keys of every JSON file.
fn words_of_files(root: &Path, folder: &Path, words: &mut BTreeSet<String>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            words_of_files(root, &path, words);
            continue;
        }
        let name = path.strip_prefix(root).unwrap().to_string_lossy().into_owned();
        if !(name.ends_with(".json") || name.ends_with(".jsonl")) {
            continue;
        }
        let text = fs::read_to_string(&path).unwrap();
        for value in serde_json::Deserializer::from_str(&text).into_iter::<Value>() {
            keys(&shape(&name), &value.unwrap(), words);
        }
    }
}

/// Lists the keys of JSON and the words some of them name; of a list of pairs the first halves.
fn keys(place: &str, value: &Value, words: &mut BTreeSet<String>) {
    match value {
        Value::Object(fields) => {
            for (key, value) in fields {
                let place = format!("{place}: {}", shape(key));
                keys(&place, value, words);
                if let Some(word) = value.as_str().filter(|_| NAMING.contains(&key.as_str())) {
                    words.insert(format!("{place} = {}", shape(word)));
                }
                words.insert(place);
            }
        }
        Value::Array(items) => {
            for item in items {
                match item.as_array().map(Vec::as_slice) {
                    Some([Value::String(key), _]) => {
                        words.insert(format!("{place}: {key}"));
                    }
                    _ => keys(place, item, words),
                }
            }
        }
        _ => {}
    }
}

/// Returns a value with what differs from run to run replaced: ids, hashes, numbers, the place of the workspace.
fn shape(value: &str) -> String {
    let inside = value.find("/workspace/").filter(|_| value.starts_with('/'));
    let mut value = inside.map_or(value, |at| &value[at..]).to_owned();
    // How far memory came with each of them is a race.
    for said in scenario::UNFINISHED {
        value = value.replace(said.key, "KEY");
    }
    let mut shaped = String::new();
    for piece in value.split_inclusive(|character: char| !character.is_ascii_alphanumeric()) {
        let token = piece.trim_end_matches(|character: char| !character.is_ascii_alphanumeric());
        let named = match token.len() {
            26 if token.bytes().all(|byte| byte.is_ascii_digit() || byte.is_ascii_uppercase()) => "ID",
            32.. if token.bytes().all(|byte| byte.is_ascii_hexdigit()) => "HASH",
            3.. if token.bytes().all(|byte| byte.is_ascii_digit()) => "NUMBER",
            _ => token,
        };
        shaped.push_str(named);
        shaped.push_str(&piece[token.len()..]);
    }
    shaped
}

#[test]
fn words_an_older_build_stored_are_still_written() {
    let old = words(&fixture().join("workspace"));
    insta::assert_snapshot!("stored_words", old.iter().map(String::as_str).collect::<Vec<_>>().join("\n"));
    let new = words(scenario::interrupted(env!("CARGO_BIN_EXE_nexus")).root());
    let gone: Vec<&String> = old.difference(&new).collect();
    let come: Vec<&String> = new.difference(&old).collect();
    assert!(gone.is_empty(), "no longer written: {gone:#?}\nwritten beside: {come:#?}");
}
