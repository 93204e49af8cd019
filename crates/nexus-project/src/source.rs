//! The eleven tools of one project as a source of tools, for whoever serves them.

use std::path::Path;
use std::sync::Arc;

use nexus_protocol::tool::{ToolFuture, ToolHints, ToolOutput, ToolSource, ToolSpec};
use serde_json::{Map, Value, json};

use crate::tools::{Tool, answer, specs};
use crate::{Project, ProjectError};

/// How the tools belong together, for a model that has not met them before.
const INSTRUCTIONS: &str = "These tools manage one project's plan, tasks and history, shared by everyone who works \
    in the folder. Research first, then plan_start with the open questions; settle each with plan_decide. Split the \
    work into tasks with task_add (deps say what waits for what), start those that task_list calls ready, and keep \
    their status current with task_update. When all is done, task_close archives the cycle. Before deciding \
    something that may have been decided before, use history_search. Reports for others go to artifact_write.";

/// Said by every tool where no project is named.
const UNNAMED: &str = "no project is named; add its folder to this server's address or command, as \
    ?project=/absolute/path or --project PATH";

/// The tools of one project.
#[derive(Debug, Clone)]
pub struct ProjectTools {
    project: Option<Arc<Project>>,
    thread: Thread,
}

/// Where a call is carried out. It may wait for the disk, and up to some seconds for another program's lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Thread {
    /// On one made for waiting, so that others are served meanwhile.
    Own,
    /// On the one that asks.
    Asking,
}

impl ProjectTools {
    /// Takes a project.
    pub fn new(project: Project) -> Self {
        Self { project: Some(Arc::new(project)), thread: Thread::Own }
    }

    /// The tools without a project: a client sees them, and each call says what is missing.
    pub fn unnamed() -> Self {
        Self { project: None, thread: Thread::Own }
    }

    /// Carries out each call on the thread that asks. For a server with one client: passing a call to another thread
    /// and back takes longer than most calls, and calls on one project wait for each other anyway.
    #[must_use]
    pub fn on_the_asking_thread(self) -> Self {
        Self { thread: Thread::Asking, ..self }
    }

    /// Returns the project's folder.
    pub fn root(&self) -> Option<&Path> {
        self.project.as_ref().map(|project| project.root())
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
        specs().to_vec()
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
        let Some(project) = self.project.clone() else {
            return Box::pin(std::future::ready(failed(UNNAMED)));
        };
        if self.thread == Thread::Asking {
            return Box::pin(async move { answer(&project, tool, &arguments) });
        }
        Box::pin(async move {
            match tokio::task::spawn_blocking(move || answer(&project, tool, &arguments)).await {
                Ok(output) => output,
                Err(error) => failed(&format!("the call ended in an internal error: {error}")),
            }
        })
    }
}

fn failed(message: &str) -> ToolOutput {
    ToolOutput::error(json!({ "error": message }).to_string())
}
