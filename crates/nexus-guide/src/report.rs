//! Tells what tool calls and workers gave back. Only their words are used, shortened and marked.

use serde_json::Value;

use crate::draft::Draft;
use crate::findings::{Finding, Findings};
use crate::persona::Document;
use crate::scene::{Call, Scene};
use crate::story::{ImportQuestion, Telling};
use crate::task::{self, Purpose};
use crate::text::{join_and, one_line, shorten};
use crate::worker::FAILED;

/// Longest worker output that is shown whole.
const MAX_SHOWN_LEN: usize = 4_000;
/// Most memories that are listed.
const MAX_MEMORIES: usize = 8;

/// Tells what the calls of this turn gave.
pub(crate) fn tell_calls(scene: &Scene, draft: &mut Draft) {
    for place in &scene.answered {
        let Some(call) = scene.calls.get(*place) else { continue };
        let Some(outcome) = &call.outcome else { continue };
        let reason = || one_line(&outcome.text, 300);
        match call.name.as_str() {
            "remember" if outcome.is_error => draft.say(format!("I could not store that: {}", reason())),
            "remember" => {
                let stored = call.input.get("text").and_then(Value::as_str).unwrap_or_default();
                draft.say(format!("I will remember: “{}”", one_line(stored, 600)));
            }
            "recall" if outcome.is_error => draft.say(format!("I could not search my memory: {}", reason())),
            "recall" => draft.say(tell_memories(call, &outcome.text)),
            "get_agent_status" if outcome.is_error => {
                draft.say(format!("I could not see the workers: {}", reason()))
            }
            "get_agent_status" => draft.say(tell_status(scene, &outcome.text)),
            "write" => tell_write(scene, call, outcome.is_error, &outcome.text, draft),
            "agent_send" if outcome.is_error => {
                draft.say(format!(
                    "A worker could not be reached: {} Say “try again” if you want that.",
                    sentence(&reason())
                ));
            }
            _ => {}
        }
    }
}

fn sentence(text: &str) -> String {
    if text.ends_with(['.', '!', '?']) { text.to_owned() } else { format!("{text}.") }
}

fn tell_write(scene: &Scene, call: &Call, is_error: bool, text: &str, draft: &mut Draft) {
    let path = call.input.get("path").and_then(Value::as_str).unwrap_or("the file");
    if is_error {
        draft.say(format!("I could not write `{path}`: {}", one_line(text, 300)));
        return;
    }
    let document = Document::read(call.input.get("content").and_then(Value::as_str).unwrap_or_default());
    if path.ends_with("/SOUL.md") {
        if !draft.is_silent() || scene.has_spoken_in_turn {
            return;
        }
        draft.say("Done.");
        return;
    }
    if path.starts_with("state/user/") {
        let call = document.field("call").or_else(|| document.field("name")).unwrap_or("you");
        draft.say(format!("Done. From now on I call you {call}."));
    } else {
        let name = document.field("name").unwrap_or("the same");
        let manner = document.field("vibe").map(|vibe| format!(" My manner: {vibe}.")).unwrap_or_default();
        draft.say(format!("Done. From now on I am {name}.{manner}"));
    }
}

fn tell_memories(call: &Call, text: &str) -> String {
    let query = one_line(call.input.get("query").and_then(Value::as_str).unwrap_or_default(), 120);
    let hits = memories(text);
    if hits.is_empty() {
        return format!("I remember nothing about “{query}”.");
    }
    let more = hits.len().saturating_sub(MAX_MEMORIES);
    let mut lines = vec![format!("About “{query}” I remember:")];
    lines.extend(hits.into_iter().take(MAX_MEMORIES).map(|hit| format!("- {hit}")));
    if more > 0 {
        lines.push(format!("… and {more} more."));
    }
    lines.join("\n")
}

/// Reads what `recall` gave: JSON with a list of facts, or one fact per line.
fn memories(text: &str) -> Vec<String> {
    let text = text.trim();
    if let Ok(value) = serde_json::from_str::<Value>(text) {
        let list = match &value {
            Value::Array(list) => Some(list),
            Value::Object(fields) => fields.values().find_map(Value::as_array),
            _ => None,
        };
        return list.map(|list| list.iter().filter_map(memory_of).collect()).unwrap_or_default();
    }
    let lower = text.to_lowercase();
    let says_none = ["no memor", "nothing", "no fact", "no match", "no hit", "no result", "none"]
        .iter()
        .any(|phrase| lower.starts_with(phrase));
    if says_none && text.lines().count() <= 2 {
        return Vec::new();
    }
    text.lines()
        .map(|line| line.trim().trim_start_matches(['-', '*', '•']).trim())
        .filter(|line| !line.is_empty() && !line.ends_with(':'))
        .map(|line| one_line(line, 400))
        .collect()
}

fn memory_of(item: &Value) -> Option<String> {
    let field = |names: &[&str]| names.iter().find_map(|name| item.get(*name).and_then(Value::as_str));
    let text = field(&["text", "fact", "content", "summary"]).or_else(|| item.as_str())?;
    let date = field(&["date", "as_of", "mentioned_at", "occurred_at", "created_at", "time", "at"])
        .map(|moment| moment.get(..10).unwrap_or(moment));
    Some(match date {
        Some(date) => format!("{date}: {}", one_line(text, 400)),
        None => one_line(text, 400),
    })
}

fn tell_status(scene: &Scene, text: &str) -> String {
    let workers = serde_json::from_str::<Value>(text.trim()).ok().and_then(|value| match value {
        Value::Array(list) => Some(list),
        Value::Object(fields) => fields.into_values().find_map(|field| match field {
            Value::Array(list) => Some(list),
            _ => None,
        }),
        _ => None,
    });
    let Some(workers) = workers else {
        let lines = status_lines(text);
        return if lines.is_empty() {
            waiting(scene)
        } else {
            format!("The runtime says:\n{}", lines.join("\n"))
        };
    };
    let status = |worker: &Value| worker.get("status").and_then(Value::as_str).unwrap_or_default().to_owned();
    let active: Vec<String> = workers
        .iter()
        .filter(|worker| {
            worker.get("running").and_then(Value::as_bool).unwrap_or(false)
                || matches!(status(worker).as_str(), "pending" | "queued" | "running" | "active")
        })
        .map(|worker| {
            let task =
                worker.get("task").and_then(Value::as_str).map_or_else(|| "a task".to_owned(), describe);
            format!("- {task}: {}", status(worker))
        })
        .collect();
    if active.is_empty() {
        let ended = workers.len();
        let so_far = if ended == 0 { String::new() } else { format!(" {ended} have finished so far.") };
        return format!("No worker is running; I am waiting for you.{so_far}");
    }
    format!("Running now:\n{}", active.join("\n"))
}

/// Names a task by its purpose where its text tells, which a cut text may not.
fn describe(task: &str) -> String {
    match task::purpose(task) {
        Purpose::Other => one_line(task, 80),
        known => what(&known),
    }
}

fn waiting(scene: &Scene) -> String {
    let running = scene
        .dispatches
        .iter()
        .filter(|dispatch| dispatch.state == crate::scene::DispatchState::Running)
        .count();
    match running {
        0 => "No worker is running; I am waiting for you.".to_owned(),
        1 => "One worker is running.".to_owned(),
        _ => format!("{running} workers are running."),
    }
}

/// Makes readable lines of the status of one session.
fn status_lines(text: &str) -> Vec<String> {
    let text = text.trim();
    let Ok(value) = serde_json::from_str::<Value>(text) else {
        return if text.is_empty() { Vec::new() } else { vec![shorten(text, 1_500)] };
    };
    let Some(fields) = value.as_object() else { return Vec::new() };
    fields
        .iter()
        .filter(|(_, field)| !field.is_null() && !field.is_object() && !field.is_array())
        .take(20)
        .map(|(name, field)| {
            let shown = field.as_str().map_or_else(|| field.to_string(), str::to_owned);
            format!("- {}: {}", name.replace('_', " "), one_line(&shown, 100))
        })
        .collect()
}

/// Tells a worker's result.
pub(crate) fn tell_result(
    scene: &Scene,
    telling: &Telling,
    dispatch: Option<usize>,
    status: &str,
    text: &str,
    draft: &mut Draft,
) {
    let purpose = dispatch
        .and_then(|place| scene.dispatches.get(place))
        .map_or(&Purpose::Other, |known| &known.purpose);
    if status == "cancelled" {
        draft.say(format!("{} was cancelled.", capital(&what(purpose))));
        return;
    }
    let failed = status != "completed" || text.contains(FAILED);
    if failed && !matches!(purpose, Purpose::Scan | Purpose::Import if Findings::read_json(text).is_some()) {
        let reason = text.trim().trim_start_matches(FAILED).trim();
        let reason = if reason.is_empty() { "the worker gave no reason" } else { reason };
        draft.say(format!("{} failed: {}", capital(&what(purpose)), shorten(reason, 1_500)));
        let manager_repairs = matches!(purpose, Purpose::Identity(_)) && !scene.persona.is_onboarding;
        if !manager_repairs {
            draft.say("Say “try again” and I will send a worker once more.");
        }
        return;
    }
    match purpose {
        Purpose::Scan => tell_scan(telling, text, draft),
        Purpose::Import => tell_import(text, draft),
        Purpose::Identity(_) => tell_identity(scene, telling, draft),
        Purpose::Look => {
            let entries: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
            if entries.is_empty() || text.trim() == "[no output]" {
                draft.say("Your home folder is still empty.");
            } else {
                draft.say(format!("I looked around your home folder:\n{}", shorten(text.trim(), 800)));
            }
        }
        Purpose::Note(path) => draft.say(format!("Saved: `{path}`.")),
        Purpose::Run(command) => {
            draft.say(format!("`{command}` says:\n```\n{}\n```", shorten(text.trim_end(), MAX_SHOWN_LEN)));
        }
        Purpose::Read(path) | Purpose::List(path) => {
            draft.say(format!("`{path}`:\n```\n{}\n```", shorten(text.trim_end(), MAX_SHOWN_LEN)));
        }
        Purpose::Other => {
            let text = text.trim();
            draft.say(if text.is_empty() {
                "A worker has finished and had nothing to report.".to_owned()
            } else {
                format!("A worker reports: {}", shorten(text, MAX_SHOWN_LEN))
            });
        }
    }
}

fn tell_scan(telling: &Telling, text: &str, draft: &mut Draft) {
    let Some(findings) = Findings::read(text) else {
        draft.say(format!("I could not read the result of the credential scan: {}", one_line(text, 300)));
        draft.say("Say “scan for credentials” to try again.");
        return;
    };
    let importable = findings.importable();
    if importable.is_empty() {
        let unsure: Vec<&Finding> = findings.found.iter().filter(|finding| !finding.imported).collect();
        draft.say(match (findings.found.is_empty(), unsure.is_empty()) {
            (true, _) => "The credential scan found nothing in the environment.".to_owned(),
            (false, true) => "The credential scan found only what is already imported.".to_owned(),
            (false, false) => format!(
                "The credential scan found {} but could not tell what that is for; add it with `nexus credential add`.",
                Findings::told(&unsure)
            ),
        });
        return;
    }
    let told = Findings::told(&importable);
    let them = if importable.len() == 1 { "it" } else { "them" };
    if telling.after.import == ImportQuestion::Open {
        draft.say(format!(
            "The credential scan found {told} in the environment. Should I import {them}? Only a pointer to each \
             variable is stored, never its value."
        ));
    } else {
        draft.say(format!(
            "The credential scan found {told}. As agreed, I am leaving {them} alone; say “import the \
            credentials” to import {them}."
        ));
    }
}

fn tell_import(text: &str, draft: &mut Draft) {
    match Findings::read(text) {
        Some(findings) if !findings.imported.is_empty() => {
            draft.say(format!("Imported: {}. No value was copied.", join_and(&findings.imported)));
        }
        Some(findings) if findings.found.iter().any(|finding| finding.imported) => {
            let names: Vec<String> = findings
                .found
                .iter()
                .filter(|finding| finding.imported)
                .map(|finding| finding.variable.clone())
                .collect();
            draft.say(format!("Imported: {}. No value was copied.", join_and(&names)));
        }
        Some(_) => draft.say("There was nothing new to import."),
        None => draft.say(format!("The import ended with: {}", one_line(text, 300))),
    }
}

fn tell_identity(scene: &Scene, telling: &Telling, draft: &mut Draft) {
    let profile = &telling.after.profile;
    let agent =
        profile.agent_name.as_deref().or_else(|| scene.persona.agent_name()).unwrap_or("your assistant");
    let call = profile.call_name().or_else(|| scene.persona.call_name()).unwrap_or("friend");
    draft.say(format!(
        "It is written down, {call}: I am {agent} from now on. I can remember things for you, tell you what I know, \
         run commands, keep notes and show files; “help” lists everything."
    ));
    if telling.after.import == ImportQuestion::Open {
        draft.say("One question is still open: should I import the credentials the scan found?");
    }
}

fn what(purpose: &Purpose) -> String {
    match purpose {
        Purpose::Scan => "the credential scan".to_owned(),
        Purpose::Import => "the import".to_owned(),
        Purpose::Look => "the look around your home folder".to_owned(),
        Purpose::Identity(_) => "writing the identity files".to_owned(),
        Purpose::Note(path) => format!("writing `{path}`"),
        Purpose::Run(command) => format!("`{command}`"),
        Purpose::Read(path) => format!("reading `{path}`"),
        Purpose::List(path) => format!("listing `{path}`"),
        Purpose::Other => "a worker's task".to_owned(),
    }
}

fn capital(text: &str) -> String {
    let mut characters = text.chars();
    characters.next().map_or_else(String::new, |first| first.to_uppercase().chain(characters).collect())
}
