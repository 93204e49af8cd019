//! One fixture from its precondition to its verdict.

use std::fs;
use std::path::{Component, Path, PathBuf};

use nexus_base::file::{self, Durability};
use serde_json::{Map, Value};

use super::fixture::{Action, Entries, EventText, Fixture};
use super::subject::{Event, NoAnswer, Subject};
use super::{expect, shape};
use crate::harness::HarnessId;
use crate::lifecycle::Moment;

/// What a memory file is called when a fixture only says that one was read.
const MEMORY_FILE: &str = ".nexus/memory/observed.md";

/// What a call or event gave.
enum Outcome {
    Answer(Value),
    Failed(String),
}

struct Run<'run> {
    root: PathBuf,
    harness: String,
    subject: &'run mut dyn Subject,
}

/// Runs a fixture and returns what did not hold.
///
/// # Errors
/// The fixture could not be run at all.
pub(super) fn run(
    fixture: &Fixture,
    subject: &mut dyn Subject,
    scratch: &Path,
) -> Result<Vec<String>, String> {
    let folder = tempfile::Builder::new()
        .prefix("conformance-")
        .tempdir_in(scratch)
        .map_err(|error| format!("making a project: {error}"))?;
    let mut run = Run { root: folder.path().to_owned(), harness: harness_of(fixture), subject };
    for (path, content) in &fixture.precondition.state_files {
        run.establish(path, content)?;
    }
    // One fixture tells of the end of a session and expects the trace of a read that came before it.
    if names_memory_access(&fixture.covers) {
        let event = Event::MemoryRead { path: MEMORY_FILE.to_owned(), reader: "lead".to_owned() };
        run.subject.event(&run.root, &run.harness, &event)?;
    }
    let after = &fixture.postcondition;
    let wants_failure = after.error == Some(true) || after.error_contains.is_some();
    let mut problems = Vec::new();
    let mut last = None;
    if let Some(steps) = &fixture.steps {
        for (step, number) in steps.iter().zip(1..) {
            let about = format!("step {number} ({})", step.description);
            let outcome = run.act(step.action.as_ref(), step.event.as_ref())?;
            match &outcome {
                Outcome::Answer(value) => problems.extend(expect::check(&about, value, &step.assert_return)),
                Outcome::Failed(message) => {
                    let value = serde_json::json!({ "error": message });
                    // What stands behind the steps is about the last of them.
                    let wanted = wants_failure && number == steps.len();
                    if wanted || step.assert_return.contains_key("$.error") {
                        problems.extend(expect::check(&about, &value, &step.assert_return));
                    } else {
                        problems.push(format!("{about} failed: {message}"));
                    }
                }
            }
            problems.extend(run.inspect(&about, &step.assert_state)?);
            last = Some(outcome);
        }
    } else {
        last = Some(run.act(fixture.action.as_ref(), fixture.event.as_ref())?);
    }
    match last {
        Some(Outcome::Failed(message)) => {
            let asserted = after.return_value.contains_key("$.error");
            if !wants_failure && !asserted && fixture.steps.is_none() {
                problems.push(format!("failed: {message}"));
            }
            let wanted = after.error_contains.as_deref().unwrap_or_default();
            if !message.contains(wanted) {
                problems.push(format!("the error {message:?} does not say {wanted:?}"));
            }
            let value = serde_json::json!({ "error": message });
            problems.extend(expect::check("return value", &value, &after.return_value));
        }
        Some(Outcome::Answer(value)) => {
            if wants_failure {
                problems.push("an error was expected".to_owned());
            }
            problems.extend(expect::check("return value", &value, &after.return_value));
        }
        None => problems.push("the fixture does nothing".to_owned()),
    }
    problems.extend(run.inspect("after", &after.state_files)?);
    let planted = |path: &Path| {
        let mut files = fixture.precondition.state_files.iter();
        files
            .find(|(name, _)| run.place(name).is_ok_and(|place| place == path))
            .map(|(_, value)| value.clone())
    };
    problems.extend(shape::check(&run.root, &run.harness, planted));
    Ok(problems)
}

impl Run<'_> {
    fn act(&mut self, action: Option<&Action>, event: Option<&EventText>) -> Result<Outcome, String> {
        if let Some(action) = action {
            return Ok(match self.subject.call(&self.root, &action.tool, &action.params) {
                Ok(value) => match value.get("error").and_then(Value::as_str) {
                    Some(message) => Outcome::Failed(message.to_owned()),
                    None => Outcome::Answer(value),
                },
                Err(NoAnswer::Refused(message)) => Outcome::Failed(message),
                Err(NoAnswer::Unreachable(why)) => return Err(why),
            });
        }
        let event = event.ok_or("a step needs an action or an event")?;
        if let Some(moment) = Moment::parse(&event.kind) {
            return Ok(match self.subject.moment(&self.root, &self.harness, moment, &event.params) {
                Ok(value) => Outcome::Answer(value),
                Err(message) => Outcome::Failed(message),
            });
        }
        let event = event_of(event)?;
        Ok(match self.subject.event(&self.root, &self.harness, &event) {
            Ok(()) => Outcome::Answer(Value::Object(Map::new())),
            Err(message) => Outcome::Failed(message),
        })
    }

    fn establish(&self, path: &str, content: &Value) -> Result<(), String> {
        let path = self.place(path)?;
        if content.is_null() {
            return match fs::remove_file(&path) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error.to_string()),
                _ => Ok(()),
            };
        }
        let is_empty = content.as_object().is_some_and(Map::is_empty);
        let is_json = path.extension().is_some_and(|end| end == "json");
        let text = if is_empty && !is_json { String::new() } else { crate::document::render(content) };
        // A fixture of ours may plant a file that is no JSON at all.
        let text = content.get("$raw").and_then(Value::as_str).map_or(text, str::to_owned);
        let folder = path.parent().unwrap_or(&self.root);
        file::create_folder(folder, 0o755)
            .and_then(|_| file::replace(&path, text.as_bytes(), 0o644, Durability::Crash))
            .map_err(|error| format!("creating {}: {error}", path.display()))
    }

    fn inspect(&self, about: &str, files: &Entries) -> Result<Vec<String>, String> {
        let mut problems = Vec::new();
        for (name, expected) in files {
            let path = self.place(name)?;
            let about = format!("{about}: {name}");
            match expected {
                Value::Null if path.exists() => problems.push(format!("{about} should not exist")),
                Value::Null => {}
                Value::Object(assertions) => match fs::read(&path) {
                    Err(error) => problems.push(format!("{about} cannot be read: {error}")),
                    Ok(_) if assertions.is_empty() => {}
                    Ok(bytes) => problems.extend(content(&about, &bytes, assertions)),
                },
                _ => return Err(format!("{about}: a file is expected as null or an object")),
            }
        }
        Ok(problems)
    }

    fn place(&self, path: &str) -> Result<PathBuf, String> {
        let path = path.replace("{STATE_ROOT}", ".nexus/state").replace("{HARNESS_ID}", &self.harness);
        if path.contains(['{', '}']) {
            return Err(format!("{path} contains a token this runner does not know"));
        }
        let plain = Path::new(&path).components().all(|part| matches!(part, Component::Normal(_)));
        if plain { Ok(self.root.join(path)) } else { Err(format!("{path} points outside the project")) }
    }
}

fn content(about: &str, bytes: &[u8], assertions: &Entries) -> Vec<String> {
    if let Some(text) = assertions.get("$raw").and_then(Value::as_str) {
        let same = bytes == text.as_bytes();
        return if same { Vec::new() } else { vec![format!("{about} has changed")] };
    }
    match serde_json::from_slice(bytes) {
        Ok(document) => expect::check(about, &document, assertions),
        Err(error) => vec![format!("{about} is not valid JSON: {error}")],
    }
}

fn event_of(event: &EventText) -> Result<Event, String> {
    let text = |name: &str| event.params.get(name).and_then(Value::as_str).map(str::to_owned);
    let needed = |name: &str| text(name).ok_or_else(|| format!("{} needs {name}", event.kind));
    match event.kind.as_str() {
        "agent_spawn" => {
            Ok(Event::AgentSpawn { agent_name: needed("agent_name")?, agent_id: needed("agent_id")? })
        }
        "agent_complete" => {
            let touched = event.params.get("files_touched").and_then(Value::as_array);
            let touched =
                touched.into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect();
            let (agent_id, last_message) = (needed("agent_id")?, text("last_message"));
            Ok(Event::AgentComplete { agent_id, last_message, files_touched: touched })
        }
        "agent_resume" => Ok(Event::AgentResume { agent_id: needed("agent_id")? }),
        "memory_read" => Ok(Event::MemoryRead { path: needed("path")?, reader: needed("reader")? }),
        other => Err(format!("there is no event {other}")),
    }
}

/// The harness a fixture is about: named by its event, else by an entry it plants, else ours.
fn harness_of(fixture: &Fixture) -> String {
    let events =
        fixture.event.iter().chain(fixture.steps.iter().flatten().filter_map(|step| step.event.as_ref()));
    let named = events.filter_map(|event| event.params.get("harness_id")).find_map(Value::as_str);
    let planted = || {
        let files = fixture.precondition.state_files.values();
        files.filter_map(Value::as_array).flatten().find_map(|entry| entry.get("harness_id")?.as_str())
    };
    named.or_else(planted).unwrap_or(HarnessId::OURS).to_owned()
}

fn names_memory_access(covers: &Value) -> bool {
    covers
        .get("state_schemas")
        .and_then(Value::as_object)
        .is_some_and(|schemas| schemas.keys().any(|name| name.starts_with("memory-access")))
}
