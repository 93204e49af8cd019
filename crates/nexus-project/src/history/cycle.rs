//! A cycle that is about to be archived, in the forms that are needed of it. Each is made once.

use nexus_base::clock::Timestamp;
use serde_json::{Map, Value};

use super::scan::MAX_CYCLE_SIZE;
use super::whole;
use crate::ProjectError;

/// What each cycle we write says about its own form.
const VERSION: &str = "0.5";
/// Most lists and objects inside each other, the cycle among them. `serde_json` reads 127, and two more stand around a
/// cycle for those who read the history as one document.
const MAX_DEPTH: usize = 125;

#[derive(Debug)]
pub(super) struct Cycle {
    pub(super) completed_at: String,
    pub(super) branch: String,
    pub(super) plan_id: Option<u64>,
    /// As it stands in the history, without the spaces before it.
    pub(super) text: String,
    /// By which it is known wherever it stands, and searched.
    pub(super) compact: String,
}

impl Cycle {
    /// Closes a plan and tasks now, unless that makes a cycle that nobody could read again.
    pub(super) fn new(
        plan: Option<Map<String, Value>>,
        tasks: Vec<Value>,
        branch: String,
    ) -> Result<Self, ProjectError> {
        let completed_at = Timestamp::now().to_string();
        let plan_id = plan.as_ref().and_then(|plan| whole(plan.get("id")?));
        let plan = plan.map_or(Value::Null, |mut plan| {
            // The archived plan has no version of its own; the cycle carries one.
            plan.shift_remove("schema_version");
            Value::Object(plan)
        });
        // Put together by hand: `json!` would copy plan and tasks.
        let cycle = Value::Object(Map::from_iter([
            ("schema_version".to_owned(), VERSION.into()),
            ("completed_at".to_owned(), completed_at.as_str().into()),
            ("branch".to_owned(), branch.as_str().into()),
            ("plan".to_owned(), plan),
            ("tasks".to_owned(), Value::Array(tasks)),
        ]));
        if depth(&cycle) > MAX_DEPTH {
            return Err(unreadable(&format!("has more than {MAX_DEPTH} nested lists and objects")));
        }
        // A `Value` always renders: its keys are text and it holds no foreign serializer.
        let text = serde_json::to_string_pretty(&cycle).unwrap_or_default().replace('\n', "\n    ");
        if text.len() > MAX_CYCLE_SIZE {
            return Err(unreadable(&format!("has {} bytes; {MAX_CYCLE_SIZE} are allowed", text.len())));
        }
        Ok(Self { completed_at, branch, plan_id, text, compact: cycle.to_string() })
    }

    /// Returns a history of this cycle alone.
    pub(super) fn alone(&self) -> String {
        format!("{{\n  \"cycles\": [\n    {}\n  ]\n}}\n", self.text)
    }

    /// Returns the text that takes the place of `tail`, which stands after the last cycle, and where the cycle is in it.
    pub(super) fn before(&self, tail: &str, is_first: bool) -> (String, u64) {
        let lead = if is_first { "\n    " } else { ",\n    " };
        // A file written without line breaks gets one before its closing bracket.
        let after = if tail.starts_with(']') { "\n  " } else { "" };
        (format!("{lead}{}{after}{tail}", self.text), lead.len() as u64)
    }
}

/// Returns how many lists and objects stand inside each other. Whatever was parsed is no deeper than the parser goes.
fn depth(value: &Value) -> usize {
    match value {
        Value::Array(items) => 1 + items.iter().map(depth).max().unwrap_or(0),
        Value::Object(fields) => 1 + fields.values().map(depth).max().unwrap_or(0),
        _ => 0,
    }
}

fn unreadable(why: &str) -> ProjectError {
    ProjectError::Refused(format!(
        "the cycle cannot be archived: it {why}; nothing was changed: shorten plan.json or tasks.json by hand"
    ))
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::os::unix::fs::FileExt as _;

    use serde_json::json;

    use super::super::Index;
    use super::*;
    use crate::document;

    fn cycle(number: u64) -> Cycle {
        let Value::Object(plan) = json!({
            "schema_version": "9", "id": number, "topic": "Ärger\n\"quoted\"", "issues": [], "more": { "a": [1, [2]] },
        }) else {
            unreachable!()
        };
        let plan = (number != 3).then_some(plan);
        Cycle::new(plan, vec![json!({ "id": 1, "title": "t" }), json!({})], "main".to_owned()).unwrap()
    }

    #[test]
    fn a_first_cycle_makes_the_document_that_others_would_write() {
        let cycle = cycle(1);
        let value: Value = serde_json::from_str(&cycle.compact).unwrap();
        assert_eq!(cycle.alone(), document::render(&json!({ "cycles": [value] })));
        assert!(!cycle.text.contains("\"9\""), "the plan's own version is left out");
    }

    #[test]
    fn a_cycle_that_nobody_could_read_again_is_none() {
        let nested = |levels| (0..levels).fold(Value::Null, |inner, _| json!([inner]));
        let closed = |task| Cycle::new(None, vec![task], String::new());
        let whole: Value = serde_json::from_str(&closed(nested(MAX_DEPTH - 2)).unwrap().alone()).unwrap();
        assert_eq!(depth(&whole), 127);
        assert!(matches!(closed(nested(MAX_DEPTH - 1)), Err(ProjectError::Refused(_))));
        assert!(matches!(closed("x".repeat(MAX_CYCLE_SIZE).into()), Err(ProjectError::Refused(_))));
    }

    #[test]
    fn what_is_known_of_a_cycle_is_what_reading_it_would_tell() {
        let spaced = cycle(1).alone();
        for before in [&spaced, "{\"cycles\":[]}", "{\"a\":1,\"cycles\":[{\"plan\":{\"id\":7}}],\"b\":[]}\n"]
        {
            let mut file = tempfile::tempfile().unwrap();
            file.write_all(before.as_bytes()).unwrap();
            let path = std::path::Path::new("history.json");
            let mut index = Index::build(&file, path).unwrap();
            for number in 2..6 {
                let cycle = cycle(number);
                let offset = index.elements_end;
                let (text, at) = cycle.before(&index.tail(&file, path).unwrap(), index.count() == 0);
                file.write_all_at(text.as_bytes(), offset).unwrap();
                index.push(&cycle, offset + at, &file, path).unwrap();
                let read = Index::build(&file, path).unwrap();
                assert_eq!(
                    (index.count(), index.elements_end),
                    (read.count(), read.elements_end),
                    "{before}"
                );
                assert_eq!(index.entries, read.entries);
                assert_eq!(index.filters, read.filters);
                assert_eq!(index.words, read.words);
                assert_eq!(index.highest_plan_id, read.highest_plan_id);
                assert_eq!((index.stamp, index.witness), (read.stamp, read.witness));
            }
        }
    }
}
