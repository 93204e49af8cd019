//! Which tools a role has and how one call is carried out.

use std::sync::Arc;

use nexus_base::id::EventId;
use nexus_base::redact::Redactor;
use nexus_identity::Permissions;
use nexus_memory::Memory;
use nexus_protocol::tool::{Replay, ToolOutput, ToolSpec};
use serde_json::Value;

use crate::coordination;
use crate::memory_tools;
use crate::ports::Role;
use crate::ports::{Call, LedgerError};
use crate::project_tool::{PROJECT, ProjectTool};
use crate::scope::{Done, RunFacts, Scope};
use crate::specs::spec;
use crate::tools::{Artifacts, FileTools};
use crate::web::Web;

/// The tools of one session, fixed when its first turn begins.
#[derive(Debug, Clone)]
pub struct Toolbox {
    specs: Arc<[ToolSpec]>,
    files: Arc<FileTools>,
    memory: Memory,
    source: Option<EventId>,
    role: Role,
    redactor: Arc<Redactor>,
    artifacts: Option<Arc<Artifacts>>,
    web: Option<Web>,
    project: Option<ProjectTool>,
    /// Tools of this role that whoever is behind the request may not use.
    refused: Arc<[String]>,
}

impl Toolbox {
    /// Gathers a role's tools.
    pub fn new(role: Role, files: Arc<FileTools>, memory: Memory) -> Self {
        let others: &[&str] = match role {
            Role::Manager => &[coordination::AGENT_SEND, coordination::GET_AGENT_STATUS, coordination::WAIT],
            Role::Worker => &[coordination::AGENT_SEND],
        };
        let own = [memory_tools::RECALL, memory_tools::REMEMBER];
        let mut specs: Vec<ToolSpec> = others.iter().copied().filter_map(spec).collect();
        specs.extend(files.specs().into_iter().chain(own.into_iter().filter_map(spec)));
        let redactor = Arc::new(Redactor::new());
        Self {
            specs: specs.into(),
            files,
            memory,
            source: None,
            role,
            redactor,
            artifacts: None,
            web: None,
            project: None,
            refused: Arc::default(),
        }
    }

    /// Hides these secrets in everything a tool gives back, before it is kept or told.
    #[must_use]
    pub fn redactor(mut self, redactor: Arc<Redactor>) -> Self {
        self.redactor = redactor;
        self
    }

    /// Adds the tools of the web.
    #[must_use]
    pub fn web(mut self, web: Web) -> Self {
        self.specs = self.specs.iter().cloned().chain(web.specs()).collect();
        self.web = Some(web);
        self
    }

    /// Adds the tools of a project.
    #[must_use]
    pub fn project(mut self, project: ProjectTool) -> Self {
        self.specs = self.specs.iter().cloned().chain([project.spec()]).collect();
        self.project = Some(project);
        self
    }

    /// Takes tools away.
    #[must_use]
    pub fn without(mut self, names: &[&str]) -> Self {
        self.specs = self.specs.iter().filter(|spec| !names.contains(&spec.name.as_str())).cloned().collect();
        self
    }

    /// Leaves the tools that whoever is behind the request may use.
    #[must_use]
    pub fn permitted(mut self, permissions: &Permissions) -> Self {
        self.project = self.project.and_then(|project| project.permitted(permissions));
        let may = |spec: &ToolSpec| spec.name == PROJECT || permissions.may_use_tool(&spec.name);
        let (allowed, refused): (Vec<_>, Vec<_>) = self.specs.iter().cloned().partition(may);
        let (project, allowed): (Vec<_>, Vec<_>) = allowed.into_iter().partition(|spec| spec.name == PROJECT);
        let left = self.project.as_ref().map(ProjectTool::spec);
        let lost = if left.is_none() { project } else { Vec::new() };
        self.refused = refused.into_iter().chain(lost).map(|spec| spec.name).collect();
        self.specs = allowed.into_iter().chain(left).collect();
        self
    }

    /// Says why a tool may not be used, if it may not.
    pub fn refusal(&self, tool: &str) -> Option<String> {
        let tool = coordination::canonical(tool);
        self.refused.iter().any(|refused| refused == tool).then(|| {
            format!(
                "not allowed: no policy allows {tool:?} for the person this is done for; you have {}",
                self.names()
            )
        })
    }

    /// Keeps the whole of results that are too long for a model.
    #[must_use]
    pub fn artifacts(mut self, artifacts: Arc<Artifacts>) -> Self {
        self.artifacts = Some(artifacts);
        self
    }

    /// Names the event that facts kept with these tools come from.
    #[must_use]
    pub fn source(mut self, source: Option<EventId>) -> Self {
        self.source = source;
        self
    }

    /// Keeps only these tools.
    #[must_use]
    pub fn only(mut self, names: &[&str]) -> Self {
        self.specs = self.specs.iter().filter(|spec| names.contains(&spec.name.as_str())).cloned().collect();
        self
    }

    /// Settles what a call that a death cut off has left behind.
    pub async fn settle(&self, call: &Call, run: &RunFacts) -> Result<(), LedgerError> {
        self.files.settle(&call.id, run).await
    }

    /// Hides known secrets in a text.
    pub fn redact(&self, text: &str) -> String {
        self.redactor.redact(text)
    }

    /// Returns the memory its tools use.
    pub(crate) fn memory(&self) -> &Memory {
        &self.memory
    }

    /// Returns where long results are kept.
    pub fn kept_results(&self) -> Option<&Artifacts> {
        self.artifacts.as_deref()
    }

    /// Returns what the model is told.
    pub fn specs(&self) -> Arc<[ToolSpec]> {
        Arc::clone(&self.specs)
    }

    /// Returns what a crash in the middle of a call allows; unknown tools never ran.
    pub fn replay(&self, tool: &str) -> Replay {
        if coordination::is_coordination(tool) {
            return Replay::Transactional;
        }
        self.specs.iter().find(|spec| spec.name == tool).map_or(Replay::Safe, |spec| spec.replay)
    }

    /// Runs a call that is not about other agents. What comes back holds no secret and is not too long.
    pub async fn call(&self, call: &Call, scope: &Scope<'_>) -> Done {
        tracing::trace!("a tool is found");
        let known = self.specs.iter().any(|spec| spec.name == call.tool);
        let done = match call.tool.as_str() {
            tool if let Some(reason) = self.refusal(tool) => Done::own(ToolOutput::error(reason)),
            // Also what was taken away.
            other if !known => {
                Done::own(ToolOutput::error(format!("there is no tool {other:?}; you have {}", self.names())))
            }
            PROJECT if let Some(project) = &self.project => Done::own(project.call(&call.arguments).await),
            memory_tools::RECALL => memory_tools::recall(&self.memory, &call.arguments).await,
            memory_tools::REMEMBER => {
                let provenance = scope.run.taint.provenance(self.role);
                let source = self.source.clone();
                Done::own(memory_tools::remember(&self.memory, &call.arguments, source, provenance).await)
            }
            tool if self.files.has(tool) => self.files.call(tool, &call.arguments, scope).await,
            tool if let Some(web) = self.web.as_ref().filter(|web| web.has(tool)) => {
                web.call(tool, &call.arguments, scope).await
            }
            other => {
                Done::own(ToolOutput::error(format!("there is no tool {other:?}; you have {}", self.names())))
            }
        };
        let Done { output, untrusted } = done;
        let text = self.redactor.redact(&output.text);
        let text = match &self.artifacts {
            Some(artifacts) => artifacts.fit(text, untrusted.is_some()).await,
            None => text,
        };
        Done { output: ToolOutput { text, ..output }, untrusted }
    }

    fn names(&self) -> String {
        let names: Vec<&str> = self.specs.iter().map(|spec| spec.name.as_str()).collect();
        names.join(", ")
    }
}

/// Says whether the arguments of a call are an object at all; anything else never reaches a tool.
pub fn check_arguments(arguments: &Value) -> Result<(), String> {
    if arguments.is_object() { Ok(()) } else { Err("the arguments must be a JSON object".to_owned()) }
}
