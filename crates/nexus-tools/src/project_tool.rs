//! `project`: the eleven tools of a project as one, so that a prompt stays small, and the way into a skill.

use std::sync::Arc;

use nexus_identity::Permissions;
use nexus_project::catalog::Catalog;
use nexus_project::harness::HarnessId;
use nexus_project::{Project, Tool, skills, tools};
use nexus_protocol::tool::{Replay, ToolOutput, ToolSpec};
use serde_json::{Map, Value, json};

/// The tool's name.
pub(crate) const PROJECT: &str = "project";
/// The op that gives a skill's instructions.
const SKILL: &str = "skill";

/// The tools of one project, as one agent has them.
#[derive(Debug, Clone)]
pub struct ProjectTool {
    project: Arc<Project>,
    catalog: Arc<Catalog>,
    denied: Vec<Tool>,
    is_lead: bool,
}

impl ProjectTool {
    /// All of them, for the one who talks to the person.
    pub fn lead(project: Arc<Project>, catalog: Arc<Catalog>) -> Self {
        Self { project, catalog, denied: Vec::new(), is_lead: true }
    }

    /// Those a worker may have.
    pub fn worker(project: Arc<Project>, catalog: Arc<Catalog>, denied: Vec<Tool>) -> Self {
        Self { project, catalog, denied, is_lead: false }
    }

    /// Leaves the ops that may be used; nothing when none may.
    pub(crate) fn permitted(mut self, permissions: &Permissions) -> Option<Self> {
        let may = |op: &str| permissions.may_use_tool(&format!("{PROJECT}/{op}"));
        self.denied.extend(Tool::ALL.into_iter().filter(|tool| !may(tool.as_str())));
        let any = self.allowed().next().is_some();
        any.then_some(self)
    }

    /// Returns what the model is told.
    pub(crate) fn spec(&self) -> ToolSpec {
        let mut ops: Vec<&str> = self.allowed().map(Tool::as_str).collect();
        if self.is_lead {
            ops.push(SKILL);
        }
        ToolSpec {
            name: PROJECT.to_owned(),
            description: format!(
                "The shared plan, tasks and history of this project. Parameters go into args (? optional): {}.",
                self.allowed().map(parameters).collect::<Vec<_>>().join("; ")
            ),
            input_schema: json!({
                "type": "object",
                "properties": {"op": {"type": "string", "enum": ops}, "args": {"type": "object"}},
                "required": ["op"]
            }),
            // Some ops add something each time; which one it was is inside the arguments.
            replay: Replay::Unsafe,
        }
    }

    /// Carries out one call.
    pub async fn call(&self, arguments: &Value) -> ToolOutput {
        let op = arguments.get("op").and_then(Value::as_str).unwrap_or_default();
        let parameters = match arguments.get("args") {
            None | Some(Value::Null) => Map::new(),
            Some(Value::Object(parameters)) => parameters.clone(),
            Some(_) => return ToolOutput::error("args must be an object"),
        };
        if op == SKILL && self.is_lead {
            return self.skill(&parameters);
        }
        let Some(tool) = Tool::named(op).filter(|tool| !self.denied.contains(tool)) else {
            let known: Vec<&str> = self.allowed().map(Tool::as_str).collect();
            return ToolOutput::error(format!(
                "project has no op {op:?} for you; available: {}",
                known.join(", ")
            ));
        };
        let project = Arc::clone(&self.project);
        // Another program may hold the files for a while.
        let work = tokio::task::spawn_blocking(move || tools::answer(&project, tool, &parameters));
        work.await.unwrap_or_else(|error| ToolOutput::error(format!("{op} failed: {error}")))
    }

    /// Gives the instructions of a skill; those for people only are not given.
    fn skill(&self, parameters: &Map<String, Value>) -> ToolOutput {
        let text = |name: &str| parameters.get(name).and_then(Value::as_str);
        let Some(name) = text("skill") else { return ToolOutput::error("skill needs args.skill, its name") };
        if self.catalog.skill(name).is_none_or(|skill| skill.manual_only) {
            return ToolOutput::error(format!(
                "{name} is not a skill you can start; the person may type /{name}"
            ));
        }
        match skills::instructions(&self.catalog, &HarnessId::ours(), name, text("mode")) {
            Ok(skill) => ToolOutput::ok(skill.text),
            Err(error) => ToolOutput::error(error.to_string()),
        }
    }

    fn allowed(&self) -> impl Iterator<Item = Tool> {
        Tool::ALL.into_iter().filter(|tool| !self.denied.contains(tool))
    }
}

/// Names a tool with its parameters, as briefly as a model needs them.
const fn parameters(tool: Tool) -> &'static str {
    match tool {
        Tool::PlanStart => "plan_start(topic, issues: [text], research_summary)",
        Tool::PlanStatus => "plan_status()",
        Tool::PlanUpdate => "plan_update(action: add|remove|edit|reopen, issue_id?, title?)",
        Tool::PlanDecide => "plan_decide(issue_id, decision, how_agents?, how_summary?)",
        Tool::TaskAdd => {
            "task_add(title, context, acceptance?, approach?, risk?, deps?: [id], owner?, plan_issue?, goal?, \
             decisions?, owner_reuse_policy?)"
        }
        Tool::TaskList => "task_list()",
        Tool::TaskUpdate => "task_update(id, status: pending|in_progress|completed)",
        Tool::TaskClose => "task_close()",
        Tool::HistorySearch => "history_search(query?, last_n?)",
        Tool::Context => "context()",
        Tool::ArtifactWrite => "artifact_write(filename, content)",
    }
}

#[cfg(test)]
mod tests {
    use nexus_project::catalog::denied_tools;

    use super::*;

    #[tokio::test]
    async fn one_tool_serves_all_ops_and_leaves_out_what_is_denied() {
        let folder = tempfile::tempdir().unwrap();
        let project = Arc::new(Project::open(folder.path()).unwrap());
        let catalog = Arc::new(Catalog::embedded().unwrap());
        let lead = ProjectTool::lead(Arc::clone(&project), Arc::clone(&catalog));
        assert!(lead.spec().description.len() + lead.spec().input_schema.to_string().len() < 1_300);
        let added = lead.call(&json!({"op": "task_add", "args": {"title": "t", "context": "c"}})).await;
        assert!(!added.is_error, "{}", added.text);
        assert!(
            lead.call(&json!({"op": "skill", "args": {"skill": "nx-plan", "mode": "auto"}}))
                .await
                .text
                .contains("mode auto")
        );
        assert!(lead.call(&json!({"op": "skill", "args": {"skill": "nx-init"}})).await.is_error);
        assert!(lead.call(&json!({"op": "task_list", "args": []})).await.is_error);

        let role = catalog.agent("architect").unwrap();
        let denied = denied_tools(&role.capabilities, &catalog.vocabulary.capabilities);
        let worker = ProjectTool::worker(project, Arc::clone(&catalog), denied);
        let ops = worker.spec().input_schema["properties"]["op"]["enum"].clone();
        assert_eq!(ops, json!(["plan_status", "task_list", "history_search", "context", "artifact_write"]));
        assert!(
            worker.call(&json!({"op": "task_add", "args": {"title": "t", "context": "c"}})).await.is_error
        );
        assert!(worker.call(&json!({"op": "skill", "args": {"skill": "nx-plan"}})).await.is_error);
        assert!(!worker.call(&json!({"op": "nx_task_list"})).await.is_error);
    }
}
