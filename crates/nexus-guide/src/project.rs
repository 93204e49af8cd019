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

const TOOL: &str = "project";
/// How the runtime tells of something it did.
const CARRIED_OUT: &str = "Carried out for the person: ";
const NOT_CARRIED_OUT: &str = "Could not be carried out for the person: ";
const TELL: &str = "Tell them in a few words.";
/// How it tells of files that cannot be read.
const TROUBLE: &str = "A part of the project cannot be used: ";
const TELL_TROUBLE: &str = "Tell the person.";
const NO_PROJECT: &str = "this conversation has no project.";
const STARTED: &str = "The person started the skill ";
/// What the guide promises of a task it makes, by which it knows its own again.
const ACCEPTANCE: &str = "the command ends without an error";
/// Longest result that is passed on.
const MAX_QUOTE_LEN: usize = 1_000;

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
        let carried_out = line.strip_prefix(CARRIED_OUT).map(str::to_owned);
        let result =
            carried_out.or_else(|| line.strip_prefix(NOT_CARRIED_OUT).map(|why| format!("not done: {why}")));
        if let Some(mut done) = result {
            // What was done may take several lines; the last one ends with what to do about it.
            while !done.ends_with(TELL) {
                let Some(more) = lines.next() else { break };
                done.push('\n');
                done.push_str(more);
            }
            draft.say(upper(done.strip_suffix(TELL).unwrap_or(&done).trim()));
            handled = true;
        } else if line.starts_with(TROUBLE) {
            draft.say(line.trim_end_matches(TELL_TROUBLE).trim_end());
            // What else was said is answered as ever, but a tag is no conversation.
            handled |= text.trim_start().starts_with('[');
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
            draft.say("What is the plan about? Say it after the tag: [plan] a page about us");
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
        survey(draft);
    } else {
        draft.say(
            "I am the offline guide: the only skills I know are [plan] and [run], in their simplest form.",
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
                draft.say(format!("A worker is doing task {task} now."));
            }
            continue;
        }
        match input["op"].as_str() {
            Some("plan_start") => draft.say(format!(
                "The plan “{}” is open. I am not a language model, so I need the whole answer from you: which \
                 command does it? Say, for example: [d] run `make page`. Then say [run].",
                one_line(answer["topic"].as_str().unwrap_or_default(), 200)
            )),
            Some("plan_status") => look(scene, &answer, draft),
            Some("task_add") => send(scene, &answer["task"], draft),
            Some("task_update") if input["args"]["status"] == "completed" => survey(draft),
            Some("task_close") => draft.say(format!(
                "All tasks are done and archived as cycle {}.",
                answer["total_cycles"]
            )),
            _ => {}
        }
    }
    if draft.is_empty() && !scene.has_spoken_in_turn {
        draft.say("I am waiting for the others.");
    }
}

/// Asks where plan and tasks stand; one is not to be understood without the other.
fn survey(draft: &mut Draft) {
    call(draft, "task_list", &json!({}));
    call(draft, "plan_status", &json!({}));
}

/// Returns the answer to the question about tasks that was asked together with the one about the plan.
fn list_of(scene: &Scene) -> Option<Value> {
    let answered = scene.answered.iter().filter_map(|place| scene.calls.get(*place));
    let mut lists = answered.filter(|call| call.name == TOOL && call.input["op"] == "task_list");
    serde_json::from_str(&lists.next_back()?.outcome.as_ref().filter(|outcome| !outcome.is_error)?.text).ok()
}

/// Makes tasks of decisions, sends workers to what is ready, or closes what is done.
fn look(scene: &Scene, plan: &Value, draft: &mut Draft) {
    let Some(list) = list_of(scene) else { return };
    let issues: Vec<&Value> = plan["issues"].as_array().into_iter().flatten().collect();
    if list["exists"] == false {
        let open = issues.iter().find(|issue| issue["status"] != "decided");
        match open {
            _ if plan["active"] != true => {
                draft.say("No plan is open. Begin with [plan] and what it is about.");
            }
            Some(open) => draft.say(format!(
                "Issue {} is still open: {} Answer with [d].",
                open["id"],
                open["title"].as_str().unwrap_or_default()
            )),
            None => add_tasks(plan, &issues, draft),
        }
        return;
    }
    let tasks: Vec<&Value> = list["tasks"].as_array().into_iter().flatten().collect();
    // The tools do not change what a task says: a new decision is a new task, which stands for the earlier one.
    let live: Vec<&Value> = tasks
        .iter()
        .zip(1..)
        .filter(|(task, next)| !tasks.iter().skip(*next).any(|later| replaces(later, task)))
        .map(|(task, _)| *task)
        .collect();
    let stale = |task: &Value| {
        let issue = issues.iter().find(|issue| is_ours(task) && issue["id"] == task["plan_issue"]);
        issue.filter(|issue| issue["status"] == "decided" && issue["decision"] != task["context"]).copied()
    };
    let changed: Vec<&Value> = live.iter().filter_map(|task| stale(task)).collect();
    if changed.is_empty() && live.iter().all(|task| task["status"] == "completed") {
        call(draft, "task_close", &json!({}));
        return;
    }
    add_tasks(plan, &changed, draft);
    let ready: Vec<&Value> = list["summary"]["ready"].as_array().into_iter().flatten().collect();
    for task in live.into_iter().filter(|task| ready.contains(&&task["id"]) && stale(task).is_none()) {
        send(scene, task, draft);
    }
}

/// Makes a task of every decision, or says which of them names no command: nobody could carry that task out.
fn add_tasks(plan: &Value, issues: &[&Value], draft: &mut Draft) {
    let decision = |issue: &Value| issue["decision"].as_str().unwrap_or_default().to_owned();
    let wordy: Vec<&&Value> =
        issues.iter().filter(|issue| task::inline_code(&decision(issue)).is_none()).collect();
    for issue in &wordy {
        let id = &issue["id"];
        draft.say(format!(
            "The decision on issue {id} contains no command in backticks, and I cannot do anything else. Decide it \
             again, for example: [d] #{id} run `make page`. Then say [run]."
        ));
    }
    if !wordy.is_empty() {
        return;
    }
    for issue in issues {
        call(
            draft,
            "task_add",
            &json!({
                "title": plan["topic"], "context": decision(issue), "acceptance": ACCEPTANCE,
                "owner": "engineer", "plan_issue": issue["id"], "goal": plan["topic"], "decisions": [decision(issue)],
            }),
        );
    }
}

/// Returns whether a task is one that the guide made of a decision, word for word.
fn is_ours(task: &Value) -> bool {
    task["acceptance"] == ACCEPTANCE && task["plan_issue"].is_u64()
}

fn replaces(later: &Value, task: &Value) -> bool {
    is_ours(task) && is_ours(later) && later["plan_issue"] == task["plan_issue"]
}

/// Sends a worker to a task whose context holds a command.
fn send(scene: &Scene, task: &Value, draft: &mut Draft) {
    let id = &task["id"];
    let Some(command) = task::inline_code(task["context"].as_str().unwrap_or_default()) else {
        draft.say(format!(
            "Task {id} contains no command in backticks, and I cannot do anything else. Someone else may take it, or \
             nexus project close archives it as it is."
        ));
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

fn take_result(task: u64, status: &str, text: &str, draft: &mut Draft) {
    let words = shorten(text.trim(), MAX_QUOTE_LEN);
    if status == "completed" && !text.contains(FAILED) {
        draft.say(format!("Task {task}: {words}"));
        call(draft, "task_update", &json!({ "id": task, "status": "completed" }));
    } else {
        draft.say(format!(
            "Task {task} failed and stays open. The worker says: {words}\n\
             [run] tries it again; [d] #N and another command in backticks, then [run], does that instead."
        ));
        call(draft, "task_update", &json!({ "id": task, "status": "pending" }));
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
    let mut characters = text.chars();
    characters.next().map(|first| first.to_uppercase().chain(characters).collect()).unwrap_or_default()
}
