//! The tools about whole cycles: closing one, searching old ones, and saying what is going on.

use serde_json::{Value, json};

use super::arguments::Arguments;
use super::plan::is_decided;
use super::task::has_status;
use crate::history::{Found, Source};
use crate::{Project, ProjectError, document};

/// How many cycles a search shows unless told otherwise.
const DEFAULT_SHOWN: u64 = 10;

pub(super) fn close(project: &Project) -> Result<Value, ProjectError> {
    let (plan_path, tasks_path, history) = (project.plan(), project.tasks(), project.history());
    let lock = project.write_lock(&[&plan_path, &tasks_path, &history])?;
    let mut sources = Vec::new();
    let mut take = |path| {
        let Some(bytes) = document::read_bytes(path)? else { return Ok(None) };
        let object = document::object(path, &bytes)?;
        sources.push(Source { path: path.to_owned(), bytes });
        Ok::<_, ProjectError>(Some(object))
    };
    let plan = take(&plan_path)?;
    let mut file = take(&tasks_path)?.unwrap_or_default();
    let tasks = match file.remove("tasks") {
        None => Vec::new(),
        Some(Value::Array(tasks)) => tasks,
        Some(_) => return Err(document::damaged(&tasks_path, 1, 1, "`tasks` is not a list")),
    };
    let (has_plan, count) = (plan.is_some(), tasks.len());
    let issues = plan.as_ref().and_then(|plan| plan.get("issues")).and_then(Value::as_array);
    let decisions = issues.into_iter().flatten().filter(|issue| is_decided(issue)).count();
    let topic = plan.as_ref().and_then(|plan| plan.get("topic"));
    let topics: Vec<String> = [topic, file.get("goal")]
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .filter(|text| !text.is_empty())
        .map(str::to_owned)
        .collect();
    let archived = project.archive(&lock, plan, tasks, &sources)?;
    Ok(json!({
        "closed": true,
        "cycle": archived.completed_at,
        "branch": archived.branch,
        "archived": { "plan": has_plan, "decisions": decisions, "tasks": count },
        "deleted": archived.deleted,
        "total_cycles": archived.total_cycles,
        "memoryHint": { "taskCount": count, "decisionCount": decisions, "cycleTopics": topics },
    }))
}

/// Returns the answer as JSON text: it may tell of every cycle, and as values that would take several times the memory.
pub(super) fn search(project: &Project, arguments: &Arguments<'_>) -> Result<String, ProjectError> {
    let query = arguments.text("query")?.unwrap_or_default();
    let last = match arguments.number("last_n")? {
        None => DEFAULT_SHOWN,
        Some(number) => {
            crate::history::whole(&Value::Number(number.clone())).filter(|number| *number >= 1).ok_or_else(
                || ProjectError::Parameter("last_n must be a whole number of at least 1".to_owned()),
            )?
        }
    };
    let found = project.search(query, usize::try_from(last).unwrap_or(usize::MAX))?;
    let Found { total, showing, cycles } = found;
    Ok(format!("{{\"total\":{total},\"showing\":{showing},\"cycles\":{cycles}}}"))
}

/// Never fails: what cannot be read is left out.
pub(super) fn context(project: &Project) -> Value {
    let path = project.tasks();
    let exists = std::fs::symlink_metadata(&path).is_ok_and(|found| found.is_file());
    let file = document::read_object(&path).ok().flatten().unwrap_or_default();
    let mut context = json!({ "branch": project.branch(), "activeMode": exists.then_some("team") });
    if exists {
        let tasks = file.get("tasks").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        let count = |status| tasks.iter().filter(|task| has_status(task, status)).count();
        if let Some(goal) = file.get("goal").filter(|goal| goal.is_string()) {
            context["goal"] = goal.clone();
        }
        context["tasksSummary"] =
            json!({ "total": tasks.len(), "completed": count("completed"), "pending": count("pending") });
    }
    let decisions = file.get("decisions").and_then(Value::as_array).into_iter().flatten();
    let decisions: Vec<Value> = decisions.filter(|decision| decision.is_string()).cloned().collect();
    let decisions = Some(decisions).filter(|list| !list.is_empty()).or_else(|| legacy_decisions(project));
    context["decisions"] = Value::Array(decisions.unwrap_or_default());
    context
}

fn legacy_decisions(project: &Project) -> Option<Vec<Value>> {
    let bytes = document::read_bytes(&project.state().join("decisions.json")).ok()??;
    let list: Vec<Value> = serde_json::from_slice(&bytes).ok()?;
    list.iter().all(Value::is_string).then_some(list)
}
