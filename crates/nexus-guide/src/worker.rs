//! The worker side: does the one exact thing its task names and reports what came of it.

use serde_json::{Value, json};

use crate::draft::Draft;
use crate::findings::Findings;
use crate::scene::{Call, Input, Scene};
use crate::task::{self, Job};
use crate::text::{one_line, shorten};

/// Words by which a manager sees in a report that something failed.
pub(crate) const FAILED: &str = "Did not work:";

/// Longest piece of output that is reported.
const MAX_OUTPUT_LEN: usize = 6_000;

/// Continues a worker's conversation.
pub(crate) fn reply(scene: &Scene) -> Draft {
    let mut draft = Draft::default();
    let texts: Vec<&str> = scene
        .inputs()
        .map(|input| match input {
            Input::Person { text }
            | Input::Task { text }
            | Input::Agent { text }
            | Input::System { text } => text.as_str(),
            Input::Result { text, .. } => text.as_str(),
        })
        .collect();
    if texts.is_empty() {
        report(scene, &mut draft);
        return draft;
    }
    match texts.iter().rev().find_map(|text| task::parse(text)) {
        Some(job) => begin(scene, job, &mut draft),
        None => draft.say(
            "I am the offline guide, not a language model, and can only do tasks with one command in backticks or \
             with whole files in fenced blocks. Nothing was done.",
        ),
    }
    draft
}

fn begin(scene: &Scene, job: Job, draft: &mut Draft) {
    let (tool, inputs): (&'static str, Vec<Value>) = match job {
        Job::Command(command) => ("bash", vec![json!({ "command": command })]),
        Job::Files(files) => (
            "write",
            files.into_iter().map(|file| json!({ "path": file.path, "content": file.content })).collect(),
        ),
        Job::Read(path) => ("read", vec![json!({ "path": path })]),
        Job::List(path) => ("list", vec![json!({ "path": path })]),
    };
    if !scene.has_tool(tool) {
        draft.say(format!("{FAILED} this worker has no tool named {tool}, so nothing was done."));
        return;
    }
    for input in inputs {
        draft.call(tool, input);
    }
}

fn report(scene: &Scene, draft: &mut Draft) {
    let calls: Vec<&Call> = scene.answered.iter().filter_map(|at| scene.calls.get(*at)).collect();
    let mut written = Vec::new();
    let mut failed = Vec::new();
    for call in calls {
        let Some(outcome) = &call.outcome else { continue };
        let path = call.input.get("path").and_then(Value::as_str).unwrap_or("?");
        match (call.name.as_str(), outcome.is_error) {
            ("write", false) => written.push(path.to_owned()),
            ("write", true) => failed.push(format!("{path} ({})", one_line(&outcome.text, 300))),
            ("bash", is_error) => draft.say(command_report(call, &outcome.text, is_error)),
            (_, true) => draft.say(format!("{FAILED} {path}: {}", one_line(&outcome.text, 600))),
            (_, false) => draft.say(shorten(outcome.text.trim_end(), MAX_OUTPUT_LEN)),
        }
    }
    if !written.is_empty() {
        draft.say(format!("Wrote {}.", written.join(", ")));
    }
    if !failed.is_empty() {
        draft.say(format!("{FAILED} {}.", failed.join("; ")));
    }
    if draft.is_empty() && !scene.has_spoken_in_turn {
        draft.say("The work gave no output.");
    }
}

fn command_report(call: &Call, output: &str, is_error: bool) -> String {
    let command = call.input.get("command").and_then(Value::as_str).unwrap_or_default();
    if command.starts_with("nexus credential scan")
        && let Some(findings) = Findings::read_json(output)
        && !is_error
    {
        return findings.report(command.contains("--import"));
    }
    let output = output.trim_end();
    if is_error {
        return format!("{FAILED} {}", shorten(output, MAX_OUTPUT_LEN));
    }
    if output.is_empty() { "[no output]".to_owned() } else { shorten(output, MAX_OUTPUT_LEN) }
}
