//! The form of the common files, checked on whatever a fixture leaves behind: it is what finds a field
//! that nobody asserts, such as the version of a cycle. What the fixture itself planted may be of an
//! older form and is left out.

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::{Map, Value};

use super::expect::is_iso8601;

/// What a field holds.
#[derive(Clone, Copy)]
enum Kind {
    /// A string of at least so many letters.
    Text(usize),
    /// A number of at least so much.
    Number(u64),
    Time,
    OneOf(&'static [&'static str]),
    Texts,
    Numbers,
    TextsByName,
    /// Digits, a dot, digits.
    Version,
    /// Small letters, digits and dashes.
    Name,
    /// Objects of one form.
    Each(&'static [Field]),
    /// An object of one form, or null.
    OrNull(&'static [Field]),
}

#[derive(Clone, Copy)]
struct Field {
    name: &'static str,
    kind: Kind,
    required: bool,
}

const fn must(name: &'static str, kind: Kind) -> Field {
    Field { name, kind, required: true }
}

const fn may(name: &'static str, kind: Kind) -> Field {
    Field { name, kind, required: false }
}

const ISSUE: &[Field] = &[
    must("id", Kind::Number(1)),
    must("title", Kind::Text(1)),
    must("status", Kind::OneOf(&["pending", "decided"])),
    may("decision", Kind::Text(0)),
    may("how_agents", Kind::Texts),
    may("how_summary", Kind::TextsByName),
    may("how_agent_ids", Kind::TextsByName),
];
const ARCHIVED_PLAN: &[Field] = &[
    must("id", Kind::Number(1)),
    must("topic", Kind::Text(1)),
    must("issues", Kind::Each(ISSUE)),
    may("research_summary", Kind::Text(0)),
    must("created_at", Kind::Time),
];
const PLAN: &[Field] = &[
    may("schema_version", Kind::Version),
    must("id", Kind::Number(1)),
    must("topic", Kind::Text(1)),
    must("issues", Kind::Each(ISSUE)),
    may("research_summary", Kind::Text(0)),
    must("created_at", Kind::Time),
];
const TASK: &[Field] = &[
    must("id", Kind::Number(1)),
    must("title", Kind::Text(1)),
    must("context", Kind::Text(1)),
    may("approach", Kind::Text(0)),
    may("acceptance", Kind::Text(0)),
    may("risk", Kind::Text(0)),
    must("status", Kind::OneOf(&["pending", "in_progress", "completed"])),
    must("deps", Kind::Numbers),
    may("plan_issue", Kind::Number(0)),
    may("owner", Kind::Text(0)),
    may("owner_agent_id", Kind::Text(0)),
    may("owner_reuse_policy", Kind::OneOf(&["fresh", "resume_if_same_artifact", "resume"])),
    may("created_at", Kind::Time),
];
const TASKS: &[Field] = &[
    may("schema_version", Kind::Version),
    // Upstream's schema wants a letter here, its tools begin with none.
    must("goal", Kind::Text(0)),
    must("decisions", Kind::Texts),
    must("tasks", Kind::Each(TASK)),
];
const CYCLE: &[Field] = &[
    must("schema_version", Kind::Version),
    must("completed_at", Kind::Time),
    must("branch", Kind::Text(1)),
    must("plan", Kind::OrNull(ARCHIVED_PLAN)),
    must("tasks", Kind::Each(TASK)),
];
const INSTANCE: &[Field] = &[
    must("harness_id", Kind::Name),
    must("started_at", Kind::Time),
    may("agent_name", Kind::Name),
    may("agent_id", Kind::Text(1)),
    may("last_resumed_at", Kind::Time),
    may("resume_count", Kind::Number(0)),
    may("status", Kind::OneOf(&["running", "completed"])),
    may("stopped_at", Kind::Time),
    may("last_message", Kind::Text(0)),
    may("files_touched", Kind::Texts),
];
const READ: &[Field] = &[
    must("path", Kind::Text(1)),
    must("last_accessed_ts", Kind::Time),
    must("access_count", Kind::Number(0)),
    must("last_agent", Kind::Text(1)),
    may("schema_version", Kind::Version),
];

/// Checks the common files below `root`. `planted` returns what stood in a file before, if anything.
pub(super) fn check(root: &Path, harness: &str, planted: impl Fn(&Path) -> Option<Value>) -> Vec<String> {
    let state = root.join(".nexus/state");
    let mut problems = Vec::new();
    let unchanged = |path: &Path, bytes: &[u8]| {
        let before = planted(path);
        let raw = before.as_ref().and_then(|before| before.get("$raw")).and_then(Value::as_str);
        raw.is_some_and(|raw| raw.as_bytes() == bytes)
    };
    let planted = |path: &Path| {
        let before = planted(path)?;
        let raw = before.get("$raw").and_then(Value::as_str);
        Some(raw.and_then(|raw| serde_json::from_str(raw).ok()).unwrap_or(before))
    };
    let changed = |path: &Path, problems: &mut Vec<String>| {
        let bytes = std::fs::read(path).ok().filter(|bytes| !unchanged(path, bytes))?;
        match serde_json::from_slice::<Value>(&bytes) {
            Ok(document) if planted(path).as_ref() == Some(&document) => None,
            Ok(document) => Some(document),
            Err(error) => {
                problems.push(format!("{} is left as invalid JSON: {error}", path.display()));
                None
            }
        }
    };
    for (path, form) in [(state.join("plan.json"), PLAN), (state.join("tasks.json"), TASKS)] {
        if let Some(document) = changed(&path, &mut problems) {
            let before = planted(&path);
            let mut shape = Shape::new(&path, root, before.as_ref());
            shape.object("", &document, form, before.as_ref());
            problems.append(&mut shape.problems);
        }
    }
    let history = root.join(".nexus/history.json");
    if let Some(document) = changed(&history, &mut problems) {
        let old = planted(&history);
        let known = old.as_ref().and_then(|old| old["cycles"].as_array()).map_or(0, Vec::len);
        let mut shape = Shape::new(&history, root, old.as_ref());
        shape.tail("cycles", &document["cycles"], known, CYCLE, None);
        problems.append(&mut shape.problems);
    }
    let tracker = state.join(harness).join("agent-tracker.json");
    if let Some(document) = changed(&tracker, &mut problems) {
        let before = planted(&tracker);
        let mut shape = Shape::new(&tracker, root, before.as_ref());
        shape.tail("", &document, 0, INSTANCE, before.as_ref());
        problems.append(&mut shape.problems);
    }
    let reads = state.join(harness).join("memory-access.jsonl");
    if let Ok(text) = std::fs::read_to_string(&reads) {
        let mut shape = Shape::new(&reads, root, None);
        for (line, number) in text.lines().zip(1..) {
            match serde_json::from_str(line) {
                Ok(record) => shape.object(&format!("line {number}"), &record, READ, None),
                Err(error) => shape.say(&format!("line {number}"), &format!("invalid JSON: {error}")),
            }
        }
        problems.append(&mut shape.problems);
    }
    problems
}

struct Shape {
    file: String,
    /// Names that the fixture planted: whoever rewrites a file carries them along.
    carried: BTreeSet<String>,
    problems: Vec<String>,
}

impl Shape {
    fn new(path: &Path, root: &Path, planted: Option<&Value>) -> Self {
        let file = path.strip_prefix(root).unwrap_or(path).display().to_string();
        let mut carried = BTreeSet::new();
        if let Some(planted) = planted {
            names(planted, &mut carried);
        }
        Self { file, carried, problems: Vec::new() }
    }

    fn say(&mut self, place: &str, what: &str) {
        self.problems.push(format!("format of {} {place}: {what}", self.file));
    }

    /// Checks an object; a field that is as it was before is not looked at.
    fn object(&mut self, place: &str, value: &Value, form: &[Field], before: Option<&Value>) {
        let Some(object) = value.as_object() else { return self.say(place, "expected an object") };
        for field in form {
            let old = before.and_then(|before| before.get(field.name));
            match object.get(field.name) {
                Some(value) if Some(value) == old => {}
                Some(value) => self.value(&join(place, field.name), value, field.kind, old),
                None if field.required && (before.is_none() || old.is_some()) => {
                    self.say(&join(place, field.name), "it is missing");
                }
                None => {}
            }
        }
        self.strangers(place, object, form);
    }

    fn strangers(&mut self, place: &str, object: &Map<String, Value>, form: &[Field]) {
        for name in object.keys() {
            if form.iter().all(|field| field.name != name) && !self.carried.contains(name) {
                self.say(&join(place, name), "the schema has no such field");
            }
        }
    }

    fn tail(&mut self, place: &str, value: &Value, skip: usize, form: &[Field], before: Option<&Value>) {
        let Some(list) = value.as_array() else { return self.say(place, "expected a list") };
        for (one, at) in list.iter().zip(0..).skip(skip) {
            let mut old = before.and_then(Value::as_array).into_iter().flatten();
            let old = old.find(|old| {
                ["id", "agent_id"].iter().any(|key| one.get(key).is_some() && old.get(key) == one.get(key))
            });
            self.object(&format!("{place}[{at}]"), one, form, old);
        }
    }

    fn value(&mut self, place: &str, value: &Value, kind: Kind, before: Option<&Value>) {
        let strings = |value: &Value| value.as_array().is_some_and(|list| list.iter().all(Value::is_string));
        let (holds, what) = match kind {
            Kind::Text(least) => {
                (value.as_str().is_some_and(|text| text.chars().count() >= least), "a string")
            }
            Kind::Number(least) => {
                #[expect(clippy::cast_precision_loss, reason = "bounds are small")]
                let holds = value.as_f64().is_some_and(|number| number >= least as f64);
                (holds, "a number")
            }
            Kind::Time => (value.as_str().is_some_and(is_iso8601), "a date and time"),
            Kind::OneOf(words) => {
                (value.as_str().is_some_and(|text| words.contains(&text)), "one of the known words")
            }
            Kind::Texts => (strings(value), "a list of strings"),
            Kind::Numbers => {
                (value.as_array().is_some_and(|list| list.iter().all(Value::is_number)), "a list of numbers")
            }
            Kind::TextsByName => (
                value.as_object().is_some_and(|map| map.values().all(Value::is_string)),
                "an object of strings",
            ),
            Kind::Version => (value.as_str().is_some_and(is_version), "a version"),
            Kind::Name => (value.as_str().is_some_and(crate::harness::is_name), "a name"),
            Kind::Each(form) => return self.tail(place, value, 0, form, before),
            Kind::OrNull(form) => {
                if !value.is_null() {
                    self.object(place, value, form, before);
                }
                return;
            }
        };
        if !holds {
            self.say(place, &format!("expected {what}"));
        }
    }
}

fn is_version(text: &str) -> bool {
    let digits = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    text.split_once('.').is_some_and(|(major, minor)| digits(major) && digits(minor))
}

fn join(place: &str, name: &str) -> String {
    if place.is_empty() { name.to_owned() } else { format!("{place}.{name}") }
}

fn names(value: &Value, into: &mut BTreeSet<String>) {
    match value {
        Value::Object(object) => {
            for (name, value) in object {
                into.insert(name.clone());
                names(value, into);
            }
        }
        Value::Array(list) => list.iter().for_each(|value| names(value, into)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn problems(name: &str, document: &Value, planted: Option<&Value>) -> Vec<String> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(".nexus").join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        #[expect(clippy::disallowed_methods, reason = "plants a file for the test")]
        std::fs::write(&path, document.to_string()).unwrap();
        check(folder.path(), "nexus", |asked| planted.cloned().filter(|_| asked == path))
    }

    #[test]
    fn what_no_fixture_asserts_is_found() {
        let cycle = json!({
            "completed_at": "2026-04-13T00:00:00.000Z", "branch": "main", "plan": null, "tasks": [],
        });
        let history = json!({ "cycles": [cycle] });
        let said = problems("history.json", &history, None);
        assert_eq!(said, ["format of .nexus/history.json cycles[0].schema_version: it is missing"]);
        assert!(problems("history.json", &history, Some(&history)).is_empty(), "it was planted so");
        let tasks = json!({ "goal": "", "decisions": [], "tasks": [{
            "id": 0, "title": "", "context": "c", "status": "blocked", "deps": ["1"], "colour": "red",
        }] });
        assert_eq!(problems("state/tasks.json", &tasks, None).len(), 5);
        let carried = json!({ "goal": "", "decisions": [], "tasks": [{ "id": 0, "colour": "red" }] });
        assert_eq!(problems("state/tasks.json", &tasks, Some(&carried)).len(), 3);
    }

    #[test]
    fn files_of_instances_and_reads_are_looked_at_too() {
        let tracker = json!([{ "harness_id": "Nexus", "started_at": "today" }]);
        assert_eq!(problems("state/nexus/agent-tracker.json", &tracker, None).len(), 2);
        assert_eq!(problems("state/nexus/memory-access.jsonl", &json!({ "path": "" }), None).len(), 4);
        assert_eq!(problems("state/plan.json", &json!({ "$raw": "{" }), None).len(), 5);
    }
}
