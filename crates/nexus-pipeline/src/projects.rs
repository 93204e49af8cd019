//! Projects in the daemon: which one a session works in, the sessions of the project layer, and what stands around
//! the turns that happen there.
//!
//! A project session begins with the first turn there after boot and ends with the daemon, with `nexus project close`,
//! or after a day without a turn. Which project a conversation has is fixed when it is made.

mod assign;
mod hooks;
mod no_project;
mod open;
mod scan;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::sessions::AgentRequest;
use nexus_agent::RoleSection;
use nexus_agent::ports::Hooks;
use nexus_base::task::Tasks;
use nexus_memory::Memory;
use nexus_project::catalog::{Catalog, LEAD_ONLY, ModelTier, denied_tools};
use nexus_project::gates::{self, Class};
use nexus_project::harness::ToolLog;
use nexus_project::{Project, ProjectError};
use nexus_store::agents::{ItemKind, SessionSettings};
use nexus_tools::{ProjectTool, Role};
use nexus_workspace::Layout;
use nexus_workspace::config::{Settings, ToolLogPlace};
use nexus_workspace::persona::IdentityRights;
use tokio_util::sync::CancellationToken;

use self::hooks::ProjectHooks;
use self::no_project::NoProjectHooks;
use self::open::OpenProject;

/// How long a session stays open without a turn.
const IDLE: Duration = Duration::from_secs(24 * 3600);

/// The daemon's projects.
#[derive(Debug)]
pub struct Projects {
    layout: Layout,
    owner_home: PathBuf,
    memory: Memory,
    /// The catalog in force; none until it is first needed.
    catalog: Mutex<Option<Arc<Catalog>>>,
    tool_log: Mutex<ToolLog>,
    open: Mutex<HashMap<PathBuf, Arc<OpenProject>>>,
    stopping: CancellationToken,
    /// One for each open session, which ends it when its time is up.
    tasks: Tasks,
    /// How long a session stays open without a turn.
    idle: Duration,
}

impl Projects {
    pub fn new(layout: Layout, owner_home: PathBuf, memory: Memory) -> Self {
        Self {
            layout,
            owner_home,
            memory,
            catalog: Mutex::default(),
            tool_log: Mutex::default(),
            open: Mutex::default(),
            stopping: CancellationToken::new(),
            tasks: Tasks::default(),
            idle: IDLE,
        }
    }

    /// Returns the catalog in force; read when it is first needed.
    pub(crate) fn catalog(&self) -> Result<Arc<Catalog>, String> {
        let mut kept = self.catalog.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(catalog) = &*kept {
            return Ok(Arc::clone(catalog));
        }
        let read = Arc::new(Catalog::embedded().map_err(|error| error.to_string())?);
        *kept = Some(Arc::clone(&read));
        Ok(read)
    }

    /// Returns where tool calls are written down.
    pub(crate) fn tool_log(&self) -> ToolLog {
        *self.tool_log.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts in force what the settings say about projects. A package is used whole or not at all: one that is not
    /// sound changes nothing, and is told about.
    pub fn take_settings(&self, settings: &Settings) -> Result<(), String> {
        *self.tool_log.lock().unwrap_or_else(PoisonError::into_inner) = match settings.project.tool_log {
            ToolLogPlace::Shared => ToolLog::Shared,
            ToolLogPlace::Harness => ToolLog::Harness,
        };
        let read = match &settings.project.catalog {
            None => None,
            Some(folder) => {
                let folder = self.layout.root().join(folder);
                let read = Catalog::load(&folder).map_err(|error| {
                    format!("project.catalog: {error}; the roles and skills from before stay in force")
                })?;
                Some(Arc::new(read))
            }
        };
        *self.catalog.lock().unwrap_or_else(PoisonError::into_inner) = read;
        Ok(())
    }

    /// Returns how strong a model the role in a worker's settings wants.
    pub(crate) fn tier(&self, settings: &SessionSettings) -> Option<ModelTier> {
        let catalog = self.catalog().ok()?;
        catalog.agent(settings.agent.as_deref()?).map(|agent| agent.model_tier)
    }

    /// Finds the project a person names: the nearest at or above it, else the folder itself.
    pub(crate) fn named(&self, path: &str) -> Result<PathBuf, String> {
        let path = Path::new(path);
        if !path.is_absolute() {
            return Err("`project` must be an absolute path".to_owned());
        }
        let folder = path.canonicalize().map_err(|error| format!("{}: {error}", path.display()))?;
        if !folder.is_dir() {
            return Err(format!("{} is not a folder", path.display()));
        }
        let root = self.nearest(&folder).unwrap_or(folder);
        // What no worker may have as its folder can be no project either.
        nexus_tools::FileAccess::worker_at(&self.layout, &root, &IdentityRights::default())
            .map_err(|error| nexus_base::error::chain(&error))?;
        Ok(root)
    }

    /// Returns the project the workspace's own working folder lies in.
    pub(crate) fn around_home(&self) -> Option<PathBuf> {
        self.nearest(&self.layout.home().canonicalize().ok()?)
    }

    /// Looks no higher than the owner's home: what lies there is nobody's project.
    fn nearest(&self, folder: &Path) -> Option<PathBuf> {
        let home = self.owner_home.canonicalize().unwrap_or_else(|_| self.owner_home.clone());
        Project::find(folder).filter(|root| !home.starts_with(root))
    }

    /// Returns the project a session works in.
    pub(crate) fn of(&self, settings: &SessionSettings) -> Result<Option<Arc<OpenProject>>, String> {
        let Some(root) = &settings.project else { return Ok(None) };
        self.open(root).map(Some).map_err(|error| error.message())
    }

    fn open(&self, root: &Path) -> Result<Arc<OpenProject>, ProjectError> {
        let mut open = self.lock();
        if let Some(found) = open.get(root) {
            return Ok(Arc::clone(found));
        }
        let found = Arc::new(OpenProject::new(Project::open(root)?));
        open.insert(root.to_owned(), Arc::clone(&found));
        Ok(found)
    }

    /// Returns what a worker's commands and relative paths begin in: the project, or the workspace's home where that
    /// cannot be.
    pub(crate) fn task_folder(&self, project: &OpenProject) -> PathBuf {
        let root = project.project.root();
        match nexus_tools::FileAccess::worker_at(&self.layout, root, &IdentityRights::default()) {
            Ok(_) => root.to_owned(),
            Err(_) => self.layout.home().to_owned(),
        }
    }

    /// Returns the tools of a session's project, as its role may have them.
    pub(crate) fn tool(
        &self,
        role: Role,
        project: &OpenProject,
        bound: &SessionSettings,
    ) -> Result<ProjectTool, String> {
        let (catalog, project) = (self.catalog()?, Arc::clone(&project.project));
        Ok(match role {
            Role::Manager => ProjectTool::lead(project, catalog),
            Role::Worker => {
                let agent = bound.agent.as_deref().and_then(|name| catalog.agent(name));
                let denied = match agent {
                    Some(agent) => denied_tools(&agent.capabilities, &catalog.vocabulary.capabilities),
                    None => LEAD_ONLY.to_vec(),
                };
                ProjectTool::worker(project, catalog, denied)
            }
        })
    }

    /// Returns what a worker is told about its role.
    pub(crate) fn role(&self, bound: &SessionSettings) -> Option<RoleSection> {
        let catalog = self.catalog().ok()?;
        let agent = catalog.agent(bound.agent.as_deref()?)?;
        Some(RoleSection { name: agent.id.clone(), body: agent.body.clone() })
    }

    /// Returns the tools a role must not have.
    pub(crate) fn removed_tools(&self, bound: &SessionSettings) -> Vec<&'static str> {
        let Ok(catalog) = self.catalog() else { return Vec::new() };
        let Some(agent) = bound.agent.as_deref().and_then(|name| catalog.agent(name)) else {
            return Vec::new();
        };
        let mut removed = Vec::new();
        if gates::denies(&catalog, agent, Class::Edit) {
            removed.extend(["write", "edit"]);
        }
        if gates::denies(&catalog, agent, Class::Command) {
            removed.push("bash");
        }
        removed
    }

    /// Returns what stands around a turn; nothing where a project has no part in it.
    pub(crate) fn around(self: &Arc<Self>, request: &AgentRequest<'_>) -> Option<Arc<dyn Hooks>> {
        match self.of(request.settings) {
            Ok(Some(open)) => Some(Arc::new(ProjectHooks::new(Arc::clone(self), open, request))),
            Ok(None) if request.role == Role::Manager && request.item.new.kind == ItemKind::Message => {
                Some(Arc::new(NoProjectHooks::new(Arc::clone(self))))
            }
            Ok(None) => None,
            Err(problem) => {
                // The agent itself cannot be made then; the person is told there.
                tracing::warn!(problem, "project of a session not opened");
                None
            }
        }
    }

    /// Ends every project session; what is still open is told in the log.
    pub async fn close_all(&self) {
        self.stopping.cancel();
        let open: Vec<Arc<OpenProject>> = self.lock().drain().map(|(_, open)| open).collect();
        for project in open {
            project.end(self, "the daemon is stopping").await;
        }
        self.tasks.close();
        self.tasks.wait().await;
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<PathBuf, Arc<OpenProject>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
