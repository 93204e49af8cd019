//! Tools for other programs that reach the daemon: those of the project they name.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use nexus_project::ProjectTools;
use nexus_protocol::tool::ToolSource;

use crate::{Operations, RuntimeError};

/// Projects kept open, so that what is known about their history stays known.
const MAX_KEPT: usize = 16;
/// Longest path taken, in bytes.
const MAX_PATH_LEN: usize = 4096;

/// The projects asked for last, newest at the end.
#[derive(Debug, Default)]
pub(crate) struct ToolSources(Mutex<Vec<ProjectTools>>);

impl Operations {
    /// Returns the tools of the project at an absolute path; without one, tools that say what is missing.
    ///
    /// # Errors
    /// The path is not absolute, not there, or lies in the workspace's own state.
    pub fn tools(&self, project: Option<&str>) -> Result<Arc<dyn ToolSource>, RuntimeError> {
        let Some(project) = project else { return Ok(Arc::new(ProjectTools::unnamed())) };
        let path = Path::new(project);
        if !path.is_absolute() || project.len() > MAX_PATH_LEN {
            return Err(invalid("project must be an absolute path"));
        }
        let opened = ProjectTools::open(path).map_err(|error| invalid(&error.message()))?;
        let state = self.options().layout.root().join("state");
        let state = std::fs::canonicalize(&state).unwrap_or(state);
        if opened.root().is_some_and(|root| root.starts_with(&state)) {
            return Err(invalid("the workspace's own state is not a project"));
        }
        let mut kept = self.tool_sources().0.lock().unwrap_or_else(PoisonError::into_inner);
        let known = kept.iter().position(|known| known.root() == opened.root());
        let tools = known.map_or(opened, |at| kept.remove(at));
        kept.push(tools.clone());
        let extra = kept.len().saturating_sub(MAX_KEPT);
        kept.drain(..extra);
        Ok(Arc::new(tools))
    }
}

fn invalid(message: &str) -> RuntimeError {
    RuntimeError::Invalid {
        message: message.to_owned(),
        hint: Some("name the folder of a project, as in /mcp?project=/home/me/code/shop".to_owned()),
    }
}
