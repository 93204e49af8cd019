//! The three tools that work on `tasks.json` alone.

use nexus_base::clock::Timestamp;
use nexus_base::file::Durability;
use serde_json::{Map, Value, json};

use super::arguments::{Arguments, is_id};
use super::{is_there, next_id};
use crate::{Project, ProjectError, document};

const STATUSES: [&str; 3] = ["pending", "in_progress", "completed"];
const REUSE_POLICIES: [&str; 3] = ["fresh", "resume_if_same_artifact", "resume"];

pub(super) fn add(project: &Project, arguments: &Arguments<'_>) -> Result<Value, ProjectError> {
    let title = arguments.filled("title")?;
    let context = arguments.filled("context")?;
    let deps = arguments.numbers("deps")?.unwrap_or_default();
    let mut given = Map::new();
    for name in ["approach", "acceptance", "risk"] {
        if let Some(text) = arguments.text(name)? {
            given.insert(name.to_owned(), Value::from(text));
        }
    }
    given.insert("status".to_owned(), Value::from("pending"));
    given.insert("deps".to_owned(), Value::from(deps));
    if let Some(issue) = arguments.number("plan_issue")? {
        given.insert("plan_issue".to_owned(), Value::Number(issue.clone()));
    }
    for name in ["owner", "owner_agent_id", "owner_reuse_policy"] {
        if let Some(text) = arguments.text(name)? {
            given.insert(name.to_owned(), Value::from(text));
        }
    }
    one_of(given.get("owner_reuse_policy"), "owner_reuse_policy", &REUSE_POLICIES)?;
    let goal = arguments.text("goal")?;
    let decisions = arguments.texts("decisions")?.unwrap_or_default();

    let path = project.tasks();
    let _lock = project.write_lock(&[&path])?;
    let mut file = match document::read_object(&path)? {
        Some(file) => file,
        None => Map::from_iter([
            ("goal".to_owned(), Value::from("")),
            ("decisions".to_owned(), Value::Array(Vec::new())),
            ("tasks".to_owned(), Value::Array(Vec::new())),
        ]),
    };
    if let Some(goal) = goal {
        file.insert("goal".to_owned(), Value::from(goal));
    }
    list_in(&mut file, "decisions", project)?.extend(decisions.into_iter().map(Value::from));
    let tasks = list_in(&mut file, "tasks", project)?;
    let highest = tasks.iter().filter_map(|task| crate::history::whole(task.get("id")?)).max();
    let mut task = Map::from_iter([
        ("id".to_owned(), Value::from(next_id(highest)?)),
        ("title".to_owned(), Value::from(title)),
        ("context".to_owned(), Value::from(context)),
    ]);
    task.append(&mut given);
    task.insert("created_at".to_owned(), Value::from(Timestamp::now().to_string()));
    tasks.push(Value::Object(task.clone()));
    document::write(&path, &Value::Object(file), Durability::Crash)?;
    Ok(json!({ "task": task }))
}

pub(super) fn list(project: &Project) -> Result<Value, ProjectError> {
    let Some(mut file) = document::read_object(&project.tasks())? else {
        return Ok(json!({ "exists": false }));
    };
    let tasks = std::mem::take(list_in(&mut file, "tasks", project)?);
    let count = |status| tasks.iter().filter(|task| has_status(task, status)).count();
    let summary = json!({
        "total": tasks.len(), "completed": count("completed"), "pending": count("pending"),
        // The contract calls what is being worked on blocked.
        "blocked": count("in_progress"), "ready": ready(&tasks),
    });
    Ok(json!({ "goal": file.get("goal"), "tasks": tasks, "summary": summary }))
}

pub(super) fn update(project: &Project, arguments: &Arguments<'_>) -> Result<Value, ProjectError> {
    let id = arguments.required_number("id")?;
    let status = arguments.required("status")?;
    let path = project.tasks();
    let no_file = || ProjectError::Refused("tasks.json not found".to_owned());
    if !is_there(&path)? {
        return Err(no_file());
    }
    one_of(Some(&Value::from(status)), "status", &STATUSES)?;
    let _lock = project.write_lock(&[&path])?;
    let mut file = document::read_object(&path)?.ok_or_else(no_file)?;
    let tasks = list_in(&mut file, "tasks", project)?;
    let task = tasks
        .iter_mut()
        .filter(|task| task.is_object())
        .find(|task| is_id(task.get("id"), id))
        .ok_or_else(|| ProjectError::Refused(format!("Task id {id} not found")))?;
    task["status"] = Value::from(status);
    let task = task.clone();
    document::write(&path, &Value::Object(file), Durability::Crash)?;
    Ok(json!({ "task": task }))
}

/// Returns the ids of pending tasks whose every dependency is completed, in the order of the file.
pub(crate) fn ready(tasks: &[Value]) -> Vec<Value> {
    let completed = |id: &Value| {
        let Value::Number(id) = id else { return false };
        tasks.iter().any(|task| is_id(task.get("id"), id) && has_status(task, "completed"))
    };
    tasks
        .iter()
        .filter(|task| has_status(task, "pending"))
        .filter(|task| {
            task.get("deps").and_then(Value::as_array).is_none_or(|deps| deps.iter().all(completed))
        })
        .filter_map(|task| task.get("id").cloned())
        .collect()
}

pub(super) fn has_status(task: &Value, status: &str) -> bool {
    task.get("status").and_then(Value::as_str) == Some(status)
}

fn list_in<'file>(
    file: &'file mut Map<String, Value>,
    name: &str,
    project: &Project,
) -> Result<&'file mut Vec<Value>, ProjectError> {
    match file.entry(name).or_insert_with(|| Value::Array(Vec::new())) {
        Value::Array(list) => Ok(list),
        _ => Err(document::damaged(&project.tasks(), 1, 1, &format!("`{name}` is not a list"))),
    }
}

fn one_of(value: Option<&Value>, name: &str, allowed: &[&str]) -> Result<(), ProjectError> {
    match value.and_then(Value::as_str) {
        Some(value) if !allowed.contains(&value) => {
            Err(ProjectError::Parameter(format!("{name} must be one of {}", allowed.join(", "))))
        }
        _ => Ok(()),
    }
}
