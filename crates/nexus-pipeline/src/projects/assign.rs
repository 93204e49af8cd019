//! Sending workers off: roles, tasks, and who goes on.

use crate::sessions::{AssignRequest, Assigned};
use nexus_base::conversation::Role;
use nexus_base::id::SessionLabel;
use nexus_project::lifecycle::Moment;
use nexus_project::{Tool, call, resume};
use nexus_store::agents::{SessionSettings, TaskStatus};
use serde_json::{Map, Value, json};

use super::Projects;
use super::open::OpenProject;

impl Projects {
    /// Settles how a worker is sent off; the error is for the model.
    pub(crate) async fn assign(&self, request: &AssignRequest<'_>) -> Result<Assigned, String> {
        if request.session.role == Role::Worker && request.settings.agent.is_some() {
            return Err(
                "a worker with a role cannot dispatch; report what else is needed to your parent".to_owned()
            );
        }
        let catalog = self.catalog()?;
        if let Some(agent) = request.agent.filter(|agent| catalog.agent(agent).is_none()) {
            let known: Vec<&str> = catalog.agents.iter().map(|agent| agent.id.as_str()).collect();
            return Err(format!(
                "there is no role {agent:?}; use one of {}, or leave `agent` out",
                known.join(", ")
            ));
        }
        let mut settings = SessionSettings {
            model: request.model.map(str::to_owned),
            agent: request.agent.map(str::to_owned),
            ..SessionSettings::default()
        };
        let Some(project) = self.of(request.settings)? else {
            if request.task.is_some() {
                return Err(
                    "this conversation has no project, so it has no tasks; leave `task` out".to_owned()
                );
            }
            return Ok(Assigned { text: request.text.to_owned(), settings, resume: None });
        };
        settings.project = Some(project.project.root().to_owned());
        let mut payload = Map::from_iter([
            ("conversation".to_owned(), json!(lead(request))),
            ("reopenable".to_owned(), json!(reopenable(request))),
        ]);
        if let Some(id) = request.task {
            let task = ready_task(&project, id).await?;
            settings.task = Some(id);
            payload.insert("task_id".to_owned(), json!(id));
            let owner = resume::owner(&task).filter(|owner| catalog.agent(owner).is_some());
            if request.agent.is_none()
                && let Some(owner) = owner
            {
                settings.agent = Some(owner.to_string());
            }
        }
        if let Some(agent) = &settings.agent {
            payload.insert("agent_name".to_owned(), json!(agent));
        }
        if !request.text.is_empty() {
            payload.insert("prompt".to_owned(), json!(request.text));
        }
        let reply =
            project.moment(self, Moment::SubagentSpawn, payload).await.map_err(|error| error.message())?;
        let resume =
            reply.resume.as_ref().and_then(|resume| resume["agent_id"].as_str()).map(SessionLabel::new);
        Ok(Assigned { text: reply.context.unwrap_or_default(), settings, resume })
    }
}

/// Returns the conversation whose skill and tasks these are.
fn lead<'a>(request: &AssignRequest<'a>) -> &'a str {
    request.session.label.as_str()
}

/// Returns which workers can be sent off again: those of this session that have reported.
fn reopenable<'a>(request: &AssignRequest<'a>) -> Vec<&'a str> {
    let workers = request.workers.iter().filter(|worker| match worker.task_status {
        Some(TaskStatus::Completed | TaskStatus::Failed) => true,
        Some(TaskStatus::Pending | TaskStatus::Running | TaskStatus::Cancelled) | None => false,
    });
    workers.map(|worker| worker.label.as_str()).collect()
}

/// Finds a task that may be begun: nothing it depends on is still open.
async fn ready_task(project: &OpenProject, id: u64) -> Result<Value, String> {
    let list = project.waiting(|project| call(project, Tool::TaskList, &Map::new()));
    let list = list.await.map_err(|error| error.message())?;
    let tasks = list["tasks"].as_array().cloned().unwrap_or_default();
    let find = |id: u64| tasks.iter().find(|task| task["id"].as_u64() == Some(id));
    let task = find(id).ok_or_else(|| format!("there is no task {id}; `project` op=task_list shows them"))?;
    if task["status"] == "completed" {
        return Err(format!("task {id} is completed; set it to pending with task_update to open it again"));
    }
    let deps = task["deps"].as_array().into_iter().flatten().filter_map(Value::as_u64);
    let open: Vec<String> = deps
        .filter(|dep| find(*dep).is_none_or(|task| task["status"] != "completed"))
        .map(|dep| dep.to_string())
        .collect();
    if open.is_empty() {
        return Ok(task.clone());
    }
    Err(format!(
        "task {id} waits for task {}; dispatch other tasks first, or complete those",
        open.join(", ")
    ))
}
