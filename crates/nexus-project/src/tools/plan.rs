//! The four tools over `plan.json`.

use nexus_base::clock::Timestamp;
use nexus_base::file::Durability;
use serde_json::{Map, Number, Value, json};

use super::arguments::{Arguments, is_id};
use super::{is_there, next_id};
use crate::history::Source;
use crate::{Project, ProjectError, document};

/// Said when the last issue is decided.
const ALL_DECIDED: &str =
    "Every issue is decided. Turn the decisions into tasks with task_add, then carry them out.";

type Plan = Map<String, Value>;

pub(super) fn start(project: &Project, arguments: &Arguments<'_>) -> Result<Value, ProjectError> {
    let topic = arguments.filled("topic")?;
    let titles = arguments.required_texts("issues")?;
    let research = arguments.required("research_summary")?;
    if titles.iter().any(|title| title.is_empty()) {
        return Err(ProjectError::Parameter("issues must not contain an empty title".to_owned()));
    }
    let (path, history) = (project.plan(), project.history());
    let lock = project.write_lock(&[&path, &history])?;
    let previous = document::read_bytes(&path)?;
    let archived = previous.is_some();
    let old = previous.as_ref().map(|bytes| document::object(&path, bytes)).transpose()?;
    let old_id = old.as_ref().and_then(|plan| crate::history::whole(plan.get("id")?)).unwrap_or(0);
    let id = next_id(Some(project.highest_plan_id()?.max(old_id)))?;
    let issues: Vec<Value> = titles
        .iter()
        .zip(1_u64..)
        .map(|(title, id)| json!({ "id": id, "title": title, "status": "pending" }))
        .collect();
    let plan = json!({
        "id": id, "topic": topic, "issues": issues, "research_summary": research,
        "created_at": Timestamp::now().to_string(),
    });
    // Written before the old one goes: on a full disk neither happens.
    let prepared = document::prepare(&path, &plan)?;
    if let (Some(plan), Some(bytes)) = (old, previous) {
        project.archive(&lock, Some(plan), Vec::new(), &[Source { path, bytes }])?;
    }
    document::put(prepared)?;
    Ok(json!({
        "created": true, "plan_id": id, "topic": topic, "issueCount": titles.len(), "previousArchived": archived,
    }))
}

pub(super) fn status(project: &Project) -> Result<Value, ProjectError> {
    let Some(plan) = document::read_object(&project.plan())? else { return Ok(json!({ "active": false })) };
    let issues = plan.get("issues").and_then(Value::as_array).cloned().unwrap_or_default();
    let decided = issues.iter().filter(|issue| is_decided(issue)).count();
    let mut status = json!({
        "active": true, "plan_id": plan.get("id"), "topic": plan.get("topic"), "issues": issues,
    });
    if let Some(research) = plan.get("research_summary") {
        status["research_summary"] = research.clone();
    }
    let total = issues.len();
    status["summary"] = json!({ "total": total, "pending": total - decided, "decided": decided });
    Ok(status)
}

pub(super) fn update(project: &Project, arguments: &Arguments<'_>) -> Result<Value, ProjectError> {
    change(project, |plan| {
        let action = arguments.required("action")?;
        match action {
            "add" => {
                let title = arguments.text("title")?.filter(|title| !title.is_empty());
                let title = title.ok_or_else(|| refused("title is required for add"))?;
                let issues = issues(plan, project)?;
                let highest = issues.iter().filter_map(|issue| crate::history::whole(&issue["id"])).max();
                let issue = json!({ "id": next_id(highest)?, "title": title, "status": "pending" });
                issues.push(issue.clone());
                Ok(json!({ "added": true, "issue": issue }))
            }
            "remove" => {
                let id = needed(arguments, action)?;
                let issues = issues(plan, project)?;
                let at =
                    issues.iter().position(|issue| is_id(issue.get("id"), id)).ok_or_else(|| unknown(id))?;
                Ok(json!({ "removed": true, "issue": issues.remove(at) }))
            }
            "edit" | "modify" => {
                let title = arguments.text("title")?.filter(|title| !title.is_empty());
                let (Some(id), Some(title)) = (arguments.number("issue_id")?, title) else {
                    return Err(refused("issue_id and title are required for edit"));
                };
                let issue = find(plan, project, id)?;
                issue["title"] = Value::from(title);
                Ok(json!({ "edited": true, "issue": issue }))
            }
            "reopen" => {
                let id = needed(arguments, action)?;
                let issue = find(plan, project, id)?;
                issue["status"] = Value::from("pending");
                if let Some(fields) = issue.as_object_mut() {
                    fields.shift_remove("decision");
                }
                Ok(json!({ "reopened": true, "issue": issue }))
            }
            _ => Err(refused("Unknown action")),
        }
    })
}

pub(super) fn decide(project: &Project, arguments: &Arguments<'_>) -> Result<Value, ProjectError> {
    let id = arguments.required_number("issue_id")?;
    // The contract of 0.2.0 called it `summary`.
    let decision = match arguments.text("decision")? {
        Some(decision) => decision,
        None => arguments
            .text("summary")?
            .ok_or_else(|| ProjectError::Parameter("decision is required".to_owned()))?,
    };
    let agents = arguments.texts("how_agents")?;
    let (summary, agent_ids) = (arguments.map("how_summary")?, arguments.map("how_agent_ids")?);
    change(project, |plan| {
        let issue = find(plan, project, id)?;
        issue["status"] = Value::from("decided");
        issue["decision"] = Value::from(decision);
        if let Some(agents) = agents {
            issue["how_agents"] = json!(agents);
        }
        for (name, value) in [("how_summary", summary), ("how_agent_ids", agent_ids)] {
            if let Some(value) = value {
                issue[name] = value.clone();
            }
        }
        let title = issue.get("title").cloned();
        let open: Vec<Value> = issues(plan, project)?
            .iter()
            .filter(|issue| !is_decided(issue))
            .map(|issue| json!({ "id": issue["id"], "title": issue["title"], "status": issue["status"] }))
            .collect();
        let mut answer = json!({ "decided": true, "issue": title, "allComplete": open.is_empty() });
        if open.is_empty() {
            answer["message"] = Value::from(ALL_DECIDED);
        } else {
            answer["remaining"] = Value::Array(open);
        }
        Ok(answer)
    })
}

/// Reads the plan under the lock, lets `change` work on it and writes it back.
fn change(
    project: &Project,
    change: impl FnOnce(&mut Plan) -> Result<Value, ProjectError>,
) -> Result<Value, ProjectError> {
    let path = project.plan();
    let no_plan = || refused("No active plan session");
    // Without a plan there is nothing to lock, and nothing is made to say so.
    if !is_there(&path)? {
        return Err(no_plan());
    }
    let _lock = project.write_lock(&[&path])?;
    let mut plan = document::read_object(&path)?.ok_or_else(no_plan)?;
    let answer = change(&mut plan)?;
    document::write(&path, &Value::Object(plan), Durability::Crash)?;
    Ok(answer)
}

fn issues<'plan>(plan: &'plan mut Plan, project: &Project) -> Result<&'plan mut Vec<Value>, ProjectError> {
    let issues = plan.entry("issues").or_insert_with(|| Value::Array(Vec::new()));
    match issues {
        Value::Array(issues) if issues.iter().all(Value::is_object) => Ok(issues),
        _ => Err(document::damaged(&project.plan(), 1, 1, "`issues` is not a list of objects")),
    }
}

fn find<'plan>(
    plan: &'plan mut Plan,
    project: &Project,
    id: &Number,
) -> Result<&'plan mut Value, ProjectError> {
    issues(plan, project)?.iter_mut().find(|issue| is_id(issue.get("id"), id)).ok_or_else(|| unknown(id))
}

fn needed<'call>(arguments: &Arguments<'call>, action: &str) -> Result<&'call Number, ProjectError> {
    arguments.number("issue_id")?.ok_or_else(|| refused(&format!("issue_id is required for {action}")))
}

pub(super) fn is_decided(issue: &Value) -> bool {
    issue.get("status").and_then(Value::as_str) == Some("decided")
}

fn unknown(id: &Number) -> ProjectError {
    refused(&format!("Issue {id} not found"))
}

fn refused(message: &str) -> ProjectError {
    ProjectError::Refused(message.to_owned())
}
