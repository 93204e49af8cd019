//! The eleven tools of one project as a source of tools, for whoever serves them.

use std::path::Path;
use std::sync::Arc;

use nexus_protocol::tool::{ToolFuture, ToolHints, ToolOutput, ToolSource, ToolSpec};
use serde_json::{Map, Value, json};

use crate::tools::{Tool, answer, spec};
use crate::{Project, ProjectError};

/// How the tools belong together, for a model that has not met them before.
const INSTRUCTIONS: &str = "\
These tools keep one project's plan, tasks and history, shared by everybody who works in the folder. \
Research first, then plan_start with the open questions; settle each with plan_decide. \
Cut the work into tasks with task_add (deps say what waits for what), begin those task_list calls ready, and keep \
task_update current. When all is done, task_close archives the cycle. Before deciding again what was decided \
before, look with history_search. Reports for others go to artifact_write.";

/// The tools of one project.
#[derive(Debug, Clone)]
pub struct ProjectTools {
    project: Arc<Project>,
}

impl ProjectTools {
    /// Takes a project.
    pub fn new(project: Project) -> Self {
        Self { project: Arc::new(project) }
    }

    /// Takes the folder at `root` as a project; nothing is made.
    ///
    /// # Errors
    /// The folder does not exist or cannot be reached.
    pub fn open(root: &Path) -> Result<Self, ProjectError> {
        Project::open(root).map(Self::new)
    }
}

impl ToolSource for ProjectTools {
    fn tools(&self) -> Vec<ToolSpec> {
        Tool::ALL.into_iter().map(spec).collect()
    }

    fn hints(&self, spec: &ToolSpec) -> ToolHints {
        Tool::named(&spec.name).map_or(ToolHints::UNKNOWN, Tool::hints)
    }

    fn instructions(&self) -> Option<String> {
        Some(INSTRUCTIONS.to_owned())
    }

    fn knows(&self, name: &str) -> bool {
        Tool::named(name).is_some()
    }

    fn call<'source>(
        &'source self,
        name: &'source str,
        arguments: Map<String, Value>,
    ) -> ToolFuture<'source> {
        let Some(tool) = Tool::named(name) else {
            return Box::pin(std::future::ready(failed(&format!("there is no tool {name}"))));
        };
        let project = Arc::clone(&self.project);
        Box::pin(async move {
            // Locks and syncs block; whoever else waits for this thread should not.
            match tokio::task::spawn_blocking(move || answer(&project, tool, &arguments)).await {
                Ok(output) => output,
                Err(error) => failed(&format!("a defect ended the call: {error}")),
            }
        })
    }
}

fn failed(message: &str) -> ToolOutput {
    ToolOutput::error(json!({ "error": message }).to_string())
}
