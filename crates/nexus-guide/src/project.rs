//! A project in its simple form: one question, its answer as a command, a worker that runs it, a closed cycle.
//!
//! Where a project stands is read from what the runtime tells with each message and from the answers of the tools;
//! the guide itself knows nothing of projects.

use serde_json::{Value, json};

use crate::draft::Draft;
use crate::scene::{Call, Input, Outcome, Scene};
use crate::task;
use crate::text::{one_line, shorten};
use crate::worker::FAILED;

/// The tool.
const TOOL: &str = "project";
/// How the runtime tells of something it did.
const CARRIED_OUT: &str = "Carried out for the person: ";
const TELL: &str = "Tell them in a few words.";
const NO_PROJECT: &str = "this conversation has no project.";
const STARTED: &str = "The person started the skill ";
/// Longest result that is passed on.
const LONGEST_QUOTE: usize = 1_000;

/// Goes on with a project, if this turn is about one; the rest of the guide has nothing to add then.
pub(crate) fn reply(scene: &Scene, draft: &mut Draft) -> bool {
    let before = scene.inputs().next().is_none();
    if before && scene.answered.iter().filter_map(|at| scene.calls.get(*at)).any(is_project_call) {
        go_on(scene, draft);
        return true;
    }
    let mut handled = false;
    for input in scene.inputs() {
        match input {
            Input::Result { text, status, dispatch: Some(dispatch) } => {
                if let Some(task) = task_of(scene, *dispatch) {
                    take_result(task, status, text, draft);
                    handled = true;
                }
            }
            Input::Person { text } => handled |= hear(scene, text, draft),
            Input::Result { dispatch: None, .. }
            | Input::Task { .. }
            | Input::Agent { .. }
            | Input::System { .. } => {}
        }
    }
    handled
}

/// Tells what the runtime carried out and begins what it started.
fn hear(scene: &Scene, text: &str, draft: &mut Draft) -> bool {
    let mut handled = false;
    let mut lines = scene.project_notes.lines().map(str::trim);
    while let Some(line) = lines.next() {
        if let Some(done) = line.strip_prefix(CARRIED_OUT) {
            // What was done may take several lines; the last one ends with what to do about it.
            let mut done = done.to_owned();
            while !done.ends_with(TELL) {
                let Some(more) = lines.next() else { break };
                done.push('\n');
                done.push_str(more);
            }
            draft.say(upper(done.strip_suffix(TELL).unwrap_or(&done).trim()));
            handled = true;
        } else if let Some((_, how)) = line.split_once(NO_PROJECT) {
            let how = how.split(". Tell them").next().unwrap_or(how).trim();
            draft.say(format!("{} {how}.", upper(NO_PROJECT)));
            handled = true;
        } else if let Some(skill) = line.strip_prefix(STARTED) {
            begin(scene, skill, text, draft);
            handled = true;
        }
    }
    handled
}

fn begin(scene: &Scene, skill: &str, text: &str, draft: &mut Draft) {
    if !scene.has_tool(TOOL) {
        draft.say("I have no project tools here.");
        return;
    }
    if skill.starts_with("nx-plan") {
        let topic = text.rsplit_once(']').map_or(text, |(_, words)| words).trim();
        if topic.is_empty() {
            draft.say("What is the plan about? Say it behind the tag: [plan] a page about us");
            return;
        }
        call(
            draft,
            "plan_start",
            &json!({
                "topic": one_line(topic, 300), "issues": ["Which command does it?"],
                "research_summary": "The offline guide does no research; this is what the person asked for.",
            }),
        );
    } else if skill.starts_with("nx-run") {
        call(draft, "task_list", &json!({}));
    } else {
        draft.say(
            "I am the offline guide: of the skills I only know [plan] and [run], in their simplest form.",
        );
    }
}

/// Takes the next step after tools have answered.
fn go_on(scene: &Scene, draft: &mut Draft) {
    for place in &scene.answered {
        let Some(Call { name, input, outcome: Some(Outcome { text, is_error }), .. }) =
            scene.calls.get(*place)
        else {
            continue;
        };
        let answer: Value = serde_json::from_str(text).unwrap_or_default();
        if *is_error {
            draft.say(format!(
                "That did not work: {}",
                one_line(answer["error"].as_str().unwrap_or(text), 300)
            ));
            continue;
        }
        if name == "agent_send" {
            if let Some(task) = input["task"].as_u64() {
                draft.say(format!("A worker does task {task} now."));
            }
            continue;
        }
        match input["op"].as_str() {
            Some("plan_start") => draft.say(format!(
                "The plan “{}” is open. I am no language model, so I ask for the whole answer: which command does it? \
                 Say, for example: [d] run `make page`. Then say [run].",
                one_line(answer["topic"].as_str().unwrap_or_default(), 200)
            )),
            Some("plan_status") => add_tasks(&answer, draft),
            Some("task_add") => send(scene, &answer["task"], draft),
            Some("task_update") if input["args"]["status"] == "completed" => call(draft, "task_list", &json!({})),
            Some("task_list") => look(scene, &answer, draft),
            Some("task_close") => draft.say(format!(
                "All tasks are done and archived as cycle {}.",
                answer["total_cycles"]
            )),
            _ => {}
        }
    }
    if draft.is_empty() && !scene.has_spoken_in_turn {
        draft.say("I wait for the others.");
    }
}

/// Makes a task of every decision.
fn add_tasks(plan: &Value, draft: &mut Draft) {
    if plan["active"] != true {
        draft.say("No plan is open. Begin with [plan] and what it is about.");
        return;
    }
    let issues: Vec<&Value> = plan["issues"].as_array().into_iter().flatten().collect();
    if let Some(open) = issues.iter().find(|issue| issue["status"] != "decided") {
        draft.say(format!(
            "Issue {} is still open: {} Answer with [d].",
            open["id"],
            open["title"].as_str().unwrap_or_default()
        ));
        return;
    }
    for issue in issues {
        let decision = issue["decision"].as_str().unwrap_or_default();
        call(
            draft,
            "task_add",
            &json!({
                "title": plan["topic"], "context": decision, "acceptance": "the command ends without an error",
                "owner": "engineer", "plan_issue": issue["id"], "goal": plan["topic"], "decisions": [decision],
            }),
        );
    }
}

/// Sends a worker to a task whose context holds a command.
fn send(scene: &Scene, task: &Value, draft: &mut Draft) {
    let id = &task["id"];
    let Some(command) = task::inline_code(task["context"].as_str().unwrap_or_default()) else {
        draft.say(format!("Task {id} names no command between backticks, and I can do nothing else; decide it again with [d]."));
        return;
    };
    if !scene.has_tool("agent_send") {
        draft.say("I cannot start a worker here.");
        return;
    }
    call(draft, "task_update", &json!({ "id": id, "status": "in_progress" }));
    draft.call(
        "agent_send",
        json!({ "op": "dispatch", "agent": "engineer", "task": id, "text": task::run(&command) }),
    );
}

/// Sends workers to what is ready, or closes what is done.
fn look(scene: &Scene, list: &Value, draft: &mut Draft) {
    if list["exists"] == false {
        call(draft, "plan_status", &json!({}));
        return;
    }
    let tasks: Vec<&Value> = list["tasks"].as_array().into_iter().flatten().collect();
    if tasks.iter().all(|task| task["status"] == "completed") {
        call(draft, "task_close", &json!({}));
        return;
    }
    let ready = list["summary"]["ready"].as_array().into_iter().flatten().filter_map(Value::as_u64);
    for id in ready {
        if let Some(task) = tasks.iter().find(|task| task["id"].as_u64() == Some(id)) {
            send(scene, task, draft);
        }
    }
}

fn take_result(task: u64, status: &str, text: &str, draft: &mut Draft) {
    let words = shorten(text.trim(), LONGEST_QUOTE);
    if status == "completed" && !text.contains(FAILED) {
        draft.say(format!("Task {task}: {words}"));
        call(draft, "task_update", &json!({ "id": task, "status": "completed" }));
    } else {
        draft.say(format!("Task {task} did not work and stays open. The worker says: {words}"));
    }
}

/// Returns the task a worker of ours was sent to.
fn task_of(scene: &Scene, dispatch: usize) -> Option<u64> {
    scene.calls.iter().find(|call| call.dispatch == Some(dispatch))?.input["task"].as_u64()
}

fn is_project_call(call: &Call) -> bool {
    call.name == TOOL || (call.name == "agent_send" && call.input["task"].is_u64())
}

fn call(draft: &mut Draft, op: &str, args: &Value) {
    draft.call(TOOL, json!({ "op": op, "args": args }));
}

fn upper(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map(|first| first.to_uppercase().chain(letters).collect()).unwrap_or_default()
}
