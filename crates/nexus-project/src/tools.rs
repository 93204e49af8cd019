//! The eleven tools, by name: what each takes, and the way from a name and parameters to a result.
//! A failed call is an error here and `{"error": …}` on the wire.

mod arguments;
mod artifact;
mod cycle;
mod plan;
mod specs;
mod task;

use std::path::Path;

use nexus_base::words;
use nexus_protocol::tool::{ToolHints, ToolOutput};
use serde_json::{Map, Value};

use crate::{Project, ProjectError, document};
use arguments::Arguments;
pub use specs::specs;

/// Most bytes of all parameters of a call together.
pub(crate) const MAX_PARAMETER_BYTES: usize = 9 * 1024 * 1024;

words! {
    /// One of the eleven.
    pub enum Tool {
        /// Opens a plan, archiving an open one first.
        PlanStart = "plan_start",
        /// Shows the open plan.
        PlanStatus = "plan_status",
        /// Adds, removes, renames or reopens an issue.
        PlanUpdate = "plan_update",
        /// Records what was decided about an issue.
        PlanDecide = "plan_decide",
        /// Adds a task.
        TaskAdd = "task_add",
        /// Lists tasks and which are ready.
        TaskList = "task_list",
        /// Sets a task's status.
        TaskUpdate = "task_update",
        /// Archives plan and tasks as one cycle.
        TaskClose = "task_close",
        /// Searches archived cycles.
        HistorySearch = "history_search",
        /// Says what is going on.
        Context = "context",
        /// Writes a file for others to read.
        ArtifactWrite = "artifact_write",
    }
}

impl Tool {
    /// Finds a tool by its name, with or without the prefix `nx_`.
    pub fn named(name: &str) -> Option<Self> {
        let name = name.strip_prefix("nx_").unwrap_or(name);
        Self::parse(name)
    }

    /// Returns whether the tool changes nothing.
    pub const fn is_read_only(self) -> bool {
        match self {
            Self::PlanStatus | Self::TaskList | Self::HistorySearch | Self::Context => true,
            Self::PlanStart
            | Self::PlanUpdate
            | Self::PlanDecide
            | Self::TaskAdd
            | Self::TaskUpdate
            | Self::TaskClose
            | Self::ArtifactWrite => false,
        }
    }

    /// Returns what a client may tell its person about a call.
    pub const fn hints(self) -> ToolHints {
        match self {
            Self::PlanStatus | Self::TaskList | Self::HistorySearch | Self::Context => ToolHints::LOOKS,
            // An open plan is archived, so nothing is gone.
            Self::PlanStart | Self::TaskAdd => ToolHints::ADDS,
            Self::PlanUpdate => ToolHints { destructive: true, ..ToolHints::ADDS },
            Self::PlanDecide | Self::ArtifactWrite => {
                ToolHints { destructive: true, idempotent: true, ..ToolHints::ADDS }
            }
            Self::TaskUpdate => ToolHints { idempotent: true, ..ToolHints::ADDS },
            // The goal and the list of decisions are not archived.
            Self::TaskClose => ToolHints { destructive: true, ..ToolHints::ADDS },
        }
    }
}

/// Calls a tool.
///
/// # Errors
/// See [`ProjectError`]; state is as it was before.
pub fn call(project: &Project, tool: Tool, parameters: &Map<String, Value>) -> Result<Value, ProjectError> {
    let arguments = checked(project, tool, parameters)?;
    match tool {
        Tool::PlanStart => plan::start(project, &arguments),
        Tool::PlanStatus => plan::status(project),
        Tool::PlanUpdate => plan::update(project, &arguments),
        Tool::PlanDecide => plan::decide(project, &arguments),
        Tool::TaskAdd => task::add(project, &arguments),
        Tool::TaskList => task::list(project),
        Tool::TaskUpdate => task::update(project, &arguments),
        Tool::TaskClose => cycle::close(project),
        Tool::HistorySearch => {
            let text = cycle::search(project, &arguments)?;
            serde_json::from_str(&text).map_err(|error| document::damaged_by(&project.history(), &error))
        }
        Tool::Context => Ok(cycle::context(project)),
        Tool::ArtifactWrite => artifact::write(project, &arguments),
    }
}

/// Checks what comes before every call.
fn checked<'call>(
    project: &Project,
    tool: Tool,
    parameters: &'call Map<String, Value>,
) -> Result<Arguments<'call>, ProjectError> {
    let arguments = Arguments::new(parameters)?;
    match project.check() {
        // The contract lets this one leave out what cannot be read.
        Err(ProjectError::File(_)) if tool == Tool::Context => {}
        checked => drop(checked?),
    }
    Ok(arguments)
}

/// Says whether something stands at `path`; what cannot be looked at is an error and not an absence.
fn is_there(path: &Path) -> Result<bool, ProjectError> {
    match std::fs::symlink_metadata(path) {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(ProjectError::file("inspecting", path, error)),
    }
}

/// Returns the id after the highest one.
fn next_id(highest: Option<u64>) -> Result<u64, ProjectError> {
    let used_up = || {
        ProjectError::Refused("the highest possible id is already in use; nothing can be added".to_owned())
    };
    highest.unwrap_or(0).checked_add(1).ok_or_else(used_up)
}

/// Calls a tool and renders what a model gets: the JSON of the result or of `{"error": …}`.
pub fn answer(project: &Project, tool: Tool, parameters: &Map<String, Value>) -> ToolOutput {
    let text = match tool {
        Tool::HistorySearch => {
            checked(project, tool, parameters).and_then(|arguments| cycle::search(project, &arguments))
        }
        _ => call(project, tool, parameters).map(|value| value.to_string()),
    };
    match text {
        Ok(text) => ToolOutput::ok(text),
        Err(error) => ToolOutput::error(error.to_value().to_string()),
    }
}
