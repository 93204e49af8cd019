//! An instance of a role begins and ends: what it is told, what it must not have, and what it leaves.

use serde_json::{Value, json};

use super::{Payload, Place, Reply, facts};
use crate::catalog::{self, Agent, LEAD_ONLY, ResumeTier};
use crate::harness::{self, Completion, edits};
use crate::knowledge::Knowledge;
use crate::resume::{self, Choice};
use crate::tools::{Tool, call};
use crate::{ProjectError, skills};

/// What a resumed instance is told first.
const REREAD: &str = "You are continuing where you stopped. Files may have changed: read the target files again \
    before anything else.\n\n";

/// Puts an instance's prompt together, says whether an earlier one goes on, and tracks it once it has an id.
///
/// A harness asks twice if it must know whether to resume before it has an id: without `agent_id` nothing is written.
pub(super) fn spawn(place: &Place<'_>, payload: &Payload<'_>) -> Result<Reply, ProjectError> {
    let task = task(place, payload)?;
    let name = payload.text("agent_name").or_else(|| resume::owner(&task));
    let agent = name.and_then(|name| place.catalog.agent(name));
    let choice = match name {
        Some(name) => choose(place, payload, &task, name, agent)?,
        None => Choice::Fresh { why: "no role" },
    };
    let mut warnings = Vec::new();
    let mut text = String::new();
    let resume = match &choice {
        Choice::Fresh { why } => json!({ "mode": "fresh", "why": why }),
        Choice::Resume { agent_id, reread } => {
            if *reread {
                text.push_str(REREAD);
            }
            json!({ "mode": "resume", "agent_id": agent_id, "reread": reread })
        }
    };
    text.push_str(&task_text(&task));
    if let Some(more) = payload.text("prompt") {
        if !text.is_empty() {
            text.push_str("\n\n");
        }
        text.push_str(more);
    }
    let index = Knowledge::of(place.project).render();
    text.push_str(&format!("\n\n{index}{}\n", skills::tool_names(place.harness)));
    text.push_str(&documents(place, payload, &mut warnings));
    if let Some(id) = payload.text("agent_id") {
        track(place, name.unwrap_or("worker"), id)?;
    }
    let denied = match agent {
        Some(agent) => catalog::denied_tools(&agent.capabilities, &place.catalog.vocabulary.capabilities),
        None => LEAD_ONLY.to_vec(),
    };
    Ok(Reply {
        resume: Some(resume),
        denied_tools: denied.into_iter().map(|tool| tool.as_str().to_owned()).collect(),
        warnings,
        ..Reply::telling(text)
    })
}

/// Notes that an instance ended and what it touched, and says which of its tasks are still open.
pub(super) fn complete(place: &Place<'_>, payload: &Payload<'_>) -> Result<Reply, ProjectError> {
    let id = payload.needed("agent_id")?;
    let mut touched = payload.texts("files_touched");
    for file in edits::edits_of(place.project, place.harness, id)? {
        if !touched.contains(&file) {
            touched.push(file);
        }
    }
    let completion = Completion {
        last_message: payload.text("last_message").map(str::to_owned),
        files_touched: touched.clone(),
    };
    match harness::completed(place.project, place.harness, id, &completion) {
        // A session that began anew knows nothing of instances before it.
        Err(ProjectError::Refused(_)) => {
            harness::spawned(
                place.project,
                place.harness,
                payload.text("agent_name").unwrap_or("worker"),
                id,
            )?;
            harness::completed(place.project, place.harness, id, &completion)?;
        }
        other => other?,
    }
    let mut reply = Reply { files_touched: touched, ..Reply::default() };
    let wanted = payload.number("task_id");
    if let Some(task) = wanted
        && payload.value("completed") == true
    {
        let parameters = serde_json::Map::from_iter([
            ("id".to_owned(), json!(task)),
            ("status".to_owned(), json!("completed")),
        ]);
        facts::noted(call(place.project, Tool::TaskUpdate, &parameters), &mut reply.warnings);
    }
    for task in facts::noted(facts::tasks(place), &mut reply.warnings).unwrap_or_default() {
        let own =
            task["id"].as_u64() == wanted && wanted.is_some() || resume::owner_instance(&task) == Some(id);
        if !own {
            continue;
        }
        if task["status"] != "completed" {
            reply.warnings.push(format!(
                "task {} is still {}: check what was done and set it with task_update",
                facts::numbered(&task),
                task["status"].as_str().unwrap_or_default()
            ));
        }
        if let Some(acceptance) = task["acceptance"].as_str() {
            reply.warnings.push(format!("verify the acceptance of task {}: {acceptance}", task["id"]));
        }
    }
    Ok(reply)
}

/// Returns the prompt of a task; sections without a field are left out.
fn task_text(task: &Value) -> String {
    let mut parts = Vec::new();
    if let Some(title) = task["title"].as_str() {
        parts.push(format!("TASK: {title}"));
    }
    for (heading, field) in [("CONTEXT", "context"), ("APPROACH", "approach"), ("ACCEPTANCE", "acceptance")] {
        if let Some(text) = task[field].as_str().filter(|text| !text.is_empty()) {
            parts.push(format!("{heading}:\n{text}"));
        }
    }
    parts.join("\n\n")
}

fn task(place: &Place<'_>, payload: &Payload<'_>) -> Result<Value, ProjectError> {
    let Some(id) = payload.number("task_id") else { return Ok(Value::Null) };
    let tasks = facts::tasks(place)?;
    tasks
        .into_iter()
        .find(|task| task["id"].as_u64() == Some(id))
        .ok_or_else(|| ProjectError::Refused(format!("Task id {id} not found")))
}

fn choose(
    place: &Place<'_>,
    payload: &Payload<'_>,
    task: &Value,
    name: &str,
    agent: Option<&Agent>,
) -> Result<Choice, ProjectError> {
    let tracker = harness::entries(place.project, place.harness)?;
    let reopenable = payload.value("reopenable");
    let can_reopen = |id: &str| match reopenable {
        Value::Bool(all) => *all,
        Value::Array(ids) => ids.iter().any(|known| known == id),
        Value::Null | Value::Number(_) | Value::String(_) | Value::Object(_) => false,
    };
    Ok(resume::decide(&resume::Question {
        task,
        agent_name: name,
        tier: agent.map_or(ResumeTier::Ephemeral, |agent| agent.resume_tier),
        tracker: &tracker,
        root: place.project.root(),
        is_file: &|path| place.project.root().join(path).is_file(),
        can_reopen: &can_reopen,
    }))
}

/// Notes an instance: one that is known goes on, any other begins.
fn track(place: &Place<'_>, name: &str, id: &str) -> Result<(), ProjectError> {
    let known = harness::entries(place.project, place.harness)?.iter().any(|entry| entry["agent_id"] == id);
    if known {
        return harness::resumed(place.project, place.harness, id);
    }
    harness::spawned(place.project, place.harness, name, id)
}

/// Documents that the skill in force refers to.
fn documents(place: &Place<'_>, payload: &Payload<'_>, troubles: &mut Vec<String>) -> String {
    let session = facts::noted(harness::current(place.project, place.harness), troubles).flatten();
    let active = session.and_then(|session| session.skills.get(payload.conversation()).cloned());
    let skill = active.and_then(|active| place.catalog.skill(&active.skill));
    // How to start others is no business of an instance.
    let keys = skill
        .into_iter()
        .flat_map(|skill| &skill.harness_docs_refs)
        .filter(|key| *key != "resume_invocation");
    keys.filter_map(|key| skills::document(place.harness, key))
        .map(|text| format!("\n{}\n", text.trim_end()))
        .collect()
}
