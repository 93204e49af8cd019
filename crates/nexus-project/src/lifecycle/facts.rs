//! How things stand, in the words an agent is told: plan, tasks, notes, instances, the skill in force.

use nexus_base::text::shorten;
use serde_json::{Map, Value};

use super::Place;
use crate::knowledge::Knowledge;
use crate::tools::{Tool, call};
use crate::{ProjectError, harness};

/// Most issues or tasks that are named one by one.
const MAX_NAMED: usize = 40;
/// How much of a title or decision is shown.
const SHOWN: usize = 160;

/// Takes what was read. Where a file cannot be, what is wrong with it is noted, and everything else goes on.
pub(super) fn noted<T>(read: Result<T, ProjectError>, troubles: &mut Vec<String>) -> Option<T> {
    match read {
        Ok(found) => Some(found),
        Err(error) => {
            let told = super::trouble(&error);
            if !troubles.contains(&told) {
                troubles.push(told);
            }
            None
        }
    }
}

/// Returns what a tool that only looks gives.
pub(super) fn look(place: &Place<'_>, tool: Tool) -> Result<Value, ProjectError> {
    call(place.project, tool, &Map::new())
}

/// Says in two lines where plan and tasks stand; empty when nothing is open.
pub(super) fn status(place: &Place<'_>, troubles: &mut Vec<String>) -> String {
    let mut text = String::new();
    let plan = plan(place, troubles);
    if plan["active"] == true {
        let (decided, total) = (&plan["summary"]["decided"], &plan["summary"]["total"]);
        text.push_str(&format!(
            "Plan {}, {}: {decided} of {total} issues decided",
            plan["plan_id"],
            quoted(&plan["topic"])
        ));
        let open: Vec<String> =
            issues(&plan).filter(|issue| issue["status"] != "decided").map(numbered).collect();
        text.push_str(&listing("; pending: ", &open));
        text.push_str(".\n");
    }
    if let Some(tasks) = open_tasks(place, troubles) {
        let summary = &tasks["summary"];
        let ready: Vec<String> =
            summary["ready"].as_array().into_iter().flatten().map(Value::to_string).collect();
        let ready = if ready.is_empty() { "none".to_owned() } else { ready.join(", ") };
        text.push_str(&format!(
            "Tasks: {} in all, {} completed, {} pending, {} in progress; ready: {ready}.\n",
            summary["total"], summary["completed"], summary["pending"], summary["blocked"]
        ));
    }
    text
}

/// Says everything an agent cannot know any more once its conversation was shortened.
pub(super) fn whole(place: &Place<'_>, conversation: &str, troubles: &mut Vec<String>) -> String {
    let mut text = String::new();
    let session = noted(harness::current(place.project, place.harness), troubles).flatten();
    match session.as_ref().and_then(|session| session.skills.get(conversation)) {
        Some(active) => {
            let mode = active.mode.as_deref().map(|mode| format!(" in mode {mode}")).unwrap_or_default();
            text.push_str(&format!("Active skill: {}{mode}.\n", active.skill));
        }
        None => text.push_str("Active skill: none.\n"),
    }
    let plan = plan(place, troubles);
    if plan["active"] == true {
        text.push_str(&format!("Plan {}, {}:\n", plan["plan_id"], quoted(&plan["topic"])));
        for issue in issues(&plan).take(MAX_NAMED) {
            let decision = issue["decision"].as_str().map(|words| format!(": {}", shorten(words, SHOWN)));
            text.push_str(&format!(
                "- [{}] {}{}\n",
                plain(&issue["status"]),
                numbered(issue),
                decision.unwrap_or_default()
            ));
        }
    }
    if let Some(tasks) = open_tasks(place, troubles) {
        text.push_str(&format!(
            "Tasks for {}; ready: {}:\n",
            quoted(&tasks["goal"]),
            tasks["summary"]["ready"]
        ));
        for task in tasks["tasks"].as_array().into_iter().flatten().take(MAX_NAMED) {
            let owner = crate::resume::owner(task).map(|owner| format!(" @{owner}")).unwrap_or_default();
            text.push_str(&format!("- [{}] {}{owner}\n", plain(&task["status"]), numbered(task)));
        }
    }
    let instances = noted(harness::entries(place.project, place.harness), troubles).unwrap_or_default();
    for entry in instances.iter().rev().take(MAX_NAMED) {
        text.push_str(&format!(
            "Instance {} ({}): {}\n",
            plain(&entry["agent_id"]),
            plain(&entry["agent_name"]),
            plain(&entry["status"])
        ));
    }
    text.push_str(&Knowledge::of(place.project).render());
    text
}

/// Returns the tasks as they stand in the file.
pub(super) fn tasks(place: &Place<'_>) -> Result<Vec<Value>, ProjectError> {
    let list = look(place, Tool::TaskList)?;
    Ok(list["tasks"].as_array().cloned().unwrap_or_default())
}

fn plan(place: &Place<'_>, troubles: &mut Vec<String>) -> Value {
    noted(look(place, Tool::PlanStatus), troubles).unwrap_or_default()
}

/// Returns the task list, if there is one that can be read.
fn open_tasks(place: &Place<'_>, troubles: &mut Vec<String>) -> Option<Value> {
    noted(look(place, Tool::TaskList), troubles).filter(|tasks| tasks["exists"] != false)
}

fn issues(plan: &Value) -> impl Iterator<Item = &Value> {
    plan["issues"].as_array().into_iter().flatten()
}

/// Returns `id title` of an issue or a task.
pub(super) fn numbered(entry: &Value) -> String {
    format!("{} {}", entry["id"], shorten(entry["title"].as_str().unwrap_or_default(), SHOWN))
}

fn listing(before: &str, names: &[String]) -> String {
    if names.is_empty() {
        return String::new();
    }
    let more = names.len().saturating_sub(MAX_NAMED);
    let more = if more > 0 { format!("; {more} more") } else { String::new() };
    format!("{before}{}{more}", names.iter().take(MAX_NAMED).cloned().collect::<Vec<_>>().join("; "))
}

fn quoted(value: &Value) -> String {
    format!("\"{}\"", shorten(value.as_str().unwrap_or_default(), SHOWN))
}

fn plain(value: &Value) -> &str {
    value.as_str().unwrap_or("unknown")
}
