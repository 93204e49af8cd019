//! A search finds what reading every cycle would find, whatever the cycles hold, however the file is written and
//! whichever way of answering is taken.

use std::fs;
use std::io::Write as _;
use std::path::Path;

use nexus_project::{Project, Tool};
use proptest::prelude::*;
use proptest::sample::Index;
use serde_json::{Value, json};

use crate::child::ask;

/// Letter by letter, as the contract's "case-insensitively" is read here.
fn folded(text: &str) -> String {
    text.chars().flat_map(char::to_lowercase).collect()
}

fn expected(cycles: &[Value], query: &str) -> u64 {
    cycles.iter().filter(|cycle| folded(&cycle.to_string()).contains(&folded(query))).count() as u64
}

fn total(project: &Project, query: &str) -> u64 {
    ask(project, Tool::HistorySearch, json!({ "query": query, "last_n": 1 }))["total"].as_u64().unwrap()
}

/// Writes a history in one of the forms that programs write.
fn write(root: &Path, cycles: &[Value], form: u8) {
    let history = json!({ "cycles": cycles });
    let text = match form {
        0 => format!("{}\n", serde_json::to_string_pretty(&history).unwrap()),
        1 => history.to_string(),
        // As Python does unless told otherwise: escapes for all but ASCII, and capitals in them may differ.
        2 => serde_json::to_string_pretty(&history)
            .unwrap()
            .chars()
            .flat_map(|character| {
                let units =
                    if character.is_ascii() { vec![] } else { character.encode_utf16(&mut [0; 2]).to_vec() };
                let plain = character.is_ascii().then_some(character).map(String::from);
                plain.into_iter().chain(units.into_iter().map(|unit| format!("\\u{unit:04X}")))
            })
            .collect(),
        // Tabs and other line breaks.
        _ => serde_json::to_string_pretty(&history).unwrap().replace("\n  ", "\r\n\t "),
    };
    fs::create_dir_all(root.join(".nexus")).unwrap();
    let mut file = fs::File::create(root.join(".nexus/history.json")).unwrap();
    file.write_all(text.as_bytes()).unwrap();
}

fn texts() -> impl Strategy<Value = String> {
    prop_oneof![
        "[a-cA-C]{1,4}( [a-cA-C]{1,4}){0,4}",
        "[abAB ,:.{}\\[\\]\"\\\\/\n\t-]{0,12}",
        "[aéÉßİıKkIiSſ ]{0,8}",
        "(true|false|null|12|: |, |\\[|\\]| ){0,4}",
        Just("x".repeat(70)),
    ]
}

fn cycles() -> impl Strategy<Value = Vec<Value>> {
    let cycle = (texts(), texts(), any::<bool>(), 0..30_u32).prop_map(|(topic, context, flag, number)| {
        json!({
            "branch": "main", "plan": { "id": number, "topic": topic, "issues": [], "done": flag },
            "tasks": [{ "id": 1, "context": context, "deps": [1, number], "share": f64::from(number) / 4.0 }],
        })
    });
    proptest::collection::vec(cycle, 1..8)
}

fn queries() -> impl Strategy<Value = Vec<(Index, Index, usize, bool)>> {
    proptest::collection::vec((any::<Index>(), any::<Index>(), 1..12_usize, any::<bool>()), 24)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    #[test]
    fn as_reading_every_cycle_would(
        cycles in cycles(), form in 0..4_u8, parts in queries(), others in proptest::collection::vec(texts(), 8),
    ) {
        let folder = tempfile::tempdir().unwrap();
        write(folder.path(), &cycles, form);
        let project = Project::open(folder.path()).unwrap();
        // Parts of what is there, and what may be there or not.
        let parts = parts.into_iter().map(|(cycle, at, length, capitals)| {
            let text = cycle.get(&cycles).to_string();
            let characters: Vec<char> = text.chars().collect();
            let part: String = characters.iter().skip(at.index(characters.len())).take(length).collect();
            if capitals { part.to_uppercase() } else { part }
        });
        let pretty = ["\": ", ": {", " 1", "  ", ",\n", "[1", "1,", ", 1", "e,", "true,", "\"main\"", "main", "x", ":", " "];
        for query in parts.chain(others).chain(pretty.map(str::to_owned)).filter(|query| !query.is_empty()) {
            prop_assert_eq!(total(&project, &query), expected(&cycles, &query), "{:?} in form {}", query, form);
        }
    }
}

/// Enough cycles that they are read in stretches and remembered on disk, and some that we write.
#[test]
fn a_long_history_before_and_after_it_is_remembered() {
    let folder = tempfile::tempdir().unwrap();
    let mut cycles: Vec<Value> = (0..400)
        .map(|number| {
            let odd = if number % 7 == 0 { "ÜBER \u{212A}elvin" } else { "plain words, and more" };
            json!({ "plan": { "id": number, "topic": format!("Topic {number}"), "odd": odd }, "pad": "word ".repeat(number % 90) })
        })
        .collect();
    write(folder.path(), &cycles, 0);
    for round in 0..3 {
        let project = Project::open(folder.path()).unwrap();
        for query in [
            "topic",
            "TOPIC 39",
            "plain words",
            "words, and",
            "über",
            "kelvin",
            "o",
            "d w",
            "word word",
            "399",
            "1",
            "}",
            "\"id\":7",
            "closed",
            "mine and",
            "nowhere",
        ] {
            assert_eq!(total(&project, query), expected(&cycles, query), "{query:?} in round {round}");
        }
        let add = json!({ "title": format!("closed {round}"), "context": "mine and nobody's" });
        assert!(ask(&project, Tool::TaskAdd, add)["task"].is_object());
        assert_eq!(ask(&project, Tool::TaskClose, json!({}))["closed"], true);
        let text = fs::read(folder.path().join(".nexus/history.json")).unwrap();
        let history: Value = serde_json::from_slice(&text).unwrap();
        cycles = history["cycles"].as_array().unwrap().clone();
        assert_eq!(total(&project, "mine and"), round + 1);
    }
}
