//! What stands around a turn in a project: the eight moments, at their places.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use crate::sessions::AgentRequest;
use async_trait::async_trait;
use nexus_agent::ports::{Enrichment, Gate, Hooks};
use nexus_base::text::shorten;
use nexus_project::ProjectError;
use nexus_project::gates::{self, Caller, Class, ShellView};
use nexus_project::lifecycle::{Decision, Moment, Reply, trouble};
use nexus_protocol::tool::ToolOutput;
use nexus_store::agents::{ItemKind, SessionSettings};
use nexus_tools::Role;
use nexus_tools::ports::{Call, TurnFacts};
use serde_json::{Map, Value, json};

use super::open::{OpenProject, exempt};
use super::{Projects, scan};

/// How the context is called in the message.
const SOURCE: &str = "project";
const SESSION_SOURCE: &str = "project_session";
/// How much of a worker's last words the tracker keeps.
const LAST_WORDS: usize = 2_000;
/// First names of paths that mean the workspace and not the task folder.
const WORKSPACE_NAMES: [&str; 3] = ["skills", "AGENTS.md", "BOOT.md"];

/// Stands around one turn.
pub(super) struct ProjectHooks {
    projects: Arc<Projects>,
    open: Arc<OpenProject>,
    settings: SessionSettings,
    role: Role,
    kind: ItemKind,
    /// The conversation of Lead that this belongs to.
    conversation: String,
    /// Where relative paths begin.
    folder: PathBuf,
    /// When the command that runs now began.
    began: Mutex<Option<SystemTime>>,
}

impl ProjectHooks {
    pub(super) fn new(projects: Arc<Projects>, open: Arc<OpenProject>, request: &AgentRequest<'_>) -> Self {
        let folder = match request.role {
            Role::Manager => projects.layout.state().join("workspace/manager"),
            Role::Worker => projects.task_folder(&open),
        };
        let own = request.session.label.as_str();
        let conversation = match (&request.role, &request.session.parent) {
            (Role::Worker, Some(parent)) => parent.as_str(),
            (Role::Worker, None) | (Role::Manager, _) => own,
        };
        Self {
            open,
            settings: request.settings.clone(),
            role: request.role,
            kind: request.item.new.kind,
            conversation: conversation.to_owned(),
            folder,
            began: Mutex::default(),
            projects,
        }
    }

    /// Returns the fields every moment has: the conversation, and who acts unless it is Lead.
    fn payload(&self, turn: &TurnFacts, more: Value) -> Map<String, Value> {
        let mut payload = match more {
            Value::Object(fields) => fields,
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
                Map::new()
            }
        };
        payload.insert("conversation".to_owned(), json!(self.conversation));
        if self.role == Role::Worker {
            payload.insert("agent_id".to_owned(), json!(turn.session.as_str()));
            if let Some(agent) = &self.settings.agent {
                payload.insert("agent_name".to_owned(), json!(agent));
            }
            if let Some(task) = self.settings.task {
                payload.insert("task_id".to_owned(), json!(task));
            }
        }
        payload
    }

    async fn moment(&self, turn: &TurnFacts, moment: Moment, more: Value) -> Result<Reply, ProjectError> {
        let payload = self.payload(turn, more);
        self.open.moment(&self.projects, moment, payload).await
    }

    /// Returns a call's parameters with its path as the file tools would take it.
    fn input(&self, call: &Call) -> Value {
        let mut input = call.arguments.clone();
        if let Some(path) = input.get("path").and_then(Value::as_str) {
            let place = self.place(path);
            input["path"] = json!(place);
        }
        input
    }

    fn place(&self, path: &str) -> PathBuf {
        let layout = &self.projects.layout;
        let mut names = Path::new(path).iter().skip_while(|name| *name == ".");
        let first = names.next().and_then(|name| name.to_str());
        let rest: PathBuf = names.collect();
        match first {
            Some("state") => layout.state().join(rest),
            Some("home") => layout.home().join(rest),
            Some(name) if WORKSPACE_NAMES.contains(&name) => layout.root().join(path),
            Some(_) | None => self.folder.join(path),
        }
    }

    /// Tells what a command may do with the project, when its folder is the project's.
    async fn shell(&self) -> Result<Gate, ProjectError> {
        let is_projects = self.folder.starts_with(self.open.project.root())
            && !exempt(&self.projects).iter().any(|own| self.folder.starts_with(own));
        if !is_projects {
            return Ok(Gate::Open);
        }
        let catalog = self.projects.catalog().map_err(ProjectError::Refused)?;
        let agent = self.settings.agent.clone();
        let view = self.open.waiting(move |project| {
            let role = agent.as_deref().and_then(|name| catalog.agent(name));
            Ok(gates::shell(project, &catalog, Caller::Subagent { role }))
        });
        Ok(match view.await? {
            ShellView::Writable => Gate::Open,
            ShellView::ReadOnly { reason } => Gate::LookOnly { reason },
        })
    }

    async fn gate(&self, turn: &TurnFacts, call: &Call, class: Class) -> Result<Gate, ProjectError> {
        let asked = json!({
            "tool": call.tool, "input": self.input(call), "folder": self.folder, "exempt": exempt(&self.projects),
        });
        let reply = self.moment(turn, Moment::PreToolUse, asked).await?;
        match (reply.decision, class) {
            (Decision::Block, _) => Ok(Gate::Refused { reason: reply.reason.unwrap_or_default() }),
            (Decision::Allow, Class::Command) => self.shell().await,
            (Decision::Allow, Class::Edit | Class::Read | Class::Project(_) | Class::Other) => Ok(Gate::Open),
        }
    }

    fn begin(&self, at: Option<SystemTime>) -> Option<SystemTime> {
        std::mem::replace(&mut *self.began.lock().unwrap_or_else(PoisonError::into_inner), at)
    }
}

#[async_trait]
impl Hooks for ProjectHooks {
    async fn context_ready(&self, turn: &TurnFacts) -> Vec<Enrichment> {
        let mut told = Vec::new();
        let mut lines = Vec::new();
        match self.open.enter(&self.projects).await {
            Ok(Some(started)) if self.role == Role::Manager => {
                let text: Vec<String> = started.warnings.into_iter().chain(started.context).collect();
                // Of its own, so that a long list of notes never cuts a skill short.
                told.extend(enrichment(SESSION_SOURCE, &text));
            }
            Ok(_) => {}
            Err(error) => lines.push(trouble(&error)),
        }
        let reply = match self.role {
            Role::Manager => {
                lines.extend(self.open.take(&self.conversation));
                let is_person = self.kind == ItemKind::Message;
                let said = json!({ "message": turn.words, "tags": is_person });
                self.moment(turn, Moment::UserMessage, said).await
            }
            // What it is told was put together when it was sent off; here it is only written down.
            Role::Worker => {
                let tracked = self.moment(turn, Moment::SubagentSpawn, Value::Null).await;
                tracked.map(|reply| Reply { context: None, ..reply })
            }
        };
        match reply {
            Ok(reply) => {
                lines.extend(reply.warnings);
                lines.extend(reply.context);
            }
            Err(error) => lines.push(trouble(&error)),
        }
        // The beginning of the session and the message may have met the same trouble.
        lines.dedup();
        told.extend(enrichment(SOURCE, &lines));
        told
    }

    async fn before_call(&self, turn: &TurnFacts, call: &Call) -> Gate {
        let class = gates::classify(&call.tool, &call.arguments);
        match class {
            Class::Edit | Class::Command | Class::Project(_) => {}
            Class::Read | Class::Other => return Gate::Open,
        }
        let gate = self.gate(turn, call, class).await.unwrap_or_else(|error| {
            // A gate that cannot be asked is shut.
            Gate::Refused { reason: trouble(&error) }
        });
        if class == Class::Command && gate == Gate::Open {
            self.begin(Some(SystemTime::now()));
        }
        gate
    }

    async fn after_call(&self, turn: &TurnFacts, call: &Call, output: &ToolOutput) -> Option<String> {
        let class = gates::classify(&call.tool, &call.arguments);
        let files = match self.begin(None).filter(|_| class == Class::Command) {
            Some(since) => {
                let root = self.open.project.root().to_owned();
                tokio::task::spawn_blocking(move || scan::changed(&root, since)).await.unwrap_or_default()
            }
            None => Vec::new(),
        };
        let mut done = json!({
            "tool": call.tool, "input": self.input(call), "folder": self.folder, "files": files,
            "status": if output.is_error { "error" } else { "ok" },
        });
        if output.is_error {
            done["error"] = json!(output.text);
        }
        match self.moment(turn, Moment::PostToolUse, done).await {
            Ok(reply) => (!reply.warnings.is_empty()).then(|| reply.warnings.join("\n")),
            Err(error) => {
                tracing::warn!(error = error.message(), "tool call in a project not recorded");
                None
            }
        }
    }

    async fn compacted(&self, turn: &TurnFacts) -> Vec<Enrichment> {
        let lines: Vec<String> = match self.moment(turn, Moment::ContextCompact, Value::Null).await {
            Ok(reply) => reply.context.into_iter().chain(reply.warnings).collect(),
            Err(error) => vec![trouble(&error)],
        };
        enrichment(SOURCE, &lines).into_iter().collect()
    }

    async fn turn_ended(&self, turn: &TurnFacts, said: &str) {
        if self.role != Role::Worker {
            return;
        }
        let ended = json!({ "last_message": shorten(said, LAST_WORDS) });
        match self.moment(turn, Moment::SubagentComplete, ended).await {
            Ok(reply) => self.open.leave(&self.conversation, reply.warnings),
            Err(error) => self.open.leave(&self.conversation, vec![trouble(&error)]),
        }
    }
}

fn enrichment(source: &str, lines: &[String]) -> Option<Enrichment> {
    let text = lines.join("\n");
    (!text.trim().is_empty()).then(|| Enrichment { source: source.to_owned(), text })
}
